"""LOCK TABLE of two sessions of Spark: who waits and for how long, and what the error says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.spark.sql.looking import there
from tests.support import connect, wait_until
from txnclient import Client
from txnclient.sparksql import attach, detach
from txndeploy.local.cluster import LocalCluster
from txnstatus.errors import Locked, TxnAborted
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


@pytest.fixture
def one(sql: Sql, client: Client) -> Iterator[Sql]:
    yield sql
    if client.transactions([TxnState.OPEN]):  # the test has failed
        sql("ROLLBACK")


@pytest.fixture
def other(spark: SparkSession, cluster: LocalCluster, catalog: str) -> Iterator[Sql]:
    """A session whose client waits for no lock, unless it says so."""
    with connect(cluster, lock_timeout=0) as hasty:
        session = spark.newSession()
        attach(session, hasty, name=catalog)
        yield session.sql
        detach(session, name=catalog)


def begun(sql: Sql) -> int:
    row = sql("BEGIN").first()
    assert row is not None
    return int(row.txn_id)


def test_who_waits_is_told_who_is_in_the_way_or_let_in(
    one: Sql, other: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, day int", partition_by=["day"])
    one("SET TRANSACTION LABEL 'nightly'")
    first, second = begun(one), begun(other)
    one(f"LOCK TABLE txn.{table} PARTITION (day = 1) EXCLUSIVE")
    other(f"LOCK TABLE txn.{table} PARTITION (day = 2) EXCLUSIVE")
    for wait in ("", "NOWAIT", "WAIT 1"):
        with pytest.raises(Locked, match=rf"transaction {first} \('nightly' of .*\) holds X on {table}/day=1") as told:
            other(f"LOCK TABLE txn.{table} PARTITION (day = 1) IN SHARED MODE {wait}")
        assert told.value.txn_id == second
    rows = one("SHOW LOCKS DATABASE txn.s").collect()
    assert {("s", first), (table, second), (f"{table}/day=1", first)} <= {(row.object, row.txn_id) for row in rows}
    thread = threading.Thread(target=other, args=[f"LOCK TABLE txn.{table} PARTITION (day = 1) SHARED WAIT 60"])
    thread.start()
    locks = f"SHOW LOCKS txn.{table} PARTITION (day = 1)"

    def waiting() -> list[tuple[int, str]]:
        return [(row.txn_id, row.blocked_by) for row in one(locks).collect() if not row.acquired]

    wait_until(lambda: waiting() == [(second, str(first))], "the second waits")
    one("COMMIT")
    thread.join(60)
    assert [(row.txn_id, row.mode, row.acquired) for row in one(locks).collect()] == [(second, "S", True)]
    other(f"INSERT INTO txn.{table} VALUES (1, 2)")
    other("COMMIT")
    assert there(client, table) == [1], "a lock that was not granted harms nothing"


def test_a_transaction_of_a_waiting_session_can_be_aborted(
    one: Sql, other: Sql, client: Client, new_table: NewTable
) -> None:
    """Some of the ids that an operator types are of no transactions."""
    table, errors = new_table("id bigint"), list[Exception]()
    first, second = begun(one), begun(other)
    one(f"LOCK TABLE txn.{table} EXCLUSIVE")

    def wait() -> None:
        try:
            other(f"LOCK TABLE txn.{table} EXCLUSIVE WAIT 60")
        except TxnAborted as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_until(lambda: any(not each.acquired for each in client.locks(table)), "the second waits")
    rows = one(f"ABORT TRANSACTIONS 999999999 {second} -7").collect()
    assert [(row.txn_id, row.aborted) for row in rows] == [(999999999, False), (second, True), (-7, False)]
    assert all((row.reason is None) is row.aborted for row in rows)
    thread.join(60)
    assert ["ABORT TRANSACTIONS by" in str(error) for error in errors] == [True]
    other("ROLLBACK")
    assert first in {row.txn_id for row in one("SHOW TRANSACTIONS").collect() if row.state == "OPEN"}
    one("ROLLBACK")
