"""What files of a table say of where others are, said of other places: as they are, in bytes, and with nothing changed
beside. `to` says of each URI where it is now, which may be where it was."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable

from txnstatus.errors import InternalError
from txnstatus.lake.lineage import NOWHERE
from txnstatus.lake.manifest import HERE, VERSION, VERSION_WITH_BARE_FILES

To = Callable[[str], str]


def manifest(data: bytes, to: To) -> bytes:
    """What it says of its own directory goes on from wherever that is; where it lists no others, nothing changes."""
    first, newline, ranges = data.partition(b"\n")
    document = json.loads(first)
    if document["version"] not in (VERSION, VERSION_WITH_BARE_FILES):
        raise InternalError(f"a manifest is of version {document['version']}, which this release does not read")
    paths = document["files"]["path"]
    moved = [path if path.startswith(HERE) else to(path) for path in paths]
    if moved == paths:
        return data
    document["files"]["path"] = moved
    return json.dumps(document, separators=(",", ":")).encode() + newline + ranges


def dead_rows(data: bytes, to: To) -> bytes:
    return _columns(data, ("file",), to)


def lineage(data: bytes, to: To) -> bytes:
    return _columns(data, ("input", "output"), to)


def _columns(data: bytes, names: Iterable[str], to: To) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = pq.read_table(io.BytesIO(data))
    for name in names:
        uris = [uri if uri == NOWHERE else to(uri) for uri in rows[name].to_pylist()]
        rows = rows.set_column(rows.schema.get_field_index(name), name, pa.array(uris, pa.string()))
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    return sink.getvalue()
