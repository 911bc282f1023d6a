"""How soon commits go on when a leader is killed, or stopped, under load; none that was acknowledged may be lost."""

from __future__ import annotations

import asyncio
import statistics
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import txnclient
from benchmarks.suite.ballast import SILENT_MS, begin_batches
from benchmarks.suite.interrupted import WRITERS, Load
from benchmarks.suite.model import OURS, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OWNER, STATUS, TABLES, OurCluster
from benchmarks.suite.peers.etcd_failover import EtcdKilled
from txnclient import Client, CommitUnknown
from txndeploy.local.cluster import LocalCluster, wait_until
from txndeploy.node.config import TxnSection
from txnstatus.proto import admin_pb2, table_pb2
from txnstatus.types import DECIDED_COMMIT

KILLS = 5
QUICK_KILLS = 1
AFTERWARDS_SECONDS = 0.5
"""Time after a node has ended in which programs may still notice."""
CATCH_UP_SECONDS = 120.0
STOPPED = f"{OURS}, stopped"


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


@contextmanager
def _program(addresses: str) -> Iterator[Callable[[], int]]:
    with txnclient.connect(addresses, owner=OWNER) as client:
        yield partial(_transact, client)


class _Interrupted(OurCluster):
    """The status table's leader ends, and is started again afterwards, over and over."""

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

    def _load(self) -> Load:
        return Load(partial(_program, self.cluster.addresses))

    async def warm_up(self, point: int, seconds: float) -> None:
        with self._load():
            await asyncio.sleep(seconds)

    async def run(self, point: int, seconds: float) -> Tally:
        """`seconds`: of load before each end."""
        tally, cluster = Tally(), self.cluster
        took: list[admin_pb2.Takeover] = []
        began = time.monotonic()
        with self._load() as load:
            for _ in range(self._kills):
                await asyncio.sleep(seconds)
                leader = cluster.leader(STATUS)
                tally.latencies.append(self._end(leader, load))
                took.append(_takeover(cluster))
                cluster.start_node(leader)
                _wait_until_back(cluster, leader)
        tally.seconds = time.monotonic() - began
        tally.extra["acknowledged"] = len(load.acknowledged)
        tally.extra["refused"] = len(load.refused)
        _tell_parts(tally, took)
        self._judge(load, tally)
        _verify(cluster, {txn for txn, _, _ in load.acknowledged}, tally)
        return tally

    @abstractmethod
    def _end(self, leader: str, load: Load) -> float:
        """Ends the node; returns for how long nothing was served."""

    def _judge(self, load: Load, tally: Tally) -> None:
        """Counts as failures what must not be."""


class Killed(_Interrupted):
    about = (
        f"{WRITERS} writers; SIGKILL of the status table's leader: from then to the acknowledgement of a transaction "
        "that was begun after it"
    )

    def _end(self, leader: str, load: Load) -> float:
        self.cluster.kill(leader)
        return load.next_after(time.monotonic())


class Stopped(_Interrupted):
    name = STOPPED
    about = "the same, and SIGTERM: the longest time between two acknowledgements; a call that fails is a failure"

    def _end(self, leader: str, load: Load) -> float:
        asked = time.monotonic()
        self.cluster.stop_node(leader)
        time.sleep(AFTERWARDS_SECONDS)
        return load.longest_gap(asked, time.monotonic())

    def _judge(self, load: Load, tally: Tally) -> None:
        for error in load.refused:
            tally.failed(error)


def _takeover(cluster: LocalCluster) -> admin_pb2.Takeover:
    """How the status table's leader came to lead."""
    status = cluster.status(cluster.leader(STATUS))
    groups = status.groups if status is not None else ()
    return next((group.takeover for group in groups if STATUS in group.parts), admin_pb2.Takeover())


def _wait_until_back(cluster: LocalCluster, node: str) -> None:
    """Until its replicas have what their leaders had when it began to be waited for: without it there is no majority
    when the next one ends."""
    cluster.wait_ready()
    statuses = [cluster.status(other) for other in cluster.configs if other != node]
    wanted = {
        group.group: group.applied_index for status in statuses if status for group in status.groups if group.leader
    }

    def is_back() -> bool:
        status = cluster.status(node)
        has = {group.group: group.applied_index for group in status.groups} if status is not None else {}
        return all(has.get(group, -1) >= index for group, index in wanted.items())

    wait_until(is_back, f"{node} is back", CATCH_UP_SECONDS)


def _tell_parts(tally: Tally, took: list[admin_pb2.Takeover]) -> None:
    """What the time is made of, each part as a median. The last one begins when the former leader was last heard."""
    silence = statistics.median(each.silence_seconds for each in took)
    election = statistics.median(each.election_seconds for each in took)
    catching_up = statistics.median(each.catching_up_seconds for each in took)
    rest = statistics.median(tally.latencies) - silence - election - catching_up
    parts = {"silence": silence, "election": election, "catching up": catching_up, "programs' calls": rest}
    tally.extra |= {f"{name}, ms": 1000 * seconds for name, seconds in parts.items()}


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
    title="A leader is killed, or stopped, under load",
    about="What a kill costs is told in parts: how long the leader had been silent when another one began an election; "
    "the election; until the new leader was ready; and the rest, the programs': their calls are tried again, and a "
    "transaction follows. The first one begins with the leader's last word, some milliseconds before the kill.",
    contenders=lambda settings: [Killed(settings), Stopped(settings), EtcdKilled(settings)],
    points=(0, 1_000, 100_000),
    axis="open",
    operation="failover",
    rounds=2,
    goals=(
        Goal(OURS, "p50", 0, 600, at_most=True),
        Goal(OURS, "p50", 100_000, 600, at_most=True),
        Goal(OURS, "failures", 0, 0, at_most=True),
        Goal(OURS, "failures", 100_000, 0, at_most=True),
        Goal(STOPPED, "p50", 100_000, 50, at_most=True),
        Goal(STOPPED, "failures", 100_000, 0, at_most=True),
    ),
)
