"""Reading and writing a table's files with pyarrow: for programs without Spark, and inside executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from txnclient.formats import file_statistics, fitting, schemas
from txnclient.formats.file_statistics import known_by
from txnstatus.errors import InternalError, InvalidArgument
from txnstatus.lake import alive, data_files, dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.data_files import Written
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import located, make_directory, partition_directory, partition_in_path
from txnstatus.partitions import WHOLE_TABLE, name_of
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

ROWS_PER_GROUP = 1 << 20
BYTES_PER_FILE = 256 << 20
"""Size in memory of a reader's rows that are written to one file, or to one for each partition."""


def write_files(
    data: object, directory: str, schema: Schema, table: str, progress: Callable[[int], None] = lambda _: None
) -> list[DataFile]:
    """Writes the rows as Parquet files below `directory`, one for each combination of partition values; not durably.

    A reader's rows are written as they come, some batches to a file: they need not fit into memory. `progress` is told
    after each file how many rows are written.

    Raises InvalidArgument, naming the column, for data that does not fit the schema.
    """
    files, count = list[DataFile](), 0
    for file in written(data, directory, schema, table, "part"):
        files.append(file)
        count += file.rows
        progress(count)
    return files


def written(data: object, directory: str, schema: Schema, table: str, stem: str) -> Iterator[DataFile]:
    """As `write_files`, a file at a time. `stem`: of their names, another one for each writer into it."""
    system, root = located(directory)
    for number, (subdirectory, part) in enumerate(_parts(data, schema, table)):
        make_directory(system, f"{root}{subdirectory}")
        name = f"{subdirectory}/{stem}-{number:05}.parquet"
        made = data_files.write(part, f"{root}{name}", system, row_group_size=ROWS_PER_GROUP)
        if made.footer.num_rows != part.num_rows:
            raise InternalError(f"{part.num_rows} rows for table {table} became {made.footer.num_rows}")
        yield _described(f"{directory}{quote(name, safe='/=')}", made, directory, schema)


def _parts(data: object, schema: Schema, table: str) -> Iterator[tuple[str, pa.Table]]:
    """What goes into each file, with its subdirectory."""
    import pyarrow as pa

    target, names = to_arrow(schema), [column.in_files for column in schema.columns]
    whole = [as_table(data)] if not isinstance(data, pa.RecordBatchReader) else _gathered(data)
    for rows in whole:
        for partition, part in by_partition(fitting.fitted(rows, schema, target, table), schema.partition_by):
            yield partition_directory(partition), part.rename_columns(names) if schema.is_renamed else part


def _gathered(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """The reader's batches, as many together as make a file of a good size. At least one table, which may be empty."""
    import pyarrow as pa

    batches: list[pa.RecordBatch] = []
    size = written = 0
    for batch in reader:
        batches.append(batch)
        size += batch.nbytes
        if size >= BYTES_PER_FILE:
            yield pa.Table.from_batches(batches)
            batches, size, written = [], 0, written + 1
    if batches or not written:
        yield pa.Table.from_batches(batches, reader.schema)


def as_table(data: object) -> pa.Table:
    """Raises InvalidArgument."""
    import pyarrow as pa

    match type(data).__module__.partition(".")[0], type(data).__name__:
        case "polars", "DataFrame":
            return data.to_arrow()  # type: ignore[attr-defined]
        case "polars", "LazyFrame":
            raise InvalidArgument("a polars LazyFrame has no rows yet", hint="collect() it first")
        case "pandas", "DataFrame":
            return _of_pandas(data)
    match data:
        case pa.Table():
            return data
        case pa.RecordBatch():
            return pa.Table.from_batches([data])
        case pa.RecordBatchReader():
            return data.read_all()
    raise InvalidArgument(
        f"expected a pyarrow Table, RecordBatch or RecordBatchReader, or a pandas or polars DataFrame, "
        f"not {type(data).__name__}"
    )


def _of_pandas(frame: Any) -> pa.Table:
    """Its columns; the index is none."""
    import pyarrow as pa

    try:
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    except (pa.ArrowException, TypeError) as error:
        raise InvalidArgument(f"the pandas DataFrame has a column that Arrow cannot hold: {error}") from error


def read_files(
    files: Sequence[DataFile],
    schema: Schema,
    columns: Sequence[str] | None,
    where: pc.Expression | None = None,
    dead: DeadRows = dead_rows.NONE,
) -> pa.Table:
    """Without `dead` rows. Files that can have no row for which `where` holds are not opened. Raises DataDamaged.

    `schema`: as files have it, unless all of the `columns` are called so.
    """
    import pyarrow as pa

    target = chosen(schema, columns)
    files = file_statistics.passing(files, schema, where)
    if file_statistics.may_hold_for_nan(schema, where):
        return pa.Table.from_batches(_looked_at(files, schema, target, where, dead), target)
    whole, others = alive.by_dead_rows(files, dead)
    found = target.empty_table()
    if whole:
        known = known_by(schema, where)
        with data_files.opened(whole, to_arrow(schema), where=where, known=known) as dataset:
            found = dataset.to_table(columns=target.names, filter=where)
    if others:
        found = pa.concat_tables([found, pa.Table.from_batches(_alive(others, schema, target, where, dead), target)])
    return found


def read_batches(
    files: Sequence[DataFile],
    schema: Schema,
    columns: Sequence[str] | None,
    where: pc.Expression | None = None,
    dead: DeadRows = dead_rows.NONE,
) -> Iterator[pa.RecordBatch]:
    """As `read_files`, a batch at a time."""
    target = chosen(schema, columns)
    files = file_statistics.passing(files, schema, where)
    if file_statistics.may_hold_for_nan(schema, where):
        yield from _looked_at(files, schema, target, where, dead)
        return
    whole, others = alive.by_dead_rows(files, dead)
    known = known_by(schema, where)
    if whole:
        with data_files.opened(whole, to_arrow(schema), where=where, known=known) as dataset:
            for batch in dataset.to_batches(columns=target.names, filter=where):
                if batch.num_rows:
                    yield batch.cast(target)
    if others:
        yield from _alive(others, schema, target, where, dead)


def _looked_at(
    files: Sequence[DataFile], schema: Schema, target: pa.Schema, where: pc.Expression, dead: DeadRows
) -> Iterator[pa.RecordBatch]:
    """The rows for which `where` holds, by a look at all rows of the files that may have some."""
    import pyarrow as pa

    names = list(dict.fromkeys([*target.names, *(field.name for field in file_statistics.about(schema, where))]))
    near = data_files.fitting(files, to_arrow(schema), where, known_by(schema, where))
    for batch in read_batches(near, schema, names, None, dead) if near else ():
        yield from pa.Table.from_batches([batch]).filter(where).select(target.names).cast(target).to_batches()


def _alive(
    files: Sequence[DataFile], schema: Schema, target: pa.Schema, where: pc.Expression | None, dead: DeadRows
) -> Iterator[pa.RecordBatch]:
    by_path = {located(file.path)[1]: dead[file.path] for file in files}
    known = known_by(schema, where)
    with data_files.opened(files, to_arrow(schema), where=where, known=known) as dataset:
        yield from alive.batches(dataset, target, where, by_path)


def chosen(schema: Schema, columns: Sequence[str] | None) -> pa.Schema:
    """The schema of all columns, or of some, in their order. Raises InvalidArgument."""
    import pyarrow as pa

    whole = to_arrow(schema)
    if columns is None:
        return whole
    names = schemas.named(columns, schema.columns)
    for name in names:
        if name not in whole.names:
            raise InvalidArgument(f"column {name!r} is not a column of the table: it has {', '.join(whole.names)}")
    return pa.schema([whole.field(name) for name in names])


def described(
    files: Iterable[tuple[str, int]], directory: str, schema: Schema, *, keeps_empty: bool = False
) -> list[DataFile]:
    """What the files' footers and directories say of them, given URI and size; files without rows are left out, unless
    they are to be kept.

    Raises InvalidArgument for a footer that tells of a null where there may be none: Spark writes a decimal like that,
    which nobody can read, if it was told by mistake that there are no nulls.
    """
    found = ((uri, data_files.written(uri)._replace(bytes=size)) for uri, size in files)
    return [
        _described(uri, written, directory, schema) for uri, written in found if written.footer.num_rows or keeps_empty
    ]


def _described(uri: str, written: Written, directory: str, schema: Schema) -> DataFile:
    footer, size, ending, crc32 = written
    if column := file_statistics.null_in(footer, schema):
        raise InvalidArgument(f"column {column!r} is NOT NULL, and the data has a null in it")
    partition, columns = partition_in_path(uri[len(directory) :]), file_statistics.ranges(footer, schema)
    return DataFile(uri, footer.num_rows, size, partition, columns, ending, crc32)


def partitions_of(rows: pa.Table, partition_by: Sequence[str]) -> list[str]:
    """The partitions that the rows are in."""
    keys = rows.select(list(partition_by)).group_by(list(partition_by)).aggregate([])
    return [name_of(key) for key in keys.to_pylist()]


def by_partition(rows: pa.Table, partition_by: Sequence[str]) -> Iterator[tuple[str, pa.Table]]:
    """The rows by partition values, each with the partition; none, if there are no rows."""
    import pyarrow.compute as pc

    if not rows.num_rows:
        return
    if not partition_by:
        yield WHOLE_TABLE, rows
        return
    keys = rows.select(list(partition_by)).group_by(list(partition_by)).aggregate([])
    for key in keys.to_pylist():
        mask = None
        for name, value in key.items():
            column = rows[name]
            same = pc.is_null(column) if value is None else pc.equal(column, value)
            mask = same if mask is None else pc.and_kleene(mask, same)
        yield name_of(key), rows.filter(mask)
