"""Data files, and the manifest that lists those of one write.

A manifest is lines of JSON beside the files: the first has what there is to know of each file, one kind of value after
the other; each further one the ranges of one column. So a reader makes little of each file, and nothing of the columns
that no filter is about. The table's record holds the manifest's path, length and CRC-32, so one that was cut short or
changed is never taken for a good one.
"""

from __future__ import annotations

import json
import zlib
from abc import abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import accumulate, pairwise, repeat
from sys import intern
from typing import Any, NamedTuple, overload

from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake.storage import make_durable, put_file, read_file
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.values import value

VERSION = 4
VERSION_WITH_BARE_FILES = 5
"""The version of manifests that have bare files: who does not know of these is not to take them for whole."""
FILE_NAME = "_manifest.json"
HERE = "./"
"""What a path begins with, in a manifest, that goes on from the manifest's directory; others are URIs."""
SMALL_BYTES = 16 << 10
"""Ranges of a manifest, as written, that its readers keep; larger ones they read once more when they need them."""


class ColumnRange(NamedTuple):
    """The range of a column in one file, as text that casts to its type: a scan leaves files out without a look."""

    lowest: str
    highest: str
    nulls: int


class Origin(NamedTuple):
    """A file of others whose rows came in where it lay: which one, and what tells it from another of that name."""

    path: str
    """URI."""
    bytes: int
    crc32: int
    """CRC-32 of its end, as `DataFile.crc32`."""
    txn_id: int = 0
    """The import that it came by; 0: it is not known."""
    spans: tuple[tuple[int, int], ...] | None = None
    """Which rows of the data file are its: each from the first one to the one behind the last. None: any may be; no
    span: none is left, and the file is known as one that came in."""


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
    bare: bool = False
    """Whether the columns that the table is partitioned by are not in it: see txnstatus.lake.bare_files."""
    origins: tuple[Origin, ...] = ()
    """The files of others that it has rows of, or is to keep in mind; it may be one itself."""


def _origin(listed: Sequence[Any]) -> Origin:
    """As a manifest has it: those from before there were spans end with the CRC-32."""
    found = Origin(*listed)
    return found if found.spans is None else found._replace(spans=tuple((first, end) for first, end in found.spans))


def write(
    directory: str,
    files: Sequence[DataFile],
    *,
    table_id: str,
    txn_id: int,
    write_id: str,
    not_durable: Iterable[DataFile] = (),
) -> pb.ManifestRef:
    """As `put`. When this returns, the manifest is durable, and so are those that were not."""
    ref = put(directory, files, table_id=table_id, txn_id=txn_id, write_id=write_id)
    make_durable([*(file.path for file in not_durable), ref.path])
    return ref


def put(directory: str, files: Sequence[DataFile], *, table_id: str, txn_id: int, write_id: str) -> pb.ManifestRef:
    """Writes the manifest into `directory`. It is not durable yet."""
    columns = list(dict.fromkeys(name for file in files for name in file.columns))
    listed: dict[str, Any] = {name: [getattr(file, name) for file in files] for name in _OF_FILES}
    listed["path"] = [_spelt(path, directory) for path in listed["path"]]
    bare = any(file.bare for file in files)
    if bare:
        listed["bare"] = [int(file.bare) for file in files]
    origins = {number: file.origins for number, file in enumerate(files) if file.origins}
    if origins:
        listed["origins"] = origins
    document = {
        "version": VERSION_WITH_BARE_FILES if bare else VERSION,
        "table_id": table_id,
        "txn_id": txn_id,
        "write_id": write_id,
        "files": listed,
        "columns": columns,
    }
    lines = [document, *(_ranges(files, name) for name in columns)]
    data = b"\n".join(json.dumps(each, separators=(",", ":")).encode() for each in lines)
    path = f"{directory}/{FILE_NAME}"
    put_file(path, data)
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


def named(ref: pb.ManifestRef, files: Listed) -> Sequence[DataFile]:
    """The files in the partitions that `ref` names, of all that the manifest lists; or all."""
    partitions = set(ref.partitions)
    if not partitions or partitions.issuperset(files.partitions):
        return files
    return [file for file in files if file.partition in partitions]


def whole(ref: pb.ManifestRef) -> Listed:
    """All its files, whatever partitions `ref` names.

    Raises DataDamaged for a manifest that is not the one that was added, InternalError for one that cannot be read.
    """
    first, _, ranges = _content(ref).partition(b"\n")
    document = json.loads(first)
    if document["version"] not in (VERSION, VERSION_WITH_BARE_FILES):
        raise InternalError(
            f"manifest {ref.path} is of version {document['version']}; this release reads {VERSION} and "
            f"{VERSION_WITH_BARE_FILES}"
        )
    columns = list(map(intern, document["columns"]))
    return Listed(document["files"], _Ranges(ref, columns, ranges if len(ranges) <= SMALL_BYTES else None))


def table_of(data: bytes) -> str | None:
    """The id of the table that a manifest was written for; None, where what it has says none."""
    try:
        document = json.loads(data.partition(b"\n")[0])
    except ValueError:
        return None
    return document.get("table_id") if isinstance(document, dict) else None


def _content(ref: pb.ManifestRef) -> bytes:
    try:
        data = read_file(ref.path)
    except OSError as error:
        raise InternalError(f"manifest {ref.path} cannot be read: {error}") from error
    if len(data) != ref.bytes or zlib.crc32(data) != ref.crc32:
        raise DataDamaged(
            f"manifest {ref.path} is damaged: {len(data)} bytes where {ref.bytes} were written, or another CRC",
            hint="restore it from a backup, or overwrite what it is of; txnctl doctor finds all such manifests",
        )
    return data


_OF_FILES = ("path", "rows", "bytes", "partition", "ending", "crc32")
"""What the first line lists of all files."""
Bounds = Sequence[Sequence[Any]]
"""Lowest and highest values and numbers of nulls of a column in each file: text, text, and numbers; None: not known."""


def _spelt(path: str, directory: str) -> str:
    """A path as a manifest in the directory has it: hardly any is elsewhere, and there may be very many."""
    inside = path.removeprefix(f"{directory}/")
    return path if inside == path else f"{HERE}{inside}"


def _ranges(files: Sequence[DataFile], column: str) -> list[Sequence[Any]]:
    unknown = (None, None, None)
    return list(zip(*(file.columns.get(column, unknown) for file in files), strict=True))


class MadeFiles(Sequence[DataFile]):
    """Files each of which is made when somebody asks for it, and nobody keeps it."""

    __slots__ = ()

    @overload
    def __getitem__(self, number: int) -> DataFile: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[DataFile]: ...

    def __getitem__(self, number: int | slice) -> DataFile | Sequence[DataFile]:
        at = range(len(self))[number]
        return [self.file(each) for each in at] if isinstance(at, range) else self.file(at)

    @abstractmethod
    def file(self, number: int) -> DataFile:
        """One of them; `number`: from 0 on."""


class Listed(MadeFiles):
    """The files of a manifest, as columns of values."""

    __slots__ = (
        "_bare",
        "_crcs",
        "_directory",
        "_endings",
        "_ends",
        "_names",
        "_origins",
        "_ranges",
        "partitions",
        "rows",
        "sizes",
    )

    def __init__(self, listed: Mapping[str, Any], ranges: _Ranges) -> None:
        self._directory, self._ranges = ranges.directory, ranges
        self._names = "".join(listed["path"])
        self._ends = array("Q", accumulate(map(len, listed["path"]), initial=0))
        self.rows, self.sizes = array("Q", listed["rows"]), array("Q", listed["bytes"])
        self._endings, self._crcs = array("Q", listed["ending"]), array("Q", listed["crc32"])
        self.partitions = list(map(intern, listed["partition"]))
        self._bare = bytes(listed.get("bare", ()))
        self._origins = {int(number): tuple(map(_origin, found)) for number, found in listed.get("origins", {}).items()}

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[DataFile]:
        columns = (_Columns(self._ranges, number) for number in range(len(self)))
        bare = map(bool, self._bare) if self._bare else repeat(False)
        listed = self.paths, self.rows, self.sizes, self.partitions, columns, self._endings, self._crcs
        origins = (self._origins.get(number, ()) for number in range(len(self))) if self._origins else repeat(())
        return map(DataFile, *listed, bare, origins)

    def file(self, number: int) -> DataFile:
        return DataFile(
            self._path(*self._ends[number : number + 2]),
            self.rows[number],
            self.sizes[number],
            self.partitions[number],
            _Columns(self._ranges, number),
            self._endings[number],
            self._crcs[number],
            bool(self._bare) and bool(self._bare[number]),
            self._origins.get(number, ()),
        )

    @property
    def has_bare(self) -> bool:
        return any(self._bare)

    @property
    def paths(self) -> Iterator[str]:
        return (self._path(start, end) for start, end in pairwise(self._ends))

    def _path(self, start: int, end: int) -> str:
        name = self._names[start:end]
        return f"{self._directory}/{name[len(HERE) :]}" if name.startswith(HERE) else name

    def bounds(self, columns: Iterable[str]) -> dict[str, Bounds]:
        """The ranges of those of these columns of which any are known; they are not kept. Raises as `whole` does."""
        return self._ranges.of(columns)


class _Ranges:
    """The ranges of a manifest, as text until somebody asks."""

    __slots__ = ("_found", "_ref", "_text", "columns")

    def __init__(self, ref: pb.ManifestRef, columns: Sequence[str], text: bytes | None) -> None:
        """`columns`: those that have ranges. `text`: a line for each; None: it is to be read again."""
        self._ref, self.columns, self._text = ref, columns, text
        self._found: dict[str, Bounds] = {}

    @property
    def directory(self) -> str:
        return self._ref.path.rpartition("/")[0]

    def of(self, columns: Iterable[str]) -> dict[str, Bounds]:
        """As `Listed.bounds`."""
        wanted = [self.columns.index(name) for name in columns if name in self.columns]
        lines = self._read().split(b"\n") if wanted else ()
        return {self.columns[number]: json.loads(lines[number]) for number in wanted}

    def __getitem__(self, column: str) -> Bounds:
        """What is asked for file by file is kept."""
        if column not in self._found:
            self._text = self._read()
            self._found[column] = json.loads(self._text.split(b"\n")[self.columns.index(column)])
        return self._found[column]

    def _read(self) -> bytes:
        return _content(self._ref).partition(b"\n")[2] if self._text is None else self._text


class _Columns(Mapping[str, ColumnRange]):
    """The ranges of one file."""

    __slots__ = ("_number", "_ranges")

    def __init__(self, ranges: _Ranges, number: int) -> None:
        self._ranges, self._number = ranges, number

    def __getitem__(self, name: str) -> ColumnRange:
        if name not in self._ranges.columns:
            raise KeyError(name)
        lowest, highest, nulls = (each[self._number] for each in self._ranges[name])
        if lowest is None or highest is None or nulls is None:
            raise KeyError(name)
        return ColumnRange(lowest, highest, nulls)

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._ranges.columns if self._ranges[name][0][self._number] is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[type[dict[str, ColumnRange]], tuple[dict[str, ColumnRange]]]:
        """The ranges of this file alone: a task is sent no more."""
        return dict, (dict(self),)
