"""What a transaction adds to a Spark job: the same data written and read plainly and with us, in one session."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence

from benchmarks.suite.model import Goal, Settings, Tally, Workload
from benchmarks.suite.ours_with_spark import OurSpark
from benchmarks.suite.turns.spark import Turn, WritesAndReads

ROWS = 10_000_000
QUICK_ROWS = 200_000
REPEATS = 6
"""An even number: each goes first as often as the other."""
QUICK_REPEATS = 1
WRITE, SYNCED, READ = "write / plain write", "write / plain write and a sync of its files", "read / plain read"
WRITE_CPU, READ_CPU = f"CPU of {WRITE}", f"CPU of {READ}"


class Ours(OurSpark):
    about = "the same DataFrame, cached in memory, by the same executors; plain and with us in turn, medians of ratios"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, WritesAndReads)
        self._repeats = QUICK_REPEATS if settings.quick else REPEATS

    async def prepare(self, point: int) -> None:
        self.spark.ask("prepare", point)

    async def warm_up(self, point: int, seconds: float) -> None:
        await self.prepare(point)
        self.spark.ask("turn", point)

    async def run(self, point: int, seconds: float) -> Tally:
        """A fixed number of turns, however long they take; the latency is that of our writes."""
        began = time.perf_counter()
        turns = [self.spark.ask("turn", point) for _ in range(self._repeats)]
        tally = Tally(time.perf_counter() - began, [turn["write"].seconds for turn in turns])
        tally.extra = measures(turns)
        return tally


def measures(turns: Sequence[Turn]) -> dict[str, float]:
    """Ratios are of one turn, whatever else the machine does meanwhile."""
    seconds = [{name: cost.seconds for name, cost in turn.items()} for turn in turns]
    cpu = [{name: cost.cpu for name, cost in turn.items() if name != "sync"} for turn in turns]
    found = {f"{name}, s": statistics.median(each[name] for each in seconds) for name in seconds[0]}
    found[WRITE] = statistics.median(each["write"] / each["plain write"] for each in seconds)
    found[SYNCED] = statistics.median(each["write"] / (each["plain write"] + each["sync"]) for each in seconds)
    found[READ] = statistics.median(each["read"] / each["plain read"] for each in seconds)
    if all(all(each.values()) for each in cpu):  # it is counted in ticks, and some writes take none
        found[WRITE_CPU] = statistics.median(each["write"] / each["plain write"] for each in cpu)
        found[READ_CPU] = statistics.median(each["read"] / each["plain read"] for each in cpu)
    return found


WORKLOAD = Workload(
    name="spark",
    title="Spark writes and reads beside plain Parquet",
    about="Our write returns when the rows are durable and visible; a plain write syncs nothing. So it is also "
    "compared with a plain write and a sync of its files. Spark's CPU is that of its driver and its executors.",
    contenders=lambda settings: [Ours(settings)],
    points=(QUICK_ROWS, ROWS),
    axis="rows",
    operation="write",
    rounds=3,
    goals=(Goal("ours", WRITE, ROWS, 1.05, at_most=True), Goal("ours", READ, ROWS, 1.05, at_most=True)),
)
