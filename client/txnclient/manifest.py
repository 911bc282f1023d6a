"""Data files, and the manifest that lists those of one write.

A manifest is a JSON document beside the files; the table's record holds its path, length and CRC-32, so a manifest
that was cut short or changed is never taken for a good one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from txnstatus.errors import InternalError
from txnstatus.proto import table_pb2 as pb
from txnstatus.storage import read_file, write_file

VERSION = 1
FILE_NAME = "_manifest.json"


@dataclass(frozen=True, slots=True)
class DataFile:
    path: str
    """URI."""
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """Files that one process wrote under a transaction; visible only once a handle adds them.

    Small and picklable: a Spark task returns it to the driver.
    """

    table: str
    write_id: str
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def write(directory: str, files: Sequence[DataFile], *, table_id: str, txn_id: int, write_id: str) -> pb.ManifestRef:
    """Writes the manifest durably into `directory`."""
    document = {
        "version": VERSION,
        "table_id": table_id,
        "txn_id": txn_id,
        "write_id": write_id,
        "files": [asdict(file) for file in files],
    }
    data = json.dumps(document, separators=(",", ":")).encode()
    path = f"{directory}/{FILE_NAME}"
    write_file(path, data)
    return pb.ManifestRef(
        path=path,
        bytes=len(data),
        crc32=zlib.crc32(data),
        file_count=len(files),
        row_count=sum(file.rows for file in files),
        data_bytes=sum(file.bytes for file in files),
    )


def read(ref: pb.ManifestRef) -> list[DataFile]:
    """Raises InternalError for a manifest that is missing or is not the one that was added."""
    try:
        data = read_file(ref.path)
    except OSError as error:
        raise InternalError(f"manifest {ref.path} cannot be read: {error}") from error
    if len(data) != ref.bytes or zlib.crc32(data) != ref.crc32:
        raise InternalError(
            f"manifest {ref.path} is damaged: {len(data)} bytes where {ref.bytes} were written, or another CRC"
        )
    document = json.loads(data)
    if document["version"] != VERSION:
        raise InternalError(f"manifest {ref.path} is of version {document['version']}; this release reads {VERSION}")
    return [DataFile(**file) for file in document["files"]]
