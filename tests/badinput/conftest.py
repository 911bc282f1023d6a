from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.badinput.world import World
from tests.support import FAST_RAFT, FORKS
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import TxnSection

settings.register_profile("badinput", derandomize=True, database=None, deadline=None)
settings.load_profile("badinput")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """One node, on which nothing expires and nobody compacts: what changes, a request has changed."""
    txn = TxnSection(
        staleness_interval_ms=0, zombie_grace_seconds=3600.0, in_doubt_seconds=3600.0, compact_lease_ms=3_600_000
    )
    with LocalCluster(
        tmp_path_factory.mktemp("node"),
        nodes=1,
        participant_shards=2,
        raft=FAST_RAFT,
        txn=txn,
        grpc=True,
        compactor=False,
        secure=False,
        spawn=FORKS.spawn,
    ) as cluster:
        running = World(cluster)
        yield running
        running.close()
        assert cluster.running("n1"), "the node ended"
