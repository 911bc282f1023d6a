"""Files of others that become a table's where they lie: what is looked at first, and how a manifest has them.

Nothing of this service removes or changes such a file: what is removed is directories that it has made itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from txnclient.formats import file_statistics, schemas
from txnclient.incoming.source import Source, SourceFile
from txnstatus import partitions
from txnstatus.errors import AlreadyExists, InvalidArgument
from txnstatus.lake import absent, data_files, locations, parallel
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.locations import Location
from txnstatus.lake.manifest import ColumnRange, DataFile, Origin
from txnstatus.schema import Schema
from txnstatus.types import TxnId

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

READERS = 8
"""Threads that read footers, which are small and may be far away."""
_COPY = "import it with copy=True"
_LEGACY = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
"""Keys in the footers of files whose days and times are of another calendar."""


def require_apart(directories: Iterable[str], places: Collection[str]) -> None:
    """Raises InvalidArgument where one of these lies in one of the locations of tables, or has one inside: the files in
    those come and go as their tables want.
    """
    theirs = [locations.parse(place).resolved() for place in places]
    for directory in directories:
        ours = locations.parse(directory).resolved()
        for there in theirs:
            if ours.is_within(there) or there.is_within(ours):
                raise InvalidArgument(
                    f"{directory} and the location of a table of this cluster, /{'/'.join(there.path)}, lie one in the "
                    "other",
                    hint="the files of a table of this cluster come and go with it: read it with snapshot.to_batches",
                )


def require_reachable(source: Source, location: str) -> None:
    """Raises InvalidArgument for files that are not where the table is: a table is in one file system."""
    ours = _system(locations.parse(location))
    for file in source.files:
        if _system(locations.parse(file.uri)) != ours:
            raise InvalidArgument(f"{file.uri} is in another file system than the table, in {location}", hint=_COPY)


def described(source: Source, schema: Schema, table: str) -> list[DataFile]:
    """The files as the table's manifest is to have them, those without rows left out.

    Raises InvalidArgument, naming the file, for one that the table's readers would not read as the source's do.
    """
    if source.unlike:
        raise InvalidArgument(f"the files of {source.root} are not its rows: {source.unlike}", hint=_COPY)
    if schema.is_renamed:
        column = next(each for each in schema.columns if each.stored)
        raise InvalidArgument(
            f"files of others cannot be added to {table} as they are: its column {column.name!r} is called "
            f"{column.stored!r} in files",
            hint=_COPY,
        )
    told = source.files[0].values if source.files else dict.fromkeys(schema.partition_by)
    if set(told) != set(schema.partition_by):
        split_by = f"partitioned by {', '.join(schema.partition_by)}" if schema.partition_by else "not partitioned"
        has = f"have no {', '.join(map(repr, told))}: only their places tell it" if told else "lie in no partitions"
        raise InvalidArgument(f"the files of {source.root} {has}, and table {table} is {split_by}", hint=_COPY)
    return [each for each in parallel.each(lambda file: _described(file, schema, table), source.files, READERS) if each]


def new_among(
    files: Sequence[DataFile],
    there: Iterable[DataFile],
    dead: DeadRows,
    table: str,
    is_undone: Callable[[int], bool],
) -> list[DataFile]:
    """The files that have not come in, or that an undo has taken back. `there`: the files that the table has, and which
    of their rows are dead. `is_undone`: tells it of an import; asked about those of which no row is left.

    Raises AlreadyExists for one that was written anew since it came in, and for one that was taken back and is the
    table's until it is compacted.
    """
    alive, gone = dict[Location, Origin](), defaultdict[Location, list[Origin]](list)
    own = set[Location]()
    for each in there:
        own.add(locations.parse(each.path))
        for origin in each.origins or (Origin(each.path, each.bytes, each.crc32),):
            place = locations.parse(origin.path)
            if _is_alive(origin, each, dead):
                alive[place] = origin
            else:
                gone[place].append(origin)
    found = list[DataFile]()
    for file in files:
        place = locations.parse(file.path)
        came = alive.get(place) or next((each for each in gone[place] if not is_undone(each.txn_id)), None)
        if came is None and gone[place] and place in own:
            raise AlreadyExists(
                f"{file.path} is in table {table} already, and all of its rows were taken back there by an undo",
                hint="nothing of this import is added: compact the table first, and it comes in again",
            )
        if came is None:
            found.append(file)
        elif (came.bytes, came.crc32) != (file.bytes, file.crc32):
            raise AlreadyExists(
                f"{file.path} came into table {table} with {came.bytes} bytes, and was written anew since",
                hint="nothing of this import is added: what is new is to have a name of its own",
            )
    return found


def came_by(file: DataFile, txn_id: TxnId) -> DataFile:
    """The file as one that comes in by the transaction."""
    return replace(file, origins=tuple(each._replace(txn_id=txn_id) for each in file.origins))


def _is_alive(origin: Origin, file: DataFile, dead: DeadRows) -> bool:
    """Whether a row of the data file that is the origin's is not dead."""
    gone = dead.get(file.path)
    spans = ((0, file.rows),) if origin.spans is None else origin.spans
    return any(end - first > (gone.range_cardinality(first, end) if gone is not None else 0) for first, end in spans)


def _described(file: SourceFile, schema: Schema, table: str) -> DataFile | None:
    import pyarrow as pa

    what = f"file {file.uri!r} cannot be added to {table}"
    try:
        written = data_files.written(file.uri)
        footer = written.footer
        arrow = data_files.columns(footer)
        told = [column for column in schema.columns if column.name in file.values]
        schema.require_same_columns([*schemas.to_columns(arrow), *told], table)
        values = _values(file, schema)
    except InvalidArgument as error:
        raise InvalidArgument(f"{what}: {error.message}", hint=error.hint or _COPY) from error
    except (OSError, pa.ArrowException) as error:
        raise InvalidArgument(f"{what}: {error}") from error
    for fault in _faults(footer, arrow, schema, file.values):
        raise InvalidArgument(f"{what}: {fault}", hint=_COPY)
    if not footer.num_rows:
        return None
    partition, known = partitions.name_of(values), file_statistics.ranges(footer, schema) | _ranges(values)
    return DataFile(
        file.uri,
        footer.num_rows,
        written.bytes,
        partition,
        known,
        written.ending,
        written.crc32,
        bare=bool(values),
        origins=(Origin(file.uri, written.bytes, written.crc32),),
    )


def _values(file: SourceFile, schema: Schema) -> dict[str, Any]:
    """What the place of the file tells, of the table's types and in the order of its partitions.

    Raises InvalidArgument, also for what the name of a partition would not tell whole.
    """
    import pyarrow as pa

    fields, found = to_arrow(schema), dict[str, Any]()
    for name in schema.partition_by if file.values else ():
        text, field = file.values[name], fields.field(name)
        if text is None and not field.nullable:
            raise InvalidArgument(f"column {name!r} is NOT NULL, and the file's place tells a null")
        try:
            found[name] = None if text is None else absent.scalar(text, field.type).as_py()
        except pa.ArrowException as error:
            raise InvalidArgument(f"its place tells {text!r} of column {name!r}: {error}") from error
        if partitions.SHORTENED in partitions.value_name(found[name]):
            raise InvalidArgument(f"its place tells a text of {len(found[name])} characters of column {name!r}")
    return found


def _ranges(values: Mapping[str, Any]) -> dict[str, ColumnRange]:
    bounds = {name: file_statistics.text_of_bound(value) for name, value in values.items()}
    return {name: ColumnRange(text, text, 0) for name, text in bounds.items() if text is not None}


def _faults(footer: pq.FileMetaData, arrow: pa.Schema, schema: Schema, told: Collection[str]) -> Iterator[str]:
    """What is in the way of one of the readers. `told`: columns that the file's place tells."""
    if any(key in (footer.metadata or {}) for key in _LEGACY):
        yield "Spark has written its days and times in the calendar of before 1582 (legacy mode)"
    for field in arrow:
        if odd := next(filter(_is_odd, _kinds(field.type)), None):
            yield f"column {field.name!r} is stored as {odd}, which not every reader takes for {field.type}"
    if column := file_statistics.null_in(footer, schema):
        yield f"column {column!r} is NOT NULL, and the data has a null in it"
    required = {column.name for column in schema.columns if not column.nullable and column.name not in told}
    unsure = required - _surely_without_nulls(footer)
    if unsure:
        yield f"column {min(unsure)!r} is NOT NULL, and the file's statistics do not say that there is no null in it"


def _surely_without_nulls(footer: pq.FileMetaData) -> set[str]:
    unsure = {
        chunk.path_in_schema
        for chunk in data_files.chunks(footer)
        if (known := chunk.statistics) is None or not known.has_null_count or known.null_count
    }
    return {footer.schema.column(number).path for number in range(footer.num_columns)} - unsure


def _kinds(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The type, and all inside."""
    yield kind
    for number in range(kind.num_fields):
        yield from _kinds(kind.field(number).type)


def _is_odd(kind: pa.DataType) -> bool:
    """Whether Spark reads it otherwise than Arrow, or not at all: times of nanoseconds, and such."""
    import pyarrow as pa

    types = pa.types
    return bool(
        (types.is_timestamp(kind) and kind.unit == "ns")
        or types.is_unsigned_integer(kind)
        or types.is_float16(kind)
        or types.is_null(kind)
        or types.is_fixed_size_binary(kind)
    )


def _system(location: Location) -> tuple[str, str]:
    return location.scheme, location.host
