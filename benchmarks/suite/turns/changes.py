"""MERGE and DELETE by Spark, beside a plain rewrite: a job that reads all rows, and writes them as they are to be."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import txnclient
from benchmarks.suite.turns.spark import COLUMNS, PARTS, Cost, Turn, cost
from txnstatus.lake.storage import make_durable, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE_SHARE = 0.003
"""Rows of a MERGE's source beside those of the table; two of three match one, spread over all of them."""
GONE = "id % 100 = 7"


class Changed:
    """Each statement has a table of its own, of the same rows as the plain files; who goes first alternates."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, directory: Path) -> None:
        self._client, self._spark = client, spark
        self._plain, self._rewritten = directory / "plain", directory / "rewritten"
        self._turns, self._tables = itertools.count(), itertools.count()
        self._statements: Mapping[str, Callable[[str], object]] = {"merge": self._merge, "delete": self._delete}
        self._left: Mapping[str, int] = {}
        """Rows that each leaves."""

    def prepare(self, rows: int) -> None:
        """The rows and the source of a MERGE, in the executors' memory; and plain files."""
        self._data = self._spark.range(0, rows, 1, PARTS).selectExpr(*COLUMNS).cache()
        self._data.write.mode("overwrite").parquet(str(self._plain))
        count = max(3, int(rows * SOURCE_SHARE))
        matching = count * 2 // 3
        ids = self._spark.range(0, count, 1, PARTS).selectExpr(
            f"IF(id < {matching}, id * {rows // matching} + id % 7, {rows} + id) AS id"
        )
        self._source = ids.selectExpr(*COLUMNS).cache()
        self._left = {"merge": rows + count - matching, "delete": rows - len(range(7, rows, 100))}

    def turn(self, _rows: int) -> Turn:
        """What each statement takes, with its commit; and a rewrite, with a sync of its files."""
        backwards = next(self._turns) % 2 == 1
        turn: Turn = {}
        for statement in self._statements:
            both = {f"plain {statement}": self._rewriting, statement: self._changing}
            for name, work in list(both.items())[:: -1 if backwards else 1]:
                turn[name] = work(statement)
        return turn

    def _changing(self, statement: str) -> Cost:
        """What a statement takes. Raises RuntimeError where other rows are left than there should be."""
        table = f"bench.changed{next(self._tables)}"
        self._client.create_table(table, self._data.schema)
        self._client.write(self._data, table)
        os.sync()  # what is left of the one before is not written at the expense of this one
        found = cost(partial(self._statements[statement], table))
        with self._client.snapshot() as snapshot:
            left = snapshot.table_files(table).rows
        self._client.drop_table(table)
        if left != self._left[statement]:
            raise RuntimeError(f"{left} rows are left by a {statement}")
        return found

    def _rewriting(self, statement: str) -> Cost:
        os.sync()
        found = cost(partial(self._rewrite, statement))
        shutil.rmtree(self._rewritten)
        return found

    def _merge(self, table: str) -> None:
        merge = self._client.merge(table, self._source, on="target.id = source.id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _delete(self, table: str) -> None:
        self._client.delete_where(table, GONE, spark=self._spark)

    def _rewrite(self, statement: str) -> None:
        """By what costs least: of a MERGE rows that no row of the source matches, and all of the source, which each
        executor gets.
        """
        there = self._spark.read.parquet(str(self._plain))
        if statement == "merge":
            rows = there.join(self._source.hint("broadcast"), "id", "left_anti").unionAll(self._source)
        else:
            rows = there.where(f"NOT ({GONE})")
        rows.write.parquet(str(self._rewritten))
        make_durable(uri for uri, _ in parquet_files(self._rewritten.as_uri()))
