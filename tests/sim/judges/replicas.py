"""Watches one replica: that it says nothing before it is synced, and whom it counts as members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.journal import Frame
from txnstatus.raft.members import Members, decode
from txnstatus.raft.proposals import Proposal

Violation = Callable[[str, str], None]


class Replica:
    """What holds of one replica, as long as its process lives."""

    def __init__(self, group: RaftGroup, committed: MutableMapping[int, Members], violated: Violation) -> None:
        """`committed`: the members by the index of the entry that says so, as all replicas know them together."""
        self._group = group
        self._committed = committed
        self._violated = violated
        journal = group.journal
        self.synced = journal[-1].idx if len(journal) else 0
        """Index of the last entry that is on the disk."""
        self._seen = 0
        """Index up to which committed entries were looked at."""
        self._judged: tuple[int, Members] = (0, ())
        self._write, journal.write = journal.write, self._written  # type: ignore[method-assign]
        compaction = group.compaction
        self._serialize, compaction.serialize = compaction.serialize, self._serialized  # type: ignore[method-assign]

    # ---- nothing before its sync

    def _written(self, frame: Frame) -> None:
        self._write(frame)
        self.synced = frame.last or self.synced

    def says(self, messages: Iterable[tuple[str, pb.RaftMessage]]) -> None:
        """Votes and acknowledgements promise what the journal holds, so that is on the disk by then."""
        journal = self._group.journal
        if not journal._unsynced.records and journal._failed is None:
            return
        for receiver, message in messages:
            kind = message.WhichOneof("body")
            if kind == "response_vote" or (kind == "append_reply" and message.append_reply.success):
                self._violated("synced first", f"{kind} to {receiver} leaves before the journal is synced")

    def answers(self, proposals: Iterable[Proposal]) -> None:
        """Whoever is told that a command has applied finds it after a power cut."""
        applied = self._group.applied_index
        if any(proposal.error is None for proposal in proposals) and applied > self.synced:
            self._violated("synced first", f"answered up to {applied}; on the disk is {self.synced}")

    # ---- the members

    def ticked(self) -> None:
        group, journal = self._group, self._group.journal
        self._note_committed()
        for index, members in journal.members._changes:
            if not self._says(index, members):
                self._violated("members", f"{members} are counted by entry {index}, which does not say so")
        at = min(group.commit_index, journal[-1].idx) if len(journal) else 0
        judged = (at, journal.members.current)
        # After a snapshot the first entry is the one before its last: of that time nothing is known here. And the first
        # of all is made up by whoever is new, until it hears of the others'.
        known = at > 1 and at >= journal[0].idx + (journal[0].idx > 1)
        if known and group.members and judged != self._judged:
            self._judged = judged
            self._compare(at, journal.members.at(at), "counts")

    def closes(self) -> None:
        """Nobody who is counted goes: a majority of those who are there may be none of those who are counted."""
        group = self._group
        members = self._committed[max(self._committed)] if self._committed else ()
        if group.node_id in members:
            self._violated("members", f"{group.node_id} closes its replica, and is one of {members}")

    def _note_committed(self) -> None:
        """Members that are committed by now."""
        group, journal = self._group, self._group.journal
        if not len(journal):
            return
        start = max(self._seen + 1, journal[0].idx)
        for index in range(start, min(group.commit_index, journal[-1].idx) + 1):
            members = decode(journal[index - journal[0].idx].command)
            if members is not None:
                self._committed.setdefault(index, members)
        self._seen = max(self._seen, group.commit_index)

    def _says(self, index: int, members: Members) -> bool:
        journal = self._group.journal
        at = index - journal[0].idx
        return at < 0 or (at < len(journal) and decode(journal[at].command) == members)

    def _serialized(self, data: Any, identifier: object) -> None:
        self._serialize(data, identifier)
        writer = self._group.compaction._writer
        if writer is not None and self._group.compaction._id is identifier:
            self._note_committed()
            header = writer._framing._header
            self._compare(header.last.index, tuple(header.members.node_ids), "writes a snapshot with")

    def _compare(self, index: int, members: Members, does: str) -> None:
        expected = members_at(self._committed, index)
        if expected is not None and members != expected:
            self._violated("members", f"{self._group.node_id} {does} {members} as of entry {index}: it is {expected}")


def members_at(committed: Mapping[int, Members], index: int) -> Members | None:
    """The members once this committed entry is the last; None: nobody has seen the beginning."""
    known = [at for at in committed if at <= index]
    return committed[max(known)] if known else None
