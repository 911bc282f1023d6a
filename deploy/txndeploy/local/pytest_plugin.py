"""A pytest fixture: a cluster to test your own jobs against. Nothing is imported before it is used.

def test_my_job(txn_cluster):
    client = txnclient.connect(txn_cluster.addresses, credentials=txn_cluster.credentials)
    ...
    txn_cluster.kill(txn_cluster.leader())
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from txndeploy.local.cluster import LocalCluster


@pytest.fixture(scope="session")
def txn_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three nodes on loopback, for the whole session. Tests share it: use tables of your own."""
    from txndeploy.local.cluster import LocalCluster

    with LocalCluster(tmp_path_factory.mktemp("txn_cluster")) as cluster:
        yield cluster
