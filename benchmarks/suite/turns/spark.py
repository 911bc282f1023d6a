"""Spark in a process of its own: the suite's has used gRPC, whose threads do not survive the fork of Spark's start."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import txnclient
from benchmarks.suite.machine import used_by
from txndeploy.demo.spark_session import local_cluster_session
from txnstatus.lake.storage import make_durable, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = 4
COLUMNS = ("id", "id % 1000 AS kind", "id / 2 AS amount", "concat('note ', id % 100000) AS note")
TABLE = "bench.spark"
STOP_SECONDS = 30.0


@dataclass(frozen=True)
class Cost:
    """What one write or read took."""

    seconds: float
    cpu: float
    """Seconds, of the driver and the executors."""


Turn = dict[str, Cost]
"""Costs by what was done: such as `plain write`, `sync` of its files, `write`, `plain read`, `read`."""
Turns = Callable[[txnclient.Client, "SparkSession", Path], object]
"""What makes an object whose methods are told a point, and answer a turn or nothing."""


class SparkProcess:
    """The driver's process; its executors are below it."""

    def __init__(self, addresses: str, directory: Path, turns: Turns) -> None:
        """`turns`: makes what answers. Raises RuntimeError when Spark does not start."""
        fresh = multiprocessing.get_context("spawn")
        self._pipe, theirs = fresh.Pipe()
        self._process = fresh.Process(target=_serve, args=(theirs, addresses, directory, turns))
        self._process.start()
        theirs.close()
        self._answer()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def stop(self) -> None:
        self._pipe.close()
        self._process.join(STOP_SECONDS)
        self._process.kill()
        self._process.join()

    def ask(self, what: str, point: int) -> Turn:
        """Has a method of the turns called. Raises RuntimeError with what failed."""
        self._pipe.send((what, point))
        return self._answer()

    def _answer(self) -> Turn:
        try:
            answer: Turn | _Failure = self._pipe.recv()
        except EOFError:
            raise RuntimeError("Spark's process ended") from None
        if isinstance(answer, _Failure):
            raise RuntimeError(answer.story)
        return answer


@dataclass(frozen=True)
class _Failure:
    story: str


def _serve(pipe: Connection, addresses: str, directory: Path, turns: Turns) -> None:
    """Answers until the suite closes its end, or has ended."""
    with contextlib.suppress(EOFError), contextlib.ExitStack() as stack:
        try:
            client = stack.enter_context(txnclient.connect(addresses))
            spark = stack.enter_context(local_cluster_session("benchmark", directory / "spark"))
            made = turns(client, spark, directory)
            pipe.send({})
            while True:
                what, point = pipe.recv()
                pipe.send(getattr(made, what)(point) or {})
        except EOFError:
            raise
        except Exception as error:  # noqa: BLE001 the suite reports it
            pipe.send(_Failure(f"{type(error).__name__}: {error}"))


class WritesAndReads:
    """A new table and a new directory each time; who goes first alternates."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, directory: Path) -> None:
        self._client, self._spark = client, spark
        self._plain = directory / "plain"
        self._data: dict[int, DataFrame] = {}
        self._count = 0

    def prepare(self, rows: int) -> None:
        """The data, in the executors' memory."""
        if rows not in self._data:
            self._data[rows] = self._spark.range(0, rows, 1, PARTS).selectExpr(*COLUMNS).cache()
            self._data[rows].count()

    def turn(self, rows: int) -> Turn:
        """The same data written and read plainly and with us."""
        self._count += 1
        table = f"{TABLE}_{self._count}"
        self._client.create_table(table, self._data[rows].schema)
        turn: Turn = {}
        for pair in ((self._plain_write, self._write), (self._plain_read, self._read)):
            for work in pair if self._count % 2 else pair[::-1]:
                os.sync()  # what is left of the one before is not written at the expense of this one
                turn |= work(table, rows)
        shutil.rmtree(self._plain)
        self._client.drop_table(table)
        return turn

    def _plain_write(self, _: str, rows: int) -> Turn:
        written = cost(lambda: self._data[rows].write.parquet(str(self._plain)))
        synced = cost(lambda: make_durable(uri for uri, _ in parquet_files(self._plain.as_uri())))
        return {"plain write": written, "sync": synced}

    def _write(self, table: str, rows: int) -> Turn:
        def transact() -> None:
            with self._client.transaction() as txn:
                txn.write(self._data[rows], table)

        return {"write": cost(transact)}

    def _plain_read(self, _: str, rows: int) -> Turn:
        return {"plain read": cost(lambda: _look_at_all(self._spark.read.parquet(str(self._plain)), rows))}

    def _read(self, table: str, rows: int) -> Turn:
        def look() -> None:
            with self._client.snapshot() as snapshot:
                _look_at_all(snapshot.read(self._spark, table), rows)

        return {"read": cost(look)}


def _look_at_all(data: DataFrame, rows: int) -> None:
    (found,) = data.selectExpr("count(id)", "sum(kind)", "sum(amount)", "max(note)").collect()
    if found[0] != rows:
        raise RuntimeError(f"{found[0]} rows were read, of {rows}")


def cost(work: Callable[[], object]) -> Cost:
    """What the work takes of time, and of CPU in this process and those below it."""
    began, used = time.perf_counter(), used_by(os.getpid())
    work()
    return Cost(time.perf_counter() - began, used_by(os.getpid()) - used)
