"""A table's files by pyarrow, and the manifest that lists them."""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import fs
from pyroaring import BitMap

from txnclient.formats import arrow, file_statistics, schemas
from txnstatus.errors import DataDamaged, InternalError, InvalidArgument
from txnstatus.lake import data_files, manifest
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.file_lists import Files
from txnstatus.lake.manifest import ColumnRange, DataFile
from txnstatus.lake.storage import delete_directory, file_system, parquet_files
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema

PLAIN = Schema((Column("id", "bigint"), Column("day", "date"), Column("carrier", "string")))
PARTITIONED = Schema(PLAIN.columns, ("day", "carrier"))
MAY = [datetime.date(2024, 5, day) for day in (1, 2)]
ROWS = [
    {"id": 1, "day": MAY[0], "carrier": "AA"},
    {"id": 2, "day": MAY[0], "carrier": None},
    {"id": 3, "day": MAY[1], "carrier": "AA"},
    {"id": 4, "day": None, "carrier": None},
    {"id": 5, "day": MAY[0], "carrier": "AA"},
]


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return (tmp_path / "t" / "delta_1_abcdefgh").as_uri()


def table(rows: list[dict[str, object]] | None = None, schema: Schema = PLAIN) -> pa.Table:
    return pa.Table.from_pylist(ROWS if rows is None else rows, schema=to_arrow(schema))


def path_of(uri: str) -> str:
    """One file has many URIs: what counts is where they lead."""
    return file_system(uri)[1]


def by_id(read: pa.Table) -> list[dict[str, object]]:
    return sorted(read.to_pylist(), key=lambda row: row["id"])


# ---- files


@pytest.mark.parametrize("schema", [PLAIN, PARTITIONED], ids=["plain", "partitioned"])
def test_rows_come_back_as_they_were(directory: str, schema: Schema) -> None:
    files = arrow.write_files(table(), directory, schema, "air.t")
    assert sum(file.rows for file in files) == len(ROWS)
    read = arrow.read_files(files, schema, None)
    assert read.schema.equals(to_arrow(schema))
    assert by_id(read) == ROWS


def test_what_is_reported_is_what_is_there(directory: str) -> None:
    files = arrow.write_files(table(), directory, PARTITIONED, "air.t")
    found = parquet_files(directory)
    assert sorted((path_of(file.path), file.bytes) for file in files) == [(path_of(uri), size) for uri, size in found]
    assert arrow.described([(file.path, file.bytes) for file in files], directory, PARTITIONED) == files


def test_each_combination_of_partition_values_has_a_file_also_with_nulls(directory: str) -> None:
    files = arrow.write_files(table(), directory, PARTITIONED, "air.t")
    found = {}
    for file in files:
        rows = arrow.read_files([file], PARTITIONED, None).to_pylist()
        assert len({(row["day"], row["carrier"]) for row in rows}) == 1
        found[rows[0]["day"], rows[0]["carrier"]] = sorted(row["id"] for row in rows)
    assert found == {
        (MAY[0], "AA"): [1, 5],
        (MAY[0], None): [2],
        (MAY[1], "AA"): [3],
        (None, None): [4],
    }
    assert any("_partition_day=__null__/_partition_carrier=__null__/" in file.path for file in files)


@pytest.mark.parametrize(
    "value",
    [
        "..",
        ".",
        "/etc",
        "../../x",
        "a b",
        "a\0b",
        "",
        "x" * 300,
        "ключ" * 40,
        "/" * 99,
        "%2e",
        "100%",
        "a=b",
        "a:b",
        "#?",
    ],
)
def test_any_partition_value_is_written_below_the_directory_andread_again(directory: str, value: str) -> None:
    schema = Schema((Column("id", "bigint"), Column("p", "string")), ("p",))
    rows = [{"id": 1, "p": value}, {"id": 2, "p": "plain"}]
    files = arrow.write_files(table(rows, schema), directory, schema, "air.t")
    assert len({file.path for file in files}) == 2
    assert by_id(arrow.read_files(files, schema, None)) == rows
    found = arrow.described(parquet_files(directory), directory, schema)
    assert sorted(path_of(file.path) for file in found) == sorted(path_of(file.path) for file in files)
    assert by_id(arrow.read_files(found, schema, None)) == rows
    for file in files:
        assert path_of(file.path).startswith(path_of(directory) + "/_partition_p=")
        assert ".." not in path_of(file.path).split("/")


def test_no_rows_make_no_file(directory: str) -> None:
    for schema in (PLAIN, PARTITIONED):
        assert arrow.write_files(table([]), directory, schema, "air.t") == []


def test_no_files_read_as_an_empty_table() -> None:
    assert arrow.read_files([], PLAIN, None).schema.equals(to_arrow(PLAIN))
    assert arrow.read_files([], PLAIN, ["day", "id"]).column_names == ["day", "id"]


def test_columns_may_come_in_any_order_and_go_in_the_tables(directory: str) -> None:
    files = arrow.write_files(table().select(["carrier", "id", "day"]), directory, PLAIN, "air.t")
    assert arrow.read_files(files, PLAIN, None).column_names == ["id", "day", "carrier"]


def test_a_stream_of_batches_is_written_too(directory: str) -> None:
    reader = pa.RecordBatchReader.from_batches(table().schema, table().to_batches(max_chunksize=2))
    files = arrow.write_files(reader, directory, PLAIN, "air.t")
    assert by_id(arrow.read_files(files, PLAIN, None)) == ROWS


def test_types_that_spark_does_not_tell_apart_are_made_the_tables(directory: str) -> None:
    data = table().set_column(2, "carrier", table()["carrier"].cast(pa.large_string()))
    files = arrow.write_files(data, directory, PLAIN, "air.t")
    assert arrow.read_files(files, PLAIN, None).schema.equals(to_arrow(PLAIN))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (table().drop_columns(["day"]), "'day' .* of table air.t is missing"),
        (table().append_column("x", pa.array([0] * len(ROWS))), "'x' of the data is not a column"),
        (
            table().set_column(0, "id", pa.array(["1"] * len(ROWS))),
            "'id' of table .* is bigint; in the data .* string",
        ),
        ([1, 2], "not list"),
        (None, "not NoneType"),
    ],
)
def test_data_of_another_schema_is_refused_by_column(directory: str, data: object, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        arrow.write_files(data, directory, PLAIN, "air.t")


def test_a_null_in_a_column_that_has_none_is_refused(directory: str) -> None:
    schema = Schema((Column("id", "bigint", nullable=False), Column("x", "int")))
    data = pa.table({"id": pa.array([1, None], pa.int64()), "x": pa.array([1, 2], pa.int32())})
    with pytest.raises(InvalidArgument, match=r"table air\.t"):
        arrow.write_files(data, directory, schema, "air.t")


def test_only_the_columns_asked_for_are_read(directory: str) -> None:
    files = arrow.write_files(table(), directory, PARTITIONED, "air.t")
    read = arrow.read_files(files, PARTITIONED, ["carrier", "id"])
    assert read.column_names == ["carrier", "id"]
    assert by_id(read) == [{"carrier": row["carrier"], "id": row["id"]} for row in ROWS]


def test_a_column_that_the_table_does_not_have_is_refused(directory: str) -> None:
    files = arrow.write_files(table(), directory, PLAIN, "air.t")
    for found in (files, []):
        with pytest.raises(InvalidArgument, match="'nothing' is not a column of the table: it has id, day, carrier"):
            arrow.read_files(found, PLAIN, ["id", "nothing"])


def test_footers_leave_out_files_without_rows(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    empty, full = tmp_path / "empty.parquet", tmp_path / "full.parquet"
    pq.write_table(table([]), empty)
    pq.write_table(table(), full)
    (found,) = arrow.described([(empty.as_uri(), 1), (full.as_uri(), 2)], tmp_path.as_uri(), PLAIN)
    assert (found.path, found.rows, found.bytes, found.partition) == (full.as_uri(), len(ROWS), 2, "")


# ---- manifests


def written(directory: str) -> tuple[pb.ManifestRef, list[DataFile]]:
    files = [DataFile(f"{directory}/part-0.parquet", 3, 100), DataFile(f"{directory}/part-ü.parquet", 4, 50)]
    return manifest.write(directory, files, table_id="3.0", txn_id=1, write_id="abcdefgh"), files


def test_a_manifest_is_read_as_it_was_written(directory: str) -> None:
    ref, files = written(directory)
    assert manifest.read(ref) == files
    assert (ref.file_count, ref.row_count, ref.data_bytes) == (2, 7, 150)


def test_an_empty_manifest_is_one(directory: str) -> None:
    ref = manifest.write(directory, [], table_id="3.0", txn_id=1, write_id="abcdefgh")
    assert manifest.read(ref) == []
    assert (ref.file_count, ref.row_count, ref.data_bytes) == (0, 0, 0)


def manifest_file(tmp_path: Path) -> Path:
    return tmp_path / "t" / "delta_1_abcdefgh" / manifest.FILE_NAME


def test_a_manifest_cut_anywhere_is_noticed(directory: str, tmp_path: Path) -> None:
    ref, _ = written(directory)
    data = manifest_file(tmp_path).read_bytes()
    for length in range(len(data)):
        manifest_file(tmp_path).write_bytes(data[:length])
        with pytest.raises(InternalError, match="damaged") as refusal:
            manifest.read(ref)
        assert ref.path in refusal.value.message


def test_every_changed_byte_of_a_manifest_is_noticed(directory: str, tmp_path: Path) -> None:
    ref, _ = written(directory)
    data = manifest_file(tmp_path).read_bytes()
    for position in range(len(data)):
        manifest_file(tmp_path).write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(InternalError, match="damaged"):
            manifest.read(ref)


def test_a_manifest_that_is_gone_is_an_internal_error_that_names_it(directory: str, tmp_path: Path) -> None:
    ref, _ = written(directory)
    manifest_file(tmp_path).unlink()
    with pytest.raises(InternalError, match="cannot be read") as refusal:
        manifest.read(ref)
    assert ref.path in refusal.value.message


def test_a_manifest_of_another_version_is_refused(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ref, _ = written(directory)
    monkeypatch.setattr(manifest, "VERSION", manifest.VERSION + 1)
    with pytest.raises(InternalError, match=f"of version {manifest.VERSION - 1}; this release reads"):
        manifest.read(ref)


# ---- directories


def test_only_a_writes_directory_can_be_deleted(tmp_path: Path, directory: str) -> None:
    written(directory)
    for uri in (tmp_path.as_uri(), (tmp_path / "t").as_uri(), directory + "/.."):
        with pytest.raises(InvalidArgument, match="not a write's directory"):
            delete_directory(uri)
    delete_directory(directory)
    delete_directory(directory)
    assert (tmp_path / "t").exists()
    assert not manifest_file(tmp_path).parent.exists()


def test_the_file_system_of_a_table_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its name is made of."""
    table = tmp_path / "an odd %20 näme"
    writes = [table / f"delta_{number}_write0001" for number in range(3)]
    made: list[str] = []
    from_uri = fs.FileSystem.from_uri

    class Counted:
        @staticmethod
        def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
            made.append(uri)
            return from_uri(uri)

    for write in writes:
        write.mkdir(parents=True)
    monkeypatch.setattr(fs, "FileSystem", Counted)
    for write in writes:
        delete_directory(write.as_uri())
    assert made == [table.as_uri()]
    assert list(table.iterdir()) == []


# ---- leaving files out


def opened(files: list[DataFile], schema: Schema, where: pc.Expression) -> list[int]:
    """Which files a scan opens: all others are gone while it runs."""
    needed = []
    for number in range(len(files)):
        path = Path(path_of(files[number].path))
        hidden = path.rename(path.with_suffix(".hidden"))
        try:
            arrow.read_files(files, schema, None, where)
        except FileNotFoundError:
            needed.append(number)
        finally:
            hidden.rename(path)
    return needed


MONTHS = Schema(
    (Column("id", "bigint"), Column("at", "timestamp"), Column("m", "int"), Column("c", "string")), ("m", "c")
)


def months() -> list[dict[str, object]]:
    start = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    return [
        {"id": number, "at": start + datetime.timedelta(days=31 * month), "m": month, "c": city}
        for number, (month, city) in enumerate((m, c) for m in (1, 2) for c in ("New York", None, "x" * 300))
    ]


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (pc.field("m") == 1, {0, 1, 2}),
        (pc.field("m") > 1, {3, 4, 5}),
        (pc.field("c") == "New York", {0, 3, 2, 5}),
        (pc.field("c").is_null(), {1, 4, 2, 5}),
        (pc.field("id") < 2, {0, 1}),
        ((pc.field("id") == 4) & (pc.field("m") == 1), set()),
        (pc.field("at") > pa.scalar(datetime.datetime(2024, 2, 15, tzinfo=datetime.UTC)), {3, 4, 5}),
    ],
)
def test_files_that_can_have_no_such_row_are_not_opened(
    directory: str, where: pc.Expression, expected: set[int]
) -> None:
    """A shortened name of a partition does not tell its value, so those files are looked at."""
    files = sorted(arrow.write_files(table(months(), MONTHS), directory, MONTHS, "air.t"), key=_first_id)
    assert set(opened(files, MONTHS, where)) <= expected
    whole = arrow.read_files(files, MONTHS, None)
    assert by_id(arrow.read_files(files, MONTHS, None, where)) == by_id(whole.filter(where))


def _first_id(file: DataFile) -> int:
    return int(file.columns["id"].lowest)


def test_what_a_manifest_says_of_columns(directory: str) -> None:
    rows = [
        {"id": 1, "at": None, "m": 1, "c": "a"},
        {"id": 9, "at": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC), "m": 1, "c": "a"},
    ]
    (file,) = arrow.write_files(table(rows, MONTHS), directory, MONTHS, "air.t")
    assert file.partition == "m=1/c=a"
    assert file.columns["id"] == ("1", "9", 0)
    assert file.columns["at"] == ("1704067200000000", "1704067200000000", 1)
    assert manifest.read(manifest.write(directory, [file], table_id="3.0", txn_id=1, write_id="abcdefgh")) == [file]


def test_a_manifest_of_files_of_which_different_columns_are_known(directory: str) -> None:
    known = [{"id": ColumnRange("1", "9", 0)}, {}, {"m": ColumnRange("1", "1", 2), "id": ColumnRange("5", "5", 0)}]
    files = [
        DataFile(f"{directory}/part-{number}.parquet", 1, 2, f"m={number}", columns, 3, 4)
        for number, columns in enumerate(known)
    ]
    found = manifest.read(manifest.write(directory, files, table_id="3.0", txn_id=1, write_id="abcdefgh"))
    assert found == files
    assert [dict(file.columns) for file in found] == known
    assert ["id" in file.columns for file in found] == [True, False, True]
    assert pickle.loads(pickle.dumps(found)) == files


def test_a_reader_without_a_filter_makes_nothing_of_ranges(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [
        DataFile(f"{directory}/part-{each}.parquet", 1, 2, columns={name: ColumnRange("1", "2", 0) for name in "ab"})
        for each in range(3)
    ]
    ref = manifest.write(directory, files, table_id="3.0", txn_id=1, write_id="abcdefgh")
    documents, loads = list[bytes](), json.loads

    def counted(text: bytes) -> object:
        documents.append(text)
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    found = manifest.read(ref)
    assert [file.path for file in found] == [file.path for file in files]
    assert len(documents) == 1
    assert [file.columns["b"] for file in found] == [file.columns["b"] for file in files]
    assert len(documents) == 2, "of one column, once for all files"
    assert [file.columns for file in found] == [file.columns for file in files]
    assert len(documents) == 3


def many(directory: str, count: int, size: int = 10) -> list[DataFile]:
    """Files that are nowhere, each with rows of which `id` goes on from those of the file before."""
    return [
        DataFile(
            f"{directory}/part-{each:05}.parquet",
            size,
            100 + each,
            columns={"id": ColumnRange(str(each * size), str(each * size + size - 1), 0)},
            ending=7,
            crc32=(1 << 32) - 1 - each,
        )
        for each in range(count)
    ]


def test_many_ranges_are_read_again_when_they_are_needed(directory: str, tmp_path: Path) -> None:
    """They would be most of the memory that a list of very many files takes."""
    files = many(directory, 3_000)
    ref = manifest.write(directory, files, table_id="3.0", txn_id=1, write_id="abcdefgh")
    found = manifest.whole(ref)
    assert found.bounds(["id", "day"]) == {"id": [[file.columns["id"][at] for file in files] for at in range(3)]}
    assert list(found) == files
    again, place = manifest.whole(ref), manifest_file(tmp_path)
    data = place.read_bytes()
    place.write_bytes(data.replace(b'"29999"', b'"39999"'))
    assert again[-1].path == files[-1].path
    with pytest.raises(DataDamaged, match="another CRC"):
        _ = again[-1].columns["id"]
    with pytest.raises(DataDamaged, match="another CRC"):
        again.bounds(["id"])
    place.unlink()
    with pytest.raises(InternalError, match=f"{manifest.FILE_NAME} cannot be read"):
        _ = again[-1].columns["id"]


def test_a_file_that_lies_elsewhere_is_listed_as_it_is_called(directory: str) -> None:
    names = [f"{directory}/a/b.parquet", f"{directory}2/part-0.parquet", "s3://other/part.parquet", ""]
    files = [DataFile(name, 1, 2) for name in names]
    ref = manifest.write(directory, files, table_id="3.0", txn_id=1, write_id="abcdefgh")
    assert [file.path for file in manifest.read(ref)] == names
    assert list(manifest.whole(ref).paths) == names


def test_the_table_of_a_manifest_is_told_by_its_first_line(directory: str, tmp_path: Path) -> None:
    manifest.write(directory, many(directory, 3), table_id="3.0", txn_id=1, write_id="abcdefgh")
    assert manifest.table_of(manifest_file(tmp_path).read_bytes()) == "3.0"
    for odd in (b"", b"{}", b"[]", b"null", b"{", b"\xff"):
        assert manifest.table_of(odd) is None


def test_days_beyond_the_years_of_python_have_no_range(directory: str) -> None:
    """Python's error for such a day came out of the write."""
    schema = Schema((Column("id", "bigint"), Column("day", "date")))
    days = pa.array([0, 3_000_000], pa.int32()).cast(pa.date32())
    (file,) = arrow.write_files(pa.table({"id": [1, 2], "day": days}), directory, schema, "air.t")
    assert set(file.columns) == {"id"}
    assert arrow.read_files([file], schema, ["day"])["day"].combine_chunks().equals(days)


KINDS = Schema(
    schemas.to_columns("id bigint, d double, at timestamp, day date, s string, b boolean, n decimal(9,2), i int")
)
CONDITIONS = [
    pc.field("id") == 41,
    pc.field("id") < 0,
    (pc.field("d") > 7.5) & (pc.field("s") < "s3"),
    pc.field("at") >= pa.scalar(60_000_000 * 5, pa.timestamp("us", "UTC")),
    pc.field("day") == pa.scalar(datetime.date(1970, 1, 4)),
    pc.field("day").is_null(),
    pc.field("s").isin(["s5", "s7"]),
    pc.field("b"),
    pc.field("n") > pa.scalar(decimal.Decimal("6.00"), pa.decimal128(9, 2)),
    (pc.field("i") == 3) | (pc.field("id") > 55),
    pc.field(0) <= 9,
    ~pc.field("i").is_valid(),
]


@pytest.mark.parametrize("where", CONDITIONS, ids=str)
def test_manifests_that_can_have_no_such_row_are_left_out_and_no_row_is(tmp_path: Path, where: pc.Expression) -> None:
    rng, lists = random.Random(7), []
    for number in range(6):
        directory = (tmp_path / "t" / f"delta_{number}_abcdefgh").as_uri()
        files = list[DataFile]()
        for part in range(file_statistics.FEW_FILES + 2 if number else 2):
            rows = [_of_every_kind(rng, number) for _ in range(3)]
            written = arrow.write_files(table(rows, KINDS), f"{directory}/{part}", KINDS, "air.t")
            files += written
        ref = manifest.write(directory, files, table_id="3.0", txn_id=1, write_id="abcdefgh")
        lists.append(manifest.whole(ref))
    files_of = Files(lists)
    passed = file_statistics.passing(files_of, KINDS, where)
    assert {file.path for file in passed} <= {file.path for file in files_of}
    expected = arrow.read_files(list(files_of), KINDS, None).filter(where)
    assert sorted(arrow.read_files(files_of, KINDS, None, where).to_pylist(), key=repr) == sorted(
        expected.to_pylist(), key=repr
    )
    batches = pa.Table.from_batches(arrow.read_batches(files_of, KINDS, None, where), to_arrow(KINDS))
    assert sorted(batches.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


def _of_every_kind(rng: random.Random, number: int) -> dict[str, object]:
    """Values that lie near those of the same number, or are null."""
    value = number * 10 + rng.randrange(10)
    row: dict[str, object] = {
        "d": value / 4,
        "at": datetime.datetime(1970, 1, 1, 0, number, value % 60, tzinfo=datetime.UTC),
        "day": datetime.date(1970, 1, 1 + number),
        "s": f"s{number}",
        "b": number == 3,
        "n": decimal.Decimal(value) / 8 if value % 8 == 0 else decimal.Decimal(number),
        "i": number,
    }
    gone = rng.choice([*row, "nothing"]) if number % 2 else "nothing"
    return {"id": value, **{name: None if name == gone else each for name, each in row.items()}}


def test_of_very_many_files_only_those_are_looked_at_that_are_left(tmp_path: Path) -> None:
    lists = []
    for number in range(5):
        directory = (tmp_path / "t" / f"delta_{number}_abcdefgh").as_uri()
        files = [
            replace(file, columns={"id": ColumnRange(f"{number}00", f"{number}99", 0)}) for file in many(directory, 50)
        ]
        lists.append(manifest.whole(manifest.write(directory, files, table_id="3", txn_id=1, write_id="abcdefgh")))
    all_of_them = Files(lists)
    assert arrow.read_files(all_of_them, PLAIN, None, pc.field("id") < 0).num_rows == 0, "none of them is there"
    passed = file_statistics.passing(all_of_them, PLAIN, pc.field("id") == 250)
    assert list(passed) == list(lists[2])
    assert file_statistics.passing(all_of_them, PLAIN, None) is all_of_them
    assert len(file_statistics.passing(all_of_them, PLAIN, pc.field("day").is_null())) == 250
    with pytest.raises(FileNotFoundError, match="delta_2_abcdefgh"):
        arrow.read_files(all_of_them, PLAIN, None, pc.field("id") == 250)


def test_a_plan_looks_at_the_columns_of_its_filter() -> None:
    schema = Schema(schemas.to_columns("a bigint, b bigint, p string"), partition_by=("p",))
    file = DataFile("file:///f", 9, 9, "p=x", {name: ColumnRange("1", "2", 0) for name in ("a", "b")})

    def known(where: pc.Expression) -> str:
        return str(file_statistics.known_by(schema, where)(file))

    assert "(b <= 2)" in known(pc.field("b") > 7)
    assert "(a " not in known(pc.field("b") > 7)
    assert '(p == "x")' in known(pc.field("p") == "y")
    by_number = known(pc.field(0) > 7)
    assert all(part in by_number for part in ("(a <= 2)", "(b <= 2)", '(p == "x")'))


NAN = float("nan")
FRACTION = pc.field("x")
FILTERS = (
    FRACTION != 3,
    FRACTION > 2,
    FRACTION >= 1,
    FRACTION <= 3,
    ~(FRACTION <= 3),
    ~(FRACTION >= 1),
    FRACTION.is_nan(),
)


@pytest.mark.parametrize("where", FILTERS, ids=str)
@pytest.mark.parametrize("dead", [False, True], ids=["whole", "dead rows"])
def test_a_nan_is_in_no_range_and_yet_found(directory: str, where: pc.Expression, dead: bool) -> None:
    """Files and row groups were left out, and rows taken in, by ranges that said nothing of the NaN beside them."""
    schema = Schema(schemas.to_columns("id bigint, x double, s struct<y: float>"))
    rows = pa.table({"id": range(4), "x": [3.0, 3.0, NAN, None], "s": [{"y": y} for y in (3.0, 3.0, NAN, None)]})
    files = arrow.write_files(rows.cast(to_arrow(schema)), directory, schema, "air.t")
    gone = {files[0].path: BitMap([0])} if dead else {}
    left = arrow.read_files(files, schema, None, dead=gone)
    for filter_ in (where, where & (pc.field("id") >= 0)):
        wanted = left.filter(filter_)["id"].to_pylist()
        assert arrow.read_files(files, schema, ["id"], filter_, gone)["id"].to_pylist() == wanted
        batches = arrow.read_batches(files, schema, ["id"], filter_, gone)
        assert [number for batch in batches for number in batch["id"].to_pylist()] == wanted
    inside = pc.field("s", "y") != 3
    assert arrow.read_files(files, schema, ["id"], inside, gone).num_rows == left.filter(inside).num_rows


def test_a_nan_is_no_bound() -> None:
    """Spark's writer has one for the highest value: all numbers seemed to be beyond it."""
    assert file_statistics.text_of_bound(NAN) is None
    assert file_statistics.text_of_bound(1.5) == "1.5"


def test_a_filter_of_fractions_leaves_files_out_by_other_columns() -> None:
    schema = Schema(schemas.to_columns("a bigint, x double"))
    file = DataFile("file:///f", 9, 9, "", {name: ColumnRange("1", "2", 0) for name in ("a", "x")})
    for where, needed in (((pc.field("a") > 7) & (FRACTION > 1), []), (FRACTION > 7, [file])):
        known = file_statistics.known_by(schema, where)
        assert data_files.fitting([file], to_arrow(schema), where, known) == needed
