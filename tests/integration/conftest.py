from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.support import SCHEMA, connect, fast_cluster
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster for the tests of a file that leave it whole."""
    with fast_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected


@pytest.fixture
def new_table(client: Client) -> Callable[..., str]:
    """Makes a table of the test's own."""

    def make(schema: str = SCHEMA, **options: object) -> str:
        name = f"t.table_{next(_numbers)}"
        client.create_table(name, schema, **options)  # type: ignore[arg-type]
        return name

    return make
