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
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*|[0-9]+|\S)")
_WORD = re.compile(r"[A-Za-z0-9_]+")
_END = ""

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
"""Types in each other."""
MAX_COLUMNS = 2_000
MAX_TYPE_CHARACTERS = 32 << 10
MAX_SCHEMA_CHARACTERS = 128 << 10
"""Characters of the names and types of all columns."""
MAX_PARTITION_COLUMNS = 32
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
        self._check_size()
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
        split_by = set(self.partition_by)
        for column in self.columns:
            if column.name in split_by and column.type.split("(")[0] not in _PARTITION_TYPES:
                raise InvalidArgument(f"column {column.name!r} of type {column.type} cannot be a partition column")
        if len(self.partition_by) == len(self.columns):
            raise InvalidArgument("every column is a partition column: at least one must not be")

    def _check_size(self) -> None:
        if not self.columns:
            raise InvalidArgument("a table needs at least one column")
        characters = sum(len(column.name) + len(column.type) for column in self.columns)
        for count, what, most in (
            (len(self.columns), "columns", MAX_COLUMNS),
            (len(self.partition_by), "partition columns", MAX_PARTITION_COLUMNS),
            (characters, "characters in names and types", MAX_SCHEMA_CHARACTERS),
        ):
            if count > most:
                raise InvalidArgument(f"a table with {count} {what}: {most} are possible")

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
    if len(text) > MAX_TYPE_CHARACTERS:
        raise InvalidArgument(f"a type of {len(text)} characters: {MAX_TYPE_CHARACTERS} are possible")
    try:
        return _TypeReader(text).all()
    except ValueError:
        raise InvalidArgument(f"type {text!r} does not read as a Spark SQL type") from None


def split_arguments(text: str) -> list[str]:
    """The comma-separated parts of what stands between a type's outer brackets."""
    parts, depth, start = [], 0, 0
    for position, character in enumerate(text):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


class _TypeReader:
    """Goes over the tokens of a type once."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = [*_TOKEN.findall(text), _END]
        self._at = 0

    def all(self) -> str:
        """Raises ValueError; or InvalidArgument, for what is nested too deeply."""
        normal = self._type(0)
        self._expect(_END)
        return normal

    def _type(self, depth: int) -> str:
        if depth > MAX_NESTING:
            raise InvalidArgument(f"a type with more than {MAX_NESTING} types in each other: so many are possible")
        head = self._next().lower()
        head = _SYNONYMS.get(head, head)
        if head in _ATOMIC:
            return head
        match head:
            case "decimal" | "dec" | "numeric":
                return self._decimal()
            case "array":
                self._expect("<")
                inner = self._type(depth + 1)
            case "map":
                self._expect("<")
                key = self._type(depth + 1)
                self._expect(",")
                inner = f"{key},{self._type(depth + 1)}"
            case "struct":
                self._expect("<")
                fields = [self._field(depth)]
                while self._take(","):
                    fields.append(self._field(depth))
                inner = ",".join(fields)
            case _:
                raise ValueError(head)
        self._expect(">")
        return f"{head}<{inner}>"

    def _field(self, depth: int) -> str:
        name = self._next()
        if not _WORD.fullmatch(name):
            raise ValueError(name)
        self._expect(":")
        return f"{name}:{self._type(depth + 1)}"

    def _decimal(self) -> str:
        if not self._take("("):
            return "decimal(10,0)"
        precision = self._digits()
        scale = self._digits() if self._take(",") else 0
        self._expect(")")
        if not 1 <= precision <= MAX_DECIMAL_PRECISION or scale > precision:
            raise ValueError
        return f"decimal({precision},{scale})"

    def _digits(self) -> int:
        token = self._next()
        if len(token) > len(str(MAX_DECIMAL_PRECISION)):
            raise ValueError(token)  # also: the time that `int` takes is quadratic
        return int(token)

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at += 1
        return token

    def _take(self, token: str) -> bool:
        """Whether it comes next; then it is taken."""
        found = self._tokens[self._at] == token
        self._at += found
        return found

    def _expect(self, token: str) -> None:
        if not self._take(token):
            raise ValueError(self._tokens[self._at])
