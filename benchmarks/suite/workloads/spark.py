"""What a transaction adds to a Spark job: the same data written and read plainly and with us, in one session."""

from __future__ import annotations

import contextlib
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import txnclient
from benchmarks.suite.model import Contender, Goal, Settings, Tally, Workload
from benchmarks.suite.ours import OurCluster
from benchmarks.suite.processes import needs_modules
from txndeploy.spark_session import local_cluster_session
from txnstatus.storage import make_durable, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS = 10_000_000
QUICK_ROWS = 200_000
PARTS = 4
TABLE = "bench.spark"
REPEATS = 5
QUICK_REPEATS = 1
WRITE, SYNCED, READ = "write / plain write", "write / plain write and a sync of its files", "read / plain read"


class Ours(OurCluster):
    about = "the same DataFrame, cached in memory, by the same executors; plain and with us in turn, medians compared"

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._repeats = QUICK_REPEATS if settings.quick else REPEATS

    def missing(self) -> str | None:
        return super().missing() or needs_modules("pyspark")

    def start(self, directory: Path) -> None:
        super().start(directory)
        self._stack = contextlib.ExitStack()
        self._directory = directory
        self._client = self._stack.enter_context(txnclient.connect(self.cluster.addresses))
        self._spark = self._stack.enter_context(local_cluster_session("benchmark", directory / "spark"))
        self._data: dict[int, DataFrame] = {}
        self._tables = 0

    def stop(self) -> None:
        if hasattr(self, "_stack"):
            self._stack.close()
        super().stop()

    async def prepare(self, point: int) -> None:
        """The data, in the executors' memory."""
        if point not in self._data:
            ids = self._spark.range(0, point, 1, PARTS)
            columns = ("id", "id % 1000 AS kind", "id * 0.5 AS amount", "concat('note ', id % 100000) AS note")
            self._data[point] = ids.selectExpr(*columns).cache()
            self._data[point].count()

    async def warm_up(self, point: int, seconds: float) -> None:
        await self.prepare(point)
        self._turn(point)

    async def run(self, point: int, seconds: float) -> Tally:
        """So many turns, however long they take; the latency is that of our writes."""
        began = time.perf_counter()
        turns = [self._turn(point) for _ in range(self._repeats)]
        tally = Tally(time.perf_counter() - began, [turn["write"] for turn in turns])
        middle = {name: statistics.median(turn[name] for turn in turns) for name in turns[0]}
        tally.extra = {f"{name}, s": seconds for name, seconds in middle.items()}
        tally.extra[WRITE] = middle["write"] / middle["plain write"]
        tally.extra[SYNCED] = middle["write"] / (middle["plain write"] + middle["sync"])
        tally.extra[READ] = middle["read"] / middle["plain read"]
        return tally

    def _turn(self, point: int) -> dict[str, float]:
        """Seconds. A new table and a new directory each time; who goes first alternates."""
        self._tables += 1
        data, table = self._data[point], f"{TABLE}_{self._tables}"
        plain = self._directory / "plain"
        self._client.create_table(table, data.schema)

        def write() -> None:
            with self._client.transaction() as txn:
                txn.write(data, table)

        def read() -> None:
            with self._client.snapshot() as snapshot:
                _look_at_all(snapshot.read(self._spark, table), point)

        writes = {"plain write": lambda: data.write.parquet(str(plain)), "write": write}
        reads = {"plain read": lambda: _look_at_all(self._spark.read.parquet(str(plain)), point), "read": read}
        times: dict[str, float] = {}
        for group in (writes, {"sync": lambda: _sync(plain)}, reads):
            for name in sorted(group, reverse=self._tables % 2 == 0):
                times[name] = _seconds(group[name])
        shutil.rmtree(plain)
        self._client.drop_table(table)
        return times


def _look_at_all(data: DataFrame, rows: int) -> None:
    (found,) = data.selectExpr("count(id)", "sum(kind)", "sum(amount)", "max(note)").collect()
    if found[0] != rows:
        raise RuntimeError(f"{found[0]} rows were read, of {rows}")


def _sync(directory: Path) -> None:
    make_durable(uri for uri, _ in parquet_files(directory.as_uri()))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def contenders(settings: Settings) -> Sequence[Contender]:
    return [Ours(settings)]


WORKLOAD = Workload(
    name="spark",
    title="Spark writes and reads beside plain Parquet",
    about="Our write returns when the rows are durable and visible; a plain write syncs nothing. So it is also "
    "compared with a plain write and a sync of its files.",
    contenders=contenders,
    points=(QUICK_ROWS, ROWS),
    axis="rows",
    operation="write",
    rounds=3,
    goals=(Goal("ours", WRITE, ROWS, 1.05, at_most=True), Goal("ours", READ, ROWS, 1.05, at_most=True)),
)
