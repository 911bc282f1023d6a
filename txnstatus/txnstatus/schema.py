"""Table names, column types and schemas: the rules, checked alike by clients and servers.

Types are Spark SQL's simple strings (`bigint`, `decimal(10,2)`, `array<string>`), normalised by `parse_type`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from txnstatus.errors import InvalidArgument
from txnstatus.proto import common_pb2 as common

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_TABLE = re.compile(rf"({_NAME.pattern})\.({_NAME.pattern})")
_WRITE_ID = re.compile(r"[A-Za-z0-9]{8,64}")
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|\d+|[<>(),:])")

_ATOMIC = frozenset(
    [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "string",
        "binary",
        "date",
        "timestamp",
        "timestamp_ntz",
    ]
)
_PARTITION_TYPES = frozenset(["boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date"])
_SYNONYMS = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint", "real": "float"}
MAX_DECIMAL_PRECISION = 38
MAX_NESTING = 100
PARTITION_PREFIX = "_partition_"
"""How directories begin that split a write by partition columns; the columns themselves stay in the files."""
CHANGE_PREFIX = "_txn_"
"""How columns begin that files of row changes have besides the table's."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """Columns in order, with the columns that files are split by and those that identify a row."""

    columns: tuple[Column, ...]
    partition_by: tuple[str, ...] = ()
    primary_key: tuple[str, ...] = ()

    def check(self) -> None:
        """Raises InvalidArgument for a schema that breaks a rule, naming the column.

        For requests only: what is in the log was checked, and a rule that is new must not refuse it.
        """
        if not self.columns:
            raise InvalidArgument("a table needs at least one column")
        seen: set[str] = set()
        for column in self.columns:
            if not _NAME.fullmatch(column.name):
                raise InvalidArgument(f"column name {column.name!r}: letters, digits and _ are possible")
            for prefix in (PARTITION_PREFIX, CHANGE_PREFIX):
                if column.name.startswith(prefix):
                    raise InvalidArgument(f"column name {column.name!r}: names that begin with {prefix} are taken")
            if column.name.lower() in seen:
                raise InvalidArgument(f"column {column.name!r} appears twice (case does not count)")
            if parse_type(column.type) != column.type:
                raise InvalidArgument(f"column {column.name!r}: type {column.type!r} is not in its normal form")
            seen.add(column.name.lower())
        names = {column.name for column in self.columns}
        for role, chosen in (("partition", self.partition_by), ("primary key", self.primary_key)):
            for name in chosen:
                if name not in names:
                    raise InvalidArgument(f"{role} column {name!r} is not a column of the table")
            if len(set(chosen)) != len(chosen):
                raise InvalidArgument(f"{role} columns {list(chosen)} name a column twice")
        for column in self.columns:
            if column.name in self.partition_by and column.type.split("(")[0] not in _PARTITION_TYPES:
                raise InvalidArgument(f"column {column.name!r} of type {column.type} cannot be a partition column")
        if len(self.partition_by) == len(self.columns):
            raise InvalidArgument("every column is a partition column: at least one must not be")

    def to_wire(self) -> common.TableSchema:
        return common.TableSchema(
            columns=[common.Column(name=c.name, type=c.type, nullable=c.nullable) for c in self.columns],
            partition_by=self.partition_by,
            primary_key=self.primary_key,
        )

    @classmethod
    def from_wire(cls, wire: common.TableSchema) -> Schema:
        columns = tuple(Column(c.name, c.type, c.nullable) for c in wire.columns)
        return cls(columns, tuple(wire.partition_by), tuple(wire.primary_key))

    def require_same_columns(self, found: Sequence[Column], table: str) -> None:
        """Raises InvalidArgument naming the first column that is missing, unknown, or of another type."""
        by_name = {column.name: column for column in found}
        for column in self.columns:
            other = by_name.pop(column.name, None)
            if other is None:
                raise InvalidArgument(f"column {column.name!r} ({column.type}) of table {table} is missing in the data")
            if other.type != column.type:
                raise InvalidArgument(
                    f"column {column.name!r} of table {table} is {column.type}; in the data it is {other.type}"
                )
        if by_name:
            raise InvalidArgument(f"column {next(iter(by_name))!r} of the data is not a column of table {table}")


def check_table_name(name: str) -> str:
    """Raises InvalidArgument."""
    if not _TABLE.fullmatch(name):
        raise InvalidArgument(f"table name {name!r}: expected database.table, of letters, digits and _")
    return name


def is_database_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def check_write_id(write_id: str) -> str:
    """Raises InvalidArgument: a write id names a directory."""
    if not _WRITE_ID.fullmatch(write_id):
        raise InvalidArgument(f"write id {write_id!r}: expected 8 to 64 letters and digits")
    return write_id


def parse_type(text: str) -> str:
    """The normal form of a type. Raises InvalidArgument for one that a table cannot have."""
    if text.count("<") > MAX_NESTING:
        raise InvalidArgument(f"a type with {text.count('<')} nested types: {MAX_NESTING} are possible")
    tokens = [match.group(1) for match in _TOKEN.finditer(text)]
    if "".join(tokens) != re.sub(r"\s", "", text):
        raise InvalidArgument(f"type {text!r} does not read as a Spark SQL type")
    try:
        normal, rest = _parse(tokens)
    except (IndexError, ValueError):
        raise InvalidArgument(f"type {text!r} does not read as a Spark SQL type") from None
    if rest:
        raise InvalidArgument(f"type {text!r}: {''.join(rest)!r} is left over")
    return normal


def split_arguments(text: str) -> list[str]:
    """The comma-separated parts of what stands between a type's outer brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def _parse(tokens: list[str]) -> tuple[str, list[str]]:
    head, rest = tokens[0].lower(), tokens[1:]
    head = _SYNONYMS.get(head, head)
    if head in _ATOMIC:
        return head, rest
    if head in ("decimal", "dec", "numeric"):
        if rest[:1] != ["("]:
            return "decimal(10,0)", rest
        close = rest.index(")")
        precision, scale = int(rest[1]), int(rest[3]) if close == 4 else 0
        if not 1 <= precision <= MAX_DECIMAL_PRECISION or scale > precision or close not in (2, 4):
            raise ValueError
        return f"decimal({precision},{scale})", rest[close + 1 :]
    if head == "array":
        element, rest = _parse(_expect(rest, "<"))
        return f"array<{element}>", _expect(rest, ">")
    if head == "map":
        key, rest = _parse(_expect(rest, "<"))
        value, rest = _parse(_expect(rest, ","))
        return f"map<{key},{value}>", _expect(rest, ">")
    if head == "struct":
        fields, rest = [], _expect(rest, "<")
        while True:
            name, rest = rest[0], _expect(rest[1:], ":")
            kind, rest = _parse(rest)
            fields.append(f"{name}:{kind}")
            if rest[0] == ">":
                return f"struct<{','.join(fields)}>", rest[1:]
            rest = _expect(rest, ",")
    raise ValueError(head)


def _expect(tokens: list[str], token: str) -> list[str]:
    if tokens[0] != token:
        raise ValueError(tokens[0])
    return tokens[1:]
