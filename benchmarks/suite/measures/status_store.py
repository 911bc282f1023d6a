"""What the status store costs and how fast it is back: memory, start-up, pauses; on three nodes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Annotated

from rich.progress import Progress, track
from rich.table import Table

from benchmarks.suite.ballast import SILENT_MS, begin_batches
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import STATUS, connected, running
from benchmarks.suite.report import table_of
from txnclient import Client, TxnState
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.node.config import RaftSection, TxnSection
from txnstatus.proto import admin_pb2

RAFT = RaftSection(snapshot_entries=500)
"""The default timeouts; snapshots come early, so that there are some."""
BEAT_MS = 1_000
"""The keep-alive interval of those that are to expire."""
STARTED = "start-up, all three nodes at once"
Row = tuple[str, str, str]


def measure(
    open_: Annotated[int, at_least(1_000, "Open transactions.", "--open")] = 100_000,
    finished: Annotated[int, at_least(1_000, "Finished transactions.")] = 1_000_000,
) -> Iterator[Table]:
    headings = ("what", "measured", "goal")
    yield table_of(f"{open_:,} open transactions", headings, open_transactions(open_))
    yield table_of(f"{finished:,} finished transactions", headings, finished_transactions(finished))


def open_transactions(count: int) -> Iterator[Row]:
    with running(TxnSection(keepalive_max_ms=SILENT_MS, max_open_transactions=0), RAFT) as (cluster, client):
        before = _memory(cluster)
        _begin(cluster, count, SILENT_MS)
        after = _memory(cluster)
        for role in ("leader", "follower"):
            each = (after[role] - before[role]) / count
            yield f"memory of each, {role}", f"{each:,.0f} B", "1,024 B"
        yield "longest pause of the loop, snapshots taken", _pause_of_snapshots(cluster, client), "50 ms"


def finished_transactions(count: int) -> Iterator[Row]:
    """They never beat, and so expire: the fastest way to finish a million."""
    txn = TxnSection(
        keepalive_min_ms=100,
        keepalive_default_ms=BEAT_MS,
        staleness_interval_ms=100,
        max_open_transactions=0,
        retention_ms=2_000_000_000,
    )
    with running(txn, RAFT) as (cluster, client):
        yield f"{STARTED}, empty", _restart(cluster, client), ""
        before = _total_memory(cluster)
        _begin(cluster, count, BEAT_MS)
        wait_until(lambda: not client.transactions([TxnState.OPEN], limit=1), "all have expired", 600)
        yield f"{STARTED}, all of them kept", _restart(cluster, client), ""
        request = admin_pb2.SetOptionRequest(name="retention_ms", value=0)
        client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)
        wait_until(lambda: not client.transactions(limit=1), "all are forgotten", 600)
        _take_snapshots(cluster, client)
        yield f"{STARTED}, all of them forgotten", _restart(cluster, client), ""
        each = max(0, _total_memory(cluster) - before) / len(cluster.configs) / count
        yield "memory of each that is forgotten, after a restart", f"{each:,.1f} B", "0 B"


def _begin(cluster: LocalCluster, count: int, keepalive_millis: int) -> None:
    async def begin() -> None:
        async with connected(cluster.address(cluster.leader(STATUS))) as channel:
            await begin_batches(channel, count, keepalive_millis, lambda ids: progress.advance(task, len(ids)))

    with Progress() as progress:
        task = progress.add_task(f"beginning {count:,}", total=count)
        asyncio.run(begin())


def _memory(cluster: LocalCluster) -> dict[str, int]:
    """Resident bytes of the status leader's process and of one follower's."""
    leader = cluster.leader(STATUS)
    follower = next(node for node in cluster.configs if node != leader)
    return {"leader": cluster.resident_bytes(leader), "follower": cluster.resident_bytes(follower)}


def _total_memory(cluster: LocalCluster) -> int:
    """Resident bytes of all nodes' processes."""
    return sum(map(cluster.resident_bytes, cluster.configs))


def _pause_of_snapshots(cluster: LocalCluster, client: Client) -> str:
    """The worst on any node, while enough is written that each takes a snapshot; beside it, the worst without."""
    time.sleep(25)  # the two windows of the watch pass
    quiet = _longest_pause(cluster)
    _take_snapshots(cluster, client)
    return f"{_longest_pause(cluster) * 1000:.0f} ms (without snapshots {quiet * 1000:.0f} ms)"


def _take_snapshots(cluster: LocalCluster, client: Client) -> None:
    """Writes one entry after the other until every replica has had enough of them for two snapshots."""
    for _ in track(range(RAFT.snapshot_entries), "taking snapshots"):
        client.begin().abort()


def _longest_pause(cluster: LocalCluster) -> float:
    statuses = [cluster.status(node) for node in cluster.configs]
    return max(status.longest_pause_seconds for status in statuses if status is not None)


def _restart(cluster: LocalCluster, client: Client) -> str:
    """kill -9 of all, start of all, until a commit is acknowledged."""
    for node in cluster.configs:
        cluster.kill(node)
    started = time.monotonic()
    for node in cluster.configs:
        cluster.start_node(node)
    cluster.wait_ready(600)
    client.begin().commit()
    return f"{time.monotonic() - started:.1f} s"
