"""Iceberg metadata of a table as of one commit: it names the table's files where they lie, and is written beside none.

Each time all of it is written anew, as one snapshot: what older ones name is cleaned as the table wants, so a history
would promise what is not kept. Files have no field ids: a name mapping says which columns they mean. Rows that are
deleted are in one file of position deletes.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from txnclient.incoming.source import required
from txnclient.outgoing.iceberg_schema import Columns, columns_of
from txnclient.read.table_files import TableFiles
from txnstatus.errors import IllegalState
from txnstatus.lake.manifest import DataFile
from txnstatus.process.durable import make_directory, sync, write_file
from txnstatus.types import Timestamp, micros_of

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile as Described
    from pyiceberg.manifest import ManifestFile

FORMAT: Final = 2
DIRECTORY = "metadata"
HINT = "version-hint.text"
"""The file that says which version is the newest, as catalogs without a service have it."""
_VERSION = re.compile(r"v([0-9]+)\.metadata\.json")
OURS, COMMIT, STATE = "txnstatus.table", "txnstatus.commit", "txnstatus.state"
"""The property that says whose table it is; and what a snapshot of ours says: as of when, and a hash of its files."""
_PATH_ID, _POS_ID = 2147483546, 2147483545
"""Iceberg's ids of the columns of position deletes."""


@dataclass(frozen=True, slots=True)
class Version:
    """The newest metadata in a directory."""

    number: int = 0
    """0: there is none."""
    content: Mapping[str, Any] = field(default_factory=dict)

    @property
    def snapshot(self) -> Mapping[str, Any]:
        """The snapshot that it shows; empty: none."""
        current = self.content.get("current-snapshot-id")
        return next((each for each in self.content.get("snapshots", ()) if each["snapshot-id"] == current), {})

    @property
    def commit(self) -> int:
        """The timestamp as of which it is, of one that is ours."""
        return int(self.snapshot["summary"][COMMIT])


def newest(directory: Path) -> Version:
    """Raises OSError; ValueError for a file that is no metadata."""
    names = os.listdir(directory) if directory.is_dir() else []  # noqa: PTH208 - names are all that is needed
    numbers = [int(match[1]) for name in names if (match := _VERSION.fullmatch(name))]
    if not numbers:
        return Version()
    return Version(max(numbers), json.loads((directory / f"v{max(numbers)}.metadata.json").read_bytes()))


def require_ours(found: Version, whose: str, directory: Path) -> None:
    """Raises IllegalState where the metadata is of another table, or somebody else has written the last of it."""
    if not found.content:
        return
    if (there := found.content.get("properties", {}).get(OURS)) != whose:
        raise IllegalState(
            f"{directory} has metadata of {there or 'a table of somebody else'}", hint="name another one"
        )
    if COMMIT not in found.snapshot.get("summary", {}):
        raise IllegalState(
            f"somebody else has written version {found.number} in {directory}",
            hint="what it has added is in no table of this cluster: move it away, or name another directory",
        )


def write(found: TableFiles, whose: str, at: Timestamp, directory: Path) -> Version:
    """Writes the next version, durable when this returns. Raises FileExistsError: another one was written meanwhile."""
    before = newest(directory)
    require_ours(before, whose, directory)
    columns, state = columns_of(found.schema), _state(found)
    if before.content and before.content["schemas"] == [columns.told] and before.snapshot["summary"][STATE] == state:
        return before
    make_directory(directory)
    version = before.number + 1
    snapshot = _Snapshot(directory, f"{version}-{uuid.uuid4().hex}", columns, version)
    manifests = [snapshot.manifest("data", map(snapshot.described, found.files))] if found.files else []
    if found.dead:
        manifests.append(snapshot.manifest("deletes", [snapshot.deleted(found)]))
    summary = {"operation": "overwrite", COMMIT: str(at), STATE: state}
    content = _content(whose, at, snapshot, snapshot.list_of(manifests), summary)
    _put(directory / f"v{version}.metadata.json", json.dumps(content).encode())
    write_file(directory / HINT, str(version).encode())
    return Version(version, content)


def _state(found: TableFiles) -> str:
    """What is the same for the same rows in the same files."""
    lines = sorted(f"{file.path} {len(found.dead.get(file.path, ()))}" for file in found.files)
    return sha256("\n".join(lines).encode()).hexdigest()


def _put(path: Path, data: bytes) -> None:
    """Raises FileExistsError."""
    new = path.with_name(f".txnstatus-{uuid.uuid4().hex}")
    write_file(new, data)
    try:
        os.link(new, path)
    finally:
        new.unlink()
    sync(path.parent)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """What is written beside the metadata."""

    directory: Path
    name: str
    """What all files of it are called by, which so are new ones."""
    columns: Columns
    number: int
    """The id: one more than that of the version before, as its sequence number is."""

    def manifest(self, content: str, files: Iterable[Described]) -> ManifestFile:
        """`content`: data or deletes, of which there are some."""
        from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestEntryStatus, ManifestWriterV2
        from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC

        class Writer(ManifestWriterV2):
            def content(self) -> ManifestContent:
                return ManifestContent[content.upper()]

            @property
            def _meta(self) -> dict[str, str]:
                return {**super()._meta, "content": content}

        place = self._output(f"{self.name}-{content}.avro")
        with Writer(UNPARTITIONED_PARTITION_SPEC, self.columns.iceberg, place, self.number, "deflate") as writer:
            for each in files:
                entry = ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED,
                    snapshot_id=self.number,
                    sequence_number=None,
                    file_sequence_number=None,
                    data_file=each,
                )
                writer.add_entry(entry)
        self._make_durable(f"{self.name}-{content}.avro")
        return writer.to_manifest_file()

    def list_of(self, manifests: Iterable[ManifestFile]) -> str:
        """The URI of the list of manifests."""
        from pyiceberg.manifest import write_manifest_list

        name = f"snap-{self.name}.avro"
        with write_manifest_list(FORMAT, self._output(name), self.number, None, self.number, "deflate") as writer:
            writer.add_manifests(list(manifests))
        self._make_durable(name)
        return self._uri(name)

    def described(self, file: DataFile) -> Described:
        nulls, lowest, highest = self.columns.bounds(file)
        return _described("DATA", plain(file.path), file.rows, file.bytes, nulls, lowest, highest)

    def deleted(self, found: TableFiles) -> Described:
        """A file of position deletes, of all files that have some: by path and position, in order."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        paths, positions = list[pa.Array](), list[pa.Array]()
        for path, gone in sorted((plain(path), gone) for path, gone in found.dead.items() if gone):
            positions.append(pa.array(gone.to_array()).cast(pa.int64()))
            paths.append(pa.repeat(pa.scalar(path), len(gone)))
        fields = (("file_path", pa.string(), _PATH_ID), ("pos", pa.int64(), _POS_ID))
        schema = pa.schema(
            pa.field(name, kind, nullable=False, metadata={"PARQUET:field_id": str(id_)}) for name, kind, id_ in fields
        )
        name = f"{self.name}-deletes.parquet"
        rows = pa.Table.from_arrays([pa.chunked_array(paths), pa.chunked_array(positions)], schema=schema)
        pq.write_table(rows, self.directory / name)
        self._make_durable(name)
        size = (self.directory / name).stat().st_size
        return _described("POSITION_DELETES", self._uri(name), rows.num_rows, size, {}, {}, {})

    def _output(self, name: str) -> Any:
        from pyiceberg.io.pyarrow import PyArrowFileIO

        return PyArrowFileIO().new_output(self._uri(name))

    def _uri(self, name: str) -> str:
        return f"file://{self.directory / name}"

    def _make_durable(self, name: str) -> None:
        sync(self.directory / name)


def plain(uri: str) -> str:
    """A place as Iceberg spells it, where nothing is quoted."""
    return unquote(uri)


def _described(
    content: str, path: str, rows: int, size: int, nulls: Mapping[int, int], lowest: Any, highest: Any
) -> Described:
    from pyiceberg.manifest import DataFile as Described
    from pyiceberg.manifest import DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return Described.from_args(
        content=DataFileContent[content],
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=rows,
        file_size_in_bytes=size,
        null_value_counts=nulls or None,
        lower_bounds=lowest or None,
        upper_bounds=highest or None,
    )


def _content(
    whose: str, at: Timestamp, snapshot: _Snapshot, listed: str, summary: Mapping[str, str]
) -> Mapping[str, Any]:
    millis, columns = micros_of(at) // 1_000, snapshot.columns
    shown = {
        "snapshot-id": snapshot.number,
        "sequence-number": snapshot.number,
        "timestamp-ms": millis,
        "manifest-list": listed,
        "summary": summary,
        "schema-id": 0,
    }
    return {
        "format-version": FORMAT,
        "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"txnstatus:{whose}")),
        "location": f"file://{snapshot.directory.parent}",
        "last-sequence-number": snapshot.number,
        "last-updated-ms": millis,
        "last-column-id": columns.last_id,
        "current-schema-id": 0,
        "schemas": [columns.told],
        "default-spec-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "last-partition-id": 999,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {OURS: whose, "schema.name-mapping.default": json.dumps(columns.names_in_files)},
        "current-snapshot-id": snapshot.number,
        "snapshots": [shown],
        "snapshot-log": [{"snapshot-id": snapshot.number, "timestamp-ms": millis}],
        "metadata-log": [],
        "refs": {"main": {"snapshot-id": snapshot.number, "type": "branch"}},
    }


def require_library() -> None:
    """Raises InvalidArgument where pyiceberg is not installed."""
    try:
        import pyiceberg.manifest  # noqa: F401
    except ImportError as error:
        raise required("pyiceberg") from error
