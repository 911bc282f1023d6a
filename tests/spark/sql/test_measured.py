"""What the benchmark measures of statements: that they do what the rewrites do that they are compared with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.suite.turns import sql as sql_turns
from benchmarks.suite.turns.sql import CATALOG, CHANGED, CHANGES, DEAD, Statements
from txnclient import Client
from txnclient.sparksql import detach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 1_000


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    session = spark.newSession()
    yield session
    detach(session, name=CATALOG)


def test_each_statement_of_a_turn_comes_to_what_its_rewrite_comes_to(
    session: SparkSession, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_turns, "MERGED", 20)
    turns = Statements(client, session, tmp_path)
    turns.prepare(ROWS)
    turn = turns.turn(ROWS)
    assert set(turn) == {f"{whose}{name}" for name in (*DEAD, "insert", *CHANGES) for whose in ("", "plain ")}
    left = session.table(f"{CATALOG}.{CHANGED}").orderBy("id").collect()
    data = session.table("data")
    changed = data.where("id % 100 <> 1").selectExpr(
        "id", "CASE WHEN id % 1000 = 51 THEN kind + 1 ELSE kind END AS kind", "amount", "note"
    )
    source = session.table("source")
    assert source.count() == 20
    expected = changed.join(source, "id", "left_anti").union(source).orderBy("id").collect()
    assert left == expected
