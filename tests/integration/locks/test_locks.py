"""Locks as a program and an operator see them, against real nodes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support import connect, fast_cluster, rows, wait_until
from txnclient import (
    Client,
    IllegalState,
    InvalidArgument,
    Locked,
    LockInfo,
    NotFound,
    Transaction,
    TxnAborted,
    TxnState,
)
from txnclient.write.locks import LockMode
from txndeploy.ctl import commands
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]


def held(client: Client, name: str) -> dict[tuple[str, int], str]:
    return {(lock.object, lock.txn_id): lock.mode for lock in client.locks(name) if lock.acquired}


def waiting(client: Client, table: str) -> list[LockInfo]:
    return [lock for lock in client.locks(table) if not lock.acquired]


def in_background(txn: Transaction, table: str, mode: LockMode) -> threading.Thread:
    thread = threading.Thread(target=lambda: txn.lock(table, mode), daemon=True)
    thread.start()
    return thread


def test_locks_are_held_until_the_end_and_parents_in_s(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int, day int", partition_by=["month", "day"])
    with client.transaction() as txn:
        txn.lock(table, "X", partition=["month=1/day=2", "month=2"])
        assert held(client, table) == {
            (table, txn.id): "S",
            (f"{table}/month=1", txn.id): "S",
            (f"{table}/month=1/day=2", txn.id): "X",
            (f"{table}/month=2", txn.id): "X",
        }
        assert held(client, "t")["t", txn.id] == "S"
        assert [lock.object for lock in client.locks(table, "month=2")] == [f"{table}/month=2"]
    assert txn.receipt is not None
    assert txn.receipt.tables == (table,)
    wait_until(lambda: not client.locks(table), "the commit has reached the table")
    wait_until(lambda: ("t", txn.id) not in held(client, "t"), "the commit has reached the database")


def test_whoever_waits_is_let_in_by_the_end_of_the_holder(client: Client, new_table: NewTable) -> None:
    table = new_table()
    first, second, third = client.begin(label="nightly"), client.begin(), client.begin()
    first.lock(table, "X")
    threads = [in_background(second, table, "X")]
    wait_until(lambda: len(waiting(client, table)) == 1, "the second waits")
    threads.append(in_background(third, table, "S"))
    wait_until(lambda: len(waiting(client, table)) == 2, "the third waits")
    assert [(lock.txn_id, lock.blocked_by) for lock in waiting(client, table)] == [
        (second.id, (first.id,)),
        (third.id, (first.id, second.id)),
    ]
    first.commit()
    threads[0].join(20)
    assert held(client, table) == {(table, second.id): "X"}
    second.abort()
    threads[1].join(20)
    assert held(client, table) == {(table, third.id): "S"}
    assert not any(thread.is_alive() for thread in threads)


def test_a_refusal_names_who_is_in_the_way_and_leaves_nothing_in_the_queue(client: Client, new_table: NewTable) -> None:
    table = new_table()
    first, second = client.begin(label="nightly"), client.begin()
    first.lock(table, "S")
    with pytest.raises(Locked) as caught:
        second.lock(table, "X", numretries=2)
    assert f"transaction {first.id} ('nightly' of {client.owner}) holds S on {table}" in caught.value.message
    assert caught.value.txn_id == second.id
    assert not waiting(client, table)
    second.lock(table, "shared-write")
    second.commit()


def test_wait_die_aborts_the_younger_and_the_older_waits(client: Client, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    old, young = client.begin(), client.begin()
    old.lock(table, "X", strategy="wait-die")
    young.lock(other, "X", strategy="wait-die")
    thread = threading.Thread(target=lambda: old.lock(other, "X", strategy="wait-die"), daemon=True)
    thread.start()
    wait_until(lambda: len(waiting(client, other)) == 1, "the older waits for the younger")
    with pytest.raises(TxnAborted, match="wait-die"):
        young.lock(table, "X", strategy="wait-die")
    assert not young.alive
    assert client.get(young.id).state in (TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED)
    thread.join(20)
    assert held(client, other) == {(other, old.id): "X"}
    old.commit()


def test_a_table_may_settle_conflicts_by_locks_that_writes_take(client: Client, new_table: NewTable) -> None:
    waits, wounds, refuses = (new_table(conflicts=each) for each in ("wait-die", "wound-wait", "no-wait"))
    old, young = client.begin(), client.begin()
    old.write(rows(2), waits, "overwrite")
    assert held(client, waits)[waits, old.id] == "X"
    for mode in ("append", "overwrite"):
        with pytest.raises(TxnAborted, match="wait-die"):
            young.write(rows(3), waits, mode)  # type: ignore[arg-type]
        young = client.begin()
    young.write(rows(4), wounds, "overwrite")
    old.write(rows(5), wounds, "overwrite")
    with pytest.raises(TxnAborted, match="wound-wait"):
        young.commit()
    old.write(rows(6), refuses, "overwrite")
    young = client.begin()
    with pytest.raises(Locked, match=f"transaction {old.id} .* holds X"):
        young.truncate(refuses)
    with pytest.raises(IllegalState, match=r"a truncation of .* failed: Locked"):
        young.commit()
    old.commit()
    young = client.begin()
    assert client.table(wounds).conflicts == "wound-wait"
    wait_until(lambda: not client.locks(refuses), "the commit has reached the table")
    young.truncate(refuses)
    young.commit()
    assert client.snapshot().files(refuses).rows == 0
    with pytest.raises(InvalidArgument, match="no conflict strategy 'hope'; there are first-committer-wins, wait"):
        new_table(conflicts="hope")


def test_a_locked_database_keeps_tables_from_being_locked(client: Client) -> None:
    client.create_table("shut.one", "id bigint")
    first, second = client.begin(), client.begin()
    first.lock("shut", "X")
    with pytest.raises(Locked, match=r"holds X on shut,"):
        second.lock("shut.one", "S", numretries=0)
    first.abort()
    second.lock("shut.one", "S")


def test_what_cannot_be_locked(client: Client, new_table: NewTable) -> None:
    plain, parted = new_table(), new_table("id bigint, month int", partition_by=["month"])
    txn = client.begin()
    for partition in ("", "month", "month=", "day=1", "month=1/day=2", "month=1/", "month=a/b"):
        with pytest.raises(InvalidArgument, match="is no partition of"):
            txn.lock(parted, "S", partition=partition)
    with pytest.raises(InvalidArgument, match="not partitioned"):
        txn.lock(plain, "S", partition="month=1")
    with pytest.raises(InvalidArgument, match="lock mode 'Q'"):
        txn.lock(plain, "Q")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="no conflict strategy 'hope'"):
        txn.lock("unshut", "S", strategy="hope")
    with pytest.raises(NotFound, match=r"nobody\.knows"):
        txn.lock("nobody.knows", "S")
    with pytest.raises(NotFound, match="no table in a database 'nobody'"):
        client.locks("nobody")
    assert client.get(txn.id).participants == ()


def test_txnctl_shows_locks(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int", partition_by=["month"])
    first, second = client.begin(label="nightly"), client.begin()
    first.lock(table, "X", partition="month=1")
    thread = in_background(second, table, "X")
    wait_until(lambda: bool(waiting(client, table)), "the second waits")

    def shown(*options: str) -> list[dict[str, Any]]:
        result = CliRunner().invoke(commands.app, ["locks", "--cluster", cluster.addresses, "--json", *options])
        assert result.exit_code == 0, result.output
        found: list[dict[str, Any]] = json.loads(result.stdout)["locks"]
        return found

    assert [(*tuple(row.values())[:4], row["blocked_by"]) for row in shown("--table", table)] == [
        (table, "S", "acquired", first.id, []),
        (table, "X", "waiting", second.id, [first.id]),
        (f"{table}/month=1", "X", "acquired", first.id, []),
    ]
    (row,) = shown("--table", table, "--partition", "month=1", "--extended")
    assert (row["txn_state"], row["label"], row["owner"]) == ("OPEN", "nightly", client.owner)
    for wrong in (["--table", "nope"], ["--table", "t.nope"], ["--table", table, "--partition", "day=1"]):
        result = CliRunner().invoke(commands.app, ["locks", "--cluster", cluster.addresses, *wrong])
        assert result.exit_code == 1
        assert wrong[-1] in result.stderr
    first.abort()
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("locks"), participant_shards=1) as running:
        yield running


def test_locks_and_the_queue_outlive_the_shards_leader(own_cluster: LocalCluster) -> None:
    with connect(own_cluster) as client:
        client.create_table("a.t", "id bigint, note string")
        first, second = client.begin(keepalive_millis=30_000), client.begin(keepalive_millis=30_000)
        first.lock("a.t", "X")
        thread = in_background(second, "a.t", "X")
        wait_until(lambda: bool(waiting(client, "a.t")), "the second waits")
        own_cluster.kill(own_cluster.leader("shard-0"))
        assert held(client, "a.t") == {("a.t", first.id): "X"}
        assert [lock.txn_id for lock in waiting(client, "a.t")] == [second.id]
        first.write(rows(1), "a.t")
        first.commit()
        thread.join(30)
        assert held(client, "a.t") == {("a.t", second.id): "X"}
