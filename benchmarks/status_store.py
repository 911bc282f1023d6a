"""What the status store costs and how fast it is back: memory, start-up, pauses.

    python benchmarks/status_store.py                        # all, with 100,000 open and 1,000,000 finished
    python benchmarks/status_store.py --open 10000 --finished 100000

Three node processes on this machine, with the default timeouts. Prints one table.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

import txnclient
from txnclient import Client, TxnState
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.node.config import RaftSection, TxnSection
from txnstatus.proto import admin_pb2
from txnstatus.proto import txn_manager_pb2 as pb

BATCH = 1_000
LONG_MS = 3_600_000
STATUS = "status-0"
RAFT = RaftSection(snapshot_entries=500)
"""The default timeouts; snapshots come early, so that there are some."""


@dataclass
class Report:
    rows: list[tuple[str, str, str]] = field(default_factory=list)

    def add(self, what: str, value: str, goal: str = "") -> None:
        self.rows.append((what, value, goal))
        Console().print(f"{what}: {value}", highlight=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--open", type=int, default=100_000, help="open transactions")
    parser.add_argument("--finished", type=int, default=1_000_000, help="finished transactions")
    options = parser.parse_args()
    report = Report()
    open_transactions(report, options.open)
    finished_transactions(report, options.finished)
    table = Table(title="the status store", title_justify="left")
    for heading in ("what", "measured", "goal"):
        table.add_column(heading)
    for row in report.rows:
        table.add_row(*row)
    Console().print(table)


def open_transactions(report: Report, count: int) -> None:
    with _cluster(TxnSection(keepalive_max_ms=LONG_MS, max_open_transactions=0)) as (cluster, client):
        before = _memory(cluster)
        for _ in track(range(count // BATCH), f"opening {count:,}"):
            _begin(client, LONG_MS)
        after = _memory(cluster)
        for role in ("leader", "follower"):
            each = (after[role] - before[role]) / count
            report.add(f"memory per open transaction, {role}", f"{each:,.0f} B", "1,024 B")
        pause = _pause_of_snapshots(cluster, client)
        report.add(f"longest pause of the loop, {count:,} open, snapshots taken", pause, "50 ms")


def finished_transactions(report: Report, count: int) -> None:
    """They are begun in batches, never beat, and so expire: the fastest way to finish a million."""
    txn = TxnSection(
        keepalive_min_ms=100,
        keepalive_default_ms=1_000,
        staleness_interval_ms=100,
        max_open_transactions=0,
        retention_ms=2_000_000_000,
    )
    with _cluster(txn) as (cluster, client):
        report.add("start-up, all three nodes at once, empty", _restart(cluster, client))
        before = _total_memory(cluster)
        for _ in track(range(count // BATCH), f"finishing {count:,}"):
            _begin(client, 1_000)
        wait_until(lambda: not client.transactions([TxnState.OPEN], limit=1), "all have expired", 600)
        report.add(f"start-up, all three nodes at once, {count:,} finished, kept", _restart(cluster, client))
        request = admin_pb2.SetOptionRequest(name="retention_ms", value=0)
        client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)
        wait_until(lambda: not client.transactions(limit=1), "all are forgotten", 600)
        _take_snapshots(cluster, client)
        report.add(f"start-up, all three nodes at once, {count:,} finished, forgotten", _restart(cluster, client))
        each = max(0, _total_memory(cluster) - before) / len(cluster.configs) / count
        report.add("memory per finished and forgotten transaction, after a restart", f"{each:,.1f} B", "0 B")


@contextmanager
def _cluster(txn: TxnSection) -> Iterator[tuple[LocalCluster, Client]]:
    work = Path(tempfile.mkdtemp(prefix="txnstatus-bench-"))
    try:
        with (
            LocalCluster(work, txn=txn, raft=RAFT) as cluster,
            txnclient.connect(cluster.addresses, timeout=60) as client,
        ):
            yield cluster, client
    finally:
        shutil.rmtree(work)


def _begin(client: Client, keepalive_millis: int) -> None:
    client.call(
        "txnstatus.TxnManager/BeginTransaction",
        pb.BeginTransactionRequest(
            request_id=uuid.uuid4().hex, owner="benchmark", count=BATCH, keepalive_millis=keepalive_millis
        ),
        pb.BeginTransactionResponse,
    )


def _commit_one(client: Client) -> None:
    client.begin().commit()


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
    entries = 2 * next(iter(cluster.configs.values())).raft.snapshot_entries
    for _ in track(range(entries // 2), "taking snapshots"):
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
    _commit_one(client)
    return f"{time.monotonic() - started:.1f} s"


if __name__ == "__main__":
    main()
