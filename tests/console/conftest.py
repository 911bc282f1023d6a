"""One cluster, and one scene in it, for all tests of the console that change neither."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.console.scene import Scene, scene
from tests.support import fast_cluster
from txndeploy.local.cluster import LocalCluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("cluster"), nodes=1, http=True) as running:
        yield running


@pytest.fixture(scope="module")
def played(cluster: LocalCluster) -> Iterator[Scene]:
    with scene(cluster) as found:
        yield found
