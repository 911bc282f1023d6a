"""Tables with rows that were deleted by position, read by pyarrow, beside a list of rows."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tests.unit.harness.deleted_rows import SCHEMA, Table, by_id, rows
from txnclient.formats import arrow
from txnclient.read import diff
from txnclient.read.row_reads import RowChanges
from txnclient.snapshot import Snapshot
from txnclient.write.keys import KeyedFiles
from txnstatus.errors import AlreadyExists, DataDamaged, IllegalState, InvalidArgument
from txnstatus.lake import data_files, dead_rows, manifest
from txnstatus.lake.rows import Change, to_ipc
from txnstatus.lake.storage import file_system
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=4),
    deletes=st.lists(st.dictionaries(st.integers(0, 3), st.sets(st.integers(0, 59))), max_size=3),
    per_group=st.sampled_from([1, 7, 16, 1_000]),
    lowest=st.none() | st.integers(0, 200),
    columns=st.sampled_from([None, ["v"], ["v", "id"], []]),
)
def test_dead_rows_are_left_out_of_every_read(
    tmp_path_factory: pytest.TempPathFactory,
    sizes: list[int],
    deletes: list[dict[int, set[int]]],
    per_group: int,
    lowest: int | None,
    columns: list[str] | None,
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(arrow, "ROWS_PER_GROUP", per_group)
        table = Table(tmp_path_factory.mktemp("table"))
        starts = list(itertools.accumulate(sizes, initial=0))
        for start, size in zip(starts, sizes, strict=False):
            table.write(rows(range(start, start + size)))
    dead: dict[str, set[int]] = {}
    for each in deletes:
        of_files = {
            number: {at for at in gone if at < sizes[number]} for number, gone in each.items() if number < len(sizes)
        }
        paths = {table.files[number][0].path: gone for number, gone in of_files.items()}
        table.delete({path: BitMap(gone) for path, gone in paths.items()} | {"file:///gone.parquet": BitMap([5])})
        for path, gone in paths.items():
            dead.setdefault(path, set()).update(gone)
    found = table.read()
    assert {path: set(gone) for path, gone in found.dead.items()} == {path: gone for path, gone in dead.items() if gone}
    expected = table.expected(dead)
    assert found.rows == len(expected)
    where = None
    if lowest is not None:
        where = (pc.field("id") >= lowest) & (pc.field("v") != 3)
        expected = [row for row in expected if row["id"] >= lowest and row["v"] is not None and row["v"] != 3]
    asked = columns if columns is None else [*columns, *({"id"} - set(columns))]
    wanted = [{name: row[name] for name in asked or row} for row in expected]
    whole = found.to_arrow(asked, where)
    assert (by_id(whole), whole.schema) == (wanted, found.target(asked))
    batches = pa.Table.from_batches(found.batches(asked, where), found.target(asked))
    assert by_id(batches) == wanted
    if columns == []:
        assert found.to_arrow([], where).num_rows == len(expected)
    part = found.within("grö ße=b")
    assert part.rows == sum(row["grö ße"] == "b" for row in table.expected(dead))
    assert by_id(part.to_arrow(where=where)) == [
        row for row in sorted(expected, key=lambda row: row["id"]) if row["grö ße"] == "b"
    ]


def test_what_has_no_rows_left_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "ROWS_PER_GROUP", 10)
    table = Table(tmp_path)
    gone, partly, whole = (table.write(rows(range(start, start + 30))) for start in (0, 30, 60))
    table.delete({gone.path: BitMap(range(30)), partly.path: BitMap(range(5, 20))})
    opened: list[str] = []
    check = data_files.check
    monkeypatch.setattr(
        data_files, "check", lambda files, readers: (opened.extend(f.path for f in files), check(files, readers))
    )
    found = table.read()
    assert found.to_arrow()["id"].to_pylist() == [*range(60, 90), *range(30, 35), *range(50, 60)]
    assert opened == [whole.path, partly.path]
    opened.clear()
    assert found.to_arrow(where=pc.field("id") > 65).num_rows == 24
    assert opened == [whole.path]


def test_a_file_of_dead_rows_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path)
    file = table.write(rows(range(9)))
    for position in range(3):
        table.delete({file.path: BitMap([position])})
    read: list[str] = []
    once = dead_rows.read_file
    monkeypatch.setattr(dead_rows, "read_file", lambda uri: read.append(uri) or once(uri))
    assert table.read().dead == table.read().dead == {file.path: BitMap([0, 1, 2])}
    assert sorted(read) == sorted(ref.path for ref in table.response.dead)


def test_a_row_that_its_file_does_not_have_is_damage(tmp_path: Path) -> None:
    table = Table(tmp_path)
    file = table.write(rows(range(9)))
    table.delete({file.path: BitMap([8])})
    assert table.read().rows == 8
    table.delete({file.path: BitMap([9])})
    with pytest.raises(DataDamaged, match=f"row 9 of {file.path} is said to be deleted: the file has 9 rows"):
        table.read()


def test_no_flipped_bit_of_a_file_with_dead_rows_is_read(tmp_path: Path) -> None:
    table = Table(tmp_path)
    file = table.write(rows(range(1, 100)))
    table.delete({file.path: BitMap(range(0, 99, 3))})
    found = table.read()
    system, name = data_files.file_system(file.path)
    path, expected = Path(name), found.to_arrow()
    assert system.type_name == "local"
    # Up to this size a file has a CRC over all of it; without, page checksums are all that there is.
    bare = replace(found, files=(replace(file, ending=file.bytes, crc32=0),))
    data = path.read_bytes()
    for at in range(4, len(data), 13):
        path.write_bytes(bytes([*data[:at], data[at] ^ 4, *data[at + 1 :]]))
        with pytest.raises(DataDamaged, match="part-0"):
            found.to_arrow()
        try:
            assert bare.to_arrow() == expected
        except DataDamaged:
            continue


# ---- differences


@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_a_difference_has_the_rows_that_died_and_those_that_came_alive(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Files that stay, that go and that come, each with dead rows before and after."""
    table, sizes = Table(tmp_path_factory.mktemp("table")), data.draw(st.lists(st.integers(1, 12), max_size=5))
    starts = list(itertools.accumulate(sizes, initial=0))
    for start, size in zip(starts, sizes, strict=False):
        table.write(rows(range(start, start + size)))
    sides, alive = [], []
    for _ in range(2):
        side, seen = pb.ScanResponse(table=table.response.table), set()
        for number, (file, rows_of) in enumerate(table.files):
            if not data.draw(st.booleans(), f"file {number} is there"):
                continue
            side.manifests.append(table.response.manifests[number])
            gone = data.draw(st.sets(st.integers(0, file.rows - 1)), f"dead rows of file {number}")
            if gone:
                table.delete({file.path: BitMap(gone)})
                side.dead.append(table.response.dead[-1])
            seen |= {row for at, row in enumerate(rows_of["id"].to_pylist()) if at not in gone}
        sides.append(side)
        alive.append(seen)
    changes = diff.between(*sides, Timestamp(1), Timestamp(2)).to_arrow()
    found = Counter(zip(changes[diff.CHANGE_KIND].to_pylist(), changes["id"].to_pylist(), strict=True))
    assert found == {("delete", row): 1 for row in alive[0] - alive[1]} | {
        ("insert", row): 1 for row in alive[1] - alive[0]
    }
    wanted = {row["id"]: row for row in table.expected({})}
    assert all({**wanted[row["id"]], diff.CHANGE_KIND: row[diff.CHANGE_KIND]} == row for row in changes.to_pylist())


def test_a_difference_of_whole_writes_reads_nothing_that_both_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = Table(tmp_path)
    table.write(rows(range(5)))
    before = table.now()
    table.write(rows(range(5, 7)))
    read: list[str] = []
    once = manifest.read_file
    monkeypatch.setattr(manifest, "read_file", lambda uri: read.append(uri) or once(uri))
    assert diff.between(before, table.now(), Timestamp(1), Timestamp(2)).to_arrow()["id"].to_pylist() == [5, 6]
    assert read == [table.response.manifests[1].path]


def test_a_key_whose_row_is_dead_is_free_but_for_who_sees_the_row(tmp_path: Path) -> None:
    """A file that both sides show was looked at on one of them: a reader of the other got the key twice."""
    keyed = Schema(SCHEMA.columns, primary_key=("id",))
    table, added = Table(tmp_path, keyed), Table(tmp_path / "added", keyed).write(rows(range(3, 5)))
    file = table.write(rows(range(9)))
    table.delete({file.path: BitMap([1])})
    seen = table.read()
    with pytest.raises(AlreadyExists, match="2 of 2 rows"):
        KeyedFiles("a.t", keyed, [added], frozenset(), None).claim_beside(table.now(), Timestamp(2), seen)
    table.delete({file.path: BitMap([3, 4])})
    with pytest.raises(AlreadyExists, match="2 of 2 rows"):
        KeyedFiles("a.t", keyed, [added], frozenset(), None).claim_beside(table.now(), Timestamp(2), seen)
    for side in (table.read(), None):
        claim = KeyedFiles("a.t", keyed, [added], frozenset(), None).claim_beside(table.now(), Timestamp(2), side)
        assert len(claim.keys) == 2


def test_rows_that_are_changed_by_key_and_rows_that_are_dead(tmp_path: Path) -> None:
    """A dead row does not come back because a key was changed; one that was written again by key is there."""
    keyed = Schema(SCHEMA.columns, primary_key=("id",))
    table = Table(tmp_path, keyed)
    file = table.write(rows(range(9)))
    table.delete({file.path: BitMap([1, 2])})
    upserted, deleted = rows(range(2, 3)), rows(range(3, 4)).select(["id"])
    batches = (Change(Timestamp(8), False, to_ipc(upserted)), Change(Timestamp(9), True, to_ipc(deleted)))
    changes = RowChanges(batches, (), Timestamp(0), Timestamp(9), (Timestamp(5),))
    found = replace(table.read(), changes=changes)
    assert [row["id"] for row in by_id(found.to_arrow())] == [0, 2, 4, 5, 6, 7, 8]
    assert found.to_arrow([]).num_rows == 7
    later = pa.Table.from_batches(found.batches(["id"], pc.field("id") < 5), found.target(["id"]))
    assert sorted(later["id"].to_pylist()) == [0, 2, 4]


def test_a_snapshot_hands_out_no_files_that_are_not_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path)
    file = table.write(rows(range(9)))
    monkeypatch.setattr(Snapshot, "table_files", lambda *_: table.read())
    snapshot = Snapshot(cast("Any", None), Timestamp(1))
    table.delete({file.path: BitMap([1, 2])})
    with pytest.raises(IllegalState, match=r"a\.t has deleted rows at 1: its files alone are not the table"):
        snapshot.files("a.t")
    wanted = [0, *range(3, 9)]
    assert snapshot.to_arrow("a.t")["id"].to_pylist() == wanted
    assert snapshot.to_batches("a.t").read_all()["id"].to_pylist() == wanted
    relation = snapshot.to_duckdb("a.t", duckdb.connect())
    assert [relation.aggregate("count(*)").fetchone() for _ in range(2)] == [(7,), (7,)]
    assert snapshot.to_polars("a.t")["id"].to_list() == list(snapshot.to_pandas("a.t")["id"]) == wanted


def test_a_snapshot_is_scanned_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table(tmp_path)
    monkeypatch.setattr(Snapshot, "table_files", lambda *_: table.read())
    snapshot = Snapshot(cast("Any", None), Timestamp(1))
    assert snapshot.to_dataset("a.t").count_rows() == 0
    file = table.write(rows(range(9)))
    dataset, frame = snapshot.to_dataset("a.t"), snapshot.to_polars("a.t", ["id"], where=pc.field("id") > 5, lazy=True)
    assert dataset.files == [file_system(file.path)[1]]
    assert dataset.to_table(columns=["id"], filter=pc.field("id") < 2)["id"].to_pylist() == [0, 1]
    assert frame.collect().to_dict(as_series=False) == {"id": [6, 7, 8]}
    table.delete({file.path: BitMap([6])})
    assert snapshot.to_dataset("a.t").count_rows() == 8
    assert snapshot.to_polars("a.t", lazy=True).select("id").collect()["id"].to_list() == [*range(6), 7, 8]
    with pytest.raises(InvalidArgument, match="'unknown' is not a column"):
        snapshot.to_polars("a.t", ["unknown"], lazy=True)
