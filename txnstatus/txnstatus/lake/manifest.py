"""Data files, and the manifest that lists those of one write.

A manifest is a JSON document beside the files; the table's record holds its path, length and CRC-32, so a manifest
that was cut short or changed is never taken for a good one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake.storage import read_file, write_file
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb

VERSION = 2
FILE_NAME = "_manifest.json"


class ColumnRange(NamedTuple):
    """The range of a column in one file, as text that casts to its type: a scan leaves files out without a look."""

    lowest: str
    highest: str
    nulls: int


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    """URI."""
    rows: int
    bytes: int
    partition: str = WHOLE_TABLE
    """The partition in which all of the file's rows are (see txnstatus.partitions)."""
    columns: Mapping[str, ColumnRange] = field(default_factory=dict)
    """What is known of columns; of others nothing is."""
    ending: int = 0
    """Bytes at the file's end that `crc32` is of, up to all (see txnstatus.lake.data_files)."""
    crc32: int = 0


def write(
    directory: str,
    files: Sequence[DataFile],
    *,
    table_id: str,
    txn_id: int,
    write_id: str,
    not_durable: Iterable[DataFile] = (),
) -> pb.ManifestRef:
    """Writes the manifest into `directory`. When this returns, it is durable, and so are those that were not."""
    document = {
        "version": VERSION,
        "table_id": table_id,
        "txn_id": txn_id,
        "write_id": write_id,
        "files": [asdict(file) for file in files],
    }
    data = json.dumps(document, separators=(",", ":")).encode()
    path = f"{directory}/{FILE_NAME}"
    write_file(path, data, beside=[file.path for file in not_durable])
    return pb.ManifestRef(
        path=path,
        bytes=len(data),
        crc32=zlib.crc32(data),
        file_count=len(files),
        row_count=sum(file.rows for file in files),
        data_bytes=sum(file.bytes for file in files),
        partitions=sorted({file.partition for file in files} - {WHOLE_TABLE}),
    )


def read(ref: pb.ManifestRef) -> list[DataFile]:
    """The files in those partitions that `ref` names, or all. Raises what `whole` raises."""
    return list(named(ref, whole(ref)))


def named(ref: pb.ManifestRef, files: Sequence[DataFile]) -> Sequence[DataFile]:
    """The files in the partitions that `ref` names, of all that the manifest lists; or all."""
    if not ref.partitions:
        return files
    partitions = set(ref.partitions)
    return [file for file in files if file.partition in partitions]


def whole(ref: pb.ManifestRef) -> Sequence[DataFile]:
    """All its files, whatever partitions `ref` names.

    Raises DataDamaged for a manifest that is not the one that was added, InternalError for one that cannot be read.
    """
    try:
        data = read_file(ref.path)
    except OSError as error:
        raise InternalError(f"manifest {ref.path} cannot be read: {error}") from error
    if len(data) != ref.bytes or zlib.crc32(data) != ref.crc32:
        raise DataDamaged(
            f"manifest {ref.path} is damaged: {len(data)} bytes where {ref.bytes} were written, or another CRC",
            hint="restore it from a backup, or overwrite what it is of; txnctl doctor finds all such manifests",
        )
    document = json.loads(data)
    if document["version"] != VERSION:
        raise InternalError(f"manifest {ref.path} is of version {document['version']}; this release reads {VERSION}")
    return [_file(**file) for file in document["files"]]


def _file(columns: Mapping[str, Sequence[Any]], **rest: Any) -> DataFile:
    return DataFile(**rest, columns={name: ColumnRange(*found) for name, found in columns.items()})
