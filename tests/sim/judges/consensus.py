"""Watches what the replicas of one group do together: who is elected, what is committed, and that logs are one log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, MutableMapping
from typing import TYPE_CHECKING

from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.members import Members, decode

if TYPE_CHECKING:
    from tests.sim.judges.watch import WatchedGroup

Violation = Callable[[str, str], None]
ANSWERS = ("append_reply", "snapshot_reply", "response_vote")
Entries = MutableMapping[tuple[int, int], bytes]
"""Commands by index and term."""


class Consensus:
    """One replica's part in it, as long as its process lives."""

    def __init__(self, group: WatchedGroup, violated: Violation) -> None:
        self._group = group
        self._history = group.history
        self._violated = violated
        self._heard_at = float("-inf")
        """When it heard from a leader, by its own clock."""
        self._early: dict[tuple[str, int], float] = {}
        """Candidates and terms: how soon after a leader was heard each asked for a vote that must not be given yet."""
        self._before: tuple[str, tuple[object, ...]] | None = None
        """An answer of another term, and what was counted before it."""
        self._committed = group.commit_index
        self._applied = group.applied_index
        self._counted = group.members
        """The members at the end of its last cycle."""
        self._led_term = -1
        """The last term in which it was seen to lead."""
        self._handed_over = (-1, 0)
        """The term in which it was seen to hand over, and where its log ended then."""
        self._abstains = group.journal.abstaining
        for entry in group.journal[:]:
            self._note(entry.idx, entry.term, entry.command)
        self._add, group.journal.add = group.journal.add, self._added  # type: ignore[method-assign]

    # ---- one log

    def _added(self, command: bytes, idx: int, term: int) -> None:
        journal, group = self._group.journal, self._group
        before = journal.members.index
        self._add(command, idx, term)
        entry = journal[-1]
        self._note(entry.idx, entry.term, entry.command)
        if group.is_leader and decode(command) is not None:
            if before > group.commit_index:
                self._violated(
                    "members", f"{group.node_id} changes them by entry {idx}; entry {before} is not committed"
                )
            group._watch.on_change(group.node_id)

    def _note(self, idx: int, term: int, command: bytes) -> None:
        self._group._watch.on_entry(self._group.node_id, self._group.group, command)
        if term == 0:
            return  # the beginning, which a node that joins does not know
        known = self._history.entries.setdefault((idx, term), command)
        if known != command:
            story = f"{self._group.node_id} has {command!r} as entry {idx} of term {term}, others {known!r}"
            self._violated("one log", story)

    # ---- elections

    def hears(self, sender: str, wire: pb.RaftMessage) -> None:
        """Before the replica takes a message."""
        group, kind = self._group, wire.WhichOneof("body")
        stale = kind in ANSWERS and wire.term != group.term
        self._before = (f"{kind} of {sender} in term {wire.term}", self._counts(sender)) if stale else None
        if kind in ("append_entries", "snapshot_part"):
            if wire.term >= group.term and not group.journal.abstaining and not group.no_room:
                self._heard_at = group._monotonic()
        elif kind == "request_vote":
            age = group._monotonic() - self._heard_at
            self._early.pop((sender, wire.term), None)
            if age < group.settings.promise_seconds and not wire.request_vote.leadership_transfer:
                self._early[sender, wire.term] = age

    def heard(self, sender: str) -> None:
        """Once it has taken it: an answer to the leader, or candidate, of another term counts for nothing."""
        if self._before is not None and self._before[1] != self._counts(sender):
            self._violated("one log", f"{self._group.node_id} counts {self._before[0]} in term {self._group.term}")

    def _counts(self, sender: str) -> tuple[object, ...]:
        """What it counts of others: votes, and how far the sender is."""
        replica = self._group._replica
        matches, times = replica._SyncObj__raftMatchIndex, replica._SyncObj__lastResponseTime
        of_sender = [each.get(node) for each in (matches, times) for node in each if node.id == sender]
        return (self._group.is_leader, replica._SyncObj__votesCount, *of_sender)

    def says(self, messages: Iterable[tuple[str, pb.RaftMessage]]) -> None:
        """A lease rests on it that nobody votes who heard from the leader a moment ago, and that whoever hands over
        has none."""
        group = self._group
        for receiver, message in messages:
            kind = message.WhichOneof("body")
            if kind == "response_vote" and (age := self._early.get((receiver, message.term))) is not None:
                self._violated(
                    "one lease", f"{group.node_id} votes for {receiver}, {age:.3f} s after it heard a leader"
                )
            elif kind == "timeout_now" and group.has_lease:
                self._violated("one lease", f"{group.node_id} hands over to {receiver}, and has a lease")

    def _check_hand_over(self) -> None:
        """Whoever hands over proposes nothing more in that term: its successor would never have everything."""
        group, last = self._group, self._group.journal[-1].idx
        if not group.is_leader or group.elections._handed_over_term != group.term:
            return
        if self._handed_over[0] == group.term and last > self._handed_over[1]:
            self._violated("hand-over", f"{group.node_id} proposes entry {last} after it began to hand over")
        self._handed_over = group.term, last

    def _elected(self) -> None:
        """It leads in a new term, ready or not: most of the members have voted for it."""
        group = self._group
        voters = {group.node_id, *(node for node in group.members if self._voted(node))}
        if 2 * len(voters) <= len(group.members):
            self._violated("one leader a term", f"{group.node_id} leads in term {group.term} by the votes of {voters}")

    def _voted(self, node: str) -> bool:
        return self._history.votes.get((node, self._group.term)) == self._group.node_id

    # ---- what is committed

    def ticked(self) -> None:
        group = self._group
        if group.is_leader and group.term != self._led_term:
            self._led_term = group.term
            self._elected()
        if group.is_leader and group.commit_index > self._committed:
            have = self._lacks_most(lambda member: self._holds(member, group.commit_index), self._counted)
            if have is not None:
                self._violated("most have it", f"{group.node_id} commits {group.commit_index}, which {have} have")
        if group.is_leader and group.applied_index > self._applied:
            self._check_disks(group.applied_index)
        self._check_hand_over()
        self._committed, self._applied, self._counted = group.commit_index, group.applied_index, group.members
        if self._abstains and not group.journal.abstaining:
            needed = self._history.needed.get(group.node_id, 0)
            if group.journal[-1].idx < needed:
                story = f"{group.node_id} lost entries up to {needed}, and takes part with {group.journal[-1].idx}"
                self._violated("an acknowledged entry stays", story)
        self._abstains = group.journal.abstaining

    def _check_disks(self, index: int) -> None:
        """What a leader has applied is acknowledged at any moment: most of the members find it after a power cut."""
        group = self._group
        disks = self._lacks_most(
            lambda member: self._holds(member, index) and self._has_synced(member, index),
            group.journal.members.at(index),
        )
        if disks is not None:
            self._violated("most have it", f"{group.node_id} applies {index}, which is on the disks of {disks}")

    def _lacks_most(self, has: Callable[[str], bool], before: Members) -> list[str] | None:
        """The members that have it, where they are no majority, and none of those that were counted `before`: an entry
        that most of these had was committed when the members changed."""
        for members in (self._group.members, before):
            having = [member for member in members if has(member)]
            if 2 * len(having) > len(members):
                return None
        return having

    def _has_synced(self, member: str, index: int) -> bool:
        found = self._history.groups.get(member)
        if found is None or found[1].synced >= index:
            return True
        theirs = found[1].journal
        return bool(len(theirs)) and theirs[0].idx > index  # a snapshot has it

    def _holds(self, member: str, index: int) -> bool:
        """Whether the entry, which is the leader's, is the member's too."""
        journal = self._group.journal
        if member == self._group.node_id or index < journal[0].idx:
            return True
        found = self._history.groups.get(member)
        if found is None:
            return True  # closed: the group is dropped
        theirs = found[1].journal
        covered = bool(len(theirs)) and theirs[0].idx > index
        return covered or theirs.has(index, journal[index - journal[0].idx].term)
