"""Two sessions without Spark that want the same: locks, and who waits how long; and sessions that come to no end."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from tests.support import connect, rows, visible, wait_until
from txnclient import Client, Conflict, IllegalState, InvalidArgument, Locked, NotFound, TxnAborted, TxnState
from txnclient.session import Conversation
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]
ABORTED = (TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED)


@pytest.fixture
def one(client: Client) -> Iterator[Conversation]:
    with client.sql_session("the first") as session:
        yield session


@pytest.fixture
def other(client: Client) -> Iterator[Conversation]:
    with client.sql_session("the second") as session:
        yield session


def begun(session: Conversation, label: str = "nightly") -> int:
    return int(session.sql(f"SET TRANSACTION LABEL '{label}'; BEGIN")["txn_id"][0].as_py())


def listed(found: pa.Table, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in found.select(columns).to_pylist()]


def test_who_does_not_wait_is_told_who_is_in_the_way_and_goes_on(
    one: Conversation, other: Conversation, client: Client, new_table: NewTable
) -> None:
    table = new_table()
    first, second = begun(one), begun(other)
    one.sql(f"LOCK TABLE {table} EXCLUSIVE")
    for mode in ("SHARED", "EXCLUSIVE"):
        with pytest.raises(Locked, match=rf"transaction {first} \('nightly' of .*\) holds X on {table}") as told:
            other.sql(f"LOCK TABLE {table} IN {mode} MODE NOWAIT")
        assert told.value.txn_id == second
        assert told.value.hint == "ask for it again later, or end this transaction"
    began = time.monotonic()
    with pytest.raises(Locked, match=f"transaction {first}"):
        other.sql(f"LOCK TABLE {table} SHARED WAIT 1")
    assert 1 <= time.monotonic() - began < 20
    assert listed(client.sql(f"SHOW LOCKS {table}"), "mode", "acquired", "txn_id") == [("X", True, first)]
    other.sql(f"INSERT INTO {table} VALUES (1, 'a lock that was not granted harms nothing'); COMMIT")
    assert visible(client, table) == [[1]]
    with pytest.raises(InvalidArgument, match="lock_timeout"):
        one.sql(f"LOCK TABLE {table} SHARED WAIT -1")
    with pytest.raises(NotFound):
        one.sql("LOCK TABLE t.nowhere SHARED")
    one.sql("COMMIT")


def test_what_goes_on_is_shown(one: Conversation, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, day int", partition_by=["day"])
    for number in range(2):
        client.write(pa.table({"id": [number], "day": pa.array([1], pa.int32())}), table)
    txn_id, database = begun(one), table.partition(".")[0]
    one.sql(f"LOCK TABLE {table} PARTITION (day = 1) SHARED")
    part = (f"{table}/day=1", "S", True, txn_id)
    whole = (table, "S", True, txn_id)
    for of, locks in ((f"{table} PARTITION (day = 1)", {part}), (table, {part, whole})):
        assert set(listed(client.sql(f"SHOW LOCKS {of}"), "object", "mode", "acquired", "txn_id")) == locks
    for of in ("", f"DATABASE {database}", f"SCHEMA txn.{database} EXTENDED"):
        found = listed(client.sql(f"SHOW LOCKS {of}"), "object", "mode", "acquired", "txn_id")
        assert {part, whole, (database, "S", True, txn_id)} <= set(found)
    shown = listed(client.sql("SHOW TRANSACTIONS"), "txn_id", "state", "label", "tables")
    assert shown[0] == (txn_id, "OPEN", "nightly", ", ".join(sorted([database, table])))
    (wanted,) = listed(client.sql(f"ALTER TABLE {table} COMPACT 'major'"), "compaction_id", "kind")
    assert (*wanted, table, "day=1") in listed(
        client.sql("SHOW COMPACTIONS"), "compaction_id", "kind", "table_name", "partition"
    )
    one.sql("ROLLBACK")


def test_a_client_says_how_long_its_sessions_wait(
    cluster: LocalCluster, one: Conversation, new_table: NewTable
) -> None:
    table = new_table()
    first = begun(one)
    one.sql(f"LOCK TABLE {table} SHARED")
    with connect(cluster, lock_timeout=0.2) as hasty, hasty.sql_session() as session:
        session.sql(f"BEGIN; LOCK TABLE {table} SHARED")
        with pytest.raises(Locked, match=f"transaction {first}"):
            session.sql(f"LOCK TABLE {table} EXCLUSIVE")
        session.sql("COMMIT")


def test_who_waits_is_let_in_as_the_other_ends(
    one: Conversation, other: Conversation, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, day int", partition_by=["day"])
    first, second = begun(one), begun(other)
    one.sql(f"LOCK TABLE {table} PARTITION (day = 1) EXCLUSIVE")
    other.sql(f"LOCK TABLE {table} PARTITION (day = 2) EXCLUSIVE NOWAIT")
    thread = threading.Thread(target=other.sql, args=[f"LOCK TABLE {table} PARTITION (day = 1) EXCLUSIVE"], daemon=True)
    thread.start()

    def waits() -> list[tuple[Any, ...]]:
        found = client.sql(f"SHOW LOCKS {table} PARTITION (day = 1) EXTENDED")
        return listed(found, "txn_id", "acquired", "blocked_by", "txn_state", "txn_label")

    expected = [(first, True, "", "OPEN", "nightly"), (second, False, str(first), "OPEN", "nightly")]
    wait_until(lambda: waits() == expected, "the second waits for the first")
    one.sql("ROLLBACK")
    thread.join(20)
    assert not thread.is_alive()
    assert waits() == [(second, True, "", "OPEN", "nightly")]
    other.sql("COMMIT")


def test_of_two_that_would_wait_for_each_other_one_is_told(
    one: Conversation, other: Conversation, client: Client, new_table: NewTable
) -> None:
    left, right = new_table(), new_table()
    first, second = begun(one), begun(other)
    one.sql(f"LOCK TABLE {left} EXCLUSIVE")
    other.sql(f"LOCK TABLE {right} EXCLUSIVE")
    thread = threading.Thread(target=one.sql, args=[f"LOCK TABLE {right} EXCLUSIVE"], daemon=True)
    thread.start()
    wait_until(lambda: (False,) in listed(client.sql(f"SHOW LOCKS {right}"), "acquired"), "the first waits")
    with pytest.raises(Locked, match=f"transaction {first}"):
        other.sql(f"LOCK TABLE {left} EXCLUSIVE WAIT 1")
    assert client.get(second).state is TxnState.OPEN
    other.sql("ROLLBACK")
    thread.join(20)
    assert not thread.is_alive()
    one.sql("COMMIT")


def test_a_table_may_have_its_writers_take_turns(
    cluster: LocalCluster, one: Conversation, client: Client, new_table: NewTable
) -> None:
    table = new_table(conflicts="wait")
    client.write(rows(1), table)
    first = begun(one)
    one.sql(f"DELETE FROM {table}")
    with connect(cluster, lock_timeout=0) as hasty, hasty.sql_session() as session:
        with pytest.raises(Locked, match=f"transaction {first}"):
            session.sql(f"UPDATE {table} SET id = 2")
        session.sql("BEGIN")
        with pytest.raises(Locked, match=f"transaction {first}"):
            session.sql(f"UPDATE {table} SET id = 2")
        with pytest.raises(IllegalState, match=r"COMMIT is refused: .* Locked: ") as refused:
            session.sql("COMMIT")
        assert refused.value.hint == "ROLLBACK"
        session.sql("ROLLBACK")
    one.sql("COMMIT")
    assert visible(client, table) == [[]]


# ---- what comes to no end


@pytest.mark.parametrize(
    ("third", "error"),
    [
        ("SELECT * FROM t.nowhere", NotFound),
        ("DELETE FROM {one} WHERE nothing = 1", InvalidArgument),
        ("INSERT INTO {other} SELECT id, note, note FROM {one}", InvalidArgument),
        ("INSERT INTO {other} SELECT CAST(note AS BIGINT), note FROM {one}", InvalidArgument),
        ("SELEKT 1", InvalidArgument),
        ("COMMIT", IllegalState),
        ("BEGIN", IllegalState),
        ("CREATE TABLE t.never (id bigint)", IllegalState),
    ],
)
def test_a_script_with_an_error_in_its_third_statement_leaves_nothing(
    client: Client, new_table: NewTable, third: str, error: type[Exception]
) -> None:
    tables = {"one": new_table(), "other": new_table()}
    script = f"INSERT INTO {{one}} VALUES (1, 'x'); INSERT INTO {{other}} SELECT * FROM {{one}}; {third}; SELECT 1"
    for text in (script, f"BEGIN ATOMIC {script}; END"):
        with pytest.raises(error):
            client.sql(text.format(**tables), label="with an error")
        assert visible(client, *tables.values()) == [[], []]
    assert not client.transactions([TxnState.OPEN], label="with an error")
    with pytest.raises(NotFound):
        client.table("t.never")


def test_a_session_that_ends_without_commit_rolls_back_and_lets_go(
    cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    table = new_table()
    session = client.sql_session()
    txn_id = begun(session)
    session.sql(f"LOCK TABLE {table} EXCLUSIVE; INSERT INTO {table} VALUES (1, 'x')")
    session.close()
    session.close()
    assert client.get(txn_id).state in ABORTED
    wait_until(lambda: not client.locks(table), "its locks are gone")
    assert visible(client, table) == [[]]
    program = (
        "import sys, txnclient\n"
        "session = txnclient.connect(sys.argv[1]).sql_session()\n"
        "print(session.sql('BEGIN')['txn_id'][0].as_py())\n"
        f"session.sql('LOCK TABLE {table} EXCLUSIVE')"
    )
    told = subprocess.check_output([sys.executable, "-c", program, cluster.addresses], text=True)
    wait_until(lambda: client.get(int(told)).state in ABORTED, "of a program that has ended, too, once it is silent")


def test_of_transactions_that_are_to_be_aborted_each_is_told_about(
    one: Conversation, other: Conversation, client: Client, new_table: NewTable
) -> None:
    table = new_table()
    first, second, done = begun(one), begun(other), client.write(rows(1), table).txn_id
    one.sql(f"INSERT INTO {table} VALUES (2, 'x')")
    found = client.sql(f"ABORT TRANSACTIONS {first} 999999999 {done} -1 {second}")
    told = {row["txn_id"]: (row["aborted"], row["reason"]) for row in found.to_pylist()}
    assert list(told) == [first, 999999999, done, -1, second], "the others are aborted all the same"
    assert (told[first], told[second]) == ((True, None), (True, None))
    for txn_id, why in ((999999999, "999999999"), (done, "COMMITTED"), (-1, "-1")):
        assert not told[txn_id][0]
        assert why in told[txn_id][1]
    with pytest.raises(TxnAborted, match="ABORT TRANSACTIONS by"):
        one.sql("COMMIT")
    with pytest.raises(IllegalState, match="no transaction is open"):
        one.sql("COMMIT")
    with pytest.raises(TxnAborted, match="ABORT TRANSACTIONS by"):
        other.sql(f"INSERT INTO {table} VALUES (3, 'x')")
    other.sql("ROLLBACK")
    shown = client.sql("SHOW TRANSACTIONS").to_pylist()
    assert {row["txn_id"] for row in shown if "ABORT TRANSACTIONS" in (row["reason"] or "")} >= {first, second}
    assert visible(client, table) == [[1]]


def test_a_conflict_ends_the_transaction_and_names_the_first(
    one: Conversation, other: Conversation, client: Client, new_table: NewTable
) -> None:
    table = new_table()
    client.write(rows(1, 2), table)
    first, second = begun(one), begun(other)
    for session in (one, other):
        session.sql(f"UPDATE {table} SET note = 'x' WHERE id = 1")
    one.sql("COMMIT")
    with pytest.raises(Conflict, match=table) as told:
        other.sql("COMMIT")
    assert (told.value.txn_id, told.value.winner) == (second, first)
    with pytest.raises(IllegalState, match="no transaction is open"):
        other.sql("ROLLBACK")
