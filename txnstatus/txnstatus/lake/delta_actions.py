"""Actions of a Delta log: what an entry of a published table says, as its protocol has it.

`FEATURE` is one that no writer of others knows: by the protocol each of them refuses to write. Rows that are deleted
are deletion vectors, within the entry. That readers must know those is said with the first of them: many refuse a table
that says so, whether it has any or not.
"""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from txnstatus.ddl import Type, parse
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Schema
from txnstatus.types import Timestamp, micros_of

if TYPE_CHECKING:
    from pyroaring import BitMap

Action = dict[str, Any]
FEATURE = "txnstatus"
ENGINE = "txnstatus"
_DELETION_VECTORS, _TIMESTAMP_NTZ = "deletionVectors", "timestampNtz"
_MAGIC = 1681511377
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_Z85 = bytes.maketrans(_B85, _Z85)
_TYPES = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}
"""Delta's names of types, where they are others than ours."""
_WHOLE = ("tinyint", "smallint", "int", "bigint")
_SPELT_ALIKE = ("string", "date")
"""Types whose values statistics have as manifests do, in the same order. Of fractions a NaN is in no range of ours, and
is above all others in Delta's; times are milliseconds there.
"""


def protocol(schema: Schema, *, deletion_vectors: bool) -> Action:
    """The versions and features that a reader and a writer must know."""
    features = [_DELETION_VECTORS] if deletion_vectors else []
    features += [_TIMESTAMP_NTZ] if any("timestamp_ntz" in column.type for column in schema.columns) else []
    found: Action = {"minReaderVersion": 3 if features else 1, "minWriterVersion": 7}
    if features:
        found["readerFeatures"] = features
    return {"protocol": {**found, "writerFeatures": [*features, FEATURE]}}


def has_deletion_vectors(protocol: Action) -> bool:
    return _DELETION_VECTORS in protocol["protocol"].get("readerFeatures", ())


def metadata(table_id: str, name: str, schema: Schema, created: Timestamp) -> Action:
    """The table's columns. It is not said to have partitions: its files have all columns in them."""
    return {
        "metaData": {
            "id": table_id,
            "name": name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(_struct((c.name, parse(c.type), c.nullable) for c in schema.columns)),
            "partitionColumns": [],
            "configuration": {},
            "createdTime": millis(created),
        }
    }


def _struct(fields: Any) -> Action:
    listed = [{"name": name, "type": _type(kind), "nullable": null, "metadata": {}} for name, kind, null in fields]
    return {"type": "struct", "fields": listed}


def _type(kind: Type) -> Any:
    match kind.name:
        case "array":
            return {"type": "array", "elementType": _type(kind.inner[0]), "containsNull": True}
        case "map":
            key, value = map(_type, kind.inner)
            return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
        case "struct":
            return _struct((name, part, True) for name, part in zip(kind.fields, kind.inner, strict=True))
    return _TYPES.get(kind.name, str(kind))


def commit_info(table_id: str, at: Timestamp) -> Action:
    """What says whose entry it is, and of which commit."""
    return {
        "commitInfo": {
            "timestamp": millis(at),
            "operation": "COMMIT",
            "engineInfo": ENGINE,
            "txnId": f"{table_id}/{at}",
        }
    }


def commit_of(first: object, table_id: str) -> Timestamp | None:
    """The commit of which an entry of ours is, given its first action; None: it is somebody else's."""
    info = first.get("commitInfo") if isinstance(first, dict) else None
    if not isinstance(info, dict) or info.get("engineInfo") != ENGINE:
        return None
    written_for, _, at = str(info.get("txnId", "")).rpartition("/")
    return Timestamp(int(at)) if written_for == table_id and at.isdecimal() else None


def added(
    path: str, file: DataFile, schema: Schema, dead: BitMap | None, at: Timestamp, *, rows_change: bool
) -> Action:
    """A file, without its dead rows. `path`: below the table's location, quoted as in a URI."""
    found: Action = {
        "path": path,
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": millis(at),
        "dataChange": rows_change,
        "stats": json.dumps(_statistics(file, schema, exact=not dead), separators=(",", ":")),
    }
    if dead:
        found["deletionVector"] = _deletion_vector(dead)
    return {"add": found}


def removed(add: Mapping[str, Any], at: Timestamp, *, rows_change: bool) -> Action:
    """What takes a file out, given what an entry says of it that added it."""
    found = {
        "path": add["path"],
        "deletionTimestamp": millis(at),
        "dataChange": rows_change,
        "extendedFileMetadata": True,
        "partitionValues": {},
        "size": add["size"],
    }
    if add.get("deletionVector"):
        found["deletionVector"] = add["deletionVector"]
    return {"remove": found}


def dead_rows_of(add: Mapping[str, Any]) -> int:
    """How many rows of the file are dead."""
    vector = add.get("deletionVector")
    return vector["cardinality"] if vector else 0


def _deletion_vector(dead: BitMap) -> Action:
    data = struct.pack("<IQI", _MAGIC, 1, 0) + dead.serialize()
    text = base64.b85encode(data, pad=True).translate(_TO_Z85).decode()
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(data), "cardinality": len(dead)}


def _statistics(file: DataFile, schema: Schema, *, exact: bool) -> Action:
    """The ranges that the manifest has, of types for which they mean the same. `exact`: no row is dead."""
    found: Action = {"numRecords": file.rows, "tightBounds": exact, "minValues": {}, "maxValues": {}, "nullCount": {}}
    types = {column.name: column.type for column in schema.columns}
    for name, known in file.columns.items():
        kind = types.get(name)
        if kind in _WHOLE:
            found["minValues"][name], found["maxValues"][name] = int(known.lowest), int(known.highest)
        elif kind in _SPELT_ALIKE:
            found["minValues"][name], found["maxValues"][name] = known.lowest, known.highest
        if kind is not None:
            found["nullCount"][name] = known.nulls
    return found


def millis(at: Timestamp) -> int:
    return micros_of(at) // 1000
