"""What a transaction over several tables is for, told in SQL: updates of three tables, a conflict in one of them,
readers meanwhile, an update that fails; and the loads, corrections and removals that take several tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

from tests.spark.sql.looking import found, there
from tests.support import rows, wait_until
from txnclient import Client
from txnclient.sparksql import attach, detach
from txnstatus.errors import Conflict, IllegalState
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


class Tables(NamedTuple):
    t1: str
    t2: str
    t3: str


@pytest.fixture
def tables(client: Client, new_table: NewTable) -> Tables:
    """Three tables, each with rows 1 and 2."""
    made = Tables(*(new_table("id bigint, note string") for _ in range(3)))
    for name in made:
        client.write(rows(1, 2), name)
    return made


@pytest.fixture
def w1(sql: Sql, client: Client) -> Iterator[Sql]:
    """The session of a writer."""
    yield sql
    if client.transactions([TxnState.OPEN]):  # the test has failed
        sql("ROLLBACK")


@pytest.fixture
def w2(spark: SparkSession, client: Client, catalog: str) -> Iterator[Sql]:
    """The session of another writer, or of a reader."""
    other = spark.newSession()
    attach(other, client, name=catalog)
    yield other.sql
    detach(other, name=catalog)


def state_of(sql: Sql, txn_id: int) -> str:
    """State of the transaction, as the timeline or the list of those that are not over has it."""
    asked = "SELECT state FROM txn.system.{} WHERE txn_id = {}"
    (state,) = {row.state for of in ("timeline", "transactions") for row in sql(asked.format(of, txn_id)).collect()}
    return str(state)


def seen(sql: Sql, tables: Tables) -> list[list[int]]:
    return [found(sql(f"SELECT id FROM txn.{name}")) for name in tables]


BEFORE = [[1, 2]] * 3


def test_scenario_1_updates_of_three_tables_commit_together(w1: Sql, client: Client, tables: Tables) -> None:
    txn_id = w1("BEGIN").first().txn_id  # type: ignore[union-attr]
    for name in tables:
        w1(f"UPDATE txn.{name} SET id = id + 10 WHERE id = 2")
    assert state_of(w1, txn_id) == "OPEN"
    assert [there(client, name) for name in tables] == BEFORE
    receipt = w1("COMMIT").first()
    assert receipt is not None
    assert receipt.tables == ", ".join(sorted(tables))
    assert state_of(w1, txn_id) == "COMMITTED"
    assert [there(client, name) for name in tables] == [[1, 12]] * 3
    for name in tables:
        before, at = (
            found(w1(f"SELECT id FROM txn.{name} VERSION AS OF {receipt.commit_timestamp - n}")) for n in (1, 0)
        )
        assert (before, at) == ([1, 2], [1, 12]), "one timestamp for all of them"


def test_scenario_2_a_conflict_in_one_table_aborts_the_second_in_all(
    w1: Sql, w2: Sql, client: Client, tables: Tables
) -> None:
    first, second = (speak("BEGIN").first().txn_id for speak in (w1, w2))  # type: ignore[union-attr]
    w1(f"UPDATE txn.{tables.t1} SET note = 'of the first' WHERE id = 1")
    w2(f"INSERT INTO txn.{tables.t2} VALUES (3, 'of the second')")
    w2(f"UPDATE txn.{tables.t1} SET note = 'of the second' WHERE id = 1")
    w1(f"INSERT INTO txn.{tables.t3} VALUES (3, 'of the first')")
    w1("COMMIT")
    with pytest.raises(Conflict, match=tables.t1) as told:
        w2("COMMIT")
    assert (told.value.txn_id, told.value.winner) == (second, first)
    assert seen(w2, tables) == [[1, 2], [1, 2], [1, 2, 3]]
    assert state_of(w2, second) in ("ABORT_IN_PROGRESS", "ABORTED")


def test_scenario_3_who_reads_meanwhile_sees_all_tables_of_before_or_all_of_after(
    w1: Sql, w2: Sql, client: Client, tables: Tables
) -> None:
    w1("BEGIN")
    w1(f"INSERT INTO txn.{tables.t1} VALUES (3, NULL)")
    w1(f"DELETE FROM txn.{tables.t2} WHERE id = 1")
    assert seen(w2, tables) == BEFORE, "nothing is seen of a transaction that is not committed"
    w2("BEGIN")
    assert seen(w2, tables) == BEFORE
    w1(f"INSERT OVERWRITE txn.{tables.t3} VALUES (9, NULL)")
    w1("COMMIT")
    assert seen(w2, tables) == BEFORE, "a reader within a transaction stays at its time: reads are repeatable"
    w2("COMMIT")
    assert seen(w2, tables) == [[1, 2, 3], [2], [9]]


def test_scenario_4_an_update_that_fails_is_rolled_back_in_all_tables(w1: Sql, client: Client, tables: Tables) -> None:
    txn_id = w1("BEGIN").first().txn_id  # type: ignore[union-attr]
    before = files(client, tables)
    for name in (tables.t1, tables.t2):
        w1(f"INSERT INTO txn.{name} VALUES (3, 'staged')")
    assert len(files(client, tables) - before) >= 2
    with unreadable(files(client, [tables.t3])), pytest.raises(Exception, match=r"(?i)not.?exist|no such file"):
        w1(f"UPDATE txn.{tables.t3} SET id = 7")
    with pytest.raises(IllegalState, match="can only be aborted"):
        w1("COMMIT")
    w1("ROLLBACK")
    assert seen(w1, tables) == BEFORE
    assert state_of(w1, txn_id) in ("ABORT_IN_PROGRESS", "ABORTED")
    wait_until(lambda: files(client, tables) == before, "what was staged is removed")


def files(client: Client, tables: Iterable[str]) -> set[Path]:
    """Data files in the tables' directories, be they part of the tables or not."""
    return {file for name in tables for file in Path(urlsplit(client.table(name).location).path).rglob("*.parquet")}


@contextmanager
def unreadable(of: Iterable[Path]) -> Iterator[None]:
    """As on a disk that is gone for a while."""
    away = {file: file.with_suffix(".away") for file in of}
    for file, aside in away.items():
        file.rename(aside)
    yield
    for file, aside in away.items():
        aside.rename(file)


def test_a_backfill_replaces_a_day_in_all_tables(w1: Sql, w2: Sql, client: Client, new_table: NewTable) -> None:
    sales, totals = (new_table("id bigint, day int", partition_by=["day"]) for _ in range(2))
    for name in (sales, totals):
        w1(f"INSERT INTO txn.{name} VALUES (1, 1), (2, 2)")
    w1("SET spark.sql.sources.partitionOverwriteMode = dynamic")
    try:
        w1("BEGIN")
        w1(f"INSERT OVERWRITE txn.{sales} VALUES (10, 1), (11, 1)")
        w1(f"INSERT OVERWRITE txn.{totals} SELECT count(*), day FROM txn.{sales} WHERE day = 1 GROUP BY day")
        w2(f"INSERT INTO txn.{sales} VALUES (3, 2)")  # somebody else's, of another day
        w1("COMMIT")
    finally:
        w1("RESET spark.sql.sources.partitionOverwriteMode")
    assert (there(client, sales), there(client, totals)) == ([2, 3, 10, 11], [2, 2])
    w1("BEGIN")
    w1(f"INSERT OVERWRITE txn.{sales} PARTITION (day = 1) SELECT 12")
    w2(f"DELETE FROM txn.{sales} WHERE id = 10")
    with pytest.raises(Conflict, match=sales):
        w1("COMMIT")


def test_a_customer_is_changed_and_removed_in_all_tables(w1: Sql, client: Client, new_table: NewTable) -> None:
    customers, orders = new_table("id bigint, name string", primary_key=["id"]), new_table("id bigint, customer bigint")
    w1(f"INSERT INTO txn.{customers} VALUES (1, 'Ada'), (2, 'Bob')")
    w1(f"INSERT INTO txn.{orders} VALUES (10, 1), (20, 2)")
    w1("SELECT * FROM VALUES (2, 'Rob'), (3, 'Eve') AS v(id, name)").createOrReplaceTempView("changed")
    w1(
        f"BEGIN ATOMIC "
        f"MERGE INTO txn.{customers} t USING changed s ON t.id = s.id "
        f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *; "
        f"INSERT INTO txn.{orders} SELECT id * 10, id FROM changed WHERE id = 3; END"
    )
    assert (there(client, customers), there(client, orders)) == ([1, 2, 3], [10, 20, 30])
    w1(
        f"BEGIN ATOMIC DECLARE gone BIGINT DEFAULT 2; DELETE FROM txn.{orders} WHERE customer = gone; "
        f"DELETE FROM txn.{customers} WHERE id = gone; END"
    )
    assert (there(client, customers), there(client, orders)) == ([1, 3], [10, 30])


def test_a_self_join_finds_no_phantoms(w1: Sql, w2: Sql, new_table: NewTable) -> None:
    employees = new_table("employee_id bigint, manager_id bigint")
    w2(f"INSERT INTO txn.{employees} VALUES (1, NULL), (2, 1), (3, 1)")
    pairs = f"SELECT e.employee_id FROM txn.{employees} e JOIN txn.{employees} m ON e.manager_id = m.employee_id"
    w1("BEGIN")
    assert found(w1(pairs)) == [2, 3]
    w2(f"INSERT INTO txn.{employees} VALUES (4, 2)")
    assert found(w1(pairs)) == [2, 3]
    w1("COMMIT")
    assert found(w1(pairs)) == [2, 3, 4]


def test_data_frames_are_part_of_the_transaction(
    w1: Sql, spark: SparkSession, client: Client, tables: Tables, failing: Callable[[int], DataFrame]
) -> None:
    w1("BEGIN")
    spark.range(5, 7).selectExpr("id", "'frame' AS note").writeTo(f"txn.{tables.t1}").append()
    with pytest.raises(Exception, match="this attempt fails"):
        failing(1_000).selectExpr("id", "'frame' AS note").writeTo(f"txn.{tables.t2}").append()
    w1("ROLLBACK")
    assert seen(w1, tables) == BEFORE
    w1("BEGIN")
    for name in tables[:2]:
        spark.range(5, 7).selectExpr("id", "'frame' AS note").write.mode("append").saveAsTable(f"txn.{name}")
    w1("COMMIT")
    assert seen(w1, tables) == [[1, 2, 5, 6], [1, 2, 5, 6], [1, 2]]
