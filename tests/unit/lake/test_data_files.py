"""Data files that rot: no read of ours takes them for whole."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

from txnclient.formats import arrow
from txnstatus.errors import DataDamaged
from txnstatus.lake import data_files, page_headers, parallel
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Column, Schema

SCHEMA = Schema(
    (
        Column("id", "bigint"),
        Column("name", "string"),
        Column("size", "double"),
        Column("tags", "array<string>"),
        Column("at", "struct<x:int,y:string>"),
    )
)
FLIPS = 600


def table(count: int) -> pa.Table:
    rng = random.Random(1)
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "name": pa.array([f"name {rng.random()}" for _ in range(count)]),
            "size": pa.array([rng.random() if i % 7 else None for i in range(count)]),
            "tags": pa.array([["a"] * (i % 4) if i % 5 else None for i in range(count)], pa.list_(pa.string())),
            "at": pa.array(
                [{"x": i, "y": str(i)} for i in range(count)], pa.struct({"x": pa.int32(), "y": pa.string()})
            ),
        }
    )


def write(directory: Path, rows: pa.Table) -> DataFile:
    (file,) = arrow.write_files(rows, directory.as_uri(), SCHEMA, "t.t")
    return file


def path_of(file: DataFile) -> Path:
    return Path(file.path.removeprefix("file://"))


def flipped(path: Path, bits: list[int]) -> Iterator[int]:
    """The bits, one after the other; while each is looked at, it is the only one that is flipped."""
    whole = path.read_bytes()
    for bit in bits:
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)
        yield bit
    path.write_bytes(whole)


def outcome(file: DataFile, whole: pa.Table) -> str:
    try:
        return "whole" if arrow.read_files([file], SCHEMA, None).equals(whole) else "WRONG"
    except DataDamaged as error:
        return "refused" if file.path in error.message and "from a backup" in error.hint else str(error)


def test_no_flipped_bit_is_read(tmp_path: Path) -> None:
    """One-bit flips: of 300, 101 gave wrong rows without an error."""
    file = write(tmp_path / "delta_1", table(200))
    whole = arrow.read_files([file], SCHEMA, None)
    bits = random.Random(2).sample(range(file.bytes * 8), FLIPS)
    assert Counter(outcome(file, whole) for _ in flipped(path_of(file), bits)) == {"refused": FLIPS}


def test_nor_one_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages by their checksums, the footer by the manifest's."""
    monkeypatch.setattr(data_files, "WHOLE_BYTES", 0)
    file = write(tmp_path / "delta_1", table(2_000))
    assert 0 < file.ending < file.bytes
    whole = arrow.read_files([file], SCHEMA, None)
    chosen = random.Random(2)
    bits = [
        *chosen.sample(range((file.bytes - file.ending) * 8), FLIPS // 2),
        *chosen.sample(range((file.bytes - file.ending) * 8, file.bytes * 8), FLIPS // 2),
    ]
    found = Counter(outcome(file, whole) for _ in flipped(path_of(file), bits))
    assert found["WRONG"] == 0
    assert (
        found["refused"] > FLIPS * 0.9
    )  # a bit that no reader looks at, such as of a header's statistics, harms nobody


def test_a_header_that_readers_believe_is_found_by_a_close_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a page's values, in a column of lists: the last list was shorter, and nothing said so."""
    monkeypatch.setattr(data_files, "WHOLE_BYTES", 0)
    file = write(tmp_path / "delta_1", table(199))
    footer, data = pq.read_metadata(path_of(file)), path_of(file).read_bytes()
    (chunk,) = (each for each in data_files.chunks(footer) if each.path_in_schema.startswith("tags"))
    start = chunk.data_page_offset
    _, length = page_headers.read(data[start:])
    bits = list(range(start * 8, (start + length) * 8))
    whole = arrow.read_files([file], SCHEMA, None)
    wrong = 0
    for _ in flipped(path_of(file), bits):
        try:
            if arrow.read_files([file], SCHEMA, None).equals(whole):
                continue
        except DataDamaged:
            continue
        wrong += 1
        assert "page headers and the footer differ" in data_files.examine(file)
    assert 0 < wrong < 5
    assert data_files.examine(file) == ""


def test_a_file_that_was_cut_or_has_grown(tmp_path: Path) -> None:
    file = write(tmp_path / "delta_1", table(10))
    whole = path_of(file).read_bytes()
    for data in (b"", whole[:-1], whole + b"\0"):
        path_of(file).write_bytes(data)
        with pytest.raises(DataDamaged, match=f"it has {len(data)} bytes, and was written with {len(whole)}"):
            arrow.read_files([file], SCHEMA, None)


def test_few_files_at_hand_are_looked_at_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To start one for each of seven files took longer than their looks, and a twentieth of reading 100,000 rows."""
    files = [file for part in "ab" for file in arrow.write_files(table(3), (tmp_path / part).as_uri(), SCHEMA, "t")]
    told: list[int] = []
    each = parallel.each
    monkeypatch.setattr(parallel, "each", lambda work, items, readers: told.append(readers) or each(work, items))
    data_files.check(files)
    monkeypatch.setattr(data_files, "NEAR_FILES", 2)
    data_files.check(files)
    monkeypatch.setattr(data_files, "NEAR_FILES", 64)
    monkeypatch.setattr(data_files, "is_near", lambda _uri: False)
    data_files.check(files)
    assert told == [1, parallel.READERS, parallel.READERS]


def test_files_that_are_not_needed_are_not_looked_at(tmp_path: Path) -> None:
    low, high = write(tmp_path / "delta_1", table(10)), write(tmp_path / "delta_2", table(100).slice(50))
    path_of(high).write_bytes(b"")
    assert arrow.read_files([low, high], SCHEMA, None, pc.field("id") < 10).num_rows == 10
    with pytest.raises(DataDamaged):
        arrow.read_files([low, high], SCHEMA, None)


@pytest.mark.parametrize(
    "options", [{}, {"data_page_version": "2.0"}, {"compression": "zstd"}, {"use_dictionary": False}]
)
def test_headers_add_up_to_what_the_footer_says(tmp_path: Path, options: dict[str, object]) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(table(3_000), path, data_page_size=500, row_group_size=1_000, **options)
    with pa.OSFile(str(path)) as source:
        faults = [page_headers.fault(source, chunk) for chunk in data_files.chunks(pq.read_metadata(path))]
    assert faults == [""] * 18


def test_numbers_that_count_up_are_written_as_steps_and_what_repeats_by_dictionary(tmp_path: Path) -> None:
    """Whatever a part of a nested column is called."""
    count = 3_000
    few = [number % 3 for number in range(count)]
    texts = pa.array([str(each) for each in few])
    rows = pa.table(
        {
            "id": range(count),
            "a.b": pa.array(range(count), pa.int32()),
            "st.a": range(count),
            "at": pa.array(range(count), pa.timestamp("us", "UTC")),
            "few": few,
            "fractions": [number / 7 for number in range(count)],
            "halves": [number / 2 for number in few],
            "none": pa.nulls(count, pa.int64()),
            "st": pa.array([{"a": each, "in": {"c": str(each)}} for each in few]),
            "list": pa.array([[{"z": each}] for each in few]),
            "map": pa.array([[("k", each)] for each in few], pa.map_(pa.string(), pa.int64())),
            "s": texts,
        }
    )
    path = tmp_path / "a.parquet"
    data_files.write(rows, str(path), fs.LocalFileSystem())
    assert pq.read_table(path, page_checksum_verification=True).equals(rows)
    chunks = list(data_files.chunks(pq.read_metadata(path)))
    steps = [chunk.path_in_schema for chunk in chunks if "DELTA_BINARY_PACKED" in chunk.encodings]
    assert steps == ["id", "a.b", "at"]
    assert {chunk.path_in_schema for chunk in chunks if not chunk.has_dictionary_page} <= {*steps, "fractions", "st.a"}
    assert not next(chunk for chunk in chunks if chunk.path_in_schema == "fractions").has_dictionary_page
    with pa.OSFile(str(path)) as source:
        assert {page_headers.fault(source, chunk) for chunk in chunks} == {""}
