"""TPC-H's queries through the catalog that Spark plans with: the answers of plain Parquet, and the published ones."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.suite.turns import tpch, tpch_data
from benchmarks.suite.turns.tpch import CATALOG, PLAIN, WHOLE, Queries
from benchmarks.suite.turns.tpch_queries import QUERIES
from tests.support import connect
from txnclient.sparksql import detach
from txndeploy.local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = 10
CLOSE = Decimal("0.01")
"""The difference that TPC-H allows fractions, which engines tell with more digits or fewer."""
TELLING = ("Q2", "Q13", "Q15", "Q21", "Q22")
"""Queries that between them have correlated subqueries, outer and anti-joins, and a relation that is read twice."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> SparkSession:
    """A session whose databases are this module's to use."""
    pytest.importorskip("duckdb_extension_tpch", reason="pip install duckdb-extension-tpch")
    return spark.newSession()


@pytest.fixture(scope="module")
def turns(session: SparkSession, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queries]:
    """The benchmark's, with its tables."""
    with connect(cluster) as client:
        made = Queries(client, session, tmp_path_factory.mktemp("tpch"))
        made.prepare(PARTS)
        yield made
        detach(session, name=CATALOG)


@pytest.mark.usefixtures("turns")
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=() if name in TELLING else pytest.mark.campaign) for name in QUERIES
])  # fmt: skip
def test_a_query_answers_what_it_answers_over_plain_parquet_and_what_is_published(
    session: SparkSession, name: str
) -> None:
    ours, plain = (answered(session, f"{catalog}.tpch{PARTS}", QUERIES[name]) for catalog in (CATALOG, PLAIN))
    assert ours == plain
    assert is_published(ours, tpch_data.answers(PARTS / WHOLE)[name])


def test_a_turn_has_what_each_query_takes_and_compares(turns: Queries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tpch, "QUERIES", {name: QUERIES[name] for name in ("Q6", "Q11")})
    assert set(turns.turn(PARTS)) == {"Q6", "plain Q6", "Q11", "plain Q11"}
    monkeypatch.setattr(tpch, "QUERIES", {"Q1": "SELECT rand() FROM region"})
    with pytest.raises(RuntimeError, match="Q1 has two answers"):
        turns.turn(PARTS)


def answered(session: SparkSession, database: str, query: str) -> list[tuple[Any, ...]]:
    session.sql(f"USE {database}")
    return [tuple(row) for row in session.sql(query).collect()]


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
