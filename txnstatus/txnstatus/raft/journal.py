"""The Raft journal of one group: entries, term and vote, durable before anything that depends on them is said.

All of it is in memory, too; on disk it is in segments (see `segments`), one frame a sync.
"""

from __future__ import annotations

import bisect
from pathlib import Path
from typing import NamedTuple, overload

from pysyncobj.journal import Journal as PySyncObjJournal

from txnstatus.process.disk import Disk, DiskFull
from txnstatus.process.stop import REPAIR
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import frames
from txnstatus.raft.members import Configurations, Members
from txnstatus.raft.segments import JournalCorrupt, Segments
from txnstatus.values import value

SEGMENT_BYTES = 16 << 20


class Entry(NamedTuple):
    """An entry as pysyncobj holds it: it unpacks and compares them as tuples."""

    command: bytes
    idx: int
    term: int


class JournalDiverged(Exception):
    """A leader's entries contradict what is applied here. It cannot happen; if it does, the process must end."""


@value
class Frame:
    """What one write makes durable."""

    data: bytes
    last: int
    """The highest index of an entry in `data`."""
    header: pb.SegmentHeader
    """The header of the segment that would begin with this frame."""
    covered: int
    """The index up to which segments may go, if they end there or before."""


class Journal(PySyncObjJournal):  # type: ignore[misc]
    """What pysyncobj calls its journal.

    pysyncobj truncates on every AppendEntries, also where all entries match. Here a truncation is provisional until
    the message is done (`settle`): entries added again with the same index and term keep what follows them, so only
    a real conflict drops anything (Raft, figure 2, AppendEntries rule 3).
    """

    def __init__(
        self, disk: Disk, directory: Path, group: str = "", covered: int = 0, segment_bytes: int = SEGMENT_BYTES
    ) -> None:
        """Opens or creates the journal. `covered` is the last index that the group's snapshot holds, 0 without one.

        Raises JournalCorrupt, and then nothing on disk was changed.
        """
        self.directory = directory
        self.members = Configurations()
        self.applied_index = 0
        """The last entry that is in the state machine: no conflict may ever drop it, or one before."""
        self.bytes = 0
        """An upper bound of the bytes of the entries' commands."""
        self._group = group
        self._entries: list[Entry] = []
        self._suffix: list[Entry] = []
        self._term = 0
        self._voted_for: str | None = None
        self._abstaining = False
        self._next_index = 1
        """The index after the last entry; as long as there are no entries, after the last one there was."""
        self._segments = Segments(disk, directory, segment_bytes)
        self._segments.open(covered, self._replay_header, self._replay)
        self.is_new = not self._segments.exist
        self._covered = max(0, covered - 1)
        self._unsynced = pb.JournalBatch()
        self._first_unsynced: int | None = None
        self._failed: Frame | None = None
        self._header = self._segment_header()

    # ---- durability

    @property
    def dirty(self) -> bool:
        return bool(self._failed or self._unsynced.records) or self._segments.can_drop(self._covered)

    def has_synced(self, idx: int) -> bool:
        """Whether the entries up to this index are on the disk. Not while a frame is being written."""
        return self._failed is None and (self._first_unsynced is None or idx < self._first_unsynced)

    def take_unsynced(self) -> Frame:
        """What `write` must make durable next; frames are written in the order in which they were taken."""
        if self._failed is not None:
            return self._failed
        batch, self._unsynced = self._unsynced, pb.JournalBatch()
        self._first_unsynced = None
        data = frames.frame(frames.BATCH, batch.SerializeToString()) if batch.records else b""
        last = max((record.entry.index for record in batch.records), default=0)
        header, self._header = self._header, self._segment_header()
        return Frame(data, last, header, self._covered)

    def write(self, frame: Frame) -> None:
        """One write and one sync. It may run in a thread of its own, as long as nothing else touches the journal.

        Raises DiskFull: then the frame is what `take_unsynced` returns next. Any OSError must end the process.
        """
        self._segments.drop(frame.covered)
        if not frame.data:
            return
        try:
            self._segments.append(frame.data, frame.last, frame.header)
        except DiskFull:
            self._failed = frame
            raise
        self._failed = None

    def sync(self) -> None:
        while self.dirty:
            self.write(self.take_unsynced())

    def settle(self) -> None:
        """Ends one message: what was truncated without a conflict comes back."""
        if self._suffix:
            self._entries += self._suffix
            self._suffix = []

    def is_there(self) -> bool:
        """Whether what is written can be found again: its files may be removed under it. Any thread may ask."""
        return self._segments.is_there()

    def close(self) -> None:
        self._segments.close()

    # ---- what it holds

    def has(self, idx: int, term: int) -> bool:
        """Whether an entry of this index and term is here; then all before it are the same, too."""
        at = idx - self._entries[0].idx if self._entries else -1
        return 0 <= at < len(self._entries) and self._entries[at].term == term

    def first_of_term(self, idx: int) -> int:
        """The first entry here that is of the same term as the entry at `idx`."""
        term = self._entries[idx - self._entries[0].idx].term
        return self._entries[bisect.bisect_left(self._entries, term, key=lambda entry: entry.term)].idx

    def align(self, previous: Entry, last: Entry, members: Members) -> None:
        """Makes the journal begin with a snapshot's two entries; pysyncobj clears a journal that does not."""
        if self.has(last.idx, last.term):
            self._entries = [previous, last, *(entry for entry in self._entries if entry.idx > last.idx)]
            self.members.rebase(last.idx, members)
        else:
            # The snapshot came from a leader whose history is another one, or is ahead.
            self.clear()
            self.members.rebase(last.idx, members)
            self.add(*previous)
            self.add(*last)
        # Not `last`: its entry must stay, or the next start could not tell that the journal goes on from it.
        self._covered = previous.idx

    @property
    def abstaining(self) -> bool:
        """Whether this replica may have promised what it no longer knows (see `elections`)."""
        return self._abstaining

    @abstaining.setter
    def abstaining(self, value: bool) -> None:
        if value != self._abstaining:
            self._abstaining = value
            self._unsynced.records.add(abstaining=value)

    # ---- pysyncobj's interface

    def add(self, command: bytes, idx: int, term: int) -> None:
        entry = Entry(command, idx, term)
        if self._suffix:
            if (self._suffix[0].idx, self._suffix[0].term) == (idx, term):
                self._entries.append(self._suffix.pop(0))
                return
            if idx <= self.applied_index:
                raise JournalDiverged(f"{self.directory}: entry {idx} of term {term} contradicts an applied one")
            self._suffix = []
            self.members.cut(idx)
            self._unsynced.records.add(truncate_from=idx)
        self._entries.append(entry)
        self.bytes += len(command)
        self.members.added(idx, command)
        self._first_unsynced = idx if self._first_unsynced is None else min(idx, self._first_unsynced)
        self._unsynced.records.add(entry=pb.LogEntry(index=idx, term=term, command=command))

    def clear(self) -> None:
        self._suffix = []
        if self._entries:
            # On disk there may be more than in memory: segments are dropped whole, and later.
            self._unsynced.records.add(truncate_from=0)
            self.members.cut(self._entries[0].idx)
            self._entries = []

    def deleteEntriesFrom(self, entryFrom: int) -> None:  # noqa: N802, N803
        self._suffix = self._entries[entryFrom:] + self._suffix
        del self._entries[entryFrom:]

    def deleteEntriesTo(self, entryTo: int) -> None:  # noqa: N802, N803
        """Forgets what a snapshot holds; the segments that hold nothing else go with the next write."""
        self.settle()
        if entryTo > 0:
            del self._entries[:entryTo]
            self.bytes = sum(len(entry.command) for entry in self._entries)
            self._covered = self._entries[0].idx

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
        self._unsynced.records.add(vote=self._vote())

    def getCurrentTerm(self) -> int:  # noqa: N802
        return self._term

    def getVotedForNodeId(self) -> str | None:  # noqa: N802
        return self._voted_for

    def setRaftCommitIndex(self, raftCommitIndex: int) -> None:  # noqa: N802, N803
        """Not kept: the leader says it anew."""

    def getRaftCommitIndex(self) -> int:  # noqa: N802
        return 1

    def _destroy(self) -> None:
        self.close()

    # ---- inside

    def _vote(self) -> pb.JournalRecord.Vote:
        return pb.JournalRecord.Vote(term=self._term, voted_for=self._voted_for or "")

    def _segment_header(self) -> pb.SegmentHeader:
        if self._entries:
            self._next_index = self._entries[-1].idx + 1
        return pb.SegmentHeader(
            group=self._group, next_index=self._next_index, vote=self._vote(), abstaining=self._abstaining
        )

    def _replay_header(self, header: pb.SegmentHeader, path: Path) -> None:
        """What a header says must be where the segment before it ended."""
        if header.group != self._group:
            raise JournalCorrupt(f"{path} is of group {header.group!r}, not {self._group!r}. {REPAIR}")
        found = self._segment_header()
        ours = (found.next_index, found.vote, found.abstaining)
        first = not self._entries and self._term == 0
        if not first and (header.next_index, header.vote, header.abstaining) != ours:
            raise JournalCorrupt(f"{path} does not go on where the segment before it ended. {REPAIR}")
        self._next_index = header.next_index
        self._term, self._voted_for = header.vote.term, header.vote.voted_for or None
        self._abstaining = header.abstaining

    def _replay(self, batch: pb.JournalBatch, path: Path) -> int:
        last = 0
        for record in batch.records:
            match record.WhichOneof("record"):
                case "entry":
                    self._replay_entry(record.entry, path)
                    last = max(last, record.entry.index)
                case "truncate_from":
                    while self._entries and self._entries[-1].idx >= record.truncate_from:
                        self._entries.pop()
                    self.members.cut(record.truncate_from)
                case "vote":
                    self._term, self._voted_for = record.vote.term, record.vote.voted_for or None
                case "abstaining":
                    self._abstaining = record.abstaining
                case unknown:
                    raise JournalCorrupt(f"{path}: a record of kind {unknown!r}, which this release does not know")
        return last

    def _replay_entry(self, entry: pb.LogEntry, path: Path) -> None:
        if self._entries and entry.index != self._entries[-1].idx + 1:
            raise JournalCorrupt(f"{path}: entry {entry.index} after entry {self._entries[-1].idx}. {REPAIR}")
        self._entries.append(Entry(entry.command, entry.index, entry.term))
        self.bytes += len(entry.command)
        self.members.added(entry.index, entry.command)
