"""Several statements of Spark's own SQL in one transaction: `with client.transaction() as txn, txn.spark(spark):`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.sql.looking import found, ids, there
from tests.support import connect, fast_cluster, wait_until
from txnclient import Client
from txnclient.sparksql import attach, detach
from txnclient.transaction.blocks import Block
from txnclient.transaction.statements import Statements
from txnclient.write.files import Opened
from txnstatus.errors import Conflict, IllegalState
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


def pairs(client: Client, table: str) -> list[tuple[int, int]]:
    """As `there`, of rows of two columns."""
    return sorted(tuple(row.values()) for row in client.snapshot().to_arrow(table).to_pylist())


def test_a_block_is_one_transaction(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    one, other, emptied = (
        new_table("id bigint, day int", partition_by=["day"]),
        new_table("id bigint"),
        new_table("id int"),
    )
    client.write(pa.table({"id": [1, 2], "day": pa.array([1, 2], pa.int32())}), one)
    client.write(pa.table({"id": pa.array([1], pa.int32())}), emptied)
    with client.transaction("a block") as txn, txn.spark(spark):
        before = sql(f"SELECT id FROM txn.{one}")
        sql(f"INSERT INTO txn.{one} VALUES (3, 1)")
        sql(f"INSERT INTO txn.{other} SELECT id FROM txn.{one}")
        both = f"txn.{one} a JOIN txn.{other} b USING (id)"
        sql(f"INSERT OVERWRITE txn.{one} PARTITION (day = 1) SELECT a.id + b.id FROM {both}")
        assert found(sql(f"SELECT id FROM txn.{one}")) == [2, 2, 4, 6]
        assert found(before) == [1, 2], "a DataFrame stays at its time"
        spark.range(9, 10).writeTo(f"txn.{other}").append()
        assert found(sql(f"SELECT id FROM txn.{other}")) == [1, 2, 3, 9]
        sql(f"TRUNCATE TABLE txn.{emptied}")
        assert sql(f"SELECT * FROM txn.{emptied}").count() == 0
        assert txn.to_arrow(other).num_rows == 4, "so does the transaction itself"
        txn.write(ids(10), other)
        assert found(spark.table(f"txn.{other}")) == [1, 2, 3, 9, 10]
        assert (there(client, one), there(client, other), there(client, emptied)) == ([1, 2], [], [1])
        assert [each.label for each in client.transactions([TxnState.OPEN])] == ["a block"]
    assert (there(client, one), there(client, other), there(client, emptied)) == ([2, 2, 4, 6], [1, 2, 3, 9, 10], [])
    sql(f"INSERT INTO txn.{emptied} VALUES (1)")
    assert there(client, emptied) == [1], "after it each statement is a transaction"


@pytest.mark.parametrize("key", [pytest.param((), marks=pytest.mark.campaign), ("id",)])
def test_changes_of_a_block_see_those_before_and_commit_together(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, key: tuple[str, ...]
) -> None:
    table, other = new_table("id bigint, v bigint", primary_key=list(key)), new_table("id bigint")
    before = [(n, n) for n in range(8)]
    client.write(pa.table({"id": range(8), "v": range(8)}), table)
    source = f"SELECT id, 100L AS v FROM txn.{table} WHERE v = 14 UNION ALL SELECT 20L, 200L"
    clauses = "WHEN MATCHED THEN UPDATE SET v = s.v + t.v WHEN NOT MATCHED THEN INSERT *"
    missing = "WHEN NOT MATCHED BY SOURCE AND id < 2 THEN DELETE"
    statements = (
        (f"INSERT INTO txn.{table} VALUES (8, 8)", [*before, (8, 8)]),
        (f"UPDATE txn.{table} SET v = v + 10 WHERE id > 3", [*before[:4], *((n, n + 10) for n in range(4, 9))]),
        (f"DELETE FROM txn.{table} WHERE v BETWEEN 15 AND 17", [*before[:4], (4, 14), (8, 18)]),
        (f"INSERT INTO txn.{other} SELECT id FROM txn.{table} WHERE v < 2", [*before[:4], (4, 14), (8, 18)]),
        (
            f"MERGE INTO txn.{table} t USING ({source}) s ON t.id = s.id {clauses} {missing}",
            [(2, 2), (3, 3), (4, 114), (8, 18), (20, 200)],
        ),
        (
            f"INSERT INTO txn.{table} REPLACE WHERE v > 100 SELECT id, v - 100 FROM txn.{table} WHERE v > 100",
            [(2, 2), (3, 3), (4, 14), (8, 18), (20, 100)],
        ),
        (
            f"INSERT INTO txn.{table} REPLACE WHERE v = 14 VALUES (4, 114)",
            [(2, 2), (3, 3), (4, 114), (8, 18), (20, 100)],
        ),
        (f"DELETE FROM txn.{table} WHERE id = 20", [(2, 2), (3, 3), (4, 114), (8, 18)]),
        (f"UPDATE txn.{table} SET id = id + 1, v = -v WHERE id IN (4, 8)", [(2, 2), (3, 3), (5, -114), (9, -18)]),
    )

    def run(then: Callable[[], None]) -> None:
        with client.transaction() as txn, txn.spark(spark):
            for statement, expected in statements:
                sql(statement)
                assert sorted(map(tuple, sql(f"SELECT * FROM txn.{table}").collect())) == expected, statement
            assert pairs(client, table) == before, "others see nothing of it"
            then()

    def fail() -> None:
        raise ZeroDivisionError("it is not to be")

    with pytest.raises(ZeroDivisionError):
        run(fail)
    assert (pairs(client, table), there(client, other)) == (before, [])
    run(lambda: None)
    assert (pairs(client, table), there(client, other)) == (statements[-1][1], [0, 1])


def test_a_write_that_fails_leaves_nothing_but_to_abort(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    with client.transaction() as txn, txn.spark(spark):
        sql(f"INSERT INTO txn.{table} VALUES (1)")
        for refused in ("SELEKT", f"INSERT INTO txn.{table} VALUES (1, 2)", "SELECT * FROM txn.s.nowhere"):
            with pytest.raises(Exception, match=r"PARSE_SYNTAX|ARITY_MISMATCH|TABLE_OR_VIEW_NOT_FOUND"):
                sql(refused)
        sql(f"INSERT INTO txn.{table} VALUES (2)")
    assert there(client, table) == [1, 2], "what was never begun has not failed"

    def failing() -> None:
        with client.transaction() as txn, txn.spark(spark):
            sql(f"INSERT INTO txn.{table} VALUES (3)")
            with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
                sql(f"INSERT INTO txn.{table} SELECT 1 DIV (id - id) FROM range(2)")
            assert txn.state() is TxnState.ABORTED
            for further in (f"INSERT INTO txn.{table} VALUES (4)", f"SELECT * FROM txn.{table}"):
                with pytest.raises(IllegalState, match="can only be aborted"):
                    sql(further).collect()

    with pytest.raises(IllegalState, match=f"can only be aborted: a write to {table}"):
        failing()
    assert there(client, table) == [1, 2]
    assert not client.transactions([TxnState.OPEN])


def test_a_conflict_comes_with_the_commit(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table, other = new_table("id bigint"), new_table("id bigint")
    client.write(ids(1), table)

    def losing() -> None:
        with client.transaction() as txn, txn.spark(spark):
            sql(f"INSERT INTO txn.{other} SELECT id FROM txn.{table}")
            client.write(ids(2), table, "overwrite")
            assert found(sql(f"SELECT * FROM txn.{table}")) == [1], "all of it reads as of one time"
            sql(f"INSERT OVERWRITE txn.{table} SELECT id + 10 FROM txn.{table}")

    with pytest.raises(Conflict, match=table):
        losing()
    assert (there(client, table), there(client, other)) == ([2], [])


def test_frames_outlive_no_block_and_no_cache_shows_another_time(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    client.write(ids(1), table)
    query = f"SELECT id FROM txn.{table}"
    outside, sorted_outside = sql(query).cache(), sql(f"{query} ORDER BY id")
    assert found(outside) == found(sorted_outside) == [1]
    sql(f"CACHE TABLE txn.{table}")
    txn = client.begin()
    with txn.spark(spark):
        sql(f"INSERT INTO txn.{table} VALUES (2)")
        assert found(sql(query)) == found(spark.table(f"txn.{table}")) == [1, 2]
        assert found(outside) == found(sorted_outside) == [1], "a DataFrame stays at its time"
        run, grouped = sql(query), spark.table(f"txn.{table}").groupBy("id").count()
        lazy, cached = sql(query).where("id > 0"), sql(query).cache()
        assert found(run) == found(grouped) == found(cached) == [1, 2]
        sql(f"CACHE TABLE txn.{table}")
        sql(f"INSERT INTO txn.{table} VALUES (3)")
        assert found(sql(query)) == found(spark.table(f"txn.{table}")) == [1, 2, 3]
        assert found(cached) == [1, 2]
    txn.abort("it is over")
    assert found(sql(query)) == found(spark.table(f"txn.{table}")) == found(outside) == [1]
    for frame in (run, grouped, lazy, cached, run.where("id > 1")):
        with pytest.raises(IllegalState, match="whose block has ended"):
            frame.collect()
    outside.unpersist()


def test_other_sessions_go_on_and_other_threads_come_in(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table, session = new_table("id bigint"), spark.newSession()
    with (
        pytest.raises(IllegalState, match="no catalog of cluster"),
        client.transaction() as txn,
        txn.spark(session),
    ):
        pass
    attach(session, client, name="other")
    try:
        with client.transaction() as txn, txn.spark(spark):
            thread = threading.Thread(target=lambda: sql(f"INSERT INTO txn.{table} VALUES (1)"))
            thread.start()
            session.sql(f"INSERT INTO other.{table} VALUES (2)")
            thread.join(120)
            assert found(sql(f"SELECT * FROM txn.{table}")) in ([1], [1, 2])
            assert there(client, table) == [2]
        assert there(client, table) == [1, 2]
    finally:
        detach(session, name="other")


def test_what_a_statement_has_found_is_not_changed_by_one_of_another_thread(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both would replace the same rows, which would be there twice then."""
    ending, beside = Block.ending, list[str]()

    def late(self: Block, txn: Statements, opened: Opened) -> AbstractContextManager[None]:
        if beside:
            thread = threading.Thread(target=sql, args=[beside.pop()])
            thread.start()
            thread.join(120)
        return ending(self, txn, opened)

    monkeypatch.setattr(Block, "ending", late)
    for key in ([], ["id"]):
        table = new_table("id bigint, v bigint", primary_key=key)
        client.write(pa.table({"id": [1, 2], "v": [1, 2]}), table)
        with client.transaction() as txn, txn.spark(spark):
            txn.savepoint("before")
            for statement in (
                f"UPDATE txn.{table} SET v = v + 10",
                f"INSERT OVERWRITE txn.{table} SELECT id, v + 10 FROM txn.{table}",
                f"INSERT INTO txn.{table} REPLACE WHERE v < 9 SELECT id, v + 10 FROM txn.{table}",
            ):
                beside.append(f"UPDATE txn.{table} SET v = v + 100")
                with pytest.raises(IllegalState, match=f"another statement of transaction .* has written to {table}"):
                    sql(statement)
                txn.rollback_to("before")
            beside.append(f"INSERT INTO txn.{table} VALUES (3, 3)")
            sql(f"INSERT INTO txn.{table} VALUES (4, 4)")
        assert pairs(client, table) == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_a_statement_that_still_writes_as_the_block_ends(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, attempts: Path
) -> None:
    table = new_table("id bigint")
    began, left = attempts / "began", attempts / "left"
    errors = list[Exception]()

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began.touch()
        wait_until(left.exists, "the block has ended", 120)
        yield from batches

    def insert() -> None:
        try:
            spark.range(1).mapInArrow(slowly, "id bigint").writeTo(f"txn.{table}").append()
        except Exception as error:  # noqa: BLE001 looked at below
            errors.append(error)

    def leaving() -> None:
        with client.transaction() as txn, txn.spark(spark):
            thread.start()
            wait_until(began.exists, "the statement writes", 120)

    thread = threading.Thread(target=insert)
    with pytest.raises(IllegalState, match="1 statements still write"):
        leaving()
    left.touch()
    thread.join(120)
    assert [type(error) for error in errors] == [IllegalState]
    assert there(client, table) == []


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of another cluster."""
    with fast_cluster(tmp_path_factory.mktemp("elsewhere"), nodes=1) as cluster, connect(cluster) as client:
        yield client


def test_what_a_block_cannot_have(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, elsewhere: Client
) -> None:
    table, session = new_table("id bigint"), spark.newSession()
    elsewhere.create_table("s.far", "id bigint")
    elsewhere.write(ids(7), "s.far")
    attach(spark, elsewhere, name="far")
    attach(session, client, name="txn")
    try:
        with client.transaction() as txn, client.transaction() as second, txn.spark(spark):
            with pytest.raises(IllegalState, match=f"part of transaction {txn.id}"), second.spark(spark):
                pass
            with (
                pytest.raises(IllegalState, match=elsewhere.cluster_id),
                elsewhere.transaction() as third,
                third.spark(spark),
            ):
                pass
            with pytest.raises(IllegalState, match="another session's statements"), txn.spark(session):
                pass
            for statement, name in (
                ("CREATE TABLE txn.s.new (id int)", "CREATE TABLE s.new"),
                ("CREATE TABLE txn.s.new AS SELECT 1 AS id", "CREATE TABLE s.new"),
                (f"DROP TABLE txn.{table}", f"DROP TABLE {table}"),
                ("CREATE TABLE far.s.new (id int)", "CREATE TABLE s.new"),
                ("INSERT INTO far.s.far VALUES (1)", "cannot be part of transaction"),
                ("TRUNCATE TABLE far.s.far", "cannot be part of transaction"),
            ):
                with pytest.raises(IllegalState, match=name):
                    sql(statement)
            for attaching in (lambda: attach(spark, client, name="more"), lambda: detach(spark, name="txn")):
                with pytest.raises(IllegalState, match="leave its block"):
                    attaching()
            sql(f"INSERT INTO txn.{table} SELECT id FROM far.s.far")
        assert there(client, table) == there(elsewhere, "s.far") == [7]
        with elsewhere.transaction() as third, third.spark(spark):
            sql(f"INSERT INTO far.s.far SELECT id + 1 FROM txn.{table}")
        assert there(elsewhere, "s.far") == [7, 8]
    finally:
        detach(spark, name="far")
        detach(session, name="txn")
