"""Tables with rows that were deleted by position, read by pyarrow, beside a list of rows."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from txnclient.formats import arrow
from txnclient.read import dead as dead_reader
from txnclient.read.table_files import TableFiles
from txnstatus.errors import DataDamaged
from txnstatus.lake import data_files, dead_rows, manifest
from txnstatus.lake.manifest import DataFile
from txnstatus.proto import table_pb2 as pb
from txnstatus.proto.common_pb2 import TableInfo
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp

SCHEMA = Schema((Column("id", "bigint", nullable=False), Column("p", "string"), Column("v", "int")), ("p",))
_numbers = itertools.count(1)


def rows(ids: range) -> pa.Table:
    """In a partition whose name needs escapes; `v` is null now and then."""
    values = [None if each % 7 == 0 else each % 5 for each in ids]
    names = pa.array(["a b/%ü=" if ids.start % 2 else "b"] * len(ids))
    return pa.table({"id": pa.array(ids), "p": names, "v": pa.array(values, pa.int32())})


class Table:
    """Writes of files and of dead rows, as a scan answers them; and the rows that there should be."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.response = pb.ScanResponse(table=TableInfo(name="a.t", schema=SCHEMA.to_wire()))
        self.files: list[tuple[DataFile, pa.Table]] = []

    def write(self, data: pa.Table) -> DataFile:
        directory = self._directory()
        (file,) = arrow.write_files(data, directory, SCHEMA, "a.t")
        self.response.manifests.append(manifest.write(directory, [file], table_id="0.0", txn_id=1, write_id="w"))
        self.files.append((file, data))
        return file

    def delete(self, dead: dict[str, BitMap]) -> None:
        self.response.dead.append(dead_rows.write(self._directory(), dead))

    def _directory(self) -> str:
        return (self.directory / f"delta_{next(_numbers)}_w").as_uri()

    def read(self) -> TableFiles:
        return TableFiles.of(self.response, Timestamp(1))

    def expected(self, dead: dict[str, set[int]]) -> list[dict[str, object]]:
        return [
            row
            for file, data in self.files
            for position, row in enumerate(data.to_pylist())
            if position not in dead.get(file.path, ())
        ]


def by_id(found: pa.Table) -> list[dict[str, object]]:
    return sorted(found.to_pylist(), key=lambda row: row["id"])


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
    expected = sorted(table.expected(dead), key=lambda row: row["id"])
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
    part = found.within("p=b")
    assert part.rows == sum(row["p"] == "b" for row in table.expected(dead))
    assert by_id(part.to_arrow(where=where)) == [
        row for row in sorted(expected, key=lambda row: row["id"]) if row["p"] == "b"
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
    once = dead_rows.read
    monkeypatch.setattr(dead_rows, "read", lambda ref: read.append(ref.path) or once(ref))
    assert table.read().dead == table.read().dead == {file.path: BitMap([0, 1, 2])}
    assert sorted(read) == sorted(ref.path for ref in table.response.dead)
    kept = dead_reader.Kept(max_bytes=sum(ref.bytes for ref in table.response.dead) - 1)
    read.clear()
    for ref in [*table.response.dead, table.response.dead[2], table.response.dead[0]]:
        kept.read(ref)
    assert len(read) == 4  # the oldest had to go


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
