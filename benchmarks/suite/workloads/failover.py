"""How soon commits go on after the leader was killed under load, and that none that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import txnclient
from benchmarks.suite.ballast import SILENT_MS, begin_batches
from benchmarks.suite.model import Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OWNER, STATUS, TABLES, OurCluster
from txnclient import Client, CommitUnknown, TxnError
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.node.config import TxnSection
from txnstatus.proto import table_pb2
from txnstatus.types import DECIDED_COMMIT

WRITERS = 8
KILLS = 5
QUICK_KILLS = 1
NEXT_SECONDS = 60.0
CATCH_UP_SECONDS = 120.0


class Load:
    """Writers that commit one transaction after the other, and go on whatever happens."""

    def __init__(self, addresses: str) -> None:
        self._addresses = addresses
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._write) for _ in range(WRITERS)]
        self.acknowledged: list[tuple[int, float, float]] = []
        """Transactions, each with the times of its begin and of its acknowledgement."""
        self.refused = 0

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        with txnclient.connect(self._addresses, owner=OWNER) as client:
            while not self._ended.is_set():
                began = time.monotonic()
                try:
                    txn = _transact(client)
                except TxnError:
                    self.refused += 1
                else:
                    self.acknowledged.append((txn, began, time.monotonic()))

    def next_after(self, moment: float) -> float:
        """Seconds from then until one that was begun after it was acknowledged."""

        def found() -> list[float]:
            return [ended - moment for _, began, ended in self.acknowledged if began > moment]

        return min(wait_until(found, "the next commit", NEXT_SECONDS))


def _transact(client: Client) -> int:
    txn = client.begin()
    for table in TABLES:
        request = table_pb2.OpenWriteRequest(txn_id=txn.id, owner=OWNER, table=table, write_id=f"write{txn.id:011}")
        client.call("txnstatus.Table/OpenWrite", request, table_pb2.OpenWriteResponse)
    while True:
        try:
            txn.commit()
        except CommitUnknown:
            continue  # as it says: asked again, it tells the outcome
        return txn.id


class Ours(OurCluster):
    about = f"{WRITERS} writers; the status table's leader is killed with SIGKILL, and started again afterwards"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, TxnSection(max_open_transactions=0))
        self._kills = QUICK_KILLS if settings.quick else KILLS

    def start(self, directory: Path) -> None:
        self._open = 0
        super().start(directory)

    async def prepare(self, point: int) -> None:
        async with self.connected() as channel:
            await begin_batches(channel, point - self._open, SILENT_MS)
        self._open = point

    async def warm_up(self, point: int, seconds: float) -> None:
        with Load(self.cluster.addresses):
            await asyncio.sleep(seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        """`seconds`: of load before each kill."""
        tally, cluster = Tally(), self.cluster
        began = time.monotonic()
        with Load(cluster.addresses) as load:
            for _ in range(self._kills):
                await asyncio.sleep(seconds)
                leader = cluster.leader(STATUS)
                cluster.kill(leader)
                tally.latencies.append(load.next_after(time.monotonic()))
                cluster.start_node(leader)
                cluster.wait_ready()
        tally.seconds = time.monotonic() - began
        tally.extra["acknowledged"] = len(load.acknowledged)
        tally.extra["refused"] = load.refused
        _verify(cluster, {txn for txn, _, _ in load.acknowledged}, tally)
        return tally


def _verify(cluster: LocalCluster, acknowledged: set[int], tally: Tally) -> None:
    wait_until(lambda: _caught_up(cluster), "the nodes catch up", CATCH_UP_SECONDS)
    with txnclient.connect(cluster.addresses) as client:
        committed = {txn.txn_id for txn in client.transactions(DECIDED_COMMIT)}
    for lost in sorted(acknowledged - committed):
        tally.failed(RuntimeError(f"transaction {lost} was acknowledged, and is not committed"))


def _caught_up(cluster: LocalCluster) -> bool:
    statuses = [cluster.status(node) for node in cluster.configs]
    applied = {group.applied_index for status in statuses if status for group in status.groups if STATUS in group.parts}
    return None not in statuses and len(applied) == 1


WORKLOAD = Workload(
    name="failover",
    title="A leader is killed under load",
    about="The latency is the time from the kill to the acknowledgement of a transaction that was begun after it.",
    contenders=lambda settings: [Ours(settings)],
    points=(0, 1_000, 100_000),
    axis="open",
    operation="failover",
    rounds=2,
    goals=(
        Goal("ours", "p50", 0, 1500, at_most=True),
        Goal("ours", "p50", 100_000, 1500, at_most=True),
        Goal("ours", "failures", 0, 0, at_most=True),
        Goal("ours", "failures", 100_000, 0, at_most=True),
    ),
)
