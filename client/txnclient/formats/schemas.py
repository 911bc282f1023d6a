"""Schemas as users have them (pyarrow, PySpark, DDL text) to the service's columns, and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from txnstatus.errors import InvalidArgument
from txnstatus.schema import Column, Schema, parse_type, split_arguments

if TYPE_CHECKING:
    import pyarrow as pa


def to_columns(schema: Any) -> tuple[Column, ...]:
    """From a pyarrow Schema, a PySpark StructType, DDL text (`a bigint, b string`), or name-to-type pairs.

    Raises InvalidArgument, naming the column.
    """
    kind = type(schema).__module__.split(".", 1)[0]
    if isinstance(schema, str):
        pairs: Iterable[tuple[str, str]] = (_ddl_column(part) for part in split_arguments(schema))
        return tuple(Column(name, _type(name, text)) for name, text in pairs)
    if kind == "pyarrow":
        return tuple(Column(field.name, _from_arrow(field.name, field.type), field.nullable) for field in schema)
    if kind == "pyspark":
        return tuple(
            Column(field.name, _type(field.name, field.dataType.simpleString()), field.nullable) for field in schema
        )
    if isinstance(schema, Mapping):
        return tuple(Column(name, _type(name, text)) for name, text in schema.items())
    raise InvalidArgument(
        f"a schema is a pyarrow Schema, a PySpark StructType, DDL text or a mapping, not {type(schema).__name__}"
    )


def ddl(schema: Schema) -> str:
    """The columns as Spark DDL."""
    return ", ".join(f"`{column.name}` {column.type}" for column in schema.columns)


def _ddl_column(text: str) -> tuple[str, str]:
    name, _, kind = text.strip().partition(" ")
    if not name or not kind.strip():
        raise InvalidArgument(f"column {text.strip()!r}: expected a name and a type")
    return name.strip("`"), kind


def _type(column: str, text: str) -> str:
    try:
        return parse_type(text)
    except InvalidArgument as error:
        raise InvalidArgument(f"column {column!r}: {error.message}") from None


def _from_arrow(column: str, kind: pa.DataType) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _from_arrow(column, kind.value_type)
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_list(kind) or types.is_large_list(kind):
        return f"array<{_from_arrow(column, kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{_from_arrow(column, kind.key_type)},{_from_arrow(column, kind.item_type)}>"
    if types.is_struct(kind):
        return "struct<" + ",".join(f"{f.name}:{_from_arrow(column, f.type)}" for f in kind) + ">"
    by_arrow = {
        "bool": "boolean",
        "int8": "tinyint",
        "int16": "smallint",
        "int32": "int",
        "int64": "bigint",
        "float": "float",
        "double": "double",
        "string": "string",
        "large_string": "string",
        "string_view": "string",
        "binary": "binary",
        "large_binary": "binary",
        "date32[day]": "date",
    }
    if str(kind) not in by_arrow:
        raise InvalidArgument(f"column {column!r}: the Arrow type {kind} has no counterpart in Spark SQL")
    return by_arrow[str(kind)]
