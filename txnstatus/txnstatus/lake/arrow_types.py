"""The service's column types as Arrow types."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from txnstatus.ddl import MAX_DECIMAL_PRECISION, Type, parse
from txnstatus.lake import absent
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


def to_arrow(schema: Schema) -> pa.Schema:
    import pyarrow as pa

    fields = []
    for column in schema.columns:
        metadata = absent.described(column.initial)
        if column.comment:
            metadata[b"comment"] = column.comment.encode()
        fields.append(pa.field(column.name, _of_text(column.type), column.nullable, metadata or None))
    return pa.schema(fields)


def widest(columns: pa.Schema) -> pa.Schema:
    """The columns by types that have room for whatever any of their types ever had: see schema.is_narrower."""
    import pyarrow as pa

    def wide(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_signed_integer(kind):
            return pa.int64()
        if pa.types.is_decimal128(kind):
            return pa.decimal128(MAX_DECIMAL_PRECISION, kind.scale)
        return pa.float64() if pa.types.is_float32(kind) else kind

    return pa.schema([field.with_type(wide(field.type)) for field in columns])


def has_room(kind: pa.DataType, wide: pa.DataType) -> bool:
    """As schema.has_room: whether structs have more fields at most."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind) and types.is_struct(wide):
        pairs = zip(kind, wide, strict=False)
        return kind.num_fields <= wide.num_fields and all(
            one.name == other.name and has_room(one.type, other.type) for one, other in pairs
        )
    if types.is_list(kind) and types.is_list(wide):
        return has_room(kind.value_type, wide.value_type)
    if types.is_map(kind) and types.is_map(wide):
        return kind.key_type == wide.key_type and has_room(kind.item_type, wide.item_type)
    return bool(kind == wide)


@lru_cache(maxsize=1_000)
def _of_text(kind: str) -> pa.DataType:
    """To read a type's text takes longer than all else here, and a table has few types."""
    return _to_arrow(parse(kind))


def _to_arrow(kind: Type) -> pa.DataType:
    import pyarrow as pa

    inner = [_to_arrow(part) for part in kind.inner]
    match kind.name:
        case "array":
            return pa.list_(inner[0])
        case "map":
            return pa.map_(inner[0], inner[1])
        case "struct":
            return pa.struct([pa.field(*field) for field in zip(kind.fields, inner, strict=True)])
        case "decimal":
            return pa.decimal128(kind.precision, kind.scale)
    return {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
    }[kind.name]
