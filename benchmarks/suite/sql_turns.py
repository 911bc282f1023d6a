"""Statements of Spark's own SQL over tables, beside the same ones over plain Parquet of the same rows."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import txnclient
from benchmarks.suite.spark_turns import COLUMNS, PARTS, Cost, Turn, cost
from txnclient.sparksql import attach
from txnstatus.lake.storage import make_durable, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEAD = {"scan": "", "scan, 0.1 % dead": "id % 1000 = 3", "scan, 10 % dead": "id % 10 = 3"}
"""Which rows are deleted before a look."""
LOOK = "SELECT count(id), sum(kind), sum(amount), max(note) FROM {}"
CATALOG = "txn"
PARTITIONS = 1_000
POINT_QUERY = "SELECT v FROM {} WHERE p = 777 AND id = 777"


class Statements:
    """A scan of a table that is clean, or has deleted rows in every file, and an INSERT; who goes first alternates."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, directory: Path) -> None:
        self._client, self._spark, self._directory = client, spark, directory
        self._count = 0
        self._data: DataFrame | None = None
        attach(spark, client, name=CATALOG)

    def prepare(self, rows: int) -> None:
        """Tables and files, both written by Spark."""
        data = self._spark.range(0, rows, 1, PARTS).selectExpr(*COLUMNS)
        self._data = data.cache()
        self._data.createOrReplaceTempView("data")
        for number, deleted in enumerate(DEAD.values()):
            table = self._table(number)
            self._client.create_table(table, data.schema)
            self._spark.sql(f"INSERT INTO {CATALOG}.{table} SELECT * FROM data")
            left = self._data
            if deleted:
                self._client.delete_where(table, deleted)
                left = self._data.where(f"NOT ({deleted})")
            left.write.parquet(str(self._plain(number)))

    def turn(self, _rows: int) -> Turn:
        """Every look and its plain one, and what an INSERT takes."""
        self._count += 1
        turn: Turn = {}
        looks: list[Mapping[str, Callable[[], object]]] = []
        for number, name in enumerate(DEAD):
            plain, ours = f"parquet.`{self._plain(number)}`", f"{CATALOG}.{self._table(number)}"
            looks.append({f"plain {name}": partial(self._look, plain), name: partial(self._look, ours)})
        looks.append({"plain insert": self._insert_plainly, "insert": self._insert})
        for pair in looks:
            for name, work in list(pair.items())[:: 1 if self._count % 2 else -1]:
                os.sync()  # what is left of the one before is not written at the expense of this one
                turn[name] = cost(work)
        turn["plain insert"] = _with(turn["plain insert"], cost(self._sync))
        shutil.rmtree(self._directory / "inserted")
        self._client.drop_table(self._inserted)
        return turn

    def _table(self, number: int) -> str:
        return f"bench.sql{number}"

    def _plain(self, number: int) -> Path:
        return self._directory / f"plain{number}"

    @property
    def _inserted(self) -> str:
        return f"bench.inserted{self._count}"

    def _look(self, source: str) -> object:
        return self._spark.sql(LOOK.format(source)).collect()

    def _insert_plainly(self) -> None:
        assert self._data is not None, "nothing was prepared"
        self._data.write.parquet(str(self._directory / "inserted"))

    def _sync(self) -> None:
        """What an INSERT of ours does, and a plain one leaves to chance."""
        make_durable(uri for uri, _ in parquet_files((self._directory / "inserted").as_uri()))

    def _insert(self) -> None:
        assert self._data is not None, "nothing was prepared"
        self._client.create_table(self._inserted, self._data.schema)
        self._spark.sql(f"INSERT INTO {CATALOG}.{self._inserted} SELECT * FROM data")


class Points:
    """A table of very many files in as many partitions, in which a query looks for one row."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, _directory: Path) -> None:
        self._client, self._spark = client, spark
        self._tables = itertools.count()
        attach(spark, client, name=CATALOG)

    def prepare(self, files: int) -> None:
        self._name = f"bench.points{next(self._tables)}"
        self._client.create_table(self._name, "p int, id bigint, v bigint", partition_by=["p"])
        parts = min(PARTITIONS, files)
        for first in range(0, files, parts):
            ids = pa.array(range(first, first + parts), pa.int64())
            p = pa.array(range(parts), pa.int32())
            self._client.write(pa.table({"p": p, "id": ids, "v": ids}), self._name)

    def turn(self, _files: int) -> Turn:
        """A plan as Spark makes it, from the text to the files that tasks would read; and the query."""
        query = POINT_QUERY.format(f"{CATALOG}.{self._name}")

        def plan() -> None:
            self._spark.sql(query)._jdf.queryExecution().toRdd()

        return {"plan": cost(plan), "query": cost(lambda: self._spark.sql(query).collect())}


def _with(one: Cost, other: Cost) -> Cost:
    return Cost(one.seconds + other.seconds, one.cpu + other.cpu)
