"""Data files, and the manifest that lists those of one write.

A manifest is two lines of JSON beside the files: what there is to know of each file, and the ranges of columns. Both
list values of all files, one kind after the other, so that a reader makes little of each file; one that has no filter
makes nothing of the ranges. The table's record holds the manifest's path, length and CRC-32, so one that was cut short
or changed is never taken for a good one.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from sys import intern
from typing import Any, NamedTuple

from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake.storage import read_file, write_file
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.values import value

VERSION = 3
FILE_NAME = "_manifest.json"


class ColumnRange(NamedTuple):
    """The range of a column in one file, as text that casts to its type: a scan leaves files out without a look."""

    lowest: str
    highest: str
    nulls: int


@value
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
        "files": {name: [getattr(file, name) for file in files] for name in _OF_FILES},
    }
    data = b"\n".join(json.dumps(each, separators=(",", ":")).encode() for each in (document, _ranges(files)))
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
    first, _, ranges = data.partition(b"\n")
    document = json.loads(first)
    if document["version"] != VERSION:
        raise InternalError(f"manifest {ref.path} is of version {document['version']}; this release reads {VERSION}")
    paths, rows, sizes, partitions, endings, crcs = (document["files"][name] for name in _OF_FILES)
    known = _Later(ranges)
    columns = (_Columns(known, number) for number in range(len(paths)))
    return list(map(DataFile, paths, rows, sizes, map(intern, partitions), columns, endings, crcs))


_OF_FILES = ("path", "rows", "bytes", "partition", "ending", "crc32")
"""What the first line lists of all files."""
_Ranges = Mapping[str, Sequence[Sequence[Any]]]
"""What the second line is: column → lowest and highest values and numbers of nulls, of all files; None: not known."""


def _ranges(files: Sequence[DataFile]) -> _Ranges:
    unknown = (None, None, None)
    names = dict.fromkeys(name for file in files for name in file.columns)
    return {name: list(zip(*(file.columns.get(name, unknown) for file in files), strict=True)) for name in names}


class _Later:
    """The ranges of a manifest, as text until somebody asks."""

    __slots__ = ("_found",)

    def __init__(self, text: bytes) -> None:
        self._found: bytes | _Ranges = text

    def __call__(self) -> _Ranges:
        if isinstance(self._found, bytes):
            found: _Ranges = json.loads(self._found)
            self._found = found
        return self._found


class _Columns(Mapping[str, ColumnRange]):
    """The ranges of one file."""

    __slots__ = ("_number", "_ranges")

    def __init__(self, ranges: Callable[[], _Ranges], number: int) -> None:
        self._ranges, self._number = ranges, number

    def __getitem__(self, name: str) -> ColumnRange:
        lowest, highest, nulls = self._ranges()[name]
        if (known := lowest[self._number]) is None:
            raise KeyError(name)
        return ColumnRange(known, highest[self._number], nulls[self._number])

    def __iter__(self) -> Iterator[str]:
        return (name for name, (lowest, _, _) in self._ranges().items() if lowest[self._number] is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, ColumnRange]], tuple[dict[str, ColumnRange]]]:
        """The ranges of this file alone: a task is sent no more."""
        return dict, (dict(self),)
