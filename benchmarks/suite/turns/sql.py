"""Statements of Spark's own SQL over tables, beside the same ones over plain Parquet of the same rows."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import txnclient
from benchmarks.suite.turns.spark import COLUMNS, PARTS, Turn, cost
from txnclient.sparksql import attach
from txnstatus.lake.storage import make_durable, parquet_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEAD = {"scan": "", "scan, 0.1 % dead": "id % 1000 = 3", "scan, 10 % dead": "id % 10 = 3"}
"""Which rows are deleted before a look."""
LOOK = "SELECT count(id), sum(kind), sum(amount), max(note) FROM {}"
CATALOG = "txn"
CHANGED = "bench.changed"
PARTITIONS = 1_000
WRITERS = 4
"""Writers that make files side by side: each syncs every one of them."""
MERGED = 30_000
"""Rows of the source of a MERGE, of which every other one is new."""
CHANGES = {
    "delete 1 %": ("DELETE FROM {table} WHERE id % 100 = {turn}", "SELECT * FROM {plain} WHERE id % 100 <> {turn}"),
    "update 0.1 %": (
        "UPDATE {table} SET kind = kind + 1 WHERE id % 1000 = {turn} + 50",
        "SELECT id, CASE WHEN id % 1000 = {turn} + 50 THEN kind + 1 ELSE kind END AS kind, amount, note FROM {plain}",
    ),
    "merge 30 k": (
        "MERGE INTO {table} t USING source s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        "SELECT coalesce(s.id, t.id) AS id, coalesce(s.kind, t.kind) AS kind, coalesce(s.amount, t.amount) AS amount, "
        "coalesce(s.note, t.note) AS note FROM {plain} t FULL JOIN source s ON t.id = s.id",
    ),
}
"""Statements, and what rewrites all rows to the same end; an UPDATE finds rows that no DELETE before it has found."""
POINT_QUERY = "SELECT v FROM {} WHERE p = 777 AND id = 777"


class Statements:
    """Scans of tables, clean or with deleted rows in every file; an INSERT, and changes. Who goes first alternates."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, directory: Path) -> None:
        self._client, self._spark, self._directory = client, spark, directory
        self._count = 0
        self._rows = 0
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
        self._rows = rows
        self._client.create_table(CHANGED, data.schema)
        self._spark.sql(f"INSERT INTO {CATALOG}.{CHANGED} SELECT * FROM data")

    def turn(self, _rows: int) -> Turn:
        """Every look and its plain one, and what an INSERT takes, and a change beside a rewrite of the rows."""
        self._count += 1
        turn: Turn = {}
        self._source()
        looks: list[Mapping[str, Callable[[], object]]] = []
        for number, name in enumerate(DEAD):
            plain, ours = f"parquet.`{self._plain(number)}`", f"{CATALOG}.{self._table(number)}"
            looks.append({f"plain {name}": partial(self._look, plain), name: partial(self._look, ours)})
        looks.append({"plain insert": self._insert_plainly, "insert": self._insert})
        for name, (statement, rewrite) in CHANGES.items():
            looks.append({
                f"plain {name}": partial(self._rewrite, self._filled(rewrite), name),
                name: partial(self._spark.sql, self._filled(statement)),
            })  # fmt: skip
        for pair in looks:
            for name, work in list(pair.items())[:: 1 if self._count % 2 else -1]:
                os.sync()  # what is left of the one before is not written at the expense of this one
                turn[name] = cost(work)
        for name in ("insert", *CHANGES):
            shutil.rmtree(self._directory / name)
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
        self._write_plainly(self._data, "insert")

    def _rewrite(self, select: str, name: str) -> None:
        self._write_plainly(self._spark.sql(select), name)

    def _write_plainly(self, data: DataFrame, name: str) -> None:
        """With a sync, which is a part of every statement of ours, and which a plain write leaves to chance."""
        data.write.parquet(str(self._directory / name))
        make_durable(uri for uri, _ in parquet_files((self._directory / name).as_uri()))

    def _filled(self, text: str) -> str:
        return text.format(table=f"{CATALOG}.{CHANGED}", plain=f"parquet.`{self._plain(0)}`", turn=self._count)

    def _source(self) -> None:
        """What is merged: rows that are spread over the table, and as many new ones."""
        half, beyond = MERGED // 2, self._rows * self._count
        old = self._spark.range(0, self._rows, max(1, self._rows // half), 1)
        both = old.union(self._spark.range(beyond, beyond + half, 1, 1))
        both.selectExpr(*COLUMNS).createOrReplaceTempView("source")

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

        def append(first: int) -> None:
            """A file in each partition."""
            ids, p = pa.array(range(first, first + parts), pa.int64()), pa.array(range(parts), pa.int32())
            self._client.write(pa.table({"p": p, "id": ids, "v": ids}), self._name)

        with ThreadPoolExecutor(WRITERS) as writers:
            list(writers.map(append, range(0, files, parts)))

    def turn(self, _files: int) -> Turn:
        """A plan as Spark makes it, from the text to the files that tasks would read; and the query."""
        query = POINT_QUERY.format(f"{CATALOG}.{self._name}")

        def plan() -> None:
            self._spark.sql(query)._jdf.queryExecution().toRdd()

        return {"plan": cost(plan), "query": cost(lambda: self._spark.sql(query).collect())}
