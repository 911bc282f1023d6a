"""Schemas: the rules, checked alike by clients and servers.

Types are Spark SQL's simple strings (`bigint`, `decimal(10,2)`, `array<string>`), in the
normal form of `txnstatus/ddl.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from txnstatus import defaults
from txnstatus.ddl import MAX_DECIMAL_PRECISION, Type, parse, parse_type
from txnstatus.errors import InvalidArgument
from txnstatus.names import check_column_name, check_partition_column, fold
from txnstatus.proto import common_pb2 as common

_WRITE_ID = re.compile(r"[A-Za-z0-9]{8,64}")
_PARTITION_TYPES = frozenset(["boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date"])
_NO_KEY_TYPES = ("float", "double", "array", "map", "struct")
"""Types whose values cannot be compared, or not surely."""
MAX_COLUMNS = 2_000
MAX_COMMENT_CHARACTERS = 1_000
MAX_SCHEMA_CHARACTERS = 128 << 10
"""Characters of the names, types, comments and defaults of all columns."""
MAX_PARTITION_COLUMNS = 32
_WHOLE = ("tinyint", "smallint", "int", "bigint")
"""Types of whole numbers, each with all values of those before it."""
MAX_RETIRED = 10_000
"""Columns that can be dropped from one table, over all of its time."""
FOR_NEWER = "renamed: a newer txnstatus reads it"
"""The type, on the wire, of a column that a program which knows of names in files alone would take for another one: it
is none, and such a program says so when it is to read or write the table.
"""
HAS_DEFAULT = "has a default: a newer txnstatus reads it"
"""Likewise of one in which a program that knows of no defaults would read and write nulls."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    nullable: bool = True
    comment: str = ""
    added: bool = False
    """Whether it came after the table: rows and files that do not have it have `initial` there, or nulls."""
    stored: str = ""
    """The name in files, where that is another one: see `in_files`."""
    widened: bool = False
    """Whether its type had fewer values before: files and rows may have it by that one."""
    default: str | None = None
    """The text of its value in rows that are written without it: see defaults.checked. None: null."""
    initial: str | None = None
    """Likewise in rows and files from before it: what its default was as it was added."""

    @property
    def in_files(self) -> str:
        """What it is called in files, in manifests and in row changes, from its first day to its last. No other column
        of the table is ever called so there.
        """
        return self.stored or self.name


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order, with the columns that files are split by and those that identify a row."""

    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()
    retired: tuple[str, ...] = ()
    """Names in files of columns that were dropped."""
    version: int = field(default=0, compare=False)
    """How often the table's columns were changed before."""

    def __post_init__(self) -> None:
        """The columns of a key take no nulls, as in SQL, whether they are declared so or not."""
        key = set(self.primary_key)
        if any(column.nullable and column.name in key for column in self.columns):
            columns = (replace(column, nullable=column.nullable and column.name not in key) for column in self.columns)
            object.__setattr__(self, "columns", tuple(columns))

    @property
    def names_in_files(self) -> dict[str, str]:
        """Column → what it is called in files."""
        return {column.name: column.in_files for column in self.columns}

    @property
    def names_of_now(self) -> dict[str, str]:
        """Name in files → the column that is called so there."""
        return {column.in_files: column.name for column in self.columns}

    def check(self) -> None:
        """Raises InvalidArgument for a schema that breaks a rule, naming the column.

        For requests only: what is in the log was checked, and a rule that is new must not refuse it.
        """
        self._check_size()
        seen: set[str] = set()
        for column in self.columns:
            check_column_name(column.name)
            if fold(column.name) in seen:
                raise InvalidArgument(f"column {column.name!r} appears twice (case does not count)")
            if len(column.comment) > MAX_COMMENT_CHARACTERS:
                said = f"a comment of {len(column.comment)} characters, {MAX_COMMENT_CHARACTERS} are possible"
                raise InvalidArgument(f"column {column.name!r}: {said}")
            if column_type(column.name, column.type) != column.type:
                raise InvalidArgument(f"column {column.name!r}: type {column.type!r} is not in its normal form")
            for text in (column.default, column.initial):
                if text is not None and defaults.checked(text, column.type, column.name) != text:
                    raise InvalidArgument(f"column {column.name!r}: default {text!r} is not in its normal form")
            seen.add(fold(column.name))
        names = {column.name for column in self.columns}
        for role, chosen in (("partition", self.partition_by), ("primary key", self.primary_key)):
            for name in chosen:
                if name not in names:
                    raise InvalidArgument(f"{role} column {name!r} is not a column of the table")
            if len(set(chosen)) != len(chosen):
                raise InvalidArgument(f"{role} columns {list(chosen)} name a column twice")
        for name in self.partition_by:
            check_partition_column(name)
        split_by = set(self.partition_by)
        for column in self.columns:
            if column.name in split_by and column.type.split("(")[0] not in _PARTITION_TYPES:
                raise InvalidArgument(f"column {column.name!r} of type {column.type} cannot be a partition column")
        for column in self.columns:
            if column.name in self.primary_key and column.default is not None:
                raise InvalidArgument(f"column {column.name!r} is part of the primary key: it has no default")
            if column.name in self.primary_key and column.type.startswith(_NO_KEY_TYPES):
                raise InvalidArgument(
                    f"primary key column {column.name!r} is {column.type}: rows cannot be known by such a key"
                )
        if len(self.partition_by) == len(self.columns):
            raise InvalidArgument("every column is a partition column: at least one must not be")
        names_in_files = [fold(name) for name in (*(column.in_files for column in self.columns), *self.retired)]
        if len(set(names_in_files)) < len(names_in_files):
            raise InvalidArgument("two columns have one name in files")

    def _check_size(self) -> None:
        if not self.columns:
            raise InvalidArgument("a table needs at least one column")
        texts = chain.from_iterable(
            (each.name, each.type, each.comment, each.default, each.initial) for each in self.columns
        )
        characters = sum(len(text) for text in texts if text)
        for count, what, most in (
            (len(self.columns), "columns", MAX_COLUMNS),
            (len(self.partition_by), "partition columns", MAX_PARTITION_COLUMNS),
            (len(self.retired), "columns that were dropped", MAX_RETIRED),
            (characters, "characters in names, types, comments and defaults", MAX_SCHEMA_CHARACTERS),
        ):
            if count > most:
                raise InvalidArgument(f"a table with {count} {what}: {most} are possible")

    @property
    def keys_tell_partitions(self) -> bool:
        """Whether a row's key says in which partition it is: then no key is in two of them."""
        return bool(self.partition_by) and set(self.partition_by) <= set(self.primary_key)

    @property
    def is_renamed(self) -> bool:
        """Whether a column is called otherwise than in files."""
        return any(column.stored for column in self.columns)

    @property
    def fills(self) -> list[Column]:
        """The columns that have values in files which do not have them."""
        return [column for column in self.columns if column.initial is not None]

    @property
    def in_files(self) -> Schema:
        """The same columns by their names in files. Those of the key and of partitions have no others."""
        if not self.is_renamed:
            return self
        return replace(self, columns=tuple(replace(each, name=each.in_files, stored="") for each in self.columns))

    def to_wire(self) -> common.TableSchema:
        return common.TableSchema(
            columns=map(_to_wire, self.columns),
            partition_by=self.partition_by,
            primary_key=self.primary_key,
            retired=self.retired,
            version=self.version,
        )

    @classmethod
    def from_wire(cls, wire: common.TableSchema) -> Schema:
        retired = tuple(wire.retired)
        columns = tuple(map(_from_wire, wire.columns))
        return cls(columns, tuple(wire.partition_by), tuple(wire.primary_key), retired, wire.version)

    def require_same_columns(self, found: Sequence[Column], table: str) -> None:
        """Raises InvalidArgument naming the first column that is missing, unknown, or of another type.

        One that was added to the table may be missing: whoever wrote the data may not have known of it.
        """
        by_name = {column.name: column for column in found}
        for column in self.columns:
            other = by_name.pop(column.name, None)
            if other is None and column.added:
                continue
            if other is None:
                raise InvalidArgument(f"column {column.name!r} ({column.type}) of table {table} is missing in the data")
            if other.type != column.type and not (column.widened and is_narrower(other.type, column.type)):
                raise InvalidArgument(
                    f"column {column.name!r} of table {table} is {column.type}; in the data it is {other.type}"
                )
        if by_name:
            raise InvalidArgument(f"column {next(iter(by_name))!r} of the data is not a column of table {table}")


def _to_wire(column: Column) -> common.Column:
    has_default = column.default is not None or column.initial is not None
    why_newer = FOR_NEWER if column.stored else HAS_DEFAULT if has_default else ""
    return common.Column(
        name=column.in_files,
        type=why_newer or column.type,
        nullable=column.nullable,
        comment=column.comment,
        added=column.added,
        shown=column.name if column.stored else "",
        widened=column.widened,
        told_type=column.type if why_newer else "",
        default=column.default,
        initial=column.initial,
    )


def _from_wire(wire: common.Column) -> Column:
    return Column(
        wire.shown or wire.name,
        wire.told_type or wire.type,
        wire.nullable,
        wire.comment,
        wire.added,
        wire.name if wire.shown else "",
        wire.widened,
        wire.default if wire.HasField("default") else None,
        wire.initial if wire.HasField("initial") else None,
    )


def is_narrower(kind: str, wide: str) -> bool:
    """Whether a column of the one type can become one of the other, and files that have the one be read as the other:
    a whole number of more bits, a double, a decimal of more digits before its point, structs with more fields behind
    those that there are, also within structs, arrays and maps.
    """
    if kind in _WHOLE and wide in _WHOLE:
        return _WHOLE.index(kind) < _WHOLE.index(wide)
    one, other = parse(kind), parse(wide)
    if one.name == other.name == "decimal":
        return one.scale == other.scale and one.precision < other.precision
    return (kind, wide) == ("float", "double") or (one != other and has_room(one, other))


def has_room(kind: Type, wide: Type) -> bool:
    """Whether the second is the first one, but that structs may have more fields behind those that there are."""
    if kind.name == wide.name == "struct":
        same = wide.fields[: len(kind.fields)] == kind.fields
        return same and all(map(has_room, kind.inner, wide.inner))
    if kind.name == wide.name == "array":
        return has_room(kind.inner[0], wide.inner[0])
    if kind.name == wide.name == "map":  # values are found by keys, which stay as they are
        return kind.inner[0] == wide.inner[0] and has_room(kind.inner[1], wide.inner[1])
    return kind == wide


def widest(kind: str) -> str:
    """The type that a column of this one can become in the end."""
    if kind in _WHOLE:
        return _WHOLE[-1]
    found = parse(kind)
    if found.name == "decimal":
        return f"decimal({MAX_DECIMAL_PRECISION},{found.scale})"
    return "double" if kind == "float" else kind


def column_type(name: str, text: str) -> str:
    """The normal form of a column's type. Raises InvalidArgument, naming the column."""
    try:
        return parse_type(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"column {name!r}: {error.message}") from None


def check_write_id(write_id: str) -> str:
    """Raises InvalidArgument: a write id names a directory."""
    if not _WRITE_ID.fullmatch(write_id):
        raise InvalidArgument(f"write id {write_id!r}: expected 8 to 64 letters and digits")
    return write_id
