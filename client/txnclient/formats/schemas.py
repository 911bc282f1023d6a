"""Schemas as users have them (pyarrow, PySpark, DDL text) to the service's columns, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from txnstatus import defaults
from txnstatus.ddl import VOID, Declared, parse_columns, struct_text
from txnstatus.errors import InvalidArgument
from txnstatus.names import fold, quoted
from txnstatus.schema import Column, Schema, column_type

if TYPE_CHECKING:
    import pyarrow as pa


def to_columns(schema: Any) -> tuple[Column, ...]:
    """From a pyarrow Schema, a PySpark StructType, DDL text (`a bigint NOT NULL, b int DEFAULT 5`), or a mapping.

    Raises InvalidArgument, naming the column.
    """
    kind = type(schema).__module__.split(".", 1)[0]
    if isinstance(schema, str):
        return tuple(map(_declared, parse_columns(schema)))
    if kind == "pyarrow":
        return tuple(
            Column(field.name, _from_arrow(field.name, field.type), field.nullable, _arrow_comment(field))
            for field in schema
        )
    if kind == "pyspark":
        return tuple(
            Column(
                field.name, _from_spark(field.name, field.dataType), field.nullable, field.metadata.get("comment", "")
            )
            for field in schema
        )
    if isinstance(schema, Mapping):
        return tuple(Column(name, column_type(name, text)) for name, text in schema.items())
    raise InvalidArgument(
        f"a schema is a pyarrow Schema, a PySpark StructType, DDL text or a mapping, not {type(schema).__name__}"
    )


def _declared(column: Declared) -> Column:
    text = None if column.default is None else defaults.checked(column.default, column.type, column.name)
    return Column(column.name, column.type, column.nullable, column.comment, default=text)


def require_nothing_inside(schema: Any) -> None:
    """Raises InvalidArgument for a field of a struct that takes no nulls: NOT NULL holds for whole columns.

    Whether an array's elements or a map's values may be null is not looked at: Spark finds that out by itself, nobody
    can say it in DDL, and no table keeps it.
    """
    if type(schema).__module__.split(".", 1)[0] not in ("pyarrow", "pyspark"):
        return
    for field in schema:
        for inner in _fields_inside(field.type if hasattr(field, "type") else field.dataType):
            if not inner.nullable:
                raise InvalidArgument(
                    f"column {field.name!r}: its field {inner.name!r} takes no nulls; NOT NULL holds for columns",
                    hint="declare the field nullable, or make it a column",
                )


def _fields_inside(kind: Any) -> Iterator[Any]:
    """The fields of all structs in a type of pyarrow or PySpark."""
    parts = [getattr(kind, name) for name in _PARTS if hasattr(kind, name)]
    if _is_struct(kind):
        yield from kind
        parts += [field.type if hasattr(field, "type") else field.dataType for field in kind]
    for part in parts:
        yield from _fields_inside(part)


_PARTS = ("value_type", "key_type", "item_type", "elementType", "keyType", "valueType")
"""Attributes of the types that are made of other ones."""


def _is_struct(kind: Any) -> bool:
    return getattr(kind, "typeName", lambda: "")() == "struct" or str(kind).startswith("struct<")


def ddl(schema: Schema) -> str:
    """The columns as Spark DDL."""
    return ", ".join(f"{quoted(column.name)} {column.type}" for column in schema.columns)


def named(names: Sequence[str], columns: Sequence[Column]) -> tuple[str, ...]:
    """The columns that are meant by these names, as they are called, whatever the case; those there are not stay.

    Raises as `listed`.
    """
    known = {fold(column.name): column.name for column in columns}
    return tuple(known.get(fold(name), name) for name in listed(names))


def listed(names: Sequence[str]) -> Sequence[str]:
    """The names. Raises InvalidArgument for one name that is in no list: it would be taken for its letters."""
    if isinstance(names, str):
        raise InvalidArgument(f"{names!r} is one name where a list of columns is expected", hint=f"write [{names!r}]")
    return names


def _arrow_comment(field: pa.Field) -> str:
    comment: bytes = (field.metadata or {}).get(b"comment", b"")
    return comment.decode(errors="replace")


def _from_spark(column: str, kind: Any) -> str:
    """Spark's own text does not quote the names of a struct's fields."""
    match kind.typeName():
        case "array":
            return f"array<{_from_spark(column, kind.elementType)}>"
        case "map":
            return f"map<{_from_spark(column, kind.keyType)},{_from_spark(column, kind.valueType)}>"
        case "struct":
            return struct_text((field.name, _from_spark(column, field.dataType)) for field in kind)
    text: str = kind.simpleString()
    return text if text == VOID else column_type(column, text)


def _from_arrow(column: str, kind: pa.DataType) -> str:
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return _from_arrow(column, kind.value_type)
    if types.is_decimal(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if types.is_list_view(kind) or types.is_large_list_view(kind):
        # pyarrow's own cast of them to lists makes arrays that do not read back.
        raise InvalidArgument(f"column {column!r}: the Arrow type {kind} cannot be stored: build it as pyarrow.list_")
    if hasattr(kind, "value_field"):  # lists of every other kind
        return f"array<{_from_arrow(column, kind.value_type)}>"
    if types.is_map(kind):
        return f"map<{_from_arrow(column, kind.key_type)},{_from_arrow(column, kind.item_type)}>"
    if types.is_struct(kind):
        return struct_text((field.name, _from_arrow(column, field.type)) for field in kind)
    if types.is_fixed_size_binary(kind):
        return "binary"
    by_arrow = {
        "null": VOID,
        "bool": "boolean",
        "int8": "tinyint",
        "int16": "smallint",
        "int32": "int",
        "int64": "bigint",
        "uint8": "smallint",  # as Spark reads them
        "uint16": "int",
        "uint32": "bigint",
        "uint64": "decimal(20,0)",
        "halffloat": "float",
        "float": "float",
        "double": "double",
        "string": "string",
        "large_string": "string",
        "string_view": "string",
        "binary": "binary",
        "large_binary": "binary",
        "binary_view": "binary",
        "date32[day]": "date",
        "date64[ms]": "date",
    }
    if str(kind) not in by_arrow:
        raise InvalidArgument(f"column {column!r}: the Arrow type {kind} has no counterpart in Spark SQL")
    return by_arrow[str(kind)]
