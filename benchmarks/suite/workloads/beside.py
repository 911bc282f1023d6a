"""Whole transactions while many others are open, and after many have finished."""

from __future__ import annotations

from pathlib import Path

import txnclient
from benchmarks.suite.ballast import SILENT_MS, begin_batches, finish
from benchmarks.suite.drive import drive
from benchmarks.suite.model import Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster, transact
from txndeploy.node.config import TxnSection
from txnstatus.catalog.catalog import status_group

IN_FLIGHT = 64
BRIEF_MS = 1_000
PAUSE = "longest pause of a node, ms"


class Beside(OurCluster):
    """Points are amounts of others; what earlier points have made stays."""

    def __init__(self, settings: Settings, txn: TxnSection) -> None:
        super().__init__(settings, txn)
        self.made = 0

    def start(self, directory: Path) -> None:
        self.made = 0
        super().start(directory)

    async def warm_up(self, point: int, seconds: float) -> None:
        await self.run(0, seconds)

    def status_group(self) -> str:
        """Where transactions begin now: what was begun may have filled the ranges before it."""
        with txnclient.connect(self.cluster.addresses) as client, client.transaction() as txn:
            span = next(iter(self.cluster.configs.values())).txn.range_span
            return status_group(txn.id // span)

    async def run(self, point: int, seconds: float) -> Tally:
        async with self.connected() as channel:
            tally = await drive(lambda number: transact(channel), IN_FLIGHT, seconds)
        statuses = [self.cluster.status(node) for node in self.cluster.configs]
        tally.extra[PAUSE] = max(1000 * status.longest_pause_seconds for status in statuses if status)
        return tally


class OursWithOpen(Beside):
    about = f"{IN_FLIGHT} in flight; the others are begun and left alone"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, TxnSection(max_open_transactions=0))

    async def prepare(self, point: int) -> None:
        async with self.connected() as channel:
            await begin_batches(channel, point - self.made, SILENT_MS)
        self.made = point


class OursAfterFinished(Beside):
    about = f"{IN_FLIGHT} in flight; the others were begun, have expired, and are forgotten"

    def __init__(self, settings: Settings) -> None:
        txn = TxnSection(
            keepalive_min_ms=100, staleness_interval_ms=100, max_open_transactions=0, retention_ms=BRIEF_MS
        )
        super().__init__(settings, txn)

    async def prepare(self, point: int) -> None:
        if point > self.made:
            await finish(self.leader_address(), self.cluster.addresses, point - self.made, BRIEF_MS)
        self.made = point


OPEN = Workload(
    name="open",
    title="Transactions beside open ones",
    contenders=lambda settings: [OursWithOpen(settings)],
    points=(0, 10_000, 100_000),
    axis="open",
    rounds=3,
    goals=(
        Goal("ours", "rate", 100_000, 0.95, "ours", peer_point=0),
        Goal("ours", PAUSE, 100_000, 10, at_most=True),
    ),
)

GROWTH = Workload(
    name="growth",
    title="Transactions after finished ones",
    about="Ten million take eight minutes a round; `--points 0,1000000` takes one.",
    contenders=lambda settings: [OursAfterFinished(settings)],
    points=(0, 100_000, 1_000_000, 10_000_000),
    axis="finished",
    rounds=3,
    goals=tuple(
        goal
        for finished in (1_000_000, 10_000_000)
        for goal in (
            Goal("ours", "rate", finished, 0.9, "ours", peer_point=0),
            Goal("ours", "p99", finished, 1.1, "ours", peer_point=0, at_most=True),
        )
    ),
)
