"""Columns renamed, dropped and widened, on the paths beside: restore, files of others, publication, doctor."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from txnclient import Client, InvalidArgument
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
    """With two rows."""
    name = new_table("id bigint, v int, w string", primary_key=["id"] if request.param else ())
    client.write(pa.table({"id": [1, 2], "v": pa.array([10, 20], pa.int32()), "w": ["a", "b"]}), name)
    return name


def test_a_restore_brings_back_rows_and_no_columns(client: Client, table: str) -> None:
    first = client.snapshot().timestamp
    client.alter_table(table, rename={"v": "u"}, add="v string")
    client.update_where(table, {"u": "u + 1", "v": "'x'"}, "true")
    second = client.snapshot().timestamp
    client.alter_table(table, drop=["w"], widen={"u": "bigint"}, rename={"v": "w"})
    client.delete_where(table, "u = 11")
    assert rows(client, table) == [(2, 21, "x")]
    client.restore(second, [table])
    assert rows(client, table) == [(1, 11, "x"), (2, 21, "x")]
    client.restore(first, [table])
    assert rows(client, table) == [(1, 10, None), (2, 20, None)]
    assert rows(client, table, first) == [(1, 10, "a"), (2, 20, "b")]
    assert rows(client, table, second) == [(1, 11, "a", "x"), (2, 21, "b", "x")]
    found = client.sql(f"SELECT w FROM {table} VERSION AS OF {second} WHERE v = 'x' ORDER BY id").to_pylist()
    assert found == [{"w": "a"}, {"w": "b"}]


def test_a_diff_has_the_columns_of_its_end(client: Client, table: str) -> None:
    before = client.snapshot()
    client.alter_table(table, rename={"v": "u", "w": "v"})
    client.update_where(table, {"u": "u + 1"}, "id = 1")
    middle = client.snapshot()
    client.alter_table(table, drop=["v"], widen={"u": "bigint"})
    client.delete_where(table, "id = 2")

    def changes(since: Any, until: Any) -> list[tuple[Any, ...]]:
        found = client.diff(table, since.timestamp, until.timestamp).to_pylist()
        return sorted((row.pop("_change_kind")[:6], *row.values()) for row in found)

    old, new = ("update", "update") if client.table(table).schema.primary_key else ("delete", "insert")
    assert changes(before, middle) == sorted([(old, 1, 10, "a"), (new, 1, 11, "a")])
    assert changes(middle, client.snapshot()) == [("delete", 2, 20)]
    assert changes(before, client.snapshot()) == sorted([(old, 1, 10), (new, 1, 11), ("delete", 2, 20)])


def test_files_of_others_are_read_by_whatever_their_columns_are_called(
    client: Client, new_table: NewTable, tmp_path: Path
) -> None:
    """Also of a column that was widened before they came, and by an undo of their coming."""

    def file(number: int, **columns: object) -> str:
        place = tmp_path / str(number)
        place.mkdir()
        pq.write_table(pa.table({"id": [number], **columns}), place / "a.parquet")
        return str(place)

    table = new_table("id bigint, v int, w string")
    client.import_files(table, file(1, v=pa.array([10], pa.int32()), w=["a"]))
    client.alter_table(table, widen={"v": "bigint"})
    client.import_files(table, file(2, v=pa.array([20], pa.int32()), w=["b"]))
    client.import_files(table, file(3, v=pa.array([1 << 40]), w=["c"]))
    assert rows(client, table) == [(1, 10, "a"), (2, 20, "b"), (3, 1 << 40, "c")]
    client.alter_table(table, drop=["w"])
    with pytest.raises(InvalidArgument, match="column 'w' of the data is not a column"):
        client.import_files(table, file(4, v=[1], w=["d"]))
    last = client.import_files(table, file(5, v=[50]))
    client.alter_table(table, add="w bigint", rename={"v": "u"})
    with pytest.raises(InvalidArgument, match="files of others cannot be added"):
        client.import_files(table, file(6, u=[1], w=[60]))
    client.undo(last.txn_id)
    for _ in client.compact(table, kind="major", wait=False):
        assert Worker(client.session, "here", threading.Event(), table).run_once()
    assert rows(client, table) == [(1, 10, None), (2, 20, None), (3, 1 << 40, None)]
    assert pq.read_table(tmp_path / "1" / "a.parquet").column_names == ["id", "v", "w"]


def test_a_publication_ends_before_columns_change_and_begins_again_where_files_are_the_table(
    client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, v int, w string", properties={"publish": "delta"})
    for changes in ({"rename": {"v": "u"}}, {"drop": ["w"]}, {"widen": {"v": "bigint"}}, {"add": "x int"}):
        with pytest.raises(InvalidArgument, match="is published: its columns cannot be changed"):
            client.alter_table(table, **changes)
        with pytest.raises(InvalidArgument, match="is published: its columns cannot be changed"):
            client.alter_table(table, properties={"publish": None}, **changes)
    client.alter_table(table, properties={"publish": None})
    client.alter_table(table, drop=["w"])
    client.alter_table(table, properties={"publish": "delta"})
    client.alter_table(table, properties={"publish": None})
    client.alter_table(table, add="w int")
    with pytest.raises(InvalidArgument, match="its column 'w' is called 'w~2' in its files"):
        client.alter_table(table, properties={"publish": "delta"})


def test_the_doctor_finds_nothing_wrong(cluster: LocalCluster, client: Client, table: str) -> None:
    """Neither of what was written before a change of columns, nor of what a flush and a compaction have made since."""
    client.alter_table(table, rename={"v": "u"}, drop=["w"], add="v string, w bigint")
    client.alter_table(table, widen={"u": "bigint"})
    client.write(pa.table({"id": [3], "u": [1 << 40], "v": ["c"], "w": [3]}), table)
    told = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--table", table, "--deep"])
    assert told.exit_code == 0, told.output
    for _ in client.compact(table, kind="major", wait=False):
        assert Worker(client.session, "here", threading.Event(), table).run_once()
    told = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--table", table, "--deep"])
    assert told.exit_code == 0, told.output
    assert rows(client, table) == [(1, 10, None, None), (2, 20, None, None), (3, 1 << 40, "c", 3)]
