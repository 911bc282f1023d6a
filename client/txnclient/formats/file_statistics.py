"""What a manifest says of the columns of a file, and what follows from it for a filter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from txnstatus.key_ranges import rank_by
from txnstatus.lake import data_files, parallel
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.file_lists import Files
from txnstatus.lake.manifest import ColumnRange, DataFile, Listed
from txnstatus.partitions import SHORTENED, WHOLE_TABLE, text_of
from txnstatus.schema import Schema
from txnstatus.types import EPOCH

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

MAX_COLUMNS = 32
"""Columns of a table, the first ones, that have ranges in manifests."""
MAX_CHARS = 64
"""Longest bound that is kept; a column with a longer one has no range."""
FEW_FILES = 8
"""Files of a manifest up to which they are looked at one by one."""
End = tuple[Any, bytes]
"""A bound of a column: its place, which is a number or bytes, and its text."""


def ranges(footer: pq.FileMetaData, schema: Schema) -> dict[str, ColumnRange]:
    """Column, as files have it → range, for columns of which every row group has statistics."""
    found: dict[str, ColumnRange] = {}
    if not footer.num_row_groups:
        return found
    # The footer calls a field of a struct STRUCT.FIELD, which may be the name of a column, too.
    wanted = {column.in_files for column in schema.columns[:MAX_COLUMNS] if "." not in column.in_files}
    for position in range(footer.num_columns):
        chunks = [footer.row_group(group).column(position) for group in range(footer.num_row_groups)]
        name = chunks[0].path_in_schema
        statistics = [chunk.statistics for chunk in chunks]
        if name not in wanted or not all(each is not None and each.has_null_count for each in statistics):
            continue
        bounded = [each for each in statistics if each.has_min_max]
        if not bounded or len(bounded) < sum(each.num_values > 0 for each in statistics):
            continue
        try:
            lowest, highest = (
                text_of_bound(min(each.min for each in bounded)),
                text_of_bound(max(each.max for each in bounded)),
            )
        except (OverflowError, ValueError):
            continue  # a day beyond the years of Python, or Spark's text that is no UTF-8
        if lowest is not None and highest is not None:
            found[name] = ColumnRange(lowest, highest, sum(each.null_count for each in statistics))
    return found


def null_in(footer: pq.FileMetaData, schema: Schema) -> str:
    """A column that takes no nulls, and has some by its statistics; empty: they tell of none."""
    required = {
        column.in_files: column.name for column in schema.columns if not column.nullable and "." not in column.in_files
    }
    for chunk in data_files.chunks(footer) if required else ():
        known = chunk.statistics
        if chunk.path_in_schema in required and known is not None and known.has_null_count and known.null_count:
            return required[chunk.path_in_schema]
    return ""


def known_by(
    schema: Schema, where: pc.Expression | None, *, takes_no_nan: bool = False
) -> Callable[[DataFile], pc.Expression]:
    """What tells what holds for every row of a file, of the columns that `where` is about.

    Which columns these are follows from its text. Where that misleads, files are opened that need not be. No range has
    a NaN in it, and a file may have some beside it: so nothing is known of fractions, unless `where` holds for no NaN.
    """
    import pyarrow.compute as pc

    columns = _told_of(schema, where, takes_no_nan=takes_no_nan)

    def known(file: DataFile) -> pc.Expression:
        found = pc.scalar(True)
        for fact in _facts(file, columns):
            found = found & fact
        return found

    return known


def about(schema: Schema, where: pc.Expression | None) -> list[pa.Field]:
    """The columns that a filter may be about."""
    text = str(where)
    return [field for field in to_arrow(schema) if "FieldPath" in text or field.name in text]


def may_hold_for_nan(schema: Schema, where: pc.Expression | None) -> bool:
    """Whether a filter is about fractions. Then no statistics say where it holds: they leave a NaN out."""
    return where is not None and any(_has_fractions(field.type) for field in about(schema, where))


def _has_fractions(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return pa.types.is_floating(kind) or any(
        _has_fractions(kind.field(number).type) for number in range(kind.num_fields)
    )


def _told_of(
    schema: Schema, where: pc.Expression | None, *, takes_no_nan: bool = False
) -> dict[str, tuple[pc.Expression, pa.DataType]]:
    """The columns, by their names in files, of which something is known that `where` may be about."""
    import pyarrow.compute as pc

    in_files = schema.names_in_files
    fields = [field for field in about(schema, where) if takes_no_nan or not _has_fractions(field.type)]
    return {in_files[field.name]: (pc.field(field.name), field.type) for field in fields}


def passing(files: Sequence[DataFile], schema: Schema, where: pc.Expression | None) -> Sequence[DataFile]:
    """The files without those of whole manifests in which none can have a row for which `where` holds.

    So of very many files few are looked at one by one. Of the files of a manifest that is known which is of each.
    """
    if where is None or not isinstance(files, Files):
        return files
    import pyarrow.dataset as ds
    from pyarrow import fs

    parts = dict(enumerate(files.parts))
    large = {number: part for number, part in parts.items() if isinstance(part, Listed) and len(part) > FEW_FILES}
    if not large:
        return files
    columns = _told_of(schema, where)
    facts = parallel.each(lambda part: _fact_of_all(part, columns), list(large.values()))
    parquet, system = ds.ParquetFileFormat(), fs.LocalFileSystem()
    fragments = [
        parquet.make_fragment(str(number), system, partition_expression=fact)
        for number, fact in zip(large, facts, strict=True)
    ]
    dataset = ds.FileSystemDataset(fragments, to_arrow(schema), parquet, system)
    gone = large.keys() - {int(fragment.path) for fragment in dataset.get_fragments(filter=where)}
    return Files(part for number, part in parts.items() if number not in gone) if gone else files


def _fact_of_all(part: Listed, columns: Mapping[str, tuple[pc.Expression, pa.DataType]]) -> pc.Expression:
    """What holds for every row of a manifest's files."""
    import pyarrow.compute as pc

    found = pc.scalar(True)
    for name, (lows, highs, nulls) in part.bounds(columns).items():
        if None in nulls:
            continue  # of some file nothing is known
        column, kind = columns[name]
        lowest, highest = pc.min(_values(lows, kind)), pc.max(_values(highs, kind))
        within = (column >= lowest) & (column <= highest)
        found = found & (within | column.is_null() if any(nulls) else within)
    return found


def bounds(files: Sequence[DataFile], schema: Schema, name: str) -> tuple[End, End] | None:
    """Between which values of a column all rows of the files are; None: nobody knows."""
    column = next(each for each in schema.columns if each.name == name)
    rank_of = rank_by(column.type)
    found = list[End]()
    for file in files:
        known = file.columns.get(column.in_files)
        if known is None:
            return None
        for text in (known.lowest.encode(), known.highest.encode()):
            rank = rank_of(text)
            if rank is None:
                return None
            found.append((rank, text))
    return (min(found), max(found)) if found else None


def _facts(file: DataFile, columns: Mapping[str, tuple[pc.Expression, pa.DataType]]) -> Iterator[pc.Expression]:
    for part in file.partition.split("/") if file.partition != WHOLE_TABLE else ():
        name, _, value = part.partition("=")
        if SHORTENED in value or name not in columns:
            continue
        (column, kind), text = columns[name], text_of(value)
        yield column.is_null() if text is None else column == _scalar(text, kind)
    for name in columns.keys() & file.columns.keys():
        (column, kind), (lowest, highest, nulls) = columns[name], file.columns[name]
        within = (column >= _scalar(lowest, kind)) & (column <= _scalar(highest, kind))
        yield within | column.is_null() if nulls else within


def text_of_bound(value: Any) -> str | None:
    """A bound as manifests have it; None for one that is not kept."""
    match value:
        case bool():
            return str(value).lower()
        case datetime():
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            since = aware - EPOCH
            return str((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds)
        case str() if len(value) > MAX_CHARS:
            return None
        case int() | str() | date():
            return str(value)
        case float():
            return None if math.isnan(value) else repr(value)
        case _:
            return None


def python_of(value: pa.Scalar) -> Any:
    """The value as Python has it; None for one that it has not, as of years beyond 9999."""
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return None


def rows_shown(rows: pa.Table) -> list[str]:
    """The rows, for people."""
    return [
        "(" + ", ".join(f"{name}={_shown(rows[name][number])}" for name in rows.column_names) + ")"
        for number in range(rows.num_rows)
    ]


def _shown(value: pa.Scalar) -> str:
    import pyarrow as pa

    found = python_of(value)
    if found is None and value.is_valid:
        return str(value.cast(pa.string()).as_py() if pa.types.is_temporal(value.type) else value.type)
    return repr(found)


def ends(files: Sequence[DataFile], name: str, kind: pa.DataType) -> tuple[pa.Array, pa.Array]:
    """The lowest and the highest values of a column in each of the files, which all tell them."""
    known = [file.columns[name] for file in files]
    return _values([each.lowest for each in known], kind), _values([each.highest for each in known], kind)


def _scalar(text: str, kind: pa.DataType) -> pa.Scalar:
    import pyarrow as pa

    if pa.types.is_integer(kind) or pa.types.is_timestamp(kind):
        return pa.scalar(int(text), kind)  # a cast takes several times as long, and there may be very many files
    return pa.scalar(text).cast(kind)


def _values(texts: Sequence[str], kind: pa.DataType) -> pa.Array:
    import pyarrow as pa

    return pa.array(map(int, texts) if pa.types.is_timestamp(kind) else texts).cast(kind)
