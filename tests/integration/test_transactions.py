"""What a program sees of transactions, against real nodes."""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import txnclient
from tests.support import connect, rows, visible, wait_until
from txnclient import Client, Conflict, IllegalState, Transaction, TxnAborted, TxnState
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]


def test_a_commit_shows_all_of_it_and_nothing_before(client: Client, new_table: NewTable) -> None:
    first, second = new_table(), new_table()
    before = client.snapshot()
    with client.transaction(label="both") as txn:
        txn.write(rows(1, 2), first)
        txn.write(rows(3), second)
        assert visible(client, first, second) == [[], []]
    assert txn.receipt is not None
    assert txn.receipt.tables == tuple(sorted((first, second)))
    assert visible(client, first, second) == [[1, 2], [3]]
    assert before.to_arrow(first).num_rows == 0
    assert client.snapshot().timestamp >= txn.receipt.commit_timestamp


def test_an_exception_aborts_and_is_the_one_raised(client: Client, new_table: NewTable) -> None:
    table = new_table()

    def job(txn: Transaction) -> None:
        with txn:
            txn.write(rows(1), table)
            raise ZeroDivisionError("of the program")

    txn = client.transaction()
    with pytest.raises(ZeroDivisionError, match="of the program"):
        job(txn)
    assert visible(client, table) == [[]]
    summary = client.get(txn.id)
    assert summary.cause is not None
    assert summary.cause.message.startswith("ZeroDivisionError")
    assert summary.cause.by == client.owner


def test_an_aborted_transactions_files_are_removed(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table = new_table()
    location = Path(client.table(table).location.removeprefix("file://"))
    kept = client.begin()
    kept.write(rows(1), table)
    kept.commit()
    txn = client.begin()
    txn.write(rows(2), table)
    staged = txn.stage(rows(3), table)
    assert len(list(location.glob(f"delta_{txn.id}_*"))) == 2
    txn.abort()
    wait_until(lambda: not list(location.glob(f"delta_{txn.id}_*")), "the aborted transaction's directories are gone")
    assert visible(client, table) == [[1]]
    with pytest.raises(TxnAborted):
        txn.add([staged], table)


def test_staged_files_count_only_when_added(client: Client, new_table: NewTable) -> None:
    """As after a failed or duplicate task: what did not reach the driver is not part of the transaction."""
    table = new_table()
    location = Path(client.table(table).location.removeprefix("file://"))
    txn = client.begin()
    lost = txn.stage(rows(1), table)
    kept = txn.stage(rows(1, 2), table)
    txn.add([kept], table)
    txn.commit()
    assert visible(client, table) == [[1, 2]]
    orphan = location / f"delta_{txn.id}_{lost.write_id}"
    wait_until(lambda: not orphan.exists(), "what was not added is removed")
    assert visible(client, table) == [[1, 2]]


def test_overwrite_replaces_and_concurrent_appends_stay(client: Client, new_table: NewTable) -> None:
    table = new_table()
    with client.transaction() as txn:
        txn.write(rows(1), table)
    old = client.snapshot()
    overwriting = client.begin()
    overwriting.write(rows(2), table)
    overwriting.write(rows(3), table, mode="overwrite")
    with client.transaction() as appending:
        appending.write(rows(4), table)
    overwriting.commit()
    assert visible(client, table) == [[3, 4]]
    assert sorted(old.to_arrow(table)["id"].to_pylist()) == [1]


def test_two_overwrites_conflict_and_the_first_committer_wins(client: Client, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    with client.transaction() as txn:
        txn.write(rows(1), table)
    first, second = client.begin(label="first"), client.begin(label="second")
    first.write(rows(2), table, mode="overwrite")
    second.write(rows(3), table, mode="overwrite")
    second.write(rows(3), other)
    first.commit()
    with pytest.raises(Conflict) as caught:
        second.commit()
    assert caught.value.winner == first.id
    assert list(caught.value.objects) == [table]
    again = Transaction(client.session, second.id, 1000, heartbeat=False)
    for act in (second.commit, again.commit, again.is_commit_complete, lambda: again.write(rows(9), table)):
        with pytest.raises(Conflict, match=table):
            act()
    assert visible(client, table, other) == [[2], []]


def test_start_commit_and_polling(client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    with pytest.raises(IllegalState):
        txn.is_commit_complete()
    txn.write(rows(1), table)
    txn.start_commit()
    wait_until(txn.is_commit_complete, "the commit completes")
    assert visible(client, table) == [[1]]
    assert txn.receipt is not None
    assert txn.commit() == txn.receipt


def test_an_empty_commit_needs_no_participant(client: Client) -> None:
    receipt = client.begin().commit()
    assert receipt.commit_timestamp == 0
    assert client.get(receipt.txn_id).state is TxnState.COMMITTED


def test_a_token_lets_another_process_write(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        parts = pool.starmap(_stage, [(cluster.addresses, txn.token(), table, i) for i in range(4)])
    txn.add(parts, table)
    assert visible(client, table) == [[]]
    txn.commit()
    assert visible(client, table) == [[0, 1, 2, 3]]


def _stage(addresses: str, token: bytes, table: str, number: int) -> txnclient.StagedFiles:
    with txnclient.connect(addresses) as client:
        return client.join(token).stage(rows(number), table)


def test_a_forgotten_handle_expires_and_a_beating_one_does_not(client: Client, new_table: NewTable) -> None:
    table = new_table()
    beating = client.begin(label="beating", keepalive_millis=2_000)
    forgotten = client.begin(label="forgotten", keepalive_millis=2_000)
    forgotten.write(rows(1), table)
    beating.write(rows(2), table)
    lost_id = forgotten.id
    _wait_for_heartbeat(forgotten)
    del forgotten
    gc.collect()
    wait_until(lambda: client.get(lost_id).state is TxnState.ABORTED, "the forgotten transaction expires")
    cause = client.get(lost_id).cause
    assert cause is not None
    assert (cause.code, cause.by) == ("expired", "staleness tracker")
    assert beating.state() is TxnState.OPEN
    assert beating.alive
    assert beating.last_heartbeat_age < 10
    beating.commit()
    assert visible(client, table) == [[2]]


def _wait_for_heartbeat(txn: Transaction) -> None:
    ages = [txn.last_heartbeat_age]

    def younger() -> bool:
        ages.append(txn.last_heartbeat_age)
        return ages[-1] < ages[-2]

    wait_until(younger, "a heartbeat was answered")


def test_a_handle_that_was_aborted_elsewhere_fails_at_once(cluster: LocalCluster, new_table: NewTable) -> None:
    table = new_table()
    with connect(cluster) as client, connect(cluster, owner="root-of-evil") as operator:
        txn = client.begin(keepalive_millis=600)
        operator.abort(txn.id, reason="it held things up")
        wait_until(lambda: not txn.alive, "a heartbeat brings the news")
        with pytest.raises(TxnAborted, match="it held things up"):
            txn.write(rows(1), table)
        with pytest.raises(TxnAborted, match="operator root-of-evil"):
            txn.commit()


def test_partitioned_tables_keep_every_column_and_null(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int", partition_by=["month"])
    data = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), "month": pa.array([1, 2, None, 1], pa.int32())})
    with client.transaction() as txn:
        txn.write(data, table)
    files = client.snapshot().files(table).files
    assert len(files) == 3
    assert client.snapshot().to_arrow(table).sort_by("id").equals(data)
    assert client.snapshot().to_arrow(table, columns=["month"]).column_names == ["month"]


def test_reading_the_same_timestamp_again_gives_the_same_rows(client: Client, new_table: NewTable) -> None:
    table = new_table()
    snapshots = []
    for number in range(5):
        with client.transaction() as txn:
            txn.write(rows(number), table, mode="overwrite" if number % 2 else "append")
        snapshots.append((client.snapshot(), visible(client, table)[0]))
    for snapshot, expected in snapshots:
        again = client.snapshot(snapshot.timestamp)
        assert sorted(again.to_arrow(table)["id"].to_pylist()) == expected


def test_files_are_staged_in_a_transaction_that_began_with_its_tables(client: Client, new_table: NewTable) -> None:
    """The table hears of a write that the begin opened as its files are added; those of a staged one another adds."""
    name = new_table("id bigint")
    with client.transaction(tables=[name]) as txn:
        txn.add([txn.stage(pa.table({"id": [1]}), name)], name)
        txn.write(pa.table({"id": [2]}), name)
    assert sorted(client.snapshot().to_arrow(name)["id"].to_pylist()) == [1, 2]
