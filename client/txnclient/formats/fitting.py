"""Data as programs have it, fitted to a table: names in any case, types widened where no value can be lost.

As Spark has it unless spark.sql.caseSensitive is set: no two columns of a table differ by case only, so a name of the
data means one of them, whatever its case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from txnstatus.ddl import VOID, Type, parse
from txnstatus.errors import InvalidArgument
from txnstatus.lake import absent
from txnstatus.names import fold
from txnstatus.partitions import FIRST_DAY, LAST_DAY
from txnstatus.schema import Column, Schema, has_room

if TYPE_CHECKING:
    import pyarrow as pa

_WIDER = {
    "tinyint": ("smallint", "int", "bigint", "float", "double"),
    "smallint": ("int", "bigint", "float", "double"),
    "int": ("bigint", "double"),
    "float": ("double",),
}
"""What every value of a type is a value of, too."""
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def widens(found: Type, wanted: Type) -> bool:
    """Whether every value of the one type is, as it stands, one of the other."""
    if found == wanted or found.name == VOID or wanted.name in _WIDER.get(found.name, ()):
        return True
    if wanted.name == "decimal":
        whole, scale = (found.precision - found.scale, found.scale) if found.name == "decimal" else (None, 0)
        whole = _DIGITS.get(found.name) if whole is None else whole
        return whole is not None and whole <= wanted.precision - wanted.scale and scale <= wanted.scale
    alike = bool(found.inner) and (found.name, found.fields) == (wanted.name, wanted.fields)
    return alike and all(map(widens, found.inner, wanted.inner))


def matched(schema: Schema, found: Sequence[Column], table: str) -> list[Column | None]:
    """For each column of the schema, in its order, the one of the data that is meant; None: the data has none, and the
    column has its default, or was added to the table, and is null.

    Raises InvalidArgument, naming the column: for one that is missing, unknown, there twice, or of a type whose values
    may not fit.
    """
    by_name: dict[str, Column] = {}
    for column in found:
        other = by_name.setdefault(fold(column.name), column)
        if other is not column:
            raise InvalidArgument(
                f"columns {other.name!r} and {column.name!r} of the data mean one column of table {table}: "
                "case does not count"
            )
    chosen = list[Column | None]()
    for column in schema.columns:
        meant = by_name.pop(fold(column.name), None)
        if meant is None and (column.added or column.default is not None):
            chosen.append(None)
            continue
        if meant is None:
            raise InvalidArgument(f"column {column.name!r} ({column.type}) of table {table} is missing in the data")
        if meant.type != column.type and not _fits(meant, column):
            raise InvalidArgument(
                f"column {column.name!r} of table {table} is {column.type}; in the data it is {meant.type}",
                hint="only types that have room for every value are widened by themselves, and the fields of a struct "
                "are matched as they are written, in case and order: cast the column",
            )
        chosen.append(meant)
    if by_name:
        raise InvalidArgument(
            f"column {next(iter(by_name.values())).name!r} of the data is not a column of table {table}",
            hint="alter_table(..., add=...) adds a column, and so does write(..., merge_schema=True)",
        )
    return chosen


def _fits(meant: Column, column: Column) -> bool:
    """Whether values of the data can become values of the column. A program of before knows fewer fields of structs."""
    found, wanted = parse(meant.type, data=True), parse(column.type)
    return widens(found, wanted) or (column.widened and has_room(found, wanted))


def part_of(schema: Schema, names: Sequence[str], table: str) -> Schema:
    """The columns of the table that data with these names has. Raises InvalidArgument for an unknown one."""
    known = {fold(column.name): column for column in schema.columns}
    for name in names:
        if fold(name) not in known:
            raise InvalidArgument(f"column {name!r} of the data is not a column of table {table}")
    meant = {fold(name) for name in names}
    return Schema(tuple(column for column in schema.columns if fold(column.name) in meant))


def fitted(rows: pa.Table, schema: Schema, target: pa.Schema, table: str) -> pa.Table:
    """The rows in the columns of the schema, in their order, named and typed as `target` has them.

    Raises InvalidArgument, naming the column and the value.
    """
    import pyarrow as pa

    from txnclient.formats import schemas

    meant = matched(schema, schemas.to_columns(rows.schema), table)
    columns = [
        _left_out(column, field, rows.num_rows) if source is None else cast(rows[source.name], field, table)
        for source, column, field in zip(meant, schema.columns, target, strict=True)
    ]
    found = pa.Table.from_arrays(columns, schema=target)
    for name in days_to_split_by(schema):
        _check_days(found[name], name, table)
    return found


def _left_out(column: Column, field: pa.Field, count: int) -> pa.Array:
    """The values of a column that the data has not."""
    import pyarrow as pa

    if column.default is None:
        return pa.nulls(count, field.type)
    return pa.repeat(absent.scalar(column.default, field.type), count)


def days_to_split_by(schema: Schema) -> list[str]:
    """The partition columns that are dates: days beyond FIRST_DAY and LAST_DAY name no partition."""
    return [column.name for column in schema.columns if column.type == "date" and column.name in schema.partition_by]


def far_day(day: str, column: str, table: str) -> InvalidArgument:
    """The refusal of a day, as it is spelt."""
    return InvalidArgument(
        f"column {column!r} of table {table} is a partition column: its days are from {FIRST_DAY} to {LAST_DAY}, "
        f"and the data has {day}"
    )


def _check_days(days: pa.ChunkedArray, column: str, table: str) -> None:
    import pyarrow as pa
    import pyarrow.compute as pc

    far = pc.or_(pc.less(days, FIRST_DAY), pc.greater(days, LAST_DAY))
    if len(wrong := days.filter(far)):
        raise far_day(wrong[0].cast(pa.string()).as_py(), column, table)


def cast(column: pa.ChunkedArray, field: pa.Field, table: str) -> pa.ChunkedArray:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = column.cast(field.type)
        found.validate(full=True)  # of text that it is text: whoever lends Arrow its memory may have let it be anything
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidArgument(f"column {field.name!r} of table {table} is {field.type}: {error}") from error
    if not field.nullable and found.null_count:  # not in the data as it was: a dictionary may have the null
        row = pc.index(pc.is_null(found), True).as_py()
        raise InvalidArgument(f"column {field.name!r} of table {table} is NOT NULL: row {row} of the data has a null")
    return found
