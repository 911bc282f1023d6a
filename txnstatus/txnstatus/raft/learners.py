"""Learners: replicas that are sent every entry and count for nothing, until they have caught up and may be members.

A replica that counted while its log is empty would be one more that a majority needs, and none that it has: if another
one failed, the group would stand still until it had caught up. So it catches up first, in rounds (Raft thesis, 4.2.1):
each brings what the log had at its beginning. One that takes no longer than an election does is the last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from txnstatus.errors import Unavailable
from txnstatus.raft.journal import Journal
from txnstatus.raft.members import Members
from txnstatus.raft.replica import Replica
from txnstatus.raft.settings import RaftSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Round:
    goal: int
    """The last entry when it began."""
    began: float
    is_close: bool
    """Whether the round before was short enough."""


class Rounds:
    """In how many seconds each learner gets what there is."""

    def __init__(self, enough_seconds: float) -> None:
        """`enough_seconds`: what a round may take at most, for a learner to be a member after it."""
        self._enough = enough_seconds
        self._rounds: dict[str, _Round] = {}

    def answered(self, learner: str, matched: int, last: int, now: float) -> None:
        """A learner has the entries up to `matched`, and the leader those up to `last`."""
        current = self._rounds.get(learner)
        if current is None:
            self._rounds[learner] = _Round(last, now, is_close=False)
        elif matched >= current.goal:
            self._rounds[learner] = _Round(last, now, is_close=now - current.began <= self._enough)

    def has_caught_up(self, learner: str, now: float) -> bool:
        current = self._rounds.get(learner)
        return current is not None and current.is_close and now - current.began <= self._enough

    def forget(self) -> None:
        self._rounds.clear()


class Learners:
    """Whom a replica counts, and who learns from it while it leads."""

    def __init__(
        self,
        group: str,
        node_id: str,
        journal: Journal,
        replica: Replica,
        settings: RaftSettings,
        monotonic: Callable[[], float],
    ) -> None:
        self._group, self._node_id = group, node_id
        self._journal, self._replica, self._monotonic = journal, replica, monotonic
        self._rounds = Rounds(settings.election_min_seconds)
        self._expected = self._nodes = frozenset[str]()
        self._known_members: Members = journal.members.current

    def may_answer(self, sender: str, kind: str) -> bool:
        """Whether an answer of that kind counts for something; the vote of one that learns does not."""
        return sender in self._known_members or (sender in self._nodes and kind != "response_vote")

    def lacks_beginning(self, previous: int) -> bool:
        """Whether this replica has not even the log's first entry, and is sent what follows it: that one says who the
        members were, and is never sent. It needs a snapshot, which says so, too."""
        return previous <= 1 and not self._known_members

    def expect(self, replicas: Iterable[str]) -> None:
        """Nodes that are members, or are to be: those that are not yet learn."""
        self._expected = frozenset(replicas)
        self._tell_replica()

    def adopt_members(self) -> None:
        """Members are whom the log names by now."""
        if self._journal.members.current != self._known_members:
            self._known_members = self._journal.members.current
            log.info("%s: %s counts the members %s", self._group, self._node_id, ", ".join(self._known_members))
            self._tell_replica()

    def _tell_replica(self) -> None:
        self._nodes = self._expected.difference(self._known_members, (self._node_id,))
        self._replica.set_members(self._known_members, self._nodes)

    def answered(self, sender: str) -> None:
        if sender in self._nodes:
            self._rounds.answered(sender, self._replica.matched(sender), self._journal[-1].idx, self._monotonic())

    def check_caught_up(self, node: str) -> None:
        """Raises Unavailable unless it is a member, or has all that members have but for the last moments.

        Empty: nobody is to become one.
        """
        if node and node not in self._known_members and not self._rounds.has_caught_up(node, self._monotonic()):
            has, last = self._replica.matched(node), self._journal[-1].idx
            raise Unavailable(f"{node} has not caught up with {self._group} yet: it has {has:,} of {last:,} entries")

    def forget(self) -> None:
        """This replica does not lead: the next leader looks for itself."""
        self._rounds.forget()
