"""Bulk changes of tables with a primary key by a program without Spark, against real nodes."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pyarrow as pa
import pytest

from txnclient import AlreadyExists, Client, Conflict, InvalidArgument, Locked, RowsAffected
from txnclient.compact.asking import Kind
from txnclient.compact.worker import Worker

NewTable = Callable[..., str]
DDL = "id bigint, p string, v bigint"
MANY = 20_000
"""More rows than go by key."""


def rows(first: int, until: int, value: int, part: str = "a") -> pa.Table:
    count = until - first
    ids = pa.array(range(first, until), pa.int64())
    return pa.table({"id": ids, "p": [part] * count, "v": pa.array([value] * count, pa.int64())})


def values(client: Client, table: str) -> dict[int, tuple[str, int]]:
    found = client.snapshot().to_arrow(table).to_pydict()
    assert len(set(found["id"])) == len(found["id"]), "a key comes twice"
    return dict(zip(found["id"], zip(found["p"], found["v"], strict=True), strict=True))


def test_an_upsert_of_many_rows_replaces_and_inserts(client: Client, new_table: NewTable) -> None:
    table = new_table(DDL, partition_by=["p"], primary_key=["id"])
    client.write(rows(0, MANY, 0), table)
    client.upsert(table, rows(5, 7, 1, "r"))
    before = client.snapshot()
    client.write(rows(3, MANY + 3, 2, "b"), table, mode="upsert")
    expected = dict.fromkeys(range(3), ("a", 0)) | dict.fromkeys(range(3, MANY + 3), ("b", 2))
    assert values(client, table) == expected
    client.write(rows(1, 3, 3), table, mode="upsert")
    assert values(client, table) == expected | {1: ("a", 3), 2: ("a", 3)}
    kinds = client.diff(table, since=before.timestamp)["_change_kind"].value_counts().to_pylist()
    assert {each["values"]: each["counts"] for each in kinds} == {
        "update_before": MANY - 1,
        "update_after": MANY - 1,
        "insert": 3,
    }


def test_files_and_rows_of_one_table_mix_in_one_transaction(client: Client, new_table: NewTable) -> None:
    table = new_table(DDL, primary_key=["id"])
    client.write(rows(0, MANY, 0), table)
    with client.transaction() as txn:
        txn.upsert(table, rows(10, 12, 1))
        txn.write(rows(0, MANY, 2), table, mode="upsert")
        txn.delete(table, rows(11, 13, 0).select(["id"]))
        assert txn.update_where(table, {"v": "v + 1"}, "true") == RowsAffected(updated=MANY - 2)
        merged = (
            txn.merge(table, rows(12, MANY + 12, 9), on="target.id = source.id")
            .when_matched_delete(condition="target.id >= 15")
            .when_not_matched_insert_all()
            .execute()
        )
        assert merged == RowsAffected(inserted=13, deleted=MANY - 15)
        assert txn.delete_where(table, "id >= 100").deleted == 12
        inside = txn.to_arrow(table)
    expected = dict.fromkeys((*range(11), 13, 14), 3) | {12: 9}
    assert dict(zip(inside["id"].to_pylist(), inside["v"].to_pylist(), strict=True)) == expected
    assert {key: value for key, (_, value) in values(client, table).items()} == expected


def test_bulk_changes_and_row_writes_of_one_key_conflict_and_others_do_not(client: Client, new_table: NewTable) -> None:
    table = new_table(DDL, primary_key=["id"])
    client.write(rows(0, 2 * MANY, 0), table)
    for bulk_first in (True, False):
        bulk, same, other = client.begin(), client.begin(), client.begin()
        bulk.delete_where(table, f"id < {MANY}") if bulk_first else bulk.write(rows(0, MANY, 1), table, mode="upsert")
        same.upsert(table, rows(7, 8, 2))
        other.upsert(table, rows(MANY + 7, MANY + 8, 3))
        first, second = (bulk, same) if bulk_first else (same, bulk)
        first.commit()
        with pytest.raises(Conflict):
            second.commit()
        other.commit()
        found = values(client, table)
        assert found[MANY + 7][1] == 3
        assert (7 in found) != bulk_first


def test_what_an_upsert_cannot_be_is_refused_by_name(client: Client, new_table: NewTable) -> None:
    table, bare = new_table(DDL, primary_key=["id"]), new_table(DDL)
    twice = pa.concat_tables([rows(0, MANY, 0), rows(5, 6, 0)])
    refused = [
        (table, twice, {}, r"more than once in the rows for .*: 5"),
        (table, twice.slice(5, 1).take(pa.array([0, 0])), {}, "the key 5 comes more than once"),
        (table, rows(0, MANY, 0).set_column(0, "id", pa.nulls(MANY, pa.int64())), {}, "'id' of table .* NOT NULL"),
        (table, rows(0, 1, 0).set_column(0, "id", pa.nulls(1, pa.int64())), {}, "'id' of table .* null"),
        (table, rows(0, 1, 0), {"keys_are_new": True}, "keys_are_new"),
        (table, rows(0, 1, 0), {"partition": {"p": "a"}}, "takes none"),
        (bare, rows(0, 1, 0), {}, "has no primary key"),
        (bare, rows(0, MANY, 0), {}, "has no primary key"),
    ]
    for name, data, options, why in refused:
        with pytest.raises(InvalidArgument, match=why):
            client.write(data, name, mode="upsert", **options)  # type: ignore[arg-type]
    client.write(rows(0, MANY, 0), table)
    with pytest.raises(AlreadyExists, match="their keys are"):
        client.update_where(table, {"id": "id + 5"}, f"id < {MANY - 10}")
    assert len(values(client, table)) == MANY


def test_a_table_with_locks_is_changed_in_bulk_and_its_partition_column_too(
    client: Client, new_table: NewTable
) -> None:
    table = new_table(DDL, partition_by=["p"], primary_key=["id"], conflicts="wait")
    client.write(rows(0, MANY, 0), table)
    with client.transaction() as txn:
        txn.write(rows(5, MANY + 5, 1, "b"), table, mode="upsert")
        assert txn.update_where(table, {"p": "'c'", "v": "v + 1"}, "id >= 2").updated == MANY + 3
        assert txn.delete_where(table, "id IN (0, 1)").deleted == 2
        with pytest.raises(Locked), client.transaction() as other:
            other.write(rows(0, MANY, 2), table, mode="upsert", lock_timeout=0)
    expected = {number: ("c", 1 if number < 5 else 2) for number in range(2, MANY + 5)}
    assert values(client, table) == expected


def test_staged_files_are_upserted(client: Client, new_table: NewTable) -> None:
    table = new_table(DDL, primary_key=["id"])
    client.write(rows(0, 10, 0), table)
    client.upsert(table, rows(9, 11, 1))
    with client.transaction() as txn:
        txn.delete(table, rows(3, 4, 0).select(["id"]))
        txn.add([txn.stage(rows(3, 6, 2), table), txn.stage(rows(9, 12, 3), table)], table, mode="upsert")
    assert {key: value for key, (_, value) in values(client, table).items()} == {
        **dict.fromkeys(range(3), 0),
        **dict.fromkeys(range(3, 6), 2),
        **dict.fromkeys(range(6, 9), 0),
        **dict.fromkeys(range(9, 12), 3),
    }
    with pytest.raises(InvalidArgument, match="more than once"), client.transaction() as txn:
        txn.add([txn.stage(rows(3, 6, 2), table), txn.stage(rows(5, 7, 3), table)], table, mode="upsert")


def test_a_predicate_looks_into_another_table_as_the_transaction_sees_it(client: Client, new_table: NewTable) -> None:
    table, other = new_table(DDL, primary_key=["id"]), new_table(DDL)
    client.write(rows(0, 10, 0), table)
    with client.transaction() as txn:
        txn.write(rows(3, 6, 7), other)
        assert txn.delete_where(table, f"id IN (SELECT id FROM {other} WHERE v = 7)").deleted == 3
    assert client.delete_where(table, f"id NOT IN (SELECT id + 3 FROM {other})").rows == RowsAffected(deleted=4)
    assert sorted(values(client, table)) == [6, 7, 8]


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_row_changes_become_rows_of_files(client: Client, new_table: NewTable, kind: Kind) -> None:
    table = new_table(DDL, partition_by=["p"], primary_key=["id"], properties={"NO_AUTO_COMPACTION": "true"})
    client.write(rows(0, 100, 0), table)
    client.write(rows(100, 200, 0, "b"), table)
    before = client.snapshot()
    client.upsert(table, rows(50, 250, 1, "c"))
    client.delete(table, rows(0, 10, 0).select(["id"]))
    with client.transaction() as txn:
        txn.upsert(table, rows(5, 15, 2))
        (wanted,) = client.compact(table, kind=kind, wait=False)
        assert Worker(client.session, "here", threading.Event(), table).run_once()
        (done,) = [each for each in client.compactions(table) if each.compaction_id == wanted.compaction_id]
        assert (done.state, done.reason) == ("succeeded", "")
        txn.update_where(table, {"v": "v + 10"}, "id >= 240")
    assert before.to_arrow(table).num_rows == 200
    expected = dict.fromkeys(range(10, 50), ("a", 0)) | dict.fromkeys(range(50, 240), ("c", 1))
    expected |= dict.fromkeys(range(240, 250), ("c", 11)) | dict.fromkeys(range(5, 15), ("a", 2))
    assert values(client, table) == expected
    kinds = client.diff(table, since=before.timestamp)["_change_kind"].value_counts().to_pylist()
    assert {each["values"]: each["counts"] for each in kinds} == {
        "delete": 5,
        "update_before": 160,
        "update_after": 160,
        "insert": 50,
    }
