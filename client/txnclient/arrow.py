"""Reading and writing a table's files with pyarrow: for programs without Spark, and inside executors."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from txnclient import schemas
from txnclient.manifest import DataFile
from txnstatus.errors import InternalError, InvalidArgument
from txnstatus.schema import PARTITION_PREFIX, Schema
from txnstatus.storage import file_system, make_durable

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_GROUP = 1 << 20
MAX_NAME = 100
NULL_NAME = "__null__"


def write_files(data: pa.Table | pa.RecordBatchReader, directory: str, schema: Schema, table: str) -> list[DataFile]:
    """Writes the rows as Parquet files below `directory`, one for each combination of partition values.

    Raises InvalidArgument, naming the column, for data of another schema.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = data.read_all() if isinstance(data, pa.RecordBatchReader) else data
    if not isinstance(rows, pa.Table):
        raise InvalidArgument(f"expected a pyarrow Table or RecordBatchReader, not {type(data).__name__}")
    schema.require_same_columns(schemas.to_columns(rows.schema), table)
    target = schemas.to_arrow(schema)
    try:
        rows = rows.select(target.names).cast(target)
    except (pa.ArrowInvalid, ValueError) as error:
        raise InvalidArgument(f"the data does not fit the schema of table {table}: {error}") from error
    system, root = file_system(directory)
    files = []
    for number, (subdirectory, part) in enumerate(_split(rows, schema.partition_by)):
        system.create_dir(f"{root}{subdirectory}", recursive=True)
        name = f"{subdirectory}/part-{number:05}.parquet"
        pq.write_table(part, f"{root}{name}", filesystem=system, row_group_size=ROWS_PER_GROUP)
        size = system.get_file_info(f"{root}{name}").size
        files.append(DataFile(f"{directory}{name}", part.num_rows, size))
    if sum(file.rows for file in files) != rows.num_rows:
        raise InternalError(f"{rows.num_rows} rows for table {table} became {sum(file.rows for file in files)}")
    make_durable(file.path for file in files)
    return files


def read_files(files: Sequence[DataFile], schema: Schema, columns: Sequence[str] | None) -> pa.Table:
    import pyarrow.dataset as ds

    target = schemas.to_arrow(schema)
    for name in columns or ():
        if name not in target.names:
            raise InvalidArgument(f"column {name!r} is not a column of the table: it has {', '.join(target.names)}")
    if not files:
        empty = target.empty_table()
        return empty if columns is None else empty.select(list(columns))
    system, _ = file_system(files[0].path)
    paths = [file_system(file.path)[1] for file in files]
    return ds.dataset(paths, schema=target, filesystem=system, format="parquet").to_table(columns=columns)


def footers(files: Sequence[tuple[str, int]]) -> Iterator[DataFile]:
    """Row counts from the files' footers; files without rows are left out."""
    import pyarrow.parquet as pq

    for uri, size in files:
        system, path = file_system(uri)
        rows = pq.read_metadata(path, filesystem=system).num_rows
        if rows:
            yield DataFile(uri, rows, size)


def _split(rows: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows by partition values, each with its subdirectory; no rows make no file."""
    import pyarrow.compute as pc

    if not rows.num_rows:
        return
    if not partition_by:
        yield "", rows
        return
    keys = rows.select(list(partition_by)).group_by(list(partition_by)).aggregate([])
    for key in keys.to_pylist():
        mask = None
        for name, value in key.items():
            column = rows[name]
            same = pc.is_null(column) if value is None else pc.equal(column, value)
            mask = same if mask is None else pc.and_kleene(mask, same)
        yield (
            "".join(f"/{PARTITION_PREFIX}{name}={_path(value)}" for name, value in key.items()),
            rows.filter(mask),
        )


def _path(value: object) -> str:
    """A value as a directory name. Only people read it: readers go by the manifest, and by what is in the files."""
    return NULL_NAME if value is None else re.sub(r"[^A-Za-z0-9._-]", "_", str(value))[:MAX_NAME]
