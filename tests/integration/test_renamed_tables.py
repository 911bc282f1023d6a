"""Tables that are renamed: who goes on to find them, beside what is under way, in the whole cluster."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner

from tests.support import SCHEMA, rows, visible, wait_until
from txnclient import AlreadyExists, Client, IllegalState, InvalidArgument, Locked, NotFound
from txnclient.compact.worker import Worker
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]


@pytest.fixture
def name_beside(cluster: LocalCluster) -> Callable[..., str]:
    """Makes a name beside a table's that another shard would keep by its hash; or the same one."""
    shards = next(iter(cluster.configs.values())).participant_shards

    def name(table: str, word: str, *, same: bool = False) -> str:
        names = (f"{table}_{word}{number}" for number in range(100))
        home = zlib.crc32(table.encode()) % shards
        return next(name for name in names if (zlib.crc32(name.encode()) % shards == home) is same)

    return name


@pytest.mark.parametrize("same", [True, False], ids=["in one shard", "over two shards"])
def test_all_that_a_table_has_goes_with_its_name(
    client: Client, new_table: NewTable, name_beside: NewTable, same: bool
) -> None:
    table = new_table(primary_key=["id"])
    name = name_beside(table, "b", same=same)
    client.upsert(table, rows(1))
    before, info = client.snapshot(), client.table(table)
    client.savepoint(name, [table])
    assert visible(client, table) == [[1]]
    renamed = client.rename_table(table, name)
    assert (renamed.table_id, renamed.location, renamed.name) == (info.table_id, info.location, name)
    client.upsert(name, rows(2))
    assert visible(client, name) == [[1, 2]]
    for called in (table, name):
        assert before.to_arrow(called).column("id").to_pylist() == [1], "a snapshot that is open"
        old = client.snapshot(at=before.timestamp).to_arrow(called)
        assert old.column("id").to_pylist() == [1], "one of then"
        assert client.snapshot(at=name).to_arrow(called).num_rows == 1, "a savepoint"
    assert client.diff(name, since=before.timestamp).num_rows == 1, "over the rename"
    for call in (client.table, lambda called: visible(client, called), lambda called: client.upsert(called, rows(3))):
        with pytest.raises(NotFound, match=f"table {table} was renamed to {name}"):
            call(table)
    assert [each.name for each in client.tables() if each.name in (table, name)] == [name]
    client.create_table(table, SCHEMA)
    client.write(rows(9), table)
    assert visible(client, table, name) == [[9], [1, 2]]
    assert before.to_arrow(table).column("id").to_pylist() == [1], "the table that was called so then"
    assert client.table(table).location != info.location
    client.restore(before.timestamp, [name])
    assert visible(client, table, name) == [[9], [1]]
    client.drop_table(name)
    client.release_savepoint(name)


def test_what_is_in_the_way_is_told_by_name(client: Client, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    with pytest.raises(AlreadyExists, match=f"table {other} exists already"):
        client.rename_table(table, other)
    with pytest.raises(NotFound):
        client.rename_table(f"{table}_not", f"{table}_b")
    for wrong, why in (("elsewhere.t", "stays in its database"), (table, "called so already"), ("t", "database.table")):
        with pytest.raises(InvalidArgument, match=why):
            client.rename_table(table, wrong)
    txn = client.begin()
    txn.write(rows(1), table)
    with pytest.raises(Locked, match=f"at work on it, and not ended within 0.1 s, are transactions {txn.id}"):
        client.rename_table(table, f"{table}_b", timeout=0.1)
    txn.commit()
    locker = client.begin()
    locker.lock(table, "X")
    with pytest.raises(Locked, match=str(locker.id)):
        client.rename_table(table, f"{table}_b", timeout=0.1)
    done = threading.Thread(target=client.rename_table, args=(table, f"{table}_b"))
    done.start()
    locker.abort()
    done.join(30)
    assert visible(client, f"{table}_b") == [[1]], "it waits for them"


def test_a_name_that_was_another_shards_stays_there(client: Client, new_table: NewTable, name_beside: NewTable) -> None:
    table = new_table()
    client.write(rows(1), table)
    taken = name_beside(table, "taken")
    client.create_table(taken, SCHEMA)
    client.drop_table(taken)
    held = client.rename_table(client.create_table(taken, SCHEMA).name, name_beside(taken, "more", same=True))
    with pytest.raises(IllegalState, match=f"cannot be called {taken}: another table was"):
        client.rename_table(table, taken)
    client.rename_table(held.name, taken)
    assert visible(client, table) == [[1]]


def test_a_transaction_that_began_before_is_told_and_one_of_after_goes_on(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1), table)
    earlier = client.begin(), client.begin()
    assert [early.to_arrow(table).num_rows for early in earlier] == [1, 1]
    client.rename_table(table, f"{table}_b")
    client.create_table(table, SCHEMA)
    for early, name in zip(earlier, (table, f"{table}_b"), strict=True):
        assert early.to_arrow(table).num_rows == early.to_arrow(f"{table}_b").num_rows == 1
        with pytest.raises(IllegalState, match=f"transaction {early.id} began before table {table} was renamed"):
            early.write(rows(2), name)
        early.abort()
    with client.transaction() as late:
        late.write(rows(2), table)
        late.write(rows(3), f"{table}_b")
    assert visible(client, table, f"{table}_b") == [[2], [1, 3]]


def test_what_was_done_under_the_old_name_can_be_undone(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1), table)
    done = client.write(rows(2), table)
    client.rename_table(table, f"{table}_b")
    client.undo(done.txn_id)
    assert visible(client, f"{table}_b") == [[1]]
    client.restore(done.commit_timestamp, [table])
    assert visible(client, f"{table}_b") == [[1, 2]]
    client.create_table(table, SCHEMA)
    client.restore(done.commit_timestamp - 1, [f"{table}_b"])
    assert visible(client, table, f"{table}_b") == [[], [1]]
    with pytest.raises(IllegalState, match="another one has its name"):
        client.restore(done.commit_timestamp, [table])
    since = datetime.now(UTC) - timedelta(hours=1)
    wait_until(
        lambda: [each for each in client.timeline(since=since, table=table) if each.txn_id == done.txn_id], "it is told"
    )


def test_compactions_find_the_table_and_go_on(client: Client, new_table: NewTable) -> None:
    table = new_table(properties={"NO_AUTO_COMPACTION": True})
    for number in range(3):
        client.write(rows(number), table)
    client.compact(table, wait=False, kind="major")
    client.rename_table(table, f"{table}_b")
    (wanted,) = client.compactions(f"{table}_b")
    assert wanted.table == f"{table}_b"
    assert Worker(client.session, "here", threading.Event(), f"{table}_b").run_once()
    assert [each.state for each in client.compactions(f"{table}_b")] == ["succeeded"]
    assert visible(client, f"{table}_b") == [[0, 1, 2]]


def test_sql_and_txnctl_say_it_too(client: Client, cluster: LocalCluster, new_table: NewTable) -> None:
    table = new_table()
    short = table.partition(".")[2]
    client.sql(f"ALTER TABLE {table} RENAME TO {short}_b")
    client.sql(f"ALTER TABLE {table}_b RENAME TO {table}_c")
    assert client.table(f"{table}_c").name == f"{table}_c"
    given = ["table", "rename", "--cluster", cluster.addresses, f"{table}_c", table]
    result = CliRunner().invoke(app, given)
    assert result.exit_code == 0, result.output
    assert f"{table}_c is called {table}." in result.output
    again = CliRunner().invoke(app, given)
    assert again.exit_code != 0
    assert f"table {table} exists already" in again.output


def test_a_rename_is_whole_whatever_dies(
    client: Client, cluster: LocalCluster, new_table: NewTable, name_beside: NewTable
) -> None:
    table = new_table(primary_key=["id"])
    client.upsert(table, rows(1))
    names = [table, name_beside(table, "b")]
    stop = threading.Event()
    done: list[str] = []

    def rename_back_and_forth() -> None:
        while not stop.is_set():
            done.append(client.rename_table(names[len(done) % 2], names[(len(done) + 1) % 2], timeout=60).name)

    worker = threading.Thread(target=rename_back_and_forth)
    worker.start()
    try:
        for node in ("n1", "n2", "n3"):
            for act in (cluster.kill, cluster.start_node):
                enough = len(done) + 2
                wait_until(lambda: len(done) >= enough, "the table is renamed")  # noqa: B023
                act(node)
    finally:
        stop.set()
        worker.join(90)
    assert len(done) > 5
    there = [each.name for each in client.tables() if each.name in names]
    assert there == [done[-1]]
    assert visible(client, done[-1]) == [[1]]
