"""Files written anew have the rows of their inputs, in their order, without the dead ones; the lineage says where."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from tests.unit.harness.data_files import PLAIN, path_of, plain, read, write
from txnclient.compact import distributed, rewriting
from txnclient.compact.rewriting import Rewritten, rewrite
from txnclient.formats import arrow
from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake import data_files, manifest
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.lineage import NOWHERE
from txnstatus.lake.manifest import DataFile, Origin
from txnstatus.schema import Column, Schema

EVERYTHING = Schema(
    (
        Column("id", "bigint", nullable=False),
        Column("flag", "boolean"),
        Column("small", "tinyint"),
        Column("price", "decimal(20,4)"),
        Column("at", "timestamp"),
        Column("local", "timestamp_ntz"),
        Column("day", "date"),
        Column("bytes", "binary"),
        Column("ratio", "double"),
        Column("list", "array<struct<a:int,b:array<string>>>"),
        Column("map", "map<string,decimal(9,2)>"),
        Column("struct", "struct<id:bigint,at:timestamp>"),
    )
)


def everything(number: int) -> dict[str, object]:
    """A row of that number; every third has nulls wherever there may be some."""
    if number % 3 == 2:
        return {"id": number}
    at = datetime(2026, 1, 1, 12, number % 60, 0, number, UTC)
    return {
        "id": number,
        "flag": number % 2 == 0,
        "small": number % 100,
        "price": Decimal(number) / 8,
        "at": at,
        "local": at.replace(tzinfo=None),
        "day": date(2026, 1, 1 + number % 28),
        "bytes": bytes([number % 256, 0]),
        "ratio": number / 7,
        "list": [{"a": number, "b": [str(number), None]}, None] * (number % 4),
        "map": [(f"k{key}", Decimal(key) / 4) for key in range(number % 3)],
        "struct": {"id": number, "at": at},
    }


def agrees(done: Rewritten, inputs: Sequence[DataFile], dead: dict[str, BitMap], schema: Schema = PLAIN) -> None:
    """Each row that was alive is where the lineage has it, and there are no others."""
    before = {file.path: read([file], schema) for file in inputs}
    after = {file.path: read([file], schema) for file in done.files}
    alive = [
        (file.path, position)
        for file in inputs
        for position in range(file.rows)
        if position not in dead.get(file.path, ())
    ]
    assert [row for file in done.files for row in after[file.path]] == [before[path][row] for path, row in alive]
    for path, row in alive:
        ((output, positions),) = done.lineage.forward({path: BitMap([row])}).items()
        (position,) = positions
        assert after[output][position] == before[path][row]
    for segment in done.lineage.segments:
        assert segment.dead == dead.get(segment.input, BitMap()) & BitMap(range(segment.first, segment.end))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_rows_and_their_order_stay(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("table")
    counts = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5))
    firsts = [sum(counts[:number]) for number in range(len(counts))]
    tables = [plain(first, count) for first, count in zip(firsts, counts, strict=True)]
    inputs = write(path, tables, group=data.draw(st.integers(1, 40)))
    dead = {
        file.path: BitMap(data.draw(st.sets(st.integers(0, file.rows - 1), min_size=1)))
        for file in inputs
        if data.draw(st.booleans())
    }
    total = sum(file.bytes for file in inputs)
    target = data.draw(st.integers(total // 6 + 1, 2 * total))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rewriting, "FIRST_BATCH_ROWS", data.draw(st.integers(1, 50)))
        patch.setattr(rewriting, "ROWS_PER_GROUP", data.draw(st.integers(1, 50)))
        done = rewrite(inputs, dead, PLAIN, (path / "base_1").as_uri(), target_bytes=target)
    agrees(done, inputs, dead)


def test_every_type_comes_through(tmp_path: Path) -> None:
    tables = [
        pa.Table.from_pylist([everything(row) for row in range(first, first + 50)], to_arrow(EVERYTHING))
        for first in (0, 50)
    ]
    inputs = write(tmp_path, tables, EVERYTHING, group=20)
    dead = {inputs[0].path: BitMap(range(0, 50, 7))}
    done = rewrite(inputs, dead, EVERYTHING, (tmp_path / "base_1").as_uri(), target_bytes=1 << 20)
    agrees(done, inputs, dead, EVERYTHING)


def test_outputs_are_as_other_writes_have_them(tmp_path: Path) -> None:
    """Page checksums, statistics, ranges in manifests, encodings, CRCs of their ends."""
    inputs = write(tmp_path, [plain(first, 10_000) for first in range(0, 50_000, 10_000)])
    (written,) = write(tmp_path / "other", [plain(0, 50_000)])
    (file,) = rewrite(inputs, {}, PLAIN, (tmp_path / "base_1").as_uri(), target_bytes=1 << 30).files
    assert (file.rows, file.partition, file.columns) == (written.rows, written.partition, written.columns)
    data_files.check([file])
    assert not data_files.examine(file)
    mine, other = (pq.read_metadata(path_of(each)) for each in (file, written))
    assert mine.schema.equals(other.schema)
    for column in range(2):
        assert mine.row_group(0).column(column).encodings == other.row_group(0).column(column).encodings
        assert mine.row_group(0).column(column).compression == other.row_group(0).column(column).compression
    assert mine.metadata == other.metadata


def test_outputs_have_about_one_size(tmp_path: Path) -> None:
    inputs = write(tmp_path, [plain(first, 5_000) for first in range(0, 100_000, 5_000)])
    total = sum(file.bytes for file in inputs)
    done = rewrite(inputs, {}, PLAIN, (tmp_path / "base_1").as_uri(), target_bytes=int(total / 3.3))
    assert len(done.files) == 3
    assert max(file.rows for file in done.files) < 1.3 * min(file.rows for file in done.files)


@pytest.mark.parametrize("file_rows", [1, 100])
def test_nothing_is_left_where_all_rows_are_dead(tmp_path: Path, file_rows: int) -> None:
    inputs = write(tmp_path, [plain(0, file_rows), plain(100, 3)], group=10)
    dead = {file.path: BitMap(range(file.rows)) for file in inputs}
    done = rewrite(inputs, dead, PLAIN, (tmp_path / "base_1").as_uri(), target_bytes=1)
    assert not done.files
    assert {segment.output for segment in done.lineage.segments} == {NOWHERE}
    assert done.lineage.forward(dead) == {}


def test_files_stay_in_their_partition(tmp_path: Path) -> None:
    schema = Schema((Column("month", "string"), Column("id", "bigint")), partition_by=("month",))
    rows = pa.table({"month": ["a/b =%"] * 3 + [None] * 2, "id": range(5)})
    inputs = arrow.write_files(rows, (tmp_path / "delta_1_00000000").as_uri(), schema, "t.t")
    for number, file in enumerate(inputs):
        done = rewrite([file], {}, schema, (tmp_path / f"base_{number}").as_uri(), target_bytes=1 << 20)
        assert [(each.partition, each.rows) for each in done.files] == [(file.partition, file.rows)]
        agrees(done, [file], {}, schema)
    with pytest.raises(InternalError, match="several partitions"):
        rewrite(inputs, {}, schema, (tmp_path / "base_x").as_uri(), target_bytes=1 << 20)


def test_outputs_say_of_which_imported_files_they_have_rows(tmp_path: Path) -> None:
    """Outputs of outputs do, too, and manifests keep it."""

    def came(name: str) -> Origin:
        return Origin(f"file:///lake/{name}", 7, 9, 5)

    def told(file: DataFile) -> dict[Origin, tuple[tuple[int, int], ...] | None]:
        return {each._replace(spans=None): each.spans for each in file.origins}

    inputs = write(tmp_path, [plain(first, 1_000) for first in range(0, 4_000, 1_000)], group=100)
    first, second, third, own = inputs
    inputs = [
        replace(first, origins=(came("a"), came("b"))),
        replace(second, origins=(came("gone"),)),
        replace(third, origins=(came("b"), came("c"))),
        own,
    ]
    dead = {second.path: BitMap(range(1_000))}
    one = rewrite(inputs, dead, PLAIN, (tmp_path / "base_1").as_uri(), target_bytes=1 << 30)
    spans = {came("a"): ((0, 1_000),), came("b"): ((0, 2_000),), came("c"): ((1_000, 2_000),), came("gone"): ()}
    assert [told(file) for file in one.files] == [spans]
    many = rewrite(inputs, dead, PLAIN, (tmp_path / "base_2").as_uri(), target_bytes=own.bytes // 2)
    assert len(many.files) > 3
    for file in many.files:
        places = {int(str(row["id"])) // 1_000 for row in read([file])}
        left = {each: found for each, found in told(file).items() if found}
        assert left.keys() == {each for place in places for each in inputs[place].origins}
        at = [
            [int(str(row["id"])) // 1_000 for row in read([file])[first:end]]
            for found in left.values()
            for first, end in found or ()
        ]
        assert all(set(numbers) <= {0, 2} for numbers in at)
    assert [came("gone") in told(file) for file in many.files] == [True] + [False] * (len(many.files) - 1)
    (tmp_path / "w").mkdir()
    ref = manifest.write((tmp_path / "w").as_uri(), many.files, table_id="t", txn_id=1, write_id="w")
    listed = manifest.whole(ref)
    assert [file.origins for file in listed] == [listed[number].origins for number in range(len(listed))]
    assert [file.origins for file in listed] == [file.origins for file in many.files]
    again = rewrite(listed, {}, PLAIN, (tmp_path / "base_3").as_uri(), target_bytes=1 << 30)
    assert [told(file) for file in again.files] == [spans]
    (whole,) = again.files
    less = rewrite(
        again.files,
        {whole.path: BitMap([*range(500, 2_100)])},
        PLAIN,
        (tmp_path / "base_4").as_uri(),
        target_bytes=1 << 30,
    )
    assert [told(file) for file in less.files] == [
        {came("a"): ((0, 500),), came("b"): ((0, 500),), came("c"): (), came("gone"): ()}
    ]


def test_a_file_that_came_in_is_kept_in_mind_also_where_no_row_is_left(tmp_path: Path) -> None:
    origin = Origin("file:///lake/a", 7, 9, 5)
    file = replace(write(tmp_path, [plain(0, 10)])[0], origins=(origin,))
    done = rewrite([file], {file.path: BitMap(range(10))}, PLAIN, (tmp_path / "base_1").as_uri(), target_bytes=1 << 20)
    assert [(each.rows, each.origins) for each in done.files] == [(0, (origin._replace(spans=()),))]
    agrees(done, [file], {file.path: BitMap(range(10))}, PLAIN)
    inputs = [*done.files, write(tmp_path / "more", [plain(20, 5)])[0]]
    again = rewrite(inputs, {}, PLAIN, (tmp_path / "base_2").as_uri(), target_bytes=1 << 20)
    assert [(each.rows, each.origins) for each in again.files] == [(5, (origin._replace(spans=()),))]
    agrees(again, inputs, {}, PLAIN)


def test_memory_does_not_grow_with_what_is_written(tmp_path: Path) -> None:
    """300 columns: neither a file nor a row group of one is ever in memory as a whole."""
    columns = [Column(f"c{number}", "bigint") for number in range(300)]
    schema = Schema(tuple(columns))
    wide = pa.table({column.name: pa.array(range(20_000), pa.int64()) for column in columns})
    inputs = write(tmp_path, [wide, wide, wide], schema)
    before, most = pa.total_allocated_bytes(), 0

    def look(_rows: int) -> None:
        nonlocal most
        most = max(most, pa.total_allocated_bytes() - before)

    memory = 32 << 20
    done = rewrite(
        inputs, {}, schema, (tmp_path / "base_1").as_uri(), target_bytes=1 << 30, memory_bytes=memory, progress=look
    )
    assert sum(file.rows for file in done.files) == 60_000
    assert wide.nbytes > memory
    assert most < memory


def test_large_rows_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    """The first rows of a row group, too, are no more than there is memory for."""
    schema, size, memory = Schema((Column("blob", "binary"),)), 100_000, 16 << 20
    blobs = pa.table({"blob": pa.array([bytes([number]) * size for number in range(200)], pa.binary())})
    inputs, parts = write(tmp_path, [blobs], schema), list[int]()
    directory = (tmp_path / "base_1").as_uri()
    rewrite(inputs, {}, schema, directory, target_bytes=1 << 30, memory_bytes=memory, progress=parts.append)
    assert sum(parts) == 200
    assert max(parts) * size < memory


def test_it_is_told_what_was_read_and_ends_when_that_raises(tmp_path: Path) -> None:
    inputs = write(tmp_path, [plain(0, 30), plain(30, 30)], group=10)
    read_rows: list[int] = []
    dead = {inputs[0].path: BitMap(range(20))}
    rewrite(inputs, dead, PLAIN, (tmp_path / "base_1").as_uri(), target_bytes=1 << 20, progress=read_rows.append)
    assert sum(read_rows) == 60

    def stop(_rows: int) -> None:
        raise TimeoutError("enough")

    with pytest.raises(TimeoutError, match="enough"):
        rewrite(inputs, dead, PLAIN, (tmp_path / "base_2").as_uri(), target_bytes=1 << 20, progress=stop)


def _damages(file: DataFile) -> Iterator[bytes]:
    whole = path_of(file).read_bytes()
    middle = len(whole) // 3
    yield whole[:-1]
    yield whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    yield whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:]


def test_what_is_damaged_is_not_written_anew(tmp_path: Path) -> None:
    inputs = write(tmp_path, [plain(0, 20_000), plain(20_000, 20_000)])
    whole = path_of(inputs[1]).read_bytes()
    for number, damaged in enumerate(_damages(inputs[1])):
        path_of(inputs[1]).write_bytes(damaged)
        with pytest.raises(DataDamaged, match="part-00000"):
            rewrite(inputs, {}, PLAIN, (tmp_path / f"base_{number}").as_uri(), target_bytes=1 << 20)
    path_of(inputs[1]).write_bytes(whole)
    fewer = replace(inputs[1], rows=19_999)
    with pytest.raises(DataDamaged, match="20000 rows, and was written with 19999"):
        rewrite([inputs[0], fewer], {}, PLAIN, (tmp_path / "base_x").as_uri(), target_bytes=1 << 20)


def test_many_processes_write_what_one_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each task gets its part as bytes, and what it answers comes back as such."""

    def sent(_spark: object, work: Callable[[Any], Any], parts: Sequence[Any], wanted: Callable[[], None]) -> list[Any]:
        assert len(parts) > 1
        wanted()
        return [pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(part))))) for part in parts]

    monkeypatch.setattr(distributed, "in_executors", sent)
    inputs = write(tmp_path, [plain(first, 100) for first in range(0, 1_000, 100)])
    dead = {inputs[3].path: BitMap(range(0, 100, 3)), inputs[7].path: BitMap(range(100))}
    told: list[int] = []
    target = sum(file.bytes for file in inputs) // 3
    session: Any = None
    done = distributed.rewrite_by(
        session, inputs, dead, PLAIN, (tmp_path / "base_1").as_uri(), target_bytes=target, progress=told.append
    )
    agrees(done, inputs, dead)
    assert 1 < len(done.files) < len(inputs)
    assert sum(told) == 1_000
