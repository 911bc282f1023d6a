"""Fields that come to structs: of columns, of arrays and of maps, under files and rows from before."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from txnclient import Client, InvalidArgument
from txnclient.compact.worker import Worker

pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]
POINT = pa.struct([("x", pa.int32()), ("y", pa.int32())])
BEFORE = pa.schema([("id", pa.int64()), ("s", POINT), ("l", pa.list_(POINT)), ("m", pa.map_(pa.string(), POINT))])


def data(id_: int) -> pa.Table:
    """A row as a program of before has it."""
    point = {"x": id_, "y": None}
    return pa.table({"id": [id_], "s": [point], "l": [[point, None]], "m": [[("k", point)]]}, BEFORE)


def rows(client: Client, table: str, at: int | None = None) -> dict[int, tuple[Any, ...]]:
    with client.snapshot(at=at) as snapshot:
        return {row["id"]: (row["s"], row["l"], row["m"]) for row in snapshot.to_arrow(table).to_pylist()}


def shown(id_: int, **more: Any) -> tuple[Any, ...]:
    point = {"x": id_, "y": None, **more}
    return point, [point, None], [("k", point)]


@pytest.fixture(params=[False, True], ids=["without a key", "with a key"])
def table(request: pytest.FixtureRequest, client: Client, new_table: NewTable) -> str:
    """With a row in a file, and where it has a key one that is in none."""
    point = "struct<x:int,y:int>"
    name = new_table(
        f"id bigint, s {point}, l array<{point}>, m map<string,{point}>", primary_key=["id"] if request.param else ()
    )
    client.write(data(1), name)
    if request.param:
        client.upsert(name, data(2))
    else:
        client.write(data(2), name)
    return name


def grow(client: Client, table: str) -> None:
    client.sql(f"ALTER TABLE {table} ADD COLUMNS (s.z string, l.element.z string, m.value.z string)")


def test_what_lies_there_has_nulls_in_the_new_fields(client: Client, table: str) -> None:
    before = client.snapshot()
    with client.transaction() as open_:
        open_.to_arrow(table)
        grow(client, table)
        open_.write(data(3), table)
    kinds = {column.name: column.type for column in client.table(table).schema.columns}
    assert kinds["l"] == "array<struct<x:int,y:int,z:string>>"
    client.write(data(4), table)
    new = pa.struct([*POINT, ("z", pa.string())])
    schema = pa.schema([("id", pa.int64()), ("s", new), ("l", pa.list_(new)), ("m", pa.map_(pa.string(), new))])
    client.write(pa.Table.from_pylist([dict(zip(schema.names, (5, *shown(5, z="new")), strict=True))], schema), table)
    expected = {n: shown(n, z=None) for n in (1, 2, 3, 4)} | {5: shown(5, z="new")}
    assert rows(client, table) == expected
    assert {n: row[0] for n, row in rows(client, table, before.timestamp).items()} == {n: shown(n)[0] for n in (1, 2)}
    with client.snapshot() as now:
        assert sorted(now.to_arrow(table, ["id"], where=pc.field("s", "z").is_null())["id"].to_pylist()) == [1, 2, 3, 4]
        assert sorted(now.to_duckdb(table).filter("s.z = 'new'").project("id").fetchall()) == [(5,)]
        assert now.to_polars(table, lazy=True).collect().height == 5
    client.update_where(table, {"s": "named_struct('x', s.x + 1, 'y', 0, 'z', 'set')"}, "s.z IS NULL AND id = 1")
    if client.table(table).schema.primary_key:
        client.upsert(table, data(2))
    for _ in client.compact(table, kind="major", wait=False):
        assert Worker(client.session, "here", threading.Event(), table).run_once()
    found = rows(client, table)
    assert found.pop(1)[0] == {"x": 2, "y": 0, "z": "set"}
    assert found == {n: row for n, row in expected.items() if n > 1}
    assert before.to_arrow(table).schema.field("s").type == POINT


def test_a_diff_and_a_restore_go_over_the_change(client: Client, table: str) -> None:
    first = client.snapshot().timestamp
    grow(client, table)
    client.delete_where(table, "id = 1")
    found = client.diff(table, since=first).to_pylist()
    assert [(row["_change_kind"], row["s"]) for row in found] == [("delete", shown(1, z=None)[0])]
    client.restore(first, [table])
    assert rows(client, table) == {n: shown(n, z=None) for n in (1, 2)}


def test_files_of_others_may_lack_them(client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table = new_table("id bigint, s struct<x:int,y:int>")
    client.alter_table(table, widen={"s": "struct<x:int,y:int,z:string>"})
    pq.write_table(data(1).select(["id", "s"]), tmp_path / "a.parquet")
    client.import_files(table, str(tmp_path))
    assert client.snapshot().to_arrow(table).to_pylist() == [{"id": 1, "s": shown(1, z=None)[0]}]
    with pytest.raises(InvalidArgument, match="has a narrower type in older files"):
        client.alter_table(table, properties={"publish": "delta"})


def test_what_else_becomes_of_fields_is_refused_by_name(client: Client, table: str) -> None:
    before = client.table(table)
    for statement, why in (
        ("ADD COLUMN s.X int", "field 's.X' cannot be added .* there is a field 'x'"),
        ("ADD COLUMN s.w.z int", "there is no 'w' in struct"),
        ("ADD COLUMN nowhere.z int", "'nowhere' is not a column of it"),
        ("ADD COLUMN id.z int", "only structs have fields, and there is bigint"),
        ("ADD COLUMN m.key.z int", "keys stay"),
        ("ADD COLUMN s.z int DEFAULT 5", "a field of a struct comes last, and has no default"),
        ("ADD COLUMN s.z int FIRST", "a field of a struct comes last"),
        ("ADD COLUMN s.z int NOT NULL", "cannot be NOT NULL"),
        ("DROP COLUMN s.x", "fields of structs are added, and stay"),
        ("RENAME COLUMN s.x TO z", "fields of structs are added, and stay"),
    ):
        with pytest.raises(InvalidArgument, match=why) as refused:
            client.sql(f"ALTER TABLE {table} {statement}")
        assert ("UPDATE it from this one" in refused.value.hint) is ("and stay" in why)
    for kind in ("struct<x:int>", "struct<y:int,x:int,z:int>", "struct<x:bigint,y:int>", "array<int>"):
        with pytest.raises(InvalidArgument, match=r"is struct<x:int,y:int>, and cannot become"):
            client.alter_table(table, widen={"s": kind})
    assert client.table(table) == before
    with pytest.raises(InvalidArgument, match="column 's'"):
        client.write(data(9).set_column(1, "s", pa.array([{"x": 1}], pa.struct([("x", pa.int32())]))), table)
