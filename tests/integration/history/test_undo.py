"""Undo and restore on a real cluster: over several tables, with keys and without, and what is refused."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support import rows
from txnclient import Client, CommitReceipt, Conflict, IllegalState, InvalidArgument, NotFound
from txnclient.compact.worker import Worker

pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]
KEYED = "id bigint NOT NULL, note string"


def state(client: Client, *tables: str, at: int | str | None = None) -> list[list[tuple[int, str]]]:
    with client.snapshot(at) as snapshot:
        return [sorted(map(tuple, map(dict.values, snapshot.to_arrow(table).to_pylist()))) for table in tables]


def ids(client: Client, table: str, at: int | str | None = None) -> list[int]:
    return [id_ for id_, _ in state(client, table, at=at)[0]]


@pytest.fixture(params=[False, True], ids=["without a key", "with a key"])
def table(request: pytest.FixtureRequest, new_table: NewTable) -> str:
    name = new_table(KEYED if request.param else "id bigint, note string", primary_key=["id"] if request.param else ())
    return name


@pytest.mark.parametrize("kind", ["append", "delete", "update", "overwrite", "truncate"])
def test_whatever_a_transaction_did_is_undone_and_done_again(client: Client, table: str, kind: str) -> None:
    first = client.write(rows(1, 2, 3, 4), table)
    ways: Mapping[str, Callable[[], CommitReceipt]] = {
        "append": lambda: client.write(rows(5), table),
        "delete": lambda: client.delete_where(table, "id = 2"),
        "update": lambda: client.update_where(table, {"note": "'new'"}, "id >= 3"),
        "overwrite": lambda: client.write(rows(2, 7), table, mode="overwrite"),
        "truncate": lambda: client.truncate(table),
    }
    done = ways[kind]()
    after = state(client, table)
    undo = client.undo(done.txn_id)
    assert undo.tables == (table,)
    assert state(client, table) == state(client, table, at=first.commit_timestamp)
    assert client.get(undo.txn_id).label == f"undo of transaction {done.txn_id}"
    client.undo(undo.txn_id)
    assert state(client, table) == after


def test_what_others_did_before_and_after_stays(client: Client, table: str) -> None:
    client.write(rows(1, 2, 3), table)
    load = client.write(rows(4, 5), table)
    clean = client.delete_where(table, "id = 1")
    client.write(rows(6), table)
    client.delete_where(table, "id = 2")
    client.undo(clean.txn_id)
    assert ids(client, table) == [1, 3, 4, 5, 6]
    client.undo(load.txn_id)
    assert ids(client, table) == [1, 3, 6]


def test_an_undo_is_undone_and_what_was_undone_is_not_undone_again(client: Client, table: str) -> None:
    """By the rule that looks at every later commit: the rows of a delete that was undone and done again are dead."""
    client.write(rows(1, 2), table)
    load, clean = client.write(rows(3), table), client.delete_where(table, "id = 1")
    undone = [client.undo(each.txn_id) for each in (clean, load)]
    assert ids(client, table) == [1, 2]
    for each, undo in zip((clean, load), undone, strict=True):
        with pytest.raises(Conflict, match=f"transaction {each.txn_id} cannot be undone: .*") as refused:
            client.undo(each.txn_id)
        assert refused.value.winner == undo.txn_id
    assert ids(client, table) == [1, 2]
    for each in reversed(undone):
        client.undo(each.txn_id)
    assert ids(client, table) == [2, 3]


def test_a_later_change_of_its_rows_is_in_the_way_be_they_as_they_were(client: Client, table: str) -> None:
    client.write(rows(1, 2), table)
    load = client.write(rows(3, 4), table)
    later = client.update_where(table, {"note": "'later'"}, "id = 4")
    with pytest.raises(Conflict) as refused:
        client.undo(load.txn_id)
    assert refused.value.winner == later.txn_id
    client.undo(later.txn_id)
    with pytest.raises(Conflict) as refused:
        client.undo(load.txn_id)
    assert refused.value.winner is not None
    assert ids(client, table) == [1, 2, 3, 4]


def test_a_later_overwrite_is_in_the_way(client: Client, table: str) -> None:
    load = client.write(rows(1), table)
    over = client.write(rows(2), table, mode="overwrite")
    with pytest.raises(Conflict, match=f"by transaction {over.txn_id}"):
        client.undo(load.txn_id)
    assert ids(client, table) == [2]


def test_all_tables_of_a_transaction_or_none(client: Client, new_table: NewTable) -> None:
    plain, parted = new_table(), new_table("id bigint, month int", partition_by=["month"])
    keyed = new_table(KEYED, primary_key=["id"])
    months = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "month": pa.array([1, 1, 2], pa.int32())})
    client.write_all({plain: rows(1), parted: months, keyed: rows(1)})
    before = client.last_commit()
    with client.transaction(label="a bad load") as txn:
        txn.write(rows(2), plain, mode="overwrite")
        txn.write(months.slice(2), parted, mode="overwrite", partition={"month": 2})
        txn.delete_where(parted, "id = 1")
        txn.upsert(keyed, pa.table({"id": pa.array([1, 2], pa.int64()), "note": ["x", "y"]}))
    assert txn.receipt is not None
    bad = state(client, plain, parted, keyed)
    undo = client.undo(txn.id)
    assert state(client, plain, parted, keyed) == state(client, plain, parted, keyed, at=before)
    client.undo(undo.txn_id)
    assert state(client, plain, parted, keyed) == bad
    stays = client.write(rows(9), keyed)
    client.update_where(keyed, {"note": "'mine'"}, "id = 9")
    with pytest.raises(Conflict):
        client.undo(stays.txn_id)


def test_rows_that_a_compaction_has_dropped_come_back_once(client: Client, new_table: NewTable) -> None:
    """Marks on where dead rows were lead nowhere then: an overwrite and an undo meet by the partition."""
    table = new_table()
    client.write(rows(1, 2), table)
    load = client.write(rows(3), table)
    undo = client.undo(load.txn_id)
    compacted(client, table)
    client.restore(load.commit_timestamp, [table])
    with pytest.raises(Conflict, match="were overwritten"):
        client.undo(undo.txn_id)
    assert ids(client, table) == [1, 2, 3]


def test_an_overwrite_meets_an_undo_of_rows_that_a_compaction_has_dropped(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1, 2), table)
    undo = client.undo(client.write(rows(3), table).txn_id)
    compacted(client, table)
    txn = client.begin()
    txn.to_arrow(table)
    client.undo(undo.txn_id)
    txn.write(rows(3), table, mode="overwrite")
    with pytest.raises(Conflict):
        txn.commit()
    assert ids(client, table) == [1, 2, 3]


def test_compactions_in_between_are_no_obstacle(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1, 2, 3), table)
    load = client.write(rows(4, 5), table)
    clean = client.delete_where(table, "id in (1, 4)")
    client.write(rows(6), table)
    compacted(client, table)
    with pytest.raises(Conflict, match=f"by transaction {clean.txn_id}"):
        client.undo(load.txn_id)
    undo = client.undo(clean.txn_id)
    assert ids(client, table) == [1, 2, 3, 4, 5, 6]
    compacted(client, table)
    client.undo(undo.txn_id)
    assert ids(client, table) == [2, 3, 5, 6]
    other = client.write(rows(7), table)
    compacted(client, table)
    client.undo(other.txn_id)
    assert ids(client, table) == [2, 3, 5, 6]


@pytest.mark.parametrize("key", [(), ("id",)], ids=["without a key", "with a key"])
def test_rows_come_back_in_the_columns_that_there_are(
    client: Client, new_table: NewTable, key: tuple[str, ...]
) -> None:
    """Whatever these are called by now; also what an undo and a restore of before have brought back."""
    table = new_table("id bigint NOT NULL, a int, b int, c string", primary_key=key)

    def there() -> list[dict[str, object]]:
        return client.snapshot().to_arrow(table).sort_by("id").to_pylist()

    first = {"id": [1, 2], "a": pa.array([1, 2], pa.int32()), "b": pa.array([10, 20], pa.int32()), "c": ["x", "y"]}
    client.write(pa.table(first), table)
    clean = client.delete_where(table, "id = 1")
    change = client.update_where(table, {"a": "5", "c": "'z'"}, "id = 2")
    client.alter_table(table, rename={"a": "swap"}, drop=["c"], widen={"b": "bigint"})
    client.alter_table(table, rename={"b": "a"})
    client.alter_table(table, rename={"swap": "b"}, add="c int")
    assert there() == [{"id": 2, "b": 5, "a": 20, "c": None}]
    undone = client.undo(clean.txn_id)
    client.undo(change.txn_id)
    assert there() == [{"id": 1, "b": 1, "a": 10, "c": None}, {"id": 2, "b": 2, "a": 20, "c": None}]
    client.alter_table(table, rename={"a": "d"})
    client.restore(change.commit_timestamp, [table])
    assert there() == [{"id": 2, "b": 5, "d": 20, "c": None}]
    with pytest.raises(Conflict):
        client.undo(undone.txn_id)


def test_no_data_is_read_or_written_without_a_key(client: Client, new_table: NewTable) -> None:
    """Files of an undo are further names of those that were there."""
    table = new_table()
    client.write(rows(*range(1_000)), table)
    over = client.write(rows(1), table, mode="overwrite")
    location = Path(client.table(table).location.removeprefix("file://"))
    before = {file.stat().st_ino for file in location.rglob("part-*.parquet")}
    client.undo(over.txn_id)
    assert {file.stat().st_ino for file in location.rglob("part-*.parquet")} == before
    assert ids(client, table) == list(range(1_000))


def test_tables_are_restored_together(client: Client, new_table: NewTable) -> None:
    plain, keyed, other = new_table(), new_table(KEYED, primary_key=["id"]), new_table()
    client.write_all({plain: rows(1, 2), keyed: rows(1, 2), other: rows(1)})
    made = client.savepoint(f"before {plain}", [plain, keyed])
    client.delete_where(plain, "id = 1")
    client.write(rows(3), plain)
    client.upsert(keyed, pa.table({"id": pa.array([2, 3], pa.int64()), "note": ["x", "y"]}))
    client.write(rows(2), other)
    bad = state(client, plain, keyed)
    restored = client.restore(made.name)
    assert restored.tables == tuple(sorted([plain, keyed]))
    assert state(client, plain, keyed) == state(client, plain, keyed, at=made.name)
    assert ids(client, other) == [1, 2]
    client.undo(restored.txn_id)
    assert state(client, plain, keyed) == bad
    client.restore(made.timestamp, [plain, other])
    assert (ids(client, plain), ids(client, other), state(client, keyed)[0]) == ([1, 2], [1], bad[1])
    client.release_savepoint(made.name)


def test_what_cannot_be_is_told(client: Client, new_table: NewTable) -> None:
    table = new_table()
    with client.transaction() as nothing:
        pass
    aborted = client.begin()
    aborted.abort()
    for txn_id in (nothing.id, aborted.id, client.begin().id):
        with pytest.raises(IllegalState):
            client.undo(txn_id)
    with pytest.raises(NotFound):
        client.undo(1 << 40)
    with pytest.raises(NotFound, match="no savepoint 'nowhere'"):
        client.restore("nowhere")
    with pytest.raises(InvalidArgument):
        client.restore(client.last_commit(), table)
    receipt = client.write(rows(1), table)
    client.drop_table(table)
    with pytest.raises(NotFound):
        client.undo(receipt.txn_id)
    client.create_table(table, "id bigint")
    dropped = next(each for each in client.timeline(table=table) if each.label.startswith("drop table"))
    for txn_id in (receipt.txn_id, dropped.txn_id):
        with pytest.raises(IllegalState, match="was dropped or renamed since"):
            client.undo(txn_id)
    assert ids(client, table) == []
    with pytest.raises(IllegalState, match="was dropped or renamed since"):
        client.restore(receipt.commit_timestamp, [table])


def compacted(client: Client, table: str) -> None:
    """As by a worker, in this process."""
    assert client.compact(table, wait=False)
    worker = Worker(client.session, "here", threading.Event(), table)
    while worker.run_once():
        pass
    assert client.compactions(table)[0].state == "succeeded"
