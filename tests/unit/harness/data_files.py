"""Data files of a table, as writes make them, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from txnclient.formats import arrow
from txnstatus.lake import data_files
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Column, Schema

PLAIN = Schema((Column("id", "bigint"), Column("text", "string")))


def write(directory: Path, tables: Sequence[pa.Table], schema: Schema = PLAIN, group: int = 1 << 20) -> list[DataFile]:
    """A file for each table, as writes make them, with row groups of so many rows."""
    files = []
    for number, rows in enumerate(tables):
        where = directory / f"delta_{number}_00000000"
        where.mkdir(parents=True)
        path = where / "part-00000.parquet"
        system, _ = data_files.file_system(where.as_uri())
        data_files.write(rows.cast(to_arrow(schema)), str(path), system, row_group_size=group)
        files += arrow.described([(path.as_uri(), path.stat().st_size)], where.as_uri(), schema)
    return files


def plain(first: int, count: int) -> pa.Table:
    rows = range(first, first + count)
    return pa.table({"id": pa.array(rows, pa.int64()), "text": [f"row {row}" for row in rows]})


def read(files: Sequence[DataFile], schema: Schema = PLAIN) -> list[dict[str, object]]:
    """The rows, file after file."""
    rows = [row for file in files for row in arrow.read_files([file], schema, None).to_pylist()]
    assert all(isinstance(row, dict) for row in rows)
    return rows


def path_of(file: DataFile) -> Path:
    return Path(unquote(urlsplit(file.path).path))
