"""TPC-H's queries in Spark's own SQL, over tables and over plain Parquet that Spark has written of the same rows."""

from __future__ import annotations

import itertools
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import txnclient
from benchmarks.suite.turns import tpch_data
from benchmarks.suite.turns.spark import Turn, cost
from benchmarks.suite.turns.tpch_queries import QUERIES
from txnclient.sparksql import attach

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

CATALOG, PLAIN = "txn", "spark_catalog"
WHOLE = 1_000
"""Parts of which scale 1 has so many."""


class Queries:
    """All 22, each plain and ours one after the other; who goes first alternates."""

    def __init__(self, client: txnclient.Client, spark: SparkSession, directory: Path) -> None:
        self._spark, self._directory = spark, directory
        self._turns = itertools.count()
        attach(spark, client, name=CATALOG)

    def prepare(self, parts: int) -> None:
        """Makes the tables, both by Spark."""
        database, made = f"tpch{parts}", self._directory / f"made{parts}"
        tpch_data.write(made, parts / WHOLE)
        self._spark.sql(f"CREATE DATABASE {PLAIN}.{database}")
        for table in tpch_data.TABLES:
            data = self._spark.read.parquet(str(made / f"{table}.parquet"))
            data.write.format("parquet").saveAsTable(f"{PLAIN}.{database}.{table}")
            data.writeTo(f"{CATALOG}.{database}.{table}").create()
        shutil.rmtree(made)

    def turn(self, parts: int) -> Turn:
        """What each query takes. Raises RuntimeError where one has not the same answer over both."""
        turn: Turn = {}
        first = next(self._turns)
        for number, name in enumerate(QUERIES):
            pair = {f"plain {name}": f"{PLAIN}.tpch{parts}", name: f"{CATALOG}.tpch{parts}"}
            answers: dict[str, list[Row]] = {}
            for told, database in list(pair.items())[:: -1 if (first + number) % 2 else 1]:
                self._spark.sql(f"USE {database}")
                turn[told] = cost(partial(self._answer, name, answers, told))
            if answers[name] != answers[f"plain {name}"]:
                raise RuntimeError(f"{name} has two answers: {answers}"[:1000])
        return turn

    def _answer(self, query: str, into: dict[str, list[Row]], told: str) -> None:
        into[told] = self._spark.sql(QUERIES[query]).collect()
