"""Rows that are written without a column that has a default, in whatever way, and rows that were there before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from txnclient import Client, IllegalState, InvalidArgument, RowsAffected
from txnclient.compact.worker import Worker
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster

pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]


def rows(client: Client, table: str, at: int | None = None) -> list[tuple[Any, ...]]:
    with client.snapshot(at=at) as snapshot:
        return [tuple(row.values()) for row in snapshot.to_arrow(table).sort_by("id").to_pylist()]


@pytest.fixture(params=[False, True], ids=["without a key", "with a key"])
def table(request: pytest.FixtureRequest, client: Client, new_table: NewTable) -> str:
    """With a row from before there were defaults."""
    name = new_table("id bigint NOT NULL, v int NOT NULL, w string", primary_key=["id"] if request.param else ())
    client.write(pa.table({"id": [1], "v": pa.array([10], pa.int32()), "w": ["a"]}), name)
    client.alter_table(name, add="x decimal(5,2)")
    client.alter_table(name, defaults={"v": 5, "w": "it's", "x": Decimal("1.5")})
    return name


def test_what_is_left_out_has_the_default_of_the_time(client: Client, table: str) -> None:
    assert rows(client, table) == [(1, 10, "a", None)], "rows that were there stay as they were"
    client.write(pa.table({"id": [2]}), table)
    client.write(pa.table({"id": [3], "v": pa.array([7], pa.int32()), "w": pa.nulls(1, pa.string())}), table)
    client.sql(f"INSERT INTO {table} (id, x) VALUES (4, 2.25)")
    source = pa.table({"key": [1, 5]})
    merging = client.merge(table, source, on="target.id = source.key").when_matched_update({"w": "'b'"})
    merging.when_not_matched_insert({"id": "source.key", "v": "9"}).execute()
    client.update_where(table, {"v": "v + 1"}, "id = 3")
    client.alter_table(table, defaults={"v": 6, "w": None})
    with pytest.raises(InvalidArgument, match=r"column .w. .* is missing in the data"):
        client.write(pa.table({"id": [6]}), table)
    client.write(pa.table({"id": [6], "w": ["f"]}), table)
    half = Decimal("1.50")
    assert rows(client, table) == [
        (1, 10, "b", None),
        (2, 5, "it's", half),
        (3, 8, None, half),
        (4, 5, "it's", Decimal("2.25")),
        (5, 9, "it's", half),
        (6, 6, "f", half),
    ]


def test_rows_by_key_have_it_where_they_are_new(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v int, w string", primary_key=["id"])
    client.alter_table(table, defaults={"v": 5, "w": "x"})
    client.insert(table, pa.table({"id": [1], "w": ["a"]}))
    client.upsert(table, pa.table({"id": [2]}))
    client.update(table, pa.table({"id": [1], "v": pa.array([6], pa.int32())}))
    assert rows(client, table) == [(1, 6, "a"), (2, 5, "x")]
    client.upsert(table, pa.table({"id": [1]}))
    assert rows(client, table)[0] == (1, 5, "x"), "an upsert replaces a row as a whole"


def test_values_of_all_types_that_have_some(client: Client, new_table: NewTable) -> None:
    table = new_table(
        "id int, a boolean, b double, c date, d timestamp, e timestamp_ntz, f bigint, p string", partition_by=["p"]
    )
    at = datetime(2024, 1, 1, 10, 0, 0, 500, UTC)
    given = {
        "a": True,
        "b": 0.1,
        "c": date(2024, 2, 29),
        "d": at,
        "e": at.replace(tzinfo=None),
        "f": -(1 << 63),
        "p": "q/r",
    }
    client.alter_table(table, defaults=given)
    with client.transaction() as txn:
        txn.add([txn.stage(pa.table({"id": pa.array([1], pa.int32())}), table)], table)
    assert rows(client, table) == [(1, *given.values())]
    assert client.snapshot().to_arrow(table, where=pa.compute.field("p") == "q/r").num_rows == 1


def test_sql_without_spark_gives_and_takes_defaults(client: Client, table: str) -> None:
    alter = f"ALTER TABLE {table} ALTER COLUMN"
    client.sql(f"{alter} v SET DEFAULT -3")
    client.sql(f"{alter} w SET DEFAULT 'new'")
    client.sql(f"{alter} x DROP DEFAULT")
    client.sql(f"INSERT INTO {table} (id) SELECT 2")
    client.sql(f"INSERT INTO {table} VALUES (3, DEFAULT, 'c', DEFAULT), (4, 4, DEFAULT, 1)")
    client.sql(f"UPDATE {table} SET v = DEFAULT WHERE id = 1")
    client.sql(
        f"MERGE INTO {table} t USING (SELECT 5 AS k) s ON t.id = s.k "
        "WHEN NOT MATCHED THEN INSERT (id, v, w) VALUES (s.k, 5, DEFAULT)"
    )
    assert rows(client, table) == [
        (1, -3, "a", None),
        (2, -3, "new", None),
        (3, -3, "c", None),
        (4, 4, "new", Decimal(1)),
        (5, 5, "new", None),
    ]
    client.sql(f"ALTER TABLE {table} ADD COLUMNS (y int DEFAULT 5 COMMENT 'late', z date DEFAULT DATE'2024-02-29')")
    assert {row[-2:] for row in rows(client, table)} == {(5, date(2024, 2, 29))}
    for statement, why in (
        (f"{alter} v SET DEFAULT 1 + 1", "a default is a literal"),
        (f"{alter} v SET DEFAULT 'x'", "'x' is no value of it"),
        (f"ALTER TABLE {table} ADD COLUMN y binary DEFAULT 'x'", "'y' of type binary cannot have a default"),
        (f"ALTER TABLE {table} ADD COLUMN y date DEFAULT current_date()", "a default is a literal"),
        (f"ALTER TABLE {table} ADD COLUMN y int NOT NULL DEFAULT 5", "cannot be NOT NULL"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            client.sql(statement)


def test_a_table_is_made_with_defaults(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v int DEFAULT 5, w string", defaults={"W": "x"})
    client.write(pa.table({"id": [1]}), table)
    assert rows(client, table) == [(1, 5, "x")]
    assert [column.initial for column in client.table(table).schema.columns] == [None, None, None]
    with pytest.raises(InvalidArgument, match=r"'x'.* is not a column"):
        new_table("id bigint", defaults={"x": 1})
    with pytest.raises(InvalidArgument, match="'id' is part of the primary key: it has no default"):
        new_table("id bigint DEFAULT 1", primary_key=["id"])


LATE = (5, "it's", date(2024, 2, 29), Decimal("1.50"))


@pytest.fixture
def grown(client: Client, table: str) -> str:
    """The table with rows from before columns that came with defaults: 1 in a file, 2 by key where it has one."""
    row = pa.table({"id": [2], "v": pa.array([20], pa.int32()), "w": ["b"], "x": pa.array([None], pa.decimal128(5, 2))})
    if client.table(table).schema.primary_key:
        client.upsert(table, row)
    else:
        client.write(row, table)
    defaults = {"s": "it's", "d": date(2024, 2, 29)}
    client.alter_table(table, add="n int DEFAULT 5, s string, d date, e decimal(5,2) DEFAULT 1.5", defaults=defaults)
    return table


def late(client: Client, table: str) -> dict[int, tuple[Any, ...]]:
    """The columns that came late, by id."""
    return {row[0]: row[4:] for row in rows(client, table)}


def test_every_reader_shows_in_rows_of_before_what_a_column_came_with(client: Client, grown: str) -> None:
    assert late(client, grown) == {1: LATE, 2: LATE}
    with client.transaction() as open_:
        assert open_.to_arrow(grown).num_rows == 2
        client.alter_table(grown, defaults={"n": 6, "s": None})
        client.write(pa.table({"id": [3], "v": pa.array([3], pa.int32())}), grown)
    after = (6, None, *LATE[2:])
    assert late(client, grown) == {1: LATE, 2: LATE, 3: after}, "a later default is for rows to come"
    with client.snapshot() as now:
        for where, ids in (
            (pc.field("n") == 5, [1, 2]),
            (pc.field("n") > 5, [3]),
            (pc.field("s").is_null(), [3]),
            ((pc.field("e") == Decimal("1.50")) & (pc.field("id") > 1), [2, 3]),
        ):
            assert sorted(now.to_arrow(grown, ["id"], where=where)["id"].to_pylist()) == ids
            batches = now.to_batches(grown, ["id", "d"], where=where).read_all()
            assert sorted(batches["id"].to_pylist()) == ids
            assert set(batches["d"].to_pylist()) == {LATE[2]}
            assert sorted(now.to_polars(grown, lazy=True, where=where).collect()["id"].to_list()) == ids
        assert sorted(now.to_duckdb(grown).filter("n = 5").project("id, s").fetchall()) == [(1, "it's"), (2, "it's")]
    assert client.sql(f"SELECT sum(n) AS n, min(s) AS s FROM {grown}").to_pylist() == [{"n": 16, "s": "it's"}]


def test_what_began_before_a_column_is_from_before_it(client: Client, table: str) -> None:
    with client.transaction() as txn:
        txn.update_where(table, {"v": "v + 1"}, "id = 1")
        client.alter_table(table, add="n int DEFAULT 5")
        client.alter_table(table, defaults={"n": 6})
        txn.write(pa.table({"id": [2], "v": pa.array([2], pa.int32())}), table)
        if client.table(table).schema.primary_key:
            txn.update(table, pa.table({"id": [1], "v": pa.array([3], pa.int32())}))
    assert rows(client, table)[0][4] == 5, "as in the row that it has changed"


def test_statements_find_and_change_rows_of_before(client: Client, grown: str) -> None:
    assert client.update_where(grown, {"n": "n + 1"}, "n = 5 AND id = 1").rows == RowsAffected(updated=1)
    assert client.delete_where(grown, "n = 5").rows == RowsAffected(deleted=1)
    merging = client.merge(grown, pa.table({"k": [1, 4]}), on="target.id = source.k")
    merging.when_matched_update({"v": "target.n * 100"}).when_not_matched_insert({"id": "source.k", "v": "7"}).execute()
    assert [(row[0], row[1], *row[4:]) for row in rows(client, grown)] == [(1, 600, 6, *LATE[1:]), (4, 7, *LATE)]
    if client.table(grown).schema.primary_key:
        client.update(grown, pa.table({"id": [1], "s": ["new"]}))
        assert late(client, grown)[1] == (6, "new", *LATE[2:])


def test_what_is_written_anew_has_it_for_good(cluster: LocalCluster, client: Client, grown: str) -> None:
    client.alter_table(grown, defaults={"n": None, "s": "other"}, rename={"d": "day"}, widen={"n": "bigint"})
    before = client.snapshot()
    for _ in client.compact(grown, kind="major", wait=False):
        assert Worker(client.session, "here", threading.Event(), grown).run_once()
    assert late(client, grown) == {1: LATE, 2: LATE}
    files = before.table_files(grown).files, client.snapshot().table_files(grown).files
    there = [
        {name for file in each for name in pq.read_schema(file.path.removeprefix("file://")).names} for each in files
    ]
    assert "n" not in there[0]
    assert {"n", "s", "d", "e"} <= there[1]
    assert rows(client, grown, before.timestamp) == rows(client, grown)
    told = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--table", grown, "--deep"])
    assert told.exit_code == 0, told.output


def test_what_comes_back_is_as_in_all_rows_of_before(client: Client, table: str) -> None:
    """A restore to a time before the column, an undo, and a diff over it."""
    first = client.snapshot().timestamp
    gone = client.delete_where(table, "id = 1")
    client.alter_table(table, add="n int DEFAULT 5")
    client.alter_table(table, defaults={"n": 6})
    client.undo(gone.txn_id)
    assert [row[4] for row in rows(client, table)] == [5]
    client.delete_where(table, "true")
    found = client.diff(table, since=first).to_pylist()
    assert [(row["_change_kind"], row["n"]) for row in found] == [("delete", 5)]
    client.restore(first, [table])
    assert [row[4] for row in rows(client, table)] == [5]


def test_files_of_others_that_lack_it_are_from_before_it(client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table = new_table("id bigint")
    client.alter_table(table, add="n int DEFAULT 5")
    client.alter_table(table, defaults={"n": 6})
    pq.write_table(pa.table({"id": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"id": [2], "n": pa.array([None], pa.int32())}), tmp_path / "b.parquet")
    client.import_files(table, str(tmp_path))
    assert rows(client, table) == [(1, 5), (2, None)]
    with pytest.raises(IllegalState, match="do not have its column 'n', which is no null there"):
        client.snapshot().files(table)
    with pytest.raises(InvalidArgument, match="its column 'n' has a value in files that do not have it"):
        client.alter_table(table, properties={"publish": "delta"})
