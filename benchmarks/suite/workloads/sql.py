"""What Spark's own SQL takes over tables: statements beside plain Parquet, and the plan of a query of one row."""

from __future__ import annotations

import statistics
import time

from benchmarks.suite.model import OURS, Goal, Settings, Tally, Workload
from benchmarks.suite.ours_with_spark import OurSpark
from benchmarks.suite.turns.spark import Turns
from benchmarks.suite.turns.sql import CHANGES, DEAD, PARTITIONS, Points, Statements
from benchmarks.suite.workloads.aged import PLAIN, measures

ROWS, QUICK_ROWS = 10_000_000, 200_000
FILES, QUICK_FILES = 10_000, 60
REPEATS, QUICK_REPEATS = 6, 2
"""Even numbers: each goes first as often as the other."""
WARM_TURNS = 2


class OverTables(OurSpark):
    about = "one session, one query after the other, ours and plain in turn; medians of ratios"
    turns: Turns = Statements

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, self.turns)
        self._repeats = QUICK_REPEATS if settings.quick else REPEATS

    async def prepare(self, point: int) -> None:
        self.spark.ask("prepare", point)
        for _ in range(WARM_TURNS):
            self.spark.ask("turn", point)

    async def warm_up(self, point: int, seconds: float) -> None:
        """Two turns before each point are enough."""

    async def run(self, point: int, seconds: float) -> Tally:
        """A fixed number of turns, however long they take; the latency is that of our statements."""
        began = time.perf_counter()
        turns = [self.spark.ask("turn", point) for _ in range(self._repeats)]
        ours = [cost.seconds for turn in turns for name, cost in turn.items() if not name.startswith(PLAIN)]
        tally = Tally(time.perf_counter() - began, ours)
        tally.extra = measures(turns)
        return tally


class PointQuery(OverTables):
    about = "one session; CPU is that of driver, executors and the client"
    turns = Points

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._most = QUICK_FILES if settings.quick else None

    async def prepare(self, point: int) -> None:
        await super().prepare(point if self._most is None else min(point, self._most))

    async def run(self, point: int, seconds: float) -> Tally:
        began = time.perf_counter()
        turns = [self.spark.ask("turn", point) for _ in range(self._repeats)]
        tally = Tally(time.perf_counter() - began, [turn["plan"].seconds for turn in turns])
        for name in turns[0]:
            tally.extra[f"{name}, s"] = statistics.median(turn[name].seconds for turn in turns)
            tally.extra[f"{name}, CPU s"] = sum(turn[name].cpu for turn in turns) / len(turns)
        return tally


_BOUNDS = (
    {name: 1.10 if "dead" in name else 1.03 for name in DEAD}
    | {"insert": 1.05}
    | dict(zip(CHANGES, (0.2, 0.3, 0.5), strict=True))
)
STATEMENTS = Workload(
    name="sql",
    title="Statements of Spark's own SQL beside plain Parquet",
    about="Scans of a table that is clean, or has deleted rows in all of its files, beside files of the rows that are "
    "left; INSERT INTO a new table beside a write of files and a sync of them; DELETE, UPDATE and MERGE, one after the "
    "other on one table, beside a write of what all rows of the first one would be, and a sync.",
    contenders=lambda settings: [OverTables(settings)],
    points=(QUICK_ROWS, ROWS),
    axis="rows",
    operation="statement",
    rounds=3,
    goals=tuple(Goal(OURS, f"{name} / plain", ROWS, bound, at_most=True) for name, bound in _BOUNDS.items()),
)
POINT_QUERY = Workload(
    name="sql-point",
    title="A query of one row among very many files",
    about=f"A table of {PARTITIONS:,} partitions; `plan` is all from the query's text to the files that tasks read.",
    contenders=lambda settings: [PointQuery(settings)],
    points=(FILES,),
    axis="files",
    operation="plan",
    rounds=3,
    goals=(Goal(OURS, "plan, s", FILES, 0.5, at_most=True),),
)
