"""Data in the frames of other libraries, and data that comes in batches."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from txnclient import InvalidArgument
from txnclient.formats import arrow, schemas
from txnclient.read import row_reads
from txnclient.read.row_reads import RowChanges
from txnclient.read.table_files import TableFiles
from txnclient.write import staged_files
from txnclient.write.staged_files import StagedFiles
from txnstatus.lake import rows as row_format
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import Change
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp

SCHEMA = Schema((Column("id", "bigint", nullable=False), Column("name", "string")), primary_key=("id",))
ROWS = pa.table({"id": [1, 2, 3], "name": ["a", None, "c"]})


def written(data: object, tmp_path: Path, schema: Schema = SCHEMA) -> list[DataFile]:
    return arrow.write_files(data, (tmp_path / "delta_1").as_uri(), schema, "t.t")


@pytest.mark.parametrize(
    "frame",
    [
        ROWS.to_pandas(),
        ROWS.to_pandas().set_index(pd.Index([7, 8, 9])),
        ROWS.to_pandas().convert_dtypes(),
        pl.from_arrow(ROWS),
        ROWS.to_reader(),
    ],
    ids=["pandas", "pandas with an index", "pandas with its own types", "polars", "reader"],
)
def test_frames_are_written(tmp_path: Path, frame: object) -> None:
    assert arrow.read_files(written(frame, tmp_path), SCHEMA, None).to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize(
    ("data", "says", "hint"),
    [
        (pl.from_arrow(ROWS).lazy(), "a polars LazyFrame has no rows yet", "collect"),  # type: ignore[union-attr]
        (pd.DataFrame({"id": [1, "x"], "name": ["a", "b"]}), "a column that Arrow cannot hold", ""),
        ([{"id": 1}], "expected a pyarrow Table.*pandas or polars DataFrame, not list", ""),
        (pl.DataFrame({"id": [1, None], "name": ["a", "b"]}), "column 'id' of table t.t is NOT NULL", ""),
        (pd.DataFrame({"id": pd.array([1, None], "Int64"), "name": ["a", "b"]}), "column 'id' of table t.t is NOT", ""),
    ],
    ids=["lazy", "mixed", "list", "null in polars", "null in pandas"],
)
def test_what_cannot_be_written_is_named(tmp_path: Path, data: object, says: str, hint: str) -> None:
    with pytest.raises(InvalidArgument, match=says) as caught:
        written(data, tmp_path)
    assert hint in caught.value.hint


def test_a_reader_is_written_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it was read into memory first."""
    monkeypatch.setattr(arrow, "BYTES_PER_FILE", 1_000)
    ahead: list[int] = []
    on_disk: list[int] = []

    def batches():  # type: ignore[no-untyped-def]
        for number in range(20):
            ahead.append(number)
            on_disk.append(len(list(tmp_path.rglob("*.parquet"))))
            yield pa.record_batch({"id": range(number * 100, number * 100 + 100), "name": ["x"] * 100})

    schema = pa.schema({"id": pa.int64(), "name": pa.string()})
    files = written(pa.RecordBatchReader.from_batches(schema, batches()), tmp_path)
    assert on_disk == list(range(20)), "each batch was in a file before the next was asked for"
    assert len(files) == len(ahead) == 20
    assert arrow.read_files(files, SCHEMA, ["id"])["id"].to_pylist() == list(range(2_000))


def test_a_reader_without_rows_is_checked_all_the_same(tmp_path: Path) -> None:
    assert written(ROWS.slice(0, 0).to_reader(), tmp_path) == []
    with pytest.raises(InvalidArgument, match=r"'name'.*missing"):
        written(ROWS.select(["id"]).slice(0, 0).to_reader(), tmp_path)


def test_batches_are_the_table_with_its_changed_rows(tmp_path: Path) -> None:
    files = written(pa.table({"id": range(1_000), "name": ["old"] * 1_000}), tmp_path)
    upserts, deletes = pa.table({"id": [5, 2_000], "name": ["new", "new"]}), pa.table({"id": [6, 7]})
    upserts = upserts.cast(row_format.rows_schema(SCHEMA, deletes=False))
    deletes = deletes.cast(row_format.rows_schema(SCHEMA, deletes=True))
    changes = RowChanges(
        (
            Change(Timestamp(20), False, row_format.to_ipc(upserts)),
            Change(Timestamp(30), True, row_format.to_ipc(deletes)),
        ),
        (),
        Timestamp(0),
        Timestamp(40),
        (Timestamp(10),) * len(files),
    )
    for columns in (None, ["name"]):
        whole = row_reads.read(files, changes, SCHEMA, columns)
        found = pa.Table.from_batches(row_reads.batches(files, changes, SCHEMA, columns), whole.schema)
        assert found.num_rows == 999
        assert found.equals(whole)


def test_staged_files_with_nulls_are_refused(tmp_path: Path) -> None:
    """By whoever made them: a task may write files with a schema of its own."""
    loose = Schema(tuple(Column(column.name, column.type) for column in SCHEMA.columns))
    for rows, refused in ((ROWS, False), (pa.table({"id": [1, None], "name": ["a", "b"]}), True)):
        directory = tmp_path / f"delta_{int(refused)}_write"
        files = arrow.write_files(rows, directory.as_uri(), loose, "t.t")
        staged = StagedFiles("t.t", "write", tuple(files))
        prefix = directory.as_uri().removesuffix("write")
        if not refused:
            staged_files.check([staged], prefix, SCHEMA)
            continue
        with pytest.raises(InvalidArgument, match="column 'id' is NOT NULL, and the data has a null in it"):
            staged_files.check([staged], prefix, SCHEMA)


def test_one_name_is_no_list_of_names() -> None:
    """A text was taken for its letters: `primary_key="id"` was told that there is no column 'i'."""
    with pytest.raises(InvalidArgument, match="'name' is one name where a list of columns is expected") as caught:
        schemas.named("name", SCHEMA.columns)
    assert caught.value.hint == "write ['name']"


@pytest.mark.parametrize("where", [[("id", ">", 1)], {"id": 1}, "id > 1"], ids=["list", "dict", "SQL"])
def test_a_filter_that_is_no_expression_is_refused(tmp_path: Path, where: object) -> None:
    """pyarrow took a part of them for something else, and its own errors came."""
    found = TableFiles("t.t", SCHEMA, tuple(written(ROWS, tmp_path)))
    for read in (found.to_arrow, found.batches):
        with pytest.raises(InvalidArgument, match=r"where is a pyarrow expression, not a (list|dict|str)") as caught:
            read(None, where)  # type: ignore[operator]
        assert "pc.field" in caught.value.hint
