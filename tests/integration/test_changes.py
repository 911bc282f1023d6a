"""DELETE, UPDATE and MERGE of rows without a key, as a program without Spark makes them, against real nodes."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import txnclient
from tests.support import rows, visible
from txnclient import AlreadyExists, Client, Conflict, InvalidArgument, RowsAffected
from txnstatus.types import TxnState

NewTable = Callable[..., str]


def notes(client: Client, table: str) -> list[tuple[int, str]]:
    found = client.snapshot().to_arrow(table)
    return sorted(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))


def source(*ids: int, note: str = "new") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "note": [note] * len(ids)})


def test_rows_are_deleted_updated_and_merged_beside_another_table(client: Client, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    client.write(rows(1, 2, 3), table)
    before = client.write(rows(4, 5), table).commit_timestamp
    with client.transaction() as txn:
        assert txn.delete_where(table, "id IN (2, 5)") == RowsAffected(deleted=2)
        assert txn.update_where(table, {"note": "concat(note, '!')"}, "id < 4") == RowsAffected(updated=2)
        merged = (
            txn.merge(table, source(3, 4, 6), on="target.id = source.id")
            .when_matched_delete(condition="target.id = 4")
            .when_matched_update({"note": "source.note"})
            .when_not_matched_insert_all()
            .execute()
        )
        assert merged == RowsAffected(inserted=1, updated=1, deleted=1)
        txn.write(rows(9), other)
        inside = txn.to_arrow(table)
        assert sorted(inside["id"].to_pylist()) == [1, 3, 6]
        assert visible(client, table, other) == [[1, 2, 3, 4, 5], []]
    assert notes(client, table) == [(1, "row 1!"), (3, "new"), (6, "new")]
    assert visible(client, other) == [[9]]
    with client.snapshot(at=before) as old:
        assert sorted(old.to_arrow(table)["id"].to_pylist()) == [1, 2, 3, 4, 5]


def test_a_statement_is_a_transaction_of_its_own_on_the_client(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1, 2, 3), table)
    assert client.delete_where(table, "id = 1").rows == RowsAffected(deleted=1)
    up, once = ({"id": "id + 10"}, "true"), f"{table} up"
    assert client.update_where(table, *up, request_id=once).rows == RowsAffected(updated=2)
    assert client.update_where(table, *up, request_id=once).rows is None, "it is not done twice"
    assert visible(client, table) == [[12, 13]]
    merge = client.merge(table, source(13, 20), on="target.id = source.id").when_not_matched_insert_all()
    assert merge.execute().rows == RowsAffected(inserted=1)
    assert visible(client, table) == [[12, 13, 20]]
    assert client.delete_where(table, "id > 1000").rows == RowsAffected()


def test_different_rows_of_one_file_may_be_changed_at_once_and_the_same_row_not(
    client: Client, new_table: NewTable
) -> None:
    table = new_table()
    client.write(rows(*range(10)), table)
    one, two, three = client.begin(), client.begin(), client.begin()
    one.delete_where(table, "id = 3")
    two.update_where(table, {"note": "'two'"}, "id = 4")
    three.update_where(table, {"note": "'three'"}, "id IN (4, 5)")
    one.commit()
    two.commit()
    with pytest.raises(Conflict, match=r"rows 4 of .*\.parquet were changed by transaction") as error:
        three.commit()
    assert error.value.winner == two.id
    assert visible(client, table) == [[0, 1, 2, 4, 5, 6, 7, 8, 9]]
    assert (4, "two") in notes(client, table)


def test_two_merges_do_not_insert_the_same_row(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1), table)
    first, second, far = client.begin(), client.begin(), client.begin()
    for txn, ids in ((first, (5, 6)), (second, (6, 7)), (far, (100, 101))):
        merge = txn.merge(table, source(*ids), on="target.id = source.id")
        merge.when_matched_update_all().when_not_matched_insert_all().execute()
    first.commit()
    with pytest.raises(Conflict, match="may be those that are inserted"):
        second.commit()
    far.commit()
    assert visible(client, table) == [[1, 5, 6, 100, 101]]


@pytest.mark.parametrize(
    ("predicate", "said"),
    [("nope = 1", "nope"), ("id =", "id ="), ("", "expected an SQL expression"), ("id; DROP TABLE x", "DROP")],
)
def test_what_is_no_predicate_aborts_nothing_else_and_says_so(
    client: Client, new_table: NewTable, predicate: str, said: str
) -> None:
    table = new_table()
    client.write(rows(1), table)
    txn = client.begin()
    with pytest.raises(InvalidArgument, match=said):
        txn.delete_where(table, predicate)
    assert txn.state() is not TxnState.OPEN, "a write that failed aborts"
    assert visible(client, table) == [[1]]


def test_rows_with_a_key_are_changed_by_it(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=["id"])
    client.write(rows(1, 2, 3, 4), table)
    client.upsert(table, source(3, note="by row"))
    with client.transaction() as txn:
        assert txn.delete_where(table, "note = 'by row'") == RowsAffected(deleted=1)
        assert txn.update_where(table, {"id": "id + 10"}, "id = 4") == RowsAffected(updated=1)
        merge = txn.merge(table, source(2, 7), on="target.id = source.id")
        assert merge.when_matched_update_all().when_not_matched_insert_all().execute() == RowsAffected(1, 1, 0)
        assert sorted(txn.to_arrow(table)["id"].to_pylist()) == [1, 2, 7, 14]
    assert notes(client, table) == [(1, "row 1"), (2, "new"), (7, "new"), (14, "row 4")]
    one, two = client.begin(), client.begin()
    one.update_where(table, {"note": "'one'"}, "id = 1")
    two.delete_where(table, "id < 3")
    one.commit()
    with pytest.raises(Conflict, match=r"\(1\) was changed"):
        two.commit()
    with pytest.raises(InvalidArgument, match="comes more than once"):
        client.update_where(table, {"id": "5"}, "true")
    with pytest.raises(AlreadyExists, match="1 of 1 rows: their keys are there already"):
        client.update_where(table, {"id": "1"}, "id = 2")
    assert visible(client, table) == [[1, 2, 7, 14]]


def test_a_table_with_locks_lets_one_change_it_at_a_time(client: Client, new_table: NewTable) -> None:
    table = new_table(conflicts="no-wait")
    client.write(rows(1, 2), table)
    one, two = client.begin(), client.begin()
    one.delete_where(table, "id = 1")
    with pytest.raises(txnclient.Locked):
        two.delete_where(table, "id = 2", lock_timeout=0.2)
    one.commit()
    assert client.delete_where(table, "id = 2").rows == RowsAffected(deleted=1)
    assert visible(client, table) == [[]]
