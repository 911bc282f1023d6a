"""What open transactions cost that do nothing but live."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from benchmarks.suite.ballast import Beats, Keeper
from benchmarks.suite.machine import CpuMeter
from benchmarks.suite.model import Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster
from txndeploy.node.config import TxnSection

KEEPALIVE_MS = 10_000
QUICK_KEEPALIVE_MS = 2_000
PERIODS = 2
"""Every transaction beats at least so often while it is measured."""
LEADER = "leader, % of a core"
IDLE = "leader before any was open, % of a core"
BEATS = "leader for the beats, % of a core"


class Ours(OurCluster):
    about = f"{KEEPALIVE_MS / 1000:g} s of keep-alive, so each beats every {KEEPALIVE_MS / 2000:g} s, 1,000 in a call"

    def __init__(self, settings: Settings) -> None:
        self._keepalive_ms = QUICK_KEEPALIVE_MS if settings.quick else KEEPALIVE_MS
        super().__init__(settings, TxnSection(max_open_transactions=0))

    def start(self, directory: Path) -> None:
        super().start(directory)
        self._stack = contextlib.ExitStack()
        self._keeper = self._stack.enter_context(Keeper(self.leader_address(), self._keepalive_ms))
        self._idle: float | None = None

    def stop(self) -> None:
        if self._cluster is not None:
            self._stack.close()
        super().stop()

    async def warm_up(self, point: int, seconds: float) -> None:
        """The opening is enough of it."""

    async def prepare(self, point: int) -> None:
        """Opens what is missing: transactions of earlier points go on living."""
        if self._idle is None:
            self._idle = await self._leader_use(self._least_seconds)
        self._keeper.open(point - self._keeper.count)

    @property
    def _least_seconds(self) -> float:
        return PERIODS * self._keepalive_ms / 2000

    async def _leader_use(self, seconds: float) -> float:
        """In percent of a core."""
        meter = CpuMeter(self.pids())
        await asyncio.sleep(seconds)
        return 100 * meter.stop()[0]["leader"] / seconds

    async def run(self, point: int, seconds: float) -> Tally:
        seconds = max(seconds, self._least_seconds)
        self._keeper.beats = beats = Beats()
        used, idle = await self._leader_use(seconds), self._idle or 0.0
        tally = Tally(seconds, list(beats.latencies), beats.ids, beats.refused, beats.errors[: Tally.MOST_ERRORS])
        tally.extra = {LEADER: used, IDLE: idle, BEATS: used - idle}
        return tally


WORKLOAD = Workload(
    name="heartbeats",
    title="Open transactions that are kept alive",
    about="An operation is the beat of one transaction; the latency is that of a call. Nothing may expire.",
    contenders=lambda settings: [Ours(settings)],
    points=(1_000, 10_000, 100_000, 1_000_000),
    axis="open",
    operation="beat",
    rounds=3,
    goals=(
        Goal("ours", BEATS, 100_000, 2, at_most=True),
        Goal("ours", BEATS, 1_000_000, 8, at_most=True),
        Goal("ours", "failures", 100_000, 0, at_most=True),
        Goal("ours", "failures", 1_000_000, 0, at_most=True),
    ),
)
