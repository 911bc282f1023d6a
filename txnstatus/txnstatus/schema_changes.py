"""Changes of a table's columns: what may become of a schema.

A column is known by its name, in files and in rows alike. So a name is given once and for all: what is added is in no
file before, and is null there; nothing is dropped or renamed whose name another column could get.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from txnstatus.errors import InvalidArgument
from txnstatus.names import fold
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema, column_type
from txnstatus.values import value

FIRST = ""
"""What a column comes after that is the first."""


@value
class ColumnChange:
    """A column that is added, or another one that is changed."""

    name: str
    type: str = ""
    """The type of one that is added; empty: the column is there."""
    comment: str | None = None
    """None: it stays as it is."""
    after: str | None = None
    """The column before it, or FIRST; None: it stays where it is, and one that is added comes last."""
    takes_nulls: bool = False
    """Whether it is NOT NULL no more."""

    def to_wire(self) -> pb.ColumnChange:
        return pb.ColumnChange(
            name=self.name, type=self.type, comment=self.comment, after=self.after, takes_nulls=self.takes_nulls
        )

    @classmethod
    def from_wire(cls, wire: pb.ColumnChange) -> ColumnChange:
        comment = wire.comment if wire.HasField("comment") else None
        after = wire.after if wire.HasField("after") else None
        return cls(wire.name, wire.type, comment, after, wire.takes_nulls)


def changed(schema: Schema, changes: Iterable[ColumnChange], table: str) -> Schema:
    """The schema after all changes, one after the other. Raises InvalidArgument, naming the column."""
    for each in changes:
        schema = _added(schema, each, table) if each.type else _altered(schema, each, table)
    schema.check()
    return schema


def _added(schema: Schema, change: ColumnChange, table: str) -> Schema:
    for column in schema.columns:
        if fold(column.name) == fold(change.name):
            said = f"column {change.name!r} cannot be added to table {table}: it has a column {column.name!r}"
            raise InvalidArgument(f"{said} (case does not count)")
    added = Column(change.name, column_type(change.name, change.type), True, change.comment or "", added=True)
    return _placed(schema, added, schema.columns, len(schema.columns), change, table)


def _altered(schema: Schema, change: ColumnChange, table: str) -> Schema:
    column = _found(schema, change.name, table)
    if change.takes_nulls and column.name in schema.primary_key:
        raise InvalidArgument(f"column {column.name!r} of table {table} is part of the primary key: it takes no nulls")
    others = tuple(each for each in schema.columns if each is not column)
    new = replace(
        column,
        nullable=column.nullable or change.takes_nulls,
        comment=column.comment if change.comment is None else change.comment,
    )
    return _placed(schema, new, others, schema.columns.index(column), change, table)


def _placed(
    schema: Schema, column: Column, others: tuple[Column, ...], otherwise: int, change: ColumnChange, table: str
) -> Schema:
    """`otherwise`: where it comes among the others if the change does not say."""
    place = otherwise
    if change.after is not None:
        place = 0
        if change.after != FIRST:
            before = _found(schema, change.after, table)
            if before not in others:
                raise InvalidArgument(f"column {column.name!r} of table {table} cannot come after itself")
            place = others.index(before) + 1
    return replace(schema, columns=(*others[:place], column, *others[place:]))


def _found(schema: Schema, name: str, table: str) -> Column:
    for column in schema.columns:
        if fold(column.name) == fold(name):
            return column
    names = ", ".join(column.name for column in schema.columns)
    raise InvalidArgument(f"column {name[:100]!r} is not a column of table {table}: it has {names[:1_000]}")
