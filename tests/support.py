"""What tests of several kinds share."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from _pytest.mark.structures import ParameterSet

import txnclient
from txnclient import Client, CommitReceipt, CommitUnknown, SnapshotTooOld, Transaction
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.local.spawning import ForkServer
from txndeploy.node.config import RaftSection, TxnSection
from txnstatus.catalog.catalog import from_wire
from txnstatus.proto import admin_pb2

__all__ = [
    "commit_until_known",
    "connect",
    "fast_cluster",
    "foreign",
    "rows",
    "settled",
    "visible",
    "wait_until",
]

KEEPALIVE_MS = 4_000
FAST_RAFT = RaftSection(heartbeat_seconds=0.12, election_min_seconds=0.5, election_max_seconds=1.0)
FAST_TXN = TxnSection(
    keepalive_default_ms=KEEPALIVE_MS,
    keepalive_min_ms=500,
    staleness_interval_ms=200,
    zombie_grace_seconds=1.0,
    row_flush_bytes=20_000,
)
FORKS = ForkServer()
SCHEMA = "id bigint, note string"


def fast_cluster(directory: Path, **options: object) -> LocalCluster:
    """A cluster that notices deaths and silence sooner than the defaults do; nothing is compacted unless told, and
    there is no TLS on loopback."""
    settings: dict[str, object] = {
        "raft": FAST_RAFT,
        "txn": FAST_TXN,
        "participant_shards": 3,
        "compactor": False,
        "secure": False,
        "spawn": FORKS.spawn,
        **options,
    }
    return LocalCluster(directory, **settings)  # type: ignore[arg-type]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "note": [f"row {i}" for i in ids]})


def visible(client: Client, *tables: str) -> list[list[int]]:
    """The ids that one snapshot sees in each table, sorted."""
    snapshot = client.snapshot()
    return [sorted(snapshot.to_arrow(table)["id"].to_pylist()) for table in tables]


def parquet_files(location: Path) -> list[str]:
    """The names of those below a directory, while somebody removes what lies there: a glob fails where that is met."""
    return [name for _, _, names in os.walk(location) for name in names if name.endswith(".parquet")]


def is_retired(client: Client, table: str, at: int) -> bool:
    """Whether what the table was then cannot be read any more."""
    try:
        with client.snapshot(at) as snapshot:
            snapshot.to_arrow(table)
    except SnapshotTooOld:
        return True
    return False


def commit_until_known(txn: Transaction, timeout: float = 60.0) -> CommitReceipt:
    """As the error says: an unknown outcome means, commit again on the same handle."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return txn.commit(timeout=10)
        except CommitUnknown:
            assert time.monotonic() < deadline, f"no outcome of {txn} within {timeout:.0f} s"


def settled(cluster: LocalCluster) -> bool:
    """Whether all replicas of every group have applied the same entries, and hold the same state."""
    seen: dict[str, set[tuple[int, bytes]]] = {}
    for node in cluster.configs:
        status = cluster.status(node, digests=True)
        if status is None:
            return False
        for group in status.groups:
            seen.setdefault(group.group, set()).add((group.applied_index, group.digest))
    return all(len(states) == 1 for states in seen.values())


def connect(cluster: LocalCluster, **options: object) -> Client:
    options = {"credentials": cluster.credentials, **options}
    return txnclient.connect(cluster.addresses, **options)  # type: ignore[arg-type]


def foreign(client: Client) -> dict[str, str]:
    """The address of each foreign participant that is registered."""
    answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    return dict(from_wire(answer.catalog).foreign)


def rest_in_campaigns(names: Iterable[object], always: Collection[object]) -> list[ParameterSet]:
    """Parameters of which each run of the tests tries some, and a campaign the others, too."""
    return [pytest.param(name, marks=() if name in always else pytest.mark.campaign) for name in names]
