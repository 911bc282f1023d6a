"""The Delta log of a published table: beside its files, an entry a version, each put where none is.

What an entry is of follows from the order of the table's commits, so it does not matter who writes it, and how often:
whoever finds the place taken by the same commit has written it. What another engine has put there is never overwritten:
that is ForeignEntry, and nothing is published any more.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from txnstatus.lake import delta_actions
from txnstatus.lake.delta_actions import Action
from txnstatus.process.durable import make_directory, sync, write_file
from txnstatus.table_properties import LOG
from txnstatus.types import NO_TIMESTAMP, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

CHECKPOINT_EVERY = 100
"""Versions between two checkpoints: a reader reads one, and the entries after it."""
_ENTRY = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint\.parquet")
_OWN = re.compile(r"[0-9]{20}\.(json|checkpoint\.parquet)|_last_checkpoint|\.txnstatus-.*")
LAST_CHECKPOINT = "_last_checkpoint"


class ForeignEntry(Exception):
    """Somebody else has written to the log; says what."""


@dataclass(slots=True)
class Log:
    """What the log says by its last entry. All methods block, and raise OSError."""

    directory: Path
    table_id: str
    version: int = -1
    """The last one; -1: there is none yet."""
    commit_ts: Timestamp = NO_TIMESTAMP
    """The commit of which that is: the table is published as of then."""
    files: dict[str, Action] = field(default_factory=dict)
    """Path → what was said as it was added, of all files that are there."""
    protocol: Action = field(default_factory=dict)
    metadata: Action = field(default_factory=dict)

    @classmethod
    def read(cls, location: str, table_id: str) -> Log:
        """Raises ForeignEntry."""
        log = cls(directory_of(location), table_id)
        names = log._names()
        versions = sorted(int(match[1]) for name in names if (match := _ENTRY.fullmatch(name)))
        checkpoints = {int(match[1]) for name in names if (match := _CHECKPOINT.fullmatch(name))}
        if unknown := sorted(checkpoints - set(versions)):
            raise ForeignEntry(f"{log.directory} has a checkpoint of version {unknown[0]}, and no such entry")
        for name in names:
            if name.startswith(".txnstatus-"):
                (log.directory / name).unlink(missing_ok=True)
        start = max(checkpoints, default=-1)
        if start >= 0:
            log._apply(start, _checkpointed(log._path(start, "checkpoint.parquet")))
            log.commit_ts = log._own(start)[0]
        for version in (version for version in versions if version > start):
            if version != log.version + 1:
                raise ForeignEntry(f"{log.directory} has an entry {version} after {log.version}")
            log.commit_ts, actions = log._own(version)
            log._apply(version, actions)
        return log

    def append(self, at: Timestamp, actions: Sequence[Action]) -> None:
        """The next version, durable when this returns. Raises ForeignEntry: it is there, and of something else."""
        version, path = self.version + 1, self._path(self.version + 1, "json")
        make_directory(self.directory)
        lines = [delta_actions.commit_info(self.table_id, at), *actions]
        new = self.directory / f".txnstatus-{uuid.uuid4().hex}"
        try:
            with new.open("wb") as file:
                file.write(b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in lines))
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(new, path)
            except FileExistsError:
                if self._own(version)[0] != at:
                    raise ForeignEntry(f"{path} is of another commit than {at}") from None
        finally:
            new.unlink(missing_ok=True)
        sync(self.directory)
        self._apply(version, actions)
        self.commit_ts = at

    def checkpoint(self) -> None:
        """All that the log says by now, in one file: nobody needs the entries before it to read the table."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [self.protocol, self.metadata, *({"add": each} for each in self.files.values())]
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(list(map(_to_arrow, rows)), _schema()), sink)
        write_file(self._path(self.version, "checkpoint.parquet"), bytes(sink.getvalue()))
        last = {"version": self.version, "size": len(rows)}
        write_file(self.directory / LAST_CHECKPOINT, json.dumps(last).encode())

    def _apply(self, version: int, actions: Iterable[Action]) -> None:
        for action in actions:
            if add := action.get("add"):
                self.files[add["path"]] = add
            elif "protocol" in action:
                self.protocol = action
            elif "metaData" in action:
                self.metadata = action
            elif remove := action.get("remove"):
                # In one entry a file may go and come again, with more dead rows.
                known = self.files.get(remove["path"])
                if known is not None and known.get("deletionVector") == remove.get("deletionVector"):
                    del self.files[remove["path"]]
        self.version = version

    def _own(self, version: int) -> tuple[Timestamp, list[Action]]:
        """The commit of which an entry is, and its actions. Raises ForeignEntry."""
        path = self._path(version, "json")
        try:
            first, *others = map(json.loads, path.read_bytes().splitlines())
        except ValueError as error:
            raise ForeignEntry(f"{path} is no entry of this service: {error}") from error
        at = delta_actions.commit_of(first, self.table_id)
        if at is None:
            raise ForeignEntry(f"{path} was written by {_whose(first)}, and not for this table by this service")
        return at, others

    def _names(self) -> list[str]:
        try:
            return os.listdir(self.directory)  # noqa: PTH208 - of many entries names are all that is needed
        except FileNotFoundError:
            return []

    def _path(self, version: int, kind: str) -> Path:
        return self.directory / f"{version:020}.{kind}"


def directory_of(location: str) -> Path:
    """The log's place, given the URI of a table's on this machine's file systems."""
    return Path(unquote(urlsplit(location).path)) / LOG


def last_entry(location: str) -> tuple[int, Action]:
    """The number and the first action of the last entry; -1: there is none. Raises OSError, ValueError."""
    directory = directory_of(location)
    names = os.listdir(directory) if directory.is_dir() else []  # noqa: PTH208
    versions = [int(match[1]) for name in names if (match := _ENTRY.fullmatch(name))]
    if not versions:
        return -1, {}
    with (directory / f"{max(versions):020}.json").open("rb") as file:
        return max(versions), json.loads(file.readline())


def remove(location: str, table_id: str) -> None:
    """Removes the log of a table that is gone, unless somebody else has written to it. Raises OSError."""
    try:
        log = Log.read(location, table_id)
    except ForeignEntry:
        return
    for path in log.directory.iterdir() if log.directory.is_dir() else ():
        if _OWN.fullmatch(path.name):
            path.unlink(missing_ok=True)
    if log.directory.is_dir() and not any(log.directory.iterdir()):
        log.directory.rmdir()


def _whose(first: Action) -> str:
    info = first.get("commitInfo", {}) if isinstance(first, dict) else {}
    return str(info.get("engineInfo") or info.get("clientVersion") or "somebody else")[:200]


_MAPS = ("partitionValues", "configuration", "options")
"""Fields that are maps, which Arrow has as lists of pairs."""


def _checkpointed(path: Path) -> Iterator[Action]:
    import pyarrow.parquet as pq

    for row in pq.read_table(path).to_pylist():
        yield _from_arrow(row)


def _from_arrow(fields: Action) -> Action:
    """An action, or a part of one, without what is not said."""
    return {
        name: dict(value) if name in _MAPS else _from_arrow(value) if isinstance(value, dict) else value
        for name, value in fields.items()
        if value is not None
    }


def _to_arrow(fields: Action) -> Action:
    return {
        name: list(value.items()) if name in _MAPS else _to_arrow(value) if isinstance(value, dict) else value
        for name, value in fields.items()
    }


def _schema() -> pa.Schema:
    """The actions that a checkpoint has."""
    import pyarrow as pa

    short, number, text, yes = pa.int32(), pa.int64(), pa.string(), pa.bool_()
    texts, pairs = pa.list_(text), pa.map_(text, text)
    versions = {"minReaderVersion": short, "minWriterVersion": short, "readerFeatures": texts, "writerFeatures": texts}
    table = {
        "id": text,
        "name": text,
        "format": pa.struct({"provider": text, "options": pairs}),
        "schemaString": text,
        "partitionColumns": texts,
        "configuration": pairs,
        "createdTime": number,
    }
    vector = {
        "storageType": text,
        "pathOrInlineDv": text,
        "offset": short,
        "sizeInBytes": short,
        "cardinality": number,
    }
    file = {
        "path": text,
        "partitionValues": pairs,
        "size": number,
        "modificationTime": number,
        "dataChange": yes,
        "stats": text,
        "deletionVector": pa.struct(vector),
    }
    actions = {"protocol": versions, "metaData": table, "add": file}
    return pa.schema({name: pa.struct(fields) for name, fields in actions.items()})
