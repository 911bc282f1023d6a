"""Changes of a table's columns: what may become of a schema.

A column is known by its name in files, which it keeps whatever it is called, and which no other one gets, even when it
is dropped. So what is added is in no file before, and is null there, or has the default that it is added with; and
whoever renames one changes no file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from txnstatus import defaults
from txnstatus.errors import InvalidArgument
from txnstatus.names import fold
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema, column_type, is_narrower
from txnstatus.values import value

FIRST = ""
"""What a column comes after that is the first."""


@value
class ColumnChange:
    """A column that is added, or another one that is changed or dropped."""

    name: str
    type: str = ""
    """The type of one that is added; empty: the column is there."""
    comment: str | None = None
    """None: it stays as it is."""
    after: str | None = None
    """The column before it, or FIRST; None: it stays where it is, and one that is added comes last."""
    takes_nulls: bool = False
    """Whether it is NOT NULL no more."""
    rename: str = ""
    """What it is called from now on; empty: as it is."""
    drop: bool = False
    widen: str = ""
    """The type from now on, which has all values that it has now; empty: as it is."""
    default: str | None = None
    """The text of its value in rows that are written without it from now on, and, of one that is added, in those of
    before; None: as it is."""
    drop_default: bool = False
    """Whether it is null there from now on."""

    def to_wire(self) -> pb.ColumnChange:
        return pb.ColumnChange(
            name=self.name,
            type=self.type,
            comment=self.comment,
            after=self.after,
            takes_nulls=self.takes_nulls,
            rename=self.rename,
            drop=self.drop,
            widen=self.widen,
            default=self.default,
            drop_default=self.drop_default,
        )

    @classmethod
    def from_wire(cls, wire: pb.ColumnChange) -> ColumnChange:
        comment = wire.comment if wire.HasField("comment") else None
        after = wire.after if wire.HasField("after") else None
        default = wire.default if wire.HasField("default") else None
        rest = wire.takes_nulls, wire.rename, wire.drop, wire.widen, default, wire.drop_default
        return cls(wire.name, wire.type, comment, after, *rest)


def changed(schema: Schema, changes: Iterable[ColumnChange], table: str) -> Schema:
    """The schema after all changes, one after the other. Raises InvalidArgument, naming the column."""
    version = schema.version + 1
    for each in changes:
        act = _dropped if each.drop else _added if each.type else _altered
        schema = act(schema, each, table)
    schema.check()
    return replace(schema, version=version)


def _added(schema: Schema, change: ColumnChange, table: str) -> Schema:
    _require_free(schema, change.name, f"column {change.name!r} cannot be added to table {table}")
    kind, stored = column_type(change.name, change.type), _free_in_files(schema, change.name)
    default = None if change.default is None else defaults.checked(change.default, kind, change.name)
    added = Column(
        change.name,
        kind,
        comment=change.comment or "",
        added=True,
        stored=stored if stored != change.name else "",
        default=default,
        initial=default,
    )
    return _placed(schema, added, schema.columns, len(schema.columns), change, table)


def _dropped(schema: Schema, change: ColumnChange, table: str) -> Schema:
    column = _found(schema, change.name, table)
    _require_no_role(schema, column, table, "cannot be dropped")
    if len(schema.columns) == 1:
        raise InvalidArgument(f"column {column.name!r} is all that table {table} has: it cannot be dropped")
    left = tuple(each for each in schema.columns if each is not column)
    return replace(schema, columns=left, retired=(*schema.retired, column.in_files))


def _altered(schema: Schema, change: ColumnChange, table: str) -> Schema:
    column = _found(schema, change.name, table)
    if change.takes_nulls and column.name in schema.primary_key:
        raise InvalidArgument(f"column {column.name!r} of table {table} is part of the primary key: it takes no nulls")
    others = tuple(each for each in schema.columns if each is not column)
    name, stored = column.name, column.stored
    if change.rename and change.rename != name:
        _require_no_role(schema, column, table, "keeps its name")
        said = f"column {name!r} of table {table} cannot be called {change.rename[:200]!r}"
        _require_free(replace(schema, columns=others), change.rename, said)
        name, stored = change.rename, column.in_files if column.in_files != change.rename else ""
    kind = column_type(name, change.widen) if change.widen else column.type
    if kind != column.type:
        _require_no_role(schema, column, table, "keeps its type")
        if not is_narrower(column.type, kind):
            raise InvalidArgument(
                f"column {name!r} of table {table} is {column.type}, and cannot become {kind}",
                hint="what has room for all values there are is possible: wider whole numbers, float to double, "
                "decimals with more digits before the point, and structs with more fields behind those that there are",
            )
    new = replace(
        column,
        default=_default_of(column, change, kind),
        initial=_widened(column.initial, column, kind),
        name=name,
        type=kind,
        widened=column.widened or kind != column.type,
        stored=stored,
        nullable=column.nullable or change.takes_nulls,
        comment=column.comment if change.comment is None else change.comment,
    )
    return _placed(schema, new, others, schema.columns.index(column), change, table)


def _default_of(column: Column, change: ColumnChange, kind: str) -> str | None:
    """The default of a column from now on, when it is of this type."""
    if change.drop_default:
        return None
    if change.default is None:
        return _widened(column.default, column, kind)
    return defaults.checked(change.default, kind, column.name)


def _widened(text: str | None, column: Column, kind: str) -> str | None:
    if text is None or kind == column.type:
        return text
    return defaults.widened(text, column.type, kind, column.name)


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


def _require_free(schema: Schema, name: str, refusal: str) -> None:
    """Raises InvalidArgument where a column is called so."""
    for column in schema.columns:
        if fold(column.name) == fold(name):
            raise InvalidArgument(f"{refusal}: it has a column {column.name!r} (case does not count)")


def _free_in_files(schema: Schema, name: str) -> str:
    """What a column of this name is called in files: so if no other one is, or ever was."""
    taken = {fold(each) for each in (*(column.in_files for column in schema.columns), *schema.retired)}
    number, found = 1, name
    while fold(found) in taken:
        number += 1
        found = f"{name}~{number}"
    return found


def _require_no_role(schema: Schema, column: Column, table: str, refusal: str) -> None:
    """Raises InvalidArgument for what rows are known by, and files are split by."""
    for role, names in (("the primary key", schema.primary_key), ("what it is partitioned by", schema.partition_by)):
        if column.name in names:
            raise InvalidArgument(f"column {column.name!r} of table {table} is part of {role}: it {refusal}")


def _found(schema: Schema, name: str, table: str) -> Column:
    for column in schema.columns:
        if fold(column.name) == fold(name):
            return column
    names = ", ".join(column.name for column in schema.columns)
    raise InvalidArgument(f"column {name[:100]!r} is not a column of table {table}: it has {names[:1_000]}")
