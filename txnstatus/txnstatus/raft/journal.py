"""The Raft journal of one group: entries, term and vote, durable before anything that depends on them is said.

A file of frames, one frame a sync: `magic, length, crc(payload), crc(header)`, then a `JournalBatch`. Every frame but
the last was synced before the next was written, so only the last one can be torn: it is cut. Anything else that
does not read is corruption, and the journal refuses to open.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, overload

from pysyncobj.journal import Journal as PySyncObjJournal

from txnstatus import durable
from txnstatus.failpoints import failpoint
from txnstatus.proto import raft_pb2 as pb

_HEADER = struct.Struct("<4sIII")
_MAGIC = b"TXJ1"


class Entry(NamedTuple):
    """As pysyncobj holds entries: it unpacks and compares them as tuples."""

    command: bytes
    idx: int
    term: int


class JournalCorrupt(Exception):
    """The journal cannot be trusted: the node must not start."""


class JournalDiverged(Exception):
    """A leader's entries contradict what is applied here. It cannot happen; if it does, the process must end."""


class Journal(PySyncObjJournal):  # type: ignore[misc]
    """What pysyncobj calls its journal, kept in memory and in one append-only file.

    pysyncobj truncates on every AppendEntries, also where all entries match. Here a truncation is provisional until
    the message is done (`settle`): entries added again with the same index and term keep what follows them, so only
    a real conflict drops anything (Raft, figure 2, AppendEntries rule 3).
    """

    def __init__(self, path: Path, sync: Callable[[int], None] = os.fdatasync) -> None:
        """Opens or creates the journal. Raises JournalCorrupt."""
        self.path = path
        self._sync_fd = sync
        self._entries: list[Entry] = []
        self._suffix: list[Entry] = []
        self._term = 0
        self._voted_for: str | None = None
        self.applied_index = 0
        """Entries up to here are in the state machine: no conflict may ever drop one."""
        self._unsynced = pb.JournalBatch()
        path.with_suffix(".new").unlink(missing_ok=True)
        length = self._replay(path.read_bytes()) if path.exists() else 0
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.ftruncate(self._fd, length)
        os.fsync(self._fd)
        durable.sync(path.parent)

    # ---- durability

    @property
    def dirty(self) -> bool:
        return bool(self._unsynced.records)

    def take_unsynced(self) -> bytes:
        """The frame that `write` must make durable next; the caller writes frames in the order it took them."""
        frame = _frame(self._unsynced)
        self._unsynced = pb.JournalBatch()
        return frame

    def write(self, frame: bytes) -> None:
        """One write and one sync. An error here must end the process: what the disk holds is then unknown."""
        written = os.write(self._fd, frame)
        if written != len(frame):
            raise OSError(f"short write to {self.path}: {written} of {len(frame)} bytes")
        failpoint("journal.before_sync")
        self._sync_fd(self._fd)

    def sync(self) -> None:
        if self.dirty:
            self.write(self.take_unsynced())

    def settle(self) -> None:
        """Ends one message: what was truncated without a conflict comes back."""
        if self._suffix:
            self._entries += self._suffix
            self._suffix = []

    def has(self, entry: Entry) -> bool:
        """Whether an entry of the same index and term is here; then all before it are the same, too."""
        at = entry.idx - self._entries[0].idx if self._entries else -1
        return 0 <= at < len(self._entries) and self._entries[at].term == entry.term

    # ---- pysyncobj's interface

    def add(self, command: bytes, idx: int, term: int) -> None:
        entry = Entry(command, idx, term)
        if self._suffix:
            if (self._suffix[0].idx, self._suffix[0].term) == (idx, term):
                self._entries.append(self._suffix.pop(0))
                return
            if idx <= self.applied_index:
                raise JournalDiverged(f"{self.path}: entry {idx} of term {term} contradicts an applied one")
            self._suffix = []
            self._unsynced.records.add(truncate_from=idx)
        self._entries.append(entry)
        self._unsynced.records.add(entry=pb.LogEntry(index=idx, term=term, command=command))

    def clear(self) -> None:
        self._suffix = []
        if self._entries:
            self._unsynced.records.add(truncate_from=self._entries[0].idx)
            self._entries = []

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        self._suffix = self._entries[entryFrom:] + self._suffix
        del self._entries[entryFrom:]

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """Forgets what a snapshot holds: the rest goes to a new file, which replaces the old one whole."""
        self.settle()
        if entryTo <= 0:
            return
        durable.sync(self.path.parent)  # the snapshot's name, before what it replaces goes
        del self._entries[:entryTo]
        self._rewrite()

    @overload
    def __getitem__(self, item: int) -> Entry: ...
    @overload
    def __getitem__(self, item: slice) -> list[Entry]: ...
    def __getitem__(self, item: int | slice) -> Entry | list[Entry]:
        return self._entries[item]

    def __len__(self) -> int:
        return len(self._entries)

    def setCurrentTerm(self, term: int, votedForNodeId: str | None) -> None:  # noqa: N802, N803
        self._term, self._voted_for = term, votedForNodeId
        self._unsynced.records.add(vote=pb.JournalRecord.Vote(term=term, voted_for=votedForNodeId or ""))

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._voted_for

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Not kept: the leader says it anew."""

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return 1

    def _destroy(self) -> None:
        self.sync()
        os.close(self._fd)

    # ---- files

    def replace(self, entries: list[Entry]) -> None:
        """Makes `entries` the whole journal."""
        self._suffix = []
        self._entries = list(entries)
        self._rewrite()

    def _rewrite(self) -> None:
        """Crash-safe: the new file is complete and durable before it takes the old one's name."""
        batch = pb.JournalBatch()
        batch.records.add(vote=pb.JournalRecord.Vote(term=self._term, voted_for=self._voted_for or ""))
        for entry in self._entries:
            batch.records.add(entry=pb.LogEntry(index=entry.idx, term=entry.term, command=entry.command))
        self._unsynced = pb.JournalBatch()
        new = self.path.with_suffix(".new")
        fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        old, self._fd = self._fd, fd
        # A second, empty frame: damage to the first cannot pass for a torn tail, which would be cut without a word.
        self.write(_frame(batch) + _frame(pb.JournalBatch()))
        failpoint("journal.before_rename")
        new.rename(self.path)
        failpoint("journal.after_rename")
        durable.sync(self.path.parent)
        os.close(old)

    def _replay(self, data: bytes) -> int:
        """Reads all frames; returns the length of the good part."""
        offset = 0
        while offset < len(data):
            payload = _payload_at(data, offset)
            if payload is None:
                later = _next_frame(data, offset + 1)
                if later is not None:
                    raise JournalCorrupt(
                        f"{self.path}: the frame at byte {offset} does not read, yet there is a good one at {later}. "
                        "Acknowledged entries may be lost here. Stop this node, remove its data directory, and start "
                        "it again: it gets everything from the other replicas."
                    )
                return offset
            for record in pb.JournalBatch.FromString(payload).records:
                self._replay_record(record)
            offset += _HEADER.size + len(payload)
        return offset

    def _replay_record(self, record: pb.JournalRecord) -> None:
        match record.WhichOneof("record"):
            case "entry":
                entry = record.entry
                self._entries.append(Entry(entry.command, entry.index, entry.term))
            case "truncate_from":
                while self._entries and self._entries[-1].idx >= record.truncate_from:
                    self._entries.pop()
            case "vote":
                self._term, self._voted_for = record.vote.term, record.vote.voted_for or None
            case unknown:
                raise JournalCorrupt(f"{self.path}: a record of kind {unknown!r}, which this release does not know")


def _frame(batch: pb.JournalBatch) -> bytes:
    payload = batch.SerializeToString()
    body = struct.pack("<4sII", _MAGIC, len(payload), zlib.crc32(payload))
    return body + struct.pack("<I", zlib.crc32(body)) + payload


def _payload_at(data: bytes, offset: int) -> bytes | None:
    if offset + _HEADER.size > len(data):
        return None
    magic, length, payload_crc, header_crc = _HEADER.unpack_from(data, offset)
    if magic != _MAGIC or zlib.crc32(data[offset : offset + _HEADER.size - 4]) != header_crc:
        return None
    payload = data[offset + _HEADER.size : offset + _HEADER.size + length]
    if len(payload) != length or zlib.crc32(payload) != payload_crc:
        return None
    return payload


def _next_frame(data: bytes, start: int) -> int | None:
    while (start := data.find(_MAGIC, start)) != -1:
        if _payload_at(data, start) is not None:
            return start
        start += 1
    return None
