"""The file of a group's snapshot: written in pieces beside the old one, checked whole before it counts.

A header (the last two entries that it holds, and the members), the state's chunks as the state machine made them, and
an end with their number and the SHA-256 of all. Each is a frame with its own CRC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError

from txnstatus.process.disk import Disk, DiskFile, DiskFull, is_full
from txnstatus.process.failpoints import failpoint
from txnstatus.process.stop import REPAIR
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import frames
from txnstatus.raft.journal import Entry, Journal
from txnstatus.raft.machine import Restoring
from txnstatus.raft.members import Members, encode

VERSION = 1
SYNC_BYTES = 4 << 20
"""Bytes that are synced at once: a long sync would hold up those of the journals."""


class SnapshotCorrupt(Exception):
    """The snapshot cannot be trusted: the node must not start."""


class Meta(NamedTuple):
    """The place in the log where a snapshot stands: the state is as of applying `last`."""

    previous: Entry
    last: Entry
    members: Members


def open_files(
    disk: Disk,
    directory: Path,
    group: str,
    segment_bytes: int,
    bootstrap: Members,
    never_here: bool,
    restoring: Callable[[], Restoring],
) -> tuple[Meta | None, Journal]:
    """Opens the snapshot and the journal of a group, and makes them agree before Raft sees either.

    `never_here`: it is certain that there never were other files of this group here.

    Raises SnapshotCorrupt or JournalCorrupt.
    """
    disk.make_directory(directory)
    path = directory / "snapshot"
    for unfinished in (".new", ".incoming"):
        disk.unlink(path.with_name(path.name + unfinished))
    meta = read_meta(disk, path, group) if disk.size(path) is not None else None
    journal = Journal(disk, directory / "journal", group, meta.last.idx if meta else 0, segment_bytes)
    begins = journal[0].idx if len(journal) else 1
    if meta is None:
        if begins > 1:
            raise SnapshotCorrupt(f"{journal.directory} begins at entry {begins}, and {path} is missing. {REPAIR}")
        if len(journal) == 0 and bootstrap:
            journal.add(encode(bootstrap), 1, 0)
            journal.abstaining = len(bootstrap) > 1 and not never_here
        elif len(journal) == 0:
            journal.abstaining = True  # it joins, and may have been a member before, until it was moved away
        return None, journal
    if journal.is_new:
        raise SnapshotCorrupt(f"{journal.directory} is missing, and {path} is there. {REPAIR}")
    if begins > meta.last.idx:
        raise SnapshotCorrupt(
            f"{journal.directory} begins at entry {begins}, after the end of {path} at {meta.last.idx}. {REPAIR}"
        )
    state = restoring()
    for _ in load(disk, path, state):
        pass
    finish(path, state)
    journal.align(meta.previous, meta.last, meta.members)
    return meta, journal


def load(disk: Disk, path: Path, state: Restoring) -> Iterator[None]:
    """Restores all but the end, a chunk at each step. Raises SnapshotCorrupt; then what was restored is void."""
    with _corrupt(path):
        for chunk in read_chunks(disk, path):
            state.add(chunk)
            yield


def finish(path: Path, state: Restoring) -> None:
    """Raises SnapshotCorrupt."""
    with _corrupt(path):
        state.finish()


@contextmanager
def _corrupt(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, DecodeError) as error:
        raise SnapshotCorrupt(f"{path} cannot be restored: {error}. {REPAIR}") from error


class Framing:
    """The frames of a snapshot, one after the other, of which the last has the digest of all before."""

    def __init__(self, group: str, meta: Meta) -> None:
        self._digest = hashlib.sha256()
        self._chunks = 0
        self._header = pb.SnapshotHeader(
            version=VERSION,
            group=group,
            previous=_to_wire(meta.previous),
            last=_to_wire(meta.last),
            members=pb.Members(node_ids=meta.members),
        )

    def begin(self) -> bytes:
        return self._counted(frames.SNAPSHOT, self._header.SerializeToString())

    def chunk(self, chunk: bytes) -> bytes:
        self._chunks += 1
        return self._counted(frames.CHUNK, chunk)

    def end(self) -> bytes:
        end = pb.SnapshotEnd(chunks=self._chunks, sha256=self._digest.digest())
        return frames.frame(frames.END, end.SerializeToString())

    def _counted(self, kind: bytes, payload: bytes) -> bytes:
        self._digest.update(payload)
        return frames.frame(kind, payload)


def framed(group: str, meta: Meta, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of a snapshot's file, frame by frame."""
    framing = Framing(group, meta)
    yield framing.begin()
    for chunk in chunks:
        yield framing.chunk(chunk)
    yield framing.end()


class Writer:
    """Writes a snapshot beside `path`, and puts it there when it is whole. Every method does I/O.

    Raises DiskFull, and then nothing is left of it. Any OSError must end the process.
    """

    def __init__(self, disk: Disk, path: Path, group: str, meta: Meta) -> None:
        self._disk = disk
        self._path = path
        self._new = path.with_name(path.name + ".new")
        self._framing = Framing(group, meta)
        self._unsynced = 0
        self.bytes = 0
        self._file: DiskFile | None = None

    def write(self, chunks: Iterable[bytes]) -> None:
        try:
            if self._file is None:
                self._file = self._disk.create(self._new)
                self._put(self._framing.begin())
            for chunk in chunks:
                self._put(self._framing.chunk(chunk))
        except OSError as error:
            self._give_up(error)
        failpoint("raft.snapshot_part")

    def finish(self) -> None:
        self.write(())
        assert self._file is not None
        try:
            end = self._framing.end()
            self._file.write(end)
            self.bytes += len(end)
        except OSError as error:
            self._give_up(error)
        self._file.sync()
        self._close()
        failpoint("raft.before_snapshot_rename")
        install(self._disk, self._new, self._path)

    def abandon(self) -> None:
        """Does nothing to a snapshot that is in its place, or given up already."""
        self._close()
        self._disk.unlink(self._new)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _put(self, frame: bytes) -> None:
        assert self._file is not None
        self._file.write(frame)
        self.bytes += len(frame)
        self._unsynced += len(frame)
        if self._unsynced > SYNC_BYTES:
            self._file.sync()
            self._unsynced = 0

    def _give_up(self, error: OSError) -> None:
        if not is_full(error):
            raise error
        self.abandon()
        raise DiskFull(f"a snapshot in {self._new}", error) from error


def install(disk: Disk, new: Path, path: Path) -> None:
    """Puts a snapshot that is whole and synced in its place."""
    disk.rename(new, path)
    failpoint("raft.after_snapshot_rename")
    disk.sync_directory(path.parent)


def read_meta(disk: Disk, path: Path, group: str) -> Meta:
    """What the header says. Raises SnapshotCorrupt."""
    kind, payload = next(_frames(disk, path), (b"", b""))
    if kind != frames.SNAPSHOT:
        raise SnapshotCorrupt(f"{path} is damaged: it does not begin with a header. {REPAIR}")
    try:
        wire = pb.SnapshotHeader.FromString(payload)
    except DecodeError as error:
        raise SnapshotCorrupt(f"{path} is damaged: {error}. {REPAIR}") from error
    if wire.version != VERSION or wire.group != group:
        raise SnapshotCorrupt(
            f"{path} is a snapshot of group {wire.group!r}, version {wire.version}; "
            f"expected {group!r}, version {VERSION}. {REPAIR}"
        )
    return Meta(_from_wire(wire.previous), _from_wire(wire.last), tuple(wire.members.node_ids))


def read_chunks(disk: Disk, path: Path) -> Iterator[bytes]:
    """The state's chunks. Raises SnapshotCorrupt, perhaps only at the end: what was made of them is void then."""
    digest, chunks, end = hashlib.sha256(), 0, None
    for number, (kind, payload) in enumerate(_frames(disk, path)):
        if end is not None or (kind == frames.SNAPSHOT) != (number == 0):
            raise SnapshotCorrupt(f"{path} is damaged: its frames are in disorder. {REPAIR}")
        if kind == frames.END:
            end = pb.SnapshotEnd.FromString(payload)
            continue
        digest.update(payload)
        if kind == frames.CHUNK:
            chunks += 1
            yield payload
    if end is None:
        raise SnapshotCorrupt(f"{path} is damaged: its end is missing. {REPAIR}")
    if (end.chunks, end.sha256) != (chunks, digest.digest()):
        raise SnapshotCorrupt(f"{path} is damaged: the digest does not match. {REPAIR}")


def verify(disk: Disk, path: Path, group: str) -> Meta:
    """Reads all of it. Raises SnapshotCorrupt."""
    meta = read_meta(disk, path, group)
    for _ in read_chunks(disk, path):
        pass
    return meta


def _frames(disk: Disk, path: Path) -> Iterator[tuple[bytes, bytes]]:
    offset, size = 0, disk.size(path) or 0
    while offset < size:
        header = frames.read_header(disk.read(path, offset, frames.HEADER_BYTES))
        length = header[1] if header else 0
        found = frames.read_frame(disk.read(path, offset, frames.HEADER_BYTES + length)) if header else None
        if found is None:
            raise SnapshotCorrupt(f"{path} is damaged or cut short at byte {offset}. {REPAIR}")
        yield found
        offset += frames.HEADER_BYTES + length


def _to_wire(entry: Entry) -> pb.LogEntry:
    return pb.LogEntry(index=entry.idx, term=entry.term, command=entry.command)


def _from_wire(wire: pb.LogEntry) -> Entry:
    return Entry(wire.command, wire.index, wire.term)
