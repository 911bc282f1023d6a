"""The service's column types as Arrow types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txnstatus.schema import Schema, split_arguments

if TYPE_CHECKING:
    import pyarrow as pa


def to_arrow(schema: Schema) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field(c.name, _to_arrow(c.type), c.nullable) for c in schema.columns])


def _to_arrow(text: str) -> pa.DataType:
    import pyarrow as pa

    head, _, rest = text.partition("<")
    if rest:
        parts = split_arguments(rest.removesuffix(">"))
        if head == "array":
            return pa.list_(_to_arrow(parts[0]))
        if head == "map":
            return pa.map_(_to_arrow(parts[0]), _to_arrow(parts[1]))
        fields = [part.split(":", 1) for part in parts]
        return pa.struct([pa.field(name, _to_arrow(kind)) for name, kind in fields])
    if text.startswith("decimal("):
        precision, scale = text[len("decimal(") : -1].split(",")
        return pa.decimal128(int(precision), int(scale))
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
    }[text]
