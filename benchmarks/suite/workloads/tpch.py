"""TPC-H's 22 queries in Spark's own SQL, beside plain Parquet of the same rows."""

from __future__ import annotations

import statistics
import time

from benchmarks.suite.model import OURS, Goal, Settings, Tally, Workload
from benchmarks.suite.ours_with_spark import OurSpark
from benchmarks.suite.processes import needs_modules
from benchmarks.suite.turns.spark import Cost, Turn
from benchmarks.suite.turns.tpch import WHOLE, Queries
from benchmarks.suite.turns.tpch_data import MODULES
from benchmarks.suite.turns.tpch_queries import QUERIES
from benchmarks.suite.workloads.aged import PLAIN, measures

QUICK_PARTS = 10
MOST_TURNS, TURNS_SECONDS = 6, 120.0
"""Turns at most, and the time after which none begins."""
ALL = "sum"


class TpcH(OurSpark):
    about = "one session; each query plain and ours in turn, medians of ratios"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, Queries)
        self._is_quick = settings.quick

    def missing(self) -> str | None:
        return super().missing() or needs_modules(*MODULES)

    async def prepare(self, point: int) -> None:
        self.tell("the tables are made")
        self.spark.ask("prepare", self._parts(point))
        self.tell("warm-up")
        self.spark.ask("turn", self._parts(point))

    async def warm_up(self, point: int, seconds: float) -> None:
        """A turn before each point is enough."""

    async def run(self, point: int, seconds: float) -> Tally:
        """The latency is that of our queries."""
        began, turns = time.perf_counter(), list[Turn]()
        most = 1 if self._is_quick else MOST_TURNS
        while not turns or (len(turns) < most and time.perf_counter() - began < TURNS_SECONDS):
            turns.append(self.spark.ask("turn", self._parts(point)))
            self.tell(f"turn {len(turns)} of {most}")
        tally = Tally(time.perf_counter() - began, [turn[name].seconds for turn in turns for name in QUERIES])
        tally.extra = measures([turn | _sums(turn) for turn in turns])
        tally.extra["plain sum, s"] = statistics.median(_sums(turn)[f"{PLAIN}{ALL}"].seconds for turn in turns)
        return tally

    def _parts(self, point: int) -> int:
        return min(point, QUICK_PARTS) if self._is_quick else point


def _sums(turn: Turn) -> Turn:
    """What all queries of a turn took, ours and plain."""
    return {
        f"{whose}{ALL}": Cost(
            sum(turn[f"{whose}{name}"].seconds for name in QUERIES), sum(turn[f"{whose}{name}"].cpu for name in QUERIES)
        )
        for whose in ("", PLAIN)
    }


WORKLOAD = Workload(
    name="tpch",
    title="TPC-H's 22 queries in Spark's own SQL",
    about="Tables without keys and partitions, beside plain Parquet that Spark has written of the same rows; answers "
    "are compared.",
    contenders=lambda settings: [TpcH(settings)],
    points=(QUICK_PARTS, WHOLE),
    axis="thousandths of scale 1",
    operation="query",
    rounds=2,
    goals=(Goal(OURS, f"{ALL} / plain", WHOLE, 1.05, at_most=True),),
)
