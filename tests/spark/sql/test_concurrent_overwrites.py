"""Overwrites while another session adds, overwrites or changes rows, whichever of the two commits first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.sql.looking import there
from txnclient import Client, Transaction
from txnstatus.errors import Conflict
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
OVERWRITES = {
    "all": "INSERT OVERWRITE txn.{} SELECT id + 10, day FROM txn.{}",
    "static": "INSERT OVERWRITE txn.{} PARTITION (day = 1) SELECT id + 10 FROM txn.{} WHERE day = 1",
    "where": "INSERT INTO txn.{} REPLACE WHERE day = 1 SELECT id + 10, day FROM txn.{} WHERE day = 1",
    "dynamic": "INSERT OVERWRITE txn.{} SELECT id + 10, day FROM txn.{}",
    "replace": "CREATE OR REPLACE TABLE txn.{} PARTITIONED BY (day) AS SELECT id + 10 AS id, day FROM txn.{}",
}
"""Statements of a table with a row 1 in partition 1, and nothing else."""
MODE = "spark.sql.sources.partitionOverwriteMode"


def row(number: int, day: int = 1) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64()), "day": pa.array([day], pa.int32())})


@pytest.fixture
def table(client: Client, new_table: NewTable) -> str:
    table = new_table("id bigint, day int", partition_by=["day"])
    client.write(row(1), table)
    return table


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What others do once the next statement has read and written all, and before it commits."""
    todo, add = list[Callable[[], object]](), Transaction.add_written

    def late(self: Transaction, *rest: Any) -> None:
        while todo:
            todo.pop()()
        add(self, *rest)

    monkeypatch.setattr(Transaction, "add_written", late)
    return todo


@pytest.fixture(params=OVERWRITES)
def overwrite(request: pytest.FixtureRequest, spark: SparkSession, table: str) -> Iterator[str]:
    spark.conf.set(MODE, "dynamic" if request.param == "dynamic" else "static")
    yield OVERWRITES[request.param].format(table, table)
    spark.conf.unset(MODE)


def test_rows_that_others_append_meanwhile_stay(
    sql: Sql, client: Client, table: str, overwrite: str, meanwhile: list[Callable[[], object]]
) -> None:
    """As if they had come later: an overwrite replaces what its statement has read."""
    meanwhile.append(lambda: client.write(row(2), table))
    sql(overwrite)
    assert there(client, table) == [2, 11]


def test_an_append_that_was_begun_before_an_overwrite_commits_after_it(
    sql: Sql, client: Client, table: str, overwrite: str, meanwhile: list[Callable[[], object]]
) -> None:
    meanwhile.append(lambda: sql(overwrite))
    sql(f"INSERT INTO txn.{table} VALUES (2, 1)")
    assert there(client, table) == [2, 11]


def test_what_others_overwrite_or_delete_meanwhile_is_a_conflict(
    sql: Sql, client: Client, table: str, overwrite: str, meanwhile: list[Callable[[], object]]
) -> None:
    for change in (
        lambda: client.write(row(3), table, "overwrite", partition={"day": 1}),
        lambda: client.delete_where(table, "id = 3"),
    ):
        meanwhile.append(change)
        with pytest.raises(Conflict, match=table):
            sql(overwrite)
    assert there(client, table) == []
    assert not client.transactions([TxnState.OPEN])


def test_another_partition_is_nothing_to_the_overwrite_of_one(
    sql: Sql, client: Client, table: str, meanwhile: list[Callable[[], object]]
) -> None:
    client.write(row(4, 2), table)
    meanwhile.append(lambda: client.write(row(5, 2), table, "overwrite", partition={"day": 2}))
    sql(OVERWRITES["static"].format(table, table))
    assert there(client, table) == [5, 11]
