"""Tables that have aged, read by Spark beside the same rows in files that nobody has touched."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import txnclient
from benchmarks.suite.turns import tpch_refreshed as tpch
from benchmarks.suite.turns.spark import Turn, cost
from txnclient.compact.worker import Worker
from txnclient.sparksql import attach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = "id bigint, val double, s string, ts timestamp"
ROWS = 1_000
"""Rows of one append."""
TOGETHER = 50
"""Appends of one transaction: each is a write with a directory and a manifest of its own, as it is by itself."""
WRITERS = 4
CATALOG = "txn"
QUERIES = {"SQL count": "SELECT count(*) FROM {}", "SQL sum": "SELECT count(val), sum(val), max(s), max(ts) FROM {}"}
"""Looks through the catalog: by manifests, and at all rows."""


class Turns:
    """What both have in common: who goes first alternates."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, directory: Path) -> None:
        self._client, self._spark, self._directory = client, spark, directory
        self._made = itertools.count()
        self._turns = itertools.count()
        self._tables: list[str] = []

    def turn(self, _point: int) -> Turn:
        """Every look of this age and its plain one."""
        turn: Turn = {}
        backwards = next(self._turns) % 2 == 1
        for pair in self._looks():
            for name, look in list(pair.items())[:: -1 if backwards else 1]:
                turn[name] = cost(look)
        return turn

    def compact(self, _point: int) -> Turn:
        """All tables, by one worker. Raises RuntimeError for a table of which a compaction failed, or none was done."""
        worker = Worker(self._client.session, "benchmark", threading.Event())

        def all_of_them() -> None:
            for table in self._tables:
                self._client.compact(table, wait=False)
            while worker.run_once():
                pass

        turn = {"compaction": cost(all_of_them)}
        for table in self._tables:
            found = self._client.compactions(table)
            states = {each.state for each in found}
            if "failed" in states or "succeeded" not in states:
                told = "; ".join(f"{each.compaction_id} is {each.state} {each.reason}".rstrip() for each in found)
                raise RuntimeError(f"{table} was to be compacted: {told or 'nothing was begun'}")
        return turn

    def _looks(self) -> list[Mapping[str, Callable[[], object]]]:
        raise NotImplementedError


class Appended(Turns):
    """A table of many small appends, beside one of the same rows in one file."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, directory: Path) -> None:
        super().__init__(client, spark, directory)
        attach(spark, client, name=CATALOG)

    def prepare(self, appends: int) -> None:
        number = next(self._made)
        self._tables, self._whole, self._count = [f"bench.aged{number}"], f"bench.whole{number}", appends * ROWS
        for table in (*self._tables, self._whole):
            self._client.create_table(table, COLUMNS)
        parts = [_rows(first * ROWS, ROWS) for first in range(appends)]

        def append(first: int) -> None:
            with self._client.transaction() as txn:
                for part in parts[first : first + TOGETHER]:
                    txn.write(part, self._tables[0])

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(append, range(0, appends, TOGETHER)))
        self._client.write(pa.concat_tables(parts), self._whole)

    def _looks(self) -> list[Mapping[str, Callable[[], object]]]:
        (table,) = self._tables
        return [
            {"plain plan": lambda: self._plan(self._whole), "plan": lambda: self._plan(table)},
            {"plain count": lambda: self._look(self._whole), "count": lambda: self._look(table)},
            *(
                {f"plain {name}": partial(self._sql, query, self._whole), name: partial(self._sql, query, table)}
                for name, query in QUERIES.items()
            ),
        ]

    def _sql(self, query: str, table: str) -> None:
        (found,) = self._spark.sql(query.format(f"{CATALOG}.{table}")).collect()
        if found[0] != self._count:
            raise RuntimeError(f"{found[0]} rows of {table} were read, of {self._count}")

    def _plan(self, table: str) -> None:
        with self._client.snapshot() as snapshot:
            snapshot.table_files(table)

    def _look(self, table: str) -> None:
        with self._client.snapshot() as snapshot:
            found = snapshot.read(self._spark, table).count()
        if found != self._count:
            raise RuntimeError(f"{found} rows of {table} were read, of {self._count}")


class Refreshed(Turns):
    """TPC-H's orders and line items with keys and partitions after many small refreshes, beside plain files of the same
    rows.
    """

    def prepare(self, refreshes: int) -> None:
        number = next(self._made)
        made = tpch.Made(tpch.ORDERS if refreshes >= tpch.REFRESHES else tpch.QUICK_ORDERS)
        named = {name: f"bench.{name}{number}" for name in tpch.TABLES}
        for name, table in named.items():
            key, partition_by = tpch.KEYS[name], tpch.PARTITION_BY[name]
            self._client.create_table(table, tpch.TABLES[name], primary_key=key, partition_by=partition_by)
            self._client.write(made.all_of(name), table)
        for refresh in range(refreshes):
            with self._client.transaction() as txn:
                for name, (new, gone) in made.refresh(refresh).items():
                    txn.upsert(named[name], new)
                    txn.delete(named[name], gone)
        self._tables = list(named.values())
        self._plain = {name: self._directory / f"plain-{number}" / name for name in named}
        with self._client.snapshot() as snapshot:
            for name, table in named.items():
                _write_plainly(snapshot.to_arrow(table), self._plain[name], tpch.PARTITION_BY[name])
        self._named = named

    def _looks(self) -> list[Mapping[str, Callable[[], object]]]:
        return [
            {f"plain {query}": partial(self._plainly, query), query: partial(self._ours, query)}
            for query in tpch.QUERIES
        ]

    def _plainly(self, query: str) -> object:
        return self._run(query, {name: self._spark.read.parquet(str(path)) for name, path in self._plain.items()})

    def _ours(self, query: str) -> object:
        with self._client.snapshot() as snapshot:
            used = {name: self._named[name] for name in tpch.USED[query]}
            return self._run(query, {name: snapshot.read(self._spark, table) for name, table in used.items()})

    def _run(self, query: str, frames: Mapping[str, DataFrame]) -> object:
        for name, frame in frames.items():
            frame.createOrReplaceTempView(name)
        return self._spark.sql(tpch.QUERIES[query]).collect()


def _rows(first: int, count: int) -> pa.Table:
    ids = np.arange(first, first + count)
    texts = pa.array([f"text {number}" for number in range(5_000)]).take(pa.array(ids % 5_000))
    times = pa.array(1_700_000_000_000_000 + ids, pa.timestamp("us", "UTC"))
    return pa.table({"id": ids, "val": np.random.default_rng(first).random(count), "s": texts, "ts": times})


def _write_plainly(data: pa.Table, directory: Path, partition_by: list[str]) -> None:
    """A file for each partition, with all columns."""
    directory.mkdir(parents=True)
    (column,) = partition_by
    for value in sorted(data[column].unique().to_pylist()):
        pq.write_table(data.filter(pc.equal(data[column], value)), directory / f"{value}.parquet")
