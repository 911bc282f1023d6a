"""Two sessions with transactions of their own, statement by statement at random, against a model of what they see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.sql.sessions_model import KEYS, Model, Open, Rows, Step, steps
from txnclient import Client
from txnclient.sparksql import attach, detach
from txnstatus.errors import Conflict
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]


@pytest.fixture
def sessions(spark: SparkSession, client: Client) -> Iterator[list[SparkSession]]:
    both = [spark.newSession(), spark.newSession()]
    for each in both:
        attach(each, client, name="mine")
    yield both
    if client.transactions([TxnState.OPEN]):  # the test has failed
        for each in both:
            each.sql("ROLLBACK")
    for each in both:
        detach(each, name="mine")


@pytest.mark.parametrize("key", [(), ("k",)], ids=["by place", "by key"])
def test_a_few_statements(
    sessions: list[SparkSession], client: Client, new_table: NewTable, key: tuple[str, ...]
) -> None:
    assert run(sessions, client, new_table("k bigint, v bigint", primary_key=list(key)), seed=7, count=14) > 0


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(10, 18))
@pytest.mark.parametrize("key", [(), ("k",)], ids=["by place", "by key"])
def test_many_statements(
    sessions: list[SparkSession], client: Client, new_table: NewTable, key: tuple[str, ...], seed: int
) -> None:
    run(sessions, client, new_table("k bigint, v bigint", primary_key=list(key)), seed, count=80)


def run(sessions: list[SparkSession], client: Client, table: str, seed: int, count: int) -> int:
    """Returns how many transactions were told Conflict."""
    client.write(pa.table({"k": range(KEYS), "v": range(KEYS)}), table)
    model, txns, conflicts = Model({key: key for key in range(KEYS)}), [Open() for _ in sessions], 0
    for step in steps(seed, count):
        spark, txn = sessions[step.session], txns[step.session]
        if step.what == "commit":
            if model.commits_well(txn):
                spark.sql("COMMIT")
            else:
                conflicts += 1
                with pytest.raises(Conflict):
                    spark.sql("COMMIT")
        else:
            do(spark, model, txn, f"mine.{table}", step)
        if step.what in ("begin", "commit", "rollback"):
            txns[step.session] = Open()
        assert committed(client, table) == model.rows, (seed, step)
    return conflicts


def do(spark: SparkSession, model: Model, txn: Open, table: str, step: Step) -> None:
    match step.what:
        case "select":
            assert dict(map(tuple, spark.sql(f"SELECT k, v FROM {table}").collect())) == model.see(txn), step
        case "update":
            spark.sql(f"UPDATE {table} SET v = {step.value} WHERE k = {step.key}")
            model.change(txn, step.key, step.value)
        case "delete":
            spark.sql(f"DELETE FROM {table} WHERE k = {step.key}")
            model.change(txn, step.key, None)
        case "insert":
            spark.sql(f"INSERT INTO {table} VALUES ({step.key}, {step.value})")
            model.insert(txn, step.key, step.value)
        case _:
            spark.sql(step.what)


def committed(client: Client, table: str) -> Rows:
    return {row["k"]: row["v"] for row in client.snapshot().to_arrow(table).to_pylist()}
