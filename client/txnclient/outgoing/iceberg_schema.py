"""A table's columns as Iceberg has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

from txnstatus.ddl import Type, parse
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyiceberg.schema

Told = dict[str, Any]
_NAMES = {
    "tinyint": "int",
    "smallint": "int",
    "bigint": "long",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}
"""Iceberg's names of types, where they are others than ours."""
_BOUNDED = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")
"""Types whose ranges manifests have, and which mean the same there. Of fractions a NaN is in no range."""
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True)
class Columns:
    told: Told
    """The schema as metadata has it."""
    names_in_files: Sequence[Told]
    """A name mapping: what each column, and each of its parts, is called in files."""
    last_id: int
    ids: Mapping[str, tuple[int, str]]
    """Name in files → its id, and its type, of columns whose ranges are told."""

    @cached_property
    def iceberg(self) -> pyiceberg.schema.Schema:
        from pyiceberg.schema import Schema

        return Schema.model_validate(self.told)

    def bounds(self, file: DataFile) -> tuple[dict[int, int], dict[int, bytes], dict[int, bytes]]:
        """Numbers of nulls, lowest and highest values, of the columns of which the manifest knows them."""
        from pyiceberg.conversions import to_bytes
        from pyiceberg.types import PrimitiveType

        nulls, ends = dict[int, int](), (dict[int, bytes](), dict[int, bytes]())
        for name, (id_, kind) in self.ids.items():
            if (known := file.columns.get(name)) is None:
                continue
            nulls[id_] = known.nulls
            of = self.iceberg.find_type(id_)
            assert isinstance(of, PrimitiveType)
            for found, text in zip(ends, (known.lowest, known.highest), strict=True):
                found[id_] = to_bytes(of, _value(text, kind))
        return nulls, *ends


def columns_of(schema: Schema) -> Columns:
    # Top columns have the first ids, as others count, too.
    ids = count(len(schema.columns) + 1)
    fields, names = list[Told](), list[Told]()
    for id_, column in enumerate(schema.columns, 1):
        kind = parse(column.type)
        told, inner = _type(kind, ids)
        fields.append({"id": id_, "name": column.name, "required": not column.nullable, "type": told})
        names.append({"field-id": id_, "names": [column.in_files], **({"fields": inner} if inner else {})})
    # Columns that were dropped are in files, too: a reader looks there for the name of each.
    names += [{"field-id": next(ids), "names": [name]} for name in schema.retired]
    bounded = {
        column.in_files: (id_, column.type)
        for id_, column in enumerate(schema.columns, 1)
        if column.type in _BOUNDED and not column.widened
    }
    return Columns({"type": "struct", "schema-id": 0, "fields": fields}, names, next(ids) - 1, bounded)


def _type(kind: Type, ids: Iterator[int]) -> tuple[Any, list[Told]]:
    """The type, and the names of its parts."""
    match kind.name:
        case "array":
            id_ = next(ids)
            told, names = _type(kind.inner[0], ids)
            found = {"type": "list", "element-id": id_, "element": told, "element-required": False}
            return found, [_named(id_, "element", names)]
        case "map":
            key_id, value_id = next(ids), next(ids)
            (key, key_names), (value, value_names) = (_type(part, ids) for part in kind.inner)
            found = {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value}
            names = [_named(key_id, "key", key_names), _named(value_id, "value", value_names)]
            return {**found, "value-required": False}, names
        case "struct":
            fields, named = list[Told](), list[Told]()
            for name, part in zip(kind.fields, kind.inner, strict=True):
                id_ = next(ids)
                told, names = _type(part, ids)
                fields.append({"id": id_, "name": name, "required": False, "type": told})
                named.append(_named(id_, name, names))
            return {"type": "struct", "fields": fields}, named
        case "decimal":
            return f"decimal({kind.precision}, {kind.scale})", []
    return _NAMES.get(kind.name, kind.name), []


def _named(id_: int, name: str, names: list[Told]) -> Told:
    return {"field-id": id_, "names": [name], **({"fields": names} if names else {})}


def _value(text: str, kind: str) -> Any:
    """A bound of a manifest's as the library takes it: days and microseconds are numbers."""
    if kind == "date":
        return (date.fromisoformat(text) - _EPOCH).days
    return text if kind == "string" else int(text)
