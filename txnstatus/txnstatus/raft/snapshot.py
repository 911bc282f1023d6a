"""Snapshots of one group's state, and how snapshot and journal are made to agree before Raft sees either."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from google.protobuf.message import DecodeError

from txnstatus.durable import sync
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.journal import Entry, Journal

SNAPSHOT_VERSION = 1
DIGEST_BYTES = hashlib.sha256().digest_size


class SnapshotCorrupt(Exception):
    """The snapshot cannot be trusted: the node must not start."""


def write(path: Path, group: str, last: Entry, previous: Entry, state: bytes) -> None:
    """Writes and syncs `path`; the caller renames it into place. `state` is as of applying `last`."""
    wire = pb.GroupSnapshot(
        version=SNAPSHOT_VERSION,
        group=group,
        last=_to_wire(last),
        previous=_to_wire(previous),
        state=state,
    )
    data = wire.SerializeToString()
    with path.open("wb") as file:
        file.write(hashlib.sha256(data).digest() + data)
        file.flush()
        os.fsync(file.fileno())
    sync(path.parent)


def make_durable(path: Path) -> None:
    """For a snapshot that came from another replica: pysyncobj writes and renames it, and syncs nothing."""
    sync(path)
    sync(path.parent)


def read(path: Path, group: str) -> tuple[Entry, Entry, bytes]:
    """The last and the previous entry, and the state. Raises SnapshotCorrupt."""
    try:
        return parse(path.read_bytes(), group)
    except SnapshotCorrupt as error:
        raise SnapshotCorrupt(f"{path}: {error}. {_REPAIR}") from error


def parse(data: bytes, group: str) -> tuple[Entry, Entry, bytes]:
    """Raises SnapshotCorrupt."""
    digest, body = data[:DIGEST_BYTES], data[DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise SnapshotCorrupt(f"{len(data)} bytes that are damaged or cut short: the digest does not match")
    try:
        wire = pb.GroupSnapshot.FromString(body)
    except DecodeError as error:
        raise SnapshotCorrupt(f"{len(data)} bytes that are no snapshot: {error}") from error
    if wire.version != SNAPSHOT_VERSION or wire.group != group:
        raise SnapshotCorrupt(
            f"a snapshot of group {wire.group!r}, version {wire.version}; "
            f"expected {group!r}, version {SNAPSHOT_VERSION}"
        )
    return _from_wire(wire.last), _from_wire(wire.previous), wire.state


def align(journal: Journal, path: Path, group: str) -> None:
    """Makes the journal begin with the snapshot's two entries; pysyncobj clears a journal that does not.

    Raises SnapshotCorrupt, also for a journal that begins after the snapshot ends.
    """
    path.with_name(path.name + ".tmp").unlink(missing_ok=True)
    path.with_name(path.name + ".1.tmp").unlink(missing_ok=True)
    if not path.exists():
        if len(journal) and journal[0].idx > 1:
            raise SnapshotCorrupt(f"{journal.path} begins at entry {journal[0].idx}, and {path} is missing. {_REPAIR}")
        return
    last, previous, _ = read(path, group)
    if len(journal) and journal[0].idx > previous.idx:
        raise SnapshotCorrupt(
            f"{journal.path} begins at entry {journal[0].idx}, after the end of {path} at {last.idx}. {_REPAIR}"
        )
    kept = [entry for entry in journal[:] if entry.idx > last.idx]
    at_last = [entry for entry in journal[:] if entry.idx == last.idx]
    if not at_last or at_last[0].term != last.term:
        kept = []  # the snapshot came from a leader whose history is another one, or is ahead
    if list(journal[:2]) != [previous, last]:
        journal.replace([previous, last, *kept])


_REPAIR = "Stop this node, remove its data directory, and start it again: it gets everything from the other replicas."


def _to_wire(entry: Entry) -> pb.LogEntry:
    return pb.LogEntry(index=entry.idx, term=entry.term, command=entry.command)


def _from_wire(wire: pb.LogEntry) -> Entry:
    return Entry(wire.command, wire.index, wire.term)
