"""What age costs a reader: tables of very many small writes, read by Spark, before and after they are compacted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from benchmarks.suite.model import OURS, Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours_with_spark import OurSpark
from benchmarks.suite.turns import tpch_refreshed as tpch
from benchmarks.suite.turns.aged import Appended, Refreshed, Turns
from benchmarks.suite.turns.spark import Turn

APPENDS, QUICK_APPENDS = 2_000, 60
QUICK_REFRESHES = 4
REPEATS, QUICK_REPEATS = 8, 2
"""Even numbers: each goes first as often as the other."""
LEAST_REPEATS, TURNS_SECONDS = 2, 150.0
"""Turns that there are in any case, and the time after which no two more begin: on a busy machine it takes long."""
WARM_TURNS, WARM_SECONDS = 6, 100.0
"""Turns before any counts, while there is time: with two, plain queries took half as much again as they do later."""
PLAIN = "plain "
BEFORE, AFTER = "before", "after compaction"


class Aged(OurSpark):
    about = "one session: old and plain in turn, medians of ratios; CPU of driver, executors and the client"

    def __init__(self, settings: Settings, turns: type[Turns], quick_point: int) -> None:
        super().__init__(settings, turns)
        self._most = quick_point if settings.quick else None
        self._repeats = QUICK_REPEATS if settings.quick else REPEATS

    async def prepare(self, point: int) -> None:
        self.tell("the tables are made, and age")
        self.spark.ask("prepare", point if self._most is None else min(point, self._most))
        self.tell("warm-up")
        until = time.monotonic() + WARM_SECONDS
        for turn in range(WARM_TURNS):
            if turn < LEAST_REPEATS or time.monotonic() < until:
                self.spark.ask("turn", point)

    async def warm_up(self, point: int, seconds: float) -> None:
        """The turns before each point are enough."""

    async def run(self, point: int, seconds: float) -> Tally:
        """As many turns as fit into some minutes; the latency is that of the old table's looks."""
        began = time.perf_counter()
        before = self._several(point, BEFORE)
        self.tell("compaction")
        compaction = self.spark.ask("compact", point)
        after = self._several(point, AFTER)
        looks = [cost.seconds for turn in before for name, cost in turn.items() if not name.startswith(PLAIN)]
        tally = Tally(time.perf_counter() - began, looks)
        tally.extra = measures(before, BEFORE) | measures(after, AFTER)
        tally.extra |= {f"{name}, CPU s": cost.cpu for name, cost in compaction.items()}
        return tally

    def _several(self, point: int, when: str) -> list[Turn]:
        """An even number of turns."""
        turns, until = list[Turn](), time.monotonic() + TURNS_SECONDS
        while len(turns) < self._repeats and (len(turns) < LEAST_REPEATS or len(turns) % 2 or time.monotonic() < until):
            turns.append(self.spark.ask("turn", point))
            self.tell(f"turn {len(turns)} of {self._repeats} {when}")
        return turns


def measures(turns: Sequence[Turn], when: str = "") -> dict[str, float]:
    """Ratios are of one turn, whatever else the machine does meanwhile; CPU is that of all turns."""
    with_comma, with_space = (f", {when}", f" {when}") if when else ("", "")
    found: dict[str, float] = {}
    for name in (name for name in turns[0] if not name.startswith(PLAIN)):
        pairs = [(turn[name], turn[f"{PLAIN}{name}"]) for turn in turns]
        found[f"{name} / plain{with_comma}"] = statistics.median(one.seconds / other.seconds for one, other in pairs)
        mine, others = (sum(pair[side].cpu for pair in pairs) / len(pairs) for side in (0, 1))
        if mine and others:
            found[f"CPU of {name} / plain{with_comma}"] = mine / others
        found[f"{name}{with_space}, CPU s"], found[f"{PLAIN}{name}{with_space}, CPU s"] = mine, others
        found[f"{name}{with_space}, s"] = statistics.median(one.seconds for one, _ in pairs)
    return found


def _of(turns: type[Turns], quick_point: int) -> Callable[[Settings], Sequence[Contender]]:
    return lambda settings: [Aged(settings, turns, quick_point)]


def _goals(names: Sequence[str], point: int, before: float) -> tuple[Goal, ...]:
    return tuple(
        Goal(OURS, f"{name} / plain, {when}", point, bound, at_most=True)
        for name in names
        for when, bound in ((BEFORE, before), (AFTER, 1.05))
    )


APPENDED = Workload(
    name="aged",
    title="A table of many small appends, counted by Spark",
    about="A snapshot, and Spark's count of all rows, beside a table of the same rows in one file; `plan` is what "
    "the client does of it without Spark.",
    contenders=_of(Appended, QUICK_APPENDS),
    points=(APPENDS,),
    axis="appends",
    operation="look",
    rounds=3,
    goals=_goals(["count", "SQL count"], APPENDS, 3.0),
)
REFRESHED = Workload(
    name="aged-keyed",
    title="Q1, Q3 and Q6 of TPC-H after small refreshes",
    about=f"{tpch.ORDERS:,} orders with their lines, with primary keys and partitions, of which each refresh replaces "
    f"one in {tpch.REFRESHED:,}; beside plain Parquet of the same rows.",
    contenders=_of(Refreshed, QUICK_REFRESHES),
    points=(tpch.REFRESHES,),
    axis="refreshes",
    operation="query",
    rounds=3,
    goals=_goals(list(tpch.QUERIES), tpch.REFRESHES, 1.5),
)
