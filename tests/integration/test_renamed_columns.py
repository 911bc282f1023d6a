"""Columns that are renamed and dropped beside what is under way: transactions, staged files, flushes, SQL."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.support import wait_until
from txnclient import Client, InvalidArgument, Transaction
from txnclient.compact.worker import Worker
from txnclient.write.files import write_files

NewTable = Callable[..., str]


def rows(client: Client, table: str, at: int | None = None) -> list[dict[str, Any]]:
    return client.snapshot(at=at).to_arrow(table).sort_by("id").to_pylist()


def test_open_transactions_go_on_by_the_names_that_they_see(client: Client, new_table: NewTable) -> None:
    for options in ({"primary_key": ["id"]}, {}):
        table = new_table("id bigint, v bigint, w bigint", **options)
        client.write(pa.table({"id": [1, 2, 3], "v": [1, 2, 3], "w": [5, 5, 5]}), table)
        with client.transaction() as txn:
            assert txn.to_arrow(table).column_names == ["id", "v", "w"]
            client.alter_table(table, rename={"v": "u"}, add="v string")
            txn.update_where(table, {"v": "v + 10"}, "v = 1")
            txn.delete_where(table, "v = 2")
            merging = txn.merge(table, pa.table({"id": [3, 4]}), on="target.id = source.id")
            merging.when_matched_update({"v": "v + 30"}).when_not_matched_insert(
                {"id": "source.id", "v": "4"}
            ).execute()
            if options:
                txn.update(table, pa.table({"id": [3], "w": [7]}))
            assert txn.to_arrow(table).column_names == ["id", "v", "w"]
        assert [(row["id"], row["u"], row["w"], row["v"]) for row in rows(client, table)] == [
            (1, 11, 5, None),
            (3, 33, 7 if options else 5, None),
            (4, 4, None, None),
        ]


def test_rows_that_a_program_calls_by_old_names_are_refused_by_name(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v bigint", primary_key=["id"])
    client.alter_table(table, rename={"v": "w"})
    for write in (client.write, lambda data, name: client.upsert(name, data)):
        with pytest.raises(InvalidArgument, match=r"'(w|v)'"):
            write(pa.table({"id": [1], "v": [1]}), table)
    assert rows(client, table) == []


def test_a_write_that_was_made_ready_goes_in_by_its_columns_or_is_told(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v bigint, w bigint")

    def made(txn: Transaction) -> Any:
        return txn.stage(pa.table({"id": [1], "v": [2], "w": [3]}), table)

    with client.transaction() as txn:
        staged = made(txn)
        client.alter_table(table, rename={"w": "x", "v": "w"})
        txn.add([staged], table)
    assert rows(client, table) == [{"id": 1, "w": 2, "x": 3}]
    txn = client.begin()
    staged = txn.stage(pa.table({"id": [1], "w": [2], "x": [3]}), table)
    client.alter_table(table, drop=["w"])
    with pytest.raises(InvalidArgument, match="'v' of the data is not a column"):
        txn.add([staged], table)
    txn.abort()
    txn = client.begin()
    opened = txn.open_write(table)
    client.alter_table(table, drop=["x"])
    files = write_files(pa.table({"id": [5], "x": [3]}), opened)
    with pytest.raises(InvalidArgument, match="dropped since it was begun: 'x'"):
        txn.add_written(opened, files, "append", None, None)
    txn.abort()
    assert rows(client, table) == [{"id": 1}]


def test_an_update_of_rows_with_a_column_that_was_dropped_is_told(client: Client, new_table: NewTable) -> None:
    for options in ({"primary_key": ["id"]}, {}):
        table = new_table("id bigint, v bigint, w bigint", **options)
        client.write(pa.table({"id": [1, 2], "v": [1, 2], "w": [3, 4]}), table)
        txn = client.begin()
        txn.to_arrow(table)
        client.alter_table(table, drop=["w"])
        with pytest.raises(InvalidArgument, match=r"dropped since .*'w'"):
            txn.update_where(table, {"w": "8"}, "id = 1")
        txn.abort()
        with client.transaction() as txn:
            txn.delete_where(table, "id = 2")
        assert rows(client, table) == [{"id": 1, "v": 1}]


def test_readers_of_before_see_what_was_dropped_after_a_flush_and_a_compaction(
    client: Client, new_table: NewTable
) -> None:
    table, many = new_table("id bigint, v bigint, w string", primary_key=["id"]), 15_000
    client.write(pa.table({"id": [-1, 0], "v": [-1, 0], "w": ["a", "b"]}), table)
    ids = pa.array(range(many))
    client.upsert(table, pa.table({"id": ids, "v": ids, "w": pc.binary_repeat(ids.cast(pa.string()), 8)}))
    before, at = client.snapshot(), pc.field("id") < 2
    old = [(-1, -1, "a"), (0, 0, "0" * 8), (1, 1, "1" * 8)]
    client.alter_table(table, drop=["w"], add="w bigint")
    assert not before.scan(table).changes.flushed, "what was written before is flushed below"

    def check(*values: int | None) -> None:
        found = client.snapshot().to_arrow(table, where=at).sort_by("id").to_pylist()
        assert found == [{"id": n, "v": n, "w": w} for n, w in zip((-1, 0, 1), values, strict=True)]
        for each in (before, client.snapshot(at=before.timestamp)):
            seen = each.to_arrow(table, where=at).sort_by("id").to_pylist()
            assert [tuple(row.values()) for row in seen] == old
            assert each.to_arrow(table, ["w"])["w"].null_count == 0

    check(None, None, None)
    for start in range(many, 4 * many, many):
        ids = pa.array(range(start, start + many))
        client.upsert(table, pa.table({"id": ids, "v": ids}))
    wait_until(lambda: before.scan(table).changes.flushed, "row changes are read from files")
    check(None, None, None)
    client.update(table, pa.table({"id": [0], "w": [7]}))
    for _ in client.compact(table, kind="major", wait=False):
        assert Worker(client.session, "here", threading.Event(), table).run_once()
    check(None, 7, None)
    client.restore(before.timestamp, [table])
    check(None, None, None)  # the new column has no past


def test_what_must_keep_its_name_is_refused(client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table = new_table("id bigint, p string, v bigint", primary_key=["id"], partition_by=["p"])
    for changes, why in (
        ({"rename": {"id": "key"}}, "'id' .* part of the primary key: it keeps its name"),
        ({"rename": {"P": "q"}}, "'p' .* partitioned by: it keeps its name"),
        ({"drop": ["id"]}, "'id' .* part of the primary key: it cannot be dropped"),
        ({"drop": ["p"]}, "'p' .* cannot be dropped"),
        ({"drop": ["x"]}, "'x' is not a column"),
        ({"drop": "v"}, "one name where a list"),
        ({"rename": {"v": "ID"}}, "'v' .* cannot be called 'ID': it has a column 'id'"),
        ({"rename": {"v": "_txn_v"}}, "names that begin with _txn_ are taken"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            client.alter_table(table, **changes)
    plain = new_table("id bigint, v bigint")
    client.alter_table(plain, rename={"v": "w"})
    with pytest.raises(InvalidArgument, match="cannot be published: its column 'w' is called 'v' in its files"):
        client.alter_table(plain, properties={"publish": "delta"})
    pq.write_table(pa.table({"id": [1], "w": [2]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidArgument, match="column 'w' is called 'v' in files"):
        client.import_files(plain, str(tmp_path))
    client.import_files(plain, str(tmp_path), copy=True)
    assert rows(client, plain) == [{"id": 1, "w": 2}]
    client.alter_table(plain, rename={"w": "v"})
    client.alter_table(plain, properties={"publish": "delta"})


def test_values_that_had_no_room_before_are_beside_those_of_before(client: Client, new_table: NewTable) -> None:
    for options in ({"primary_key": ["id"]}, {}):
        table = new_table("id bigint, v int, f float", **options)
        client.write(
            pa.table({"id": [1, 2], "v": pa.array([1, 2], pa.int32()), "f": pa.array([0.5, 1], pa.float32())}), table
        )
        before, large = client.snapshot(), 5_000_000_000
        txn = client.begin()
        txn.update_where(table, {"v": "v + 1"}, "id = 1")
        staged = txn.stage(
            pa.table({"id": [4], "v": pa.array([4], pa.int32()), "f": pa.array([4], pa.float32())}), table
        )
        client.alter_table(table, widen={"v": "bigint", "f": "double"})
        client.write(pa.table({"id": [3], "v": [large], "f": [0.1]}), table, mode="upsert" if options else "append")
        txn.add([staged], table)
        txn.commit()
        expected = [(1, 2, 0.5), (2, 2, 1.0), (3, large, 0.1), (4, 4, 4.0)]
        assert [tuple(row.values()) for row in rows(client, table)] == expected
        for low, ids in ((3, [3, 4]), (large - 1, [3]), (1 << 40, [])):
            found = client.snapshot().to_arrow(table, ["id"], where=pc.field("v") > low)
            assert sorted(found["id"].to_pylist()) == ids
        assert client.sql(f"SELECT id FROM {table} WHERE v > 3000000000 OR f = 4").num_rows == 2
        assert [tuple(row.values()) for row in before.to_arrow(table).sort_by("id").to_pylist()] == [
            (1, 1, 0.5),
            (2, 2, 1),
        ]
        client.delete_where(table, f"v = {large} OR f < 1")
        assert [row["id"] for row in rows(client, table)] == [2, 4]
        if not options:
            with pytest.raises(InvalidArgument, match="its column 'v' has a narrower type in older files"):
                client.alter_table(table, properties={"publish": "delta"})


def test_files_of_others_go_on_to_be_read_as_columns_are_renamed(
    client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    for number in (1, 2):
        pq.write_table(pa.table({"id": [number], "v": [10 * number]}), tmp_path / f"{number}.parquet")
    table = new_table("id bigint, v bigint")
    client.import_files(table, str(tmp_path))
    client.alter_table(table, rename={"v": "w"}, add="v bigint")
    client.write(pa.table({"id": [3], "w": [30], "v": [1]}), table)
    assert [(row["id"], row["w"], row["v"]) for row in rows(client, table)] == [
        (1, 10, None),
        (2, 20, None),
        (3, 30, 1),
    ]
    found = client.snapshot().to_arrow(table, ["id"], where=(pc.field("w") > 15) & pc.field("v").is_null())
    assert found.to_pylist() == [{"id": 2}]
    with pytest.raises(pa.ArrowInvalid, match="nothing"):
        client.snapshot().to_arrow(table, ["id"], where=pc.field("nothing") > 1)


def test_sql_without_spark_speaks_of_columns(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint NOT NULL, v bigint NOT NULL, w string")
    client.sql(f"INSERT INTO {table} VALUES (1, 10, 'a'), (2, 20, 'b')")
    before = client.snapshot().timestamp
    client.sql(f"ALTER TABLE {table} RENAME COLUMN v TO `new name`")
    client.sql(f"ALTER TABLE {table} DROP COLUMN w")
    client.sql(f"ALTER TABLE {table} ADD COLUMNS (w int COMMENT 'again' FIRST, v string AFTER id)")
    client.sql(f"ALTER TABLE {table} ALTER COLUMN `new name` DROP NOT NULL")
    client.sql(f"ALTER TABLE {table} ALTER COLUMN v COMMENT 'a text'")
    told = [
        (column.name, column.type, column.nullable, column.comment) for column in client.table(table).schema.columns
    ]
    assert told == [
        ("w", "int", True, "again"),
        ("id", "bigint", False, ""),
        ("v", "string", True, "a text"),
        ("new name", "bigint", True, ""),
    ]
    client.sql(f"INSERT INTO {table} VALUES (5, 3, 'x', NULL)")
    client.sql(f"UPDATE {table} SET w = `new name` + 1 WHERE `new name` = 20")
    found = client.sql(f"SELECT t.id, t.w, `new name`, v FROM {table} t ORDER BY id").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1, None, 10, None), (2, 21, 20, None), (3, 5, None, "x")]
    old = client.sql(f"SELECT * FROM {table} VERSION AS OF {before} ORDER BY id").to_pylist()
    assert old == [{"id": 1, "v": 10, "w": "a"}, {"id": 2, "v": 20, "w": "b"}]
    for statement, why in (
        ("DROP COLUMN nothing", "'nothing' is not a column"),
        ("RENAME COLUMN id TO v", "it has a column 'v'"),
        ("ADD COLUMN x int NOT NULL", "'x' cannot be NOT NULL"),
        ("ALTER COLUMN id TYPE string", "'id' .* is bigint, and cannot become string"),
        ("RENAME COLUMN s.a TO b", "no column"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            client.sql(f"ALTER TABLE {table} {statement}")
