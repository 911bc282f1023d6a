"""TPC-H's queries through the catalog that Spark plans with: the answers of plain Parquet, and the published ones."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.suite import tpch_data
from benchmarks.suite.tpch_queries import QUERIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
CLOSE = Decimal("0.01")
"""The difference that TPC-H allows fractions, which engines tell with more digits or fewer."""


@pytest.fixture(scope="module")
def databases(spark: SparkSession, catalog: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """One of tables, and one of plain Parquet with the same rows."""
    pytest.importorskip("duckdb_extension_tpch", reason="pip install duckdb-extension-tpch")
    made = tmp_path_factory.mktemp("tpch") / "made"
    tpch_data.write(made, SCALE)
    spark.sql("CREATE DATABASE spark_catalog.tpch")
    for table in tpch_data.TABLES:
        data = spark.read.parquet(str(made / f"{table}.parquet"))
        data.write.format("parquet").saveAsTable(f"spark_catalog.tpch.{table}")
        data.writeTo(f"{catalog}.tpch.{table}").create()
    return f"{catalog}.tpch", "spark_catalog.tpch"


TELLING = ("Q2", "Q13", "Q15", "Q21", "Q22")
"""Queries that between them have correlated subqueries, outer and anti-joins, and a relation that is read twice."""


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in TELLING else pytest.mark.campaign) for name in QUERIES
])  # fmt: skip
def test_a_query_answers_what_it_answers_over_plain_parquet_and_what_is_published(
    spark: SparkSession, databases: tuple[str, str], name: str
) -> None:
    try:
        ours, plain = (answered(spark, database, QUERIES[name]) for database in databases)
    finally:
        spark.sql("USE spark_catalog.default")
    assert ours == plain
    assert is_published(ours, tpch_data.answers(SCALE)[name])


def answered(spark: SparkSession, database: str, query: str) -> list[tuple[Any, ...]]:
    spark.sql(f"USE {database}")
    return [tuple(row) for row in spark.sql(query).collect()]


def is_published(rows: list[tuple[Any, ...]], published: str) -> bool:
    """`published`: a line of names, then one for each row."""
    lines = [line.split("|") for line in published.splitlines()[1:]]
    return len(rows) == len(lines) and all(
        len(row) == len(line) and all(map(is_same, row, line)) for row, line in zip(rows, lines, strict=True)
    )


def is_same(value: Any, text: str) -> bool:
    if isinstance(value, Decimal | float):
        return abs(Decimal(str(value)) - Decimal(text)) < CLOSE
    return str("" if value is None else value) == text
