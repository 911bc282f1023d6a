"""One SyncObj, and everything that reaches below its surface; `group` builds on this.

pysyncobj 0.3.17 is used as it is. Its private names are touched here and nowhere else.
"""

from __future__ import annotations

import functools
import logging
import time
import zlib
from collections.abc import Callable, Iterable, Sequence, Set
from typing import Any

import pysyncobj.syncobj
from pysyncobj import SyncObj, SyncObjConf
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from txnstatus.raft import members
from txnstatus.raft.compaction import Compaction
from txnstatus.raft.entries import entry_of, is_commands
from txnstatus.raft.journal import Journal
from txnstatus.raft.members import Members
from txnstatus.raft.messages import Message
from txnstatus.raft.settings import SLICE_SECONDS, RaftSettings

# A SyncObj made for `appendEntriesUseBatch=False` opens a pipe to wake its own poller; our driver wakes it.
pysyncobj.syncobj.PIPE_NOTIFIER_ENABLED = False
# It looks at its clock all the time, through a function of Python.
pysyncobj.syncobj.monotonicTime = time.monotonic

_OTHERS = (bytes([pysyncobj.syncobj._COMMAND_TYPE.NO_OP]), members.MEMBERS)
_FOLLOWER = pysyncobj.syncobj._RAFT_STATE.FOLLOWER
_LEADER = pysyncobj.syncobj._RAFT_STATE.LEADER
MAX_BATCH_BYTES = 1 << 20
"""Bytes of all commands of one entry; a larger single command is refused."""
MAX_BATCH_COMMANDS = 256
"""Commands of one entry: to apply it is a few milliseconds' work, which nothing interrupts."""
SPARE_SECONDS = 0.02
"""Time for which an entry may stay away from a follower that no majority needs."""
SUCCESS = 0
NEVER = 1 << 62


def _not_a_false_alarm(record: logging.LogRecord) -> bool:
    """pysyncobj announces a divergence whenever a message repeats entries that are applied.

    It is about to truncate them; our journal drops an entry only for another one, and ends the process if that
    contradicts an applied one (JournalDiverged).
    """
    return not str(record.msg).startswith("truncating already-applied log entries")


logging.getLogger("pysyncobj.syncobj").addFilter(_not_a_false_alarm)


class _Peer(Node):  # type: ignore[misc]
    """A node by id. The hash does not depend on the process, so sets iterate alike in every run."""

    def __init__(self, node_id: str) -> None:
        super().__init__(node_id)
        self._hash = zlib.crc32(node_id.encode())

    def __hash__(self) -> int:
        return self._hash


_peer = functools.cache(_Peer)


class _NoPoller:
    def poll(self, timeout: float) -> None:
        pass


class _Outbox(Transport):  # type: ignore[misc]
    """pysyncobj's transport: hands over what it sends."""

    def __init__(self, send: Callable[[str, Message], None]) -> None:
        super().__init__(None, None, [])
        self._send = send

    def send(self, node: Node, message: Message) -> bool:
        self._send(node.id, message)
        return True


class Replica(SyncObj):  # type: ignore[misc]
    """SyncObj with its pickled commands replaced by ours: an entry is a batch of length-prefixed commands."""

    leading = False
    order: Sequence[str] = ()
    """The members and this replica, in an order that is the same on each, and another one in another group."""

    def __init__(
        self,
        group: str,
        node_id: str,
        settings: RaftSettings,
        journal: Journal,
        compaction: Compaction,
        *,
        apply: Callable[[bytes], Sequence[object]],
        send: Callable[[str, Message], None],
        send_snapshot: Callable[[str], None],
    ) -> None:
        """`send_snapshot` is called for a peer that needs entries which only a snapshot holds, at every heartbeat."""
        self._apply = apply
        self._send_snapshot = send_snapshot
        self._settings, self._journal, self._compaction = settings, journal, compaction
        self._group, self._own_id = group, node_id
        self._spares_due = 0.0
        """Moment when spared followers get what has gathered, by pysyncobj's clock."""
        self._SyncObj__connectedNodes: set[Node] = set()
        self._SyncObj__otherNodes: set[Node] = set()
        self._SyncObj__readonlyNodes: set[Node] = set()
        # pysyncobj opens its files by path, in its constructor; ours are open already.
        library = pysyncobj.syncobj
        factories = library.createJournal, library.Serializer
        library.createJournal, library.Serializer = lambda _path: journal, lambda *_arguments: compaction
        try:
            outbox = _Outbox(lambda receiver, message: send(receiver, self._said(message)))
            super().__init__(_peer(node_id), [], conf=_configuration(settings), transport=outbox)
        finally:
            library.createJournal, library.Serializer = factories
        self._poller = _NoPoller()
        if compaction.loaded is not None:
            self._SyncObj__loadDumpFile(clearJournal=False)
        self.set_members(journal.members.current)

    def _SyncObj__doApplyCommand(self, entry: bytes) -> Sequence[object]:  # noqa: N802
        """Called for every committed entry, on every replica. Nothing is unpickled."""
        if is_commands(entry):
            return self._apply(entry)
        if entry[:1] not in _OTHERS:
            raise ValueError(f"an entry of kind {entry[:1]!r}, which this version does not know")
        if self.leading and self._SyncObj__raftLastApplied + 1 == self.own_noop_index:
            # From now on it is ready. In this tick all others hear so, also those that are spared.
            self._SyncObj__newAppendEntriesTime = self._spares_due = 0.0
        return [members.decode(entry)]  # a change of members, or the no-op of a new leader

    def _SyncObj__applyLogEntries(self) -> bool:  # noqa: N802
        """pysyncobj applies all that is committed in one go: after a start for seconds, in which no leader is heard.

        It also sends all peers a message of its own after every commit. They learn of it with the next entries, or with
        the next heartbeat: half the messages do.

        A replica that is alone is a majority as soon as it has an entry in memory: one that its disk does not have
        waits, or whoever reads from memory sees what a power cut takes back.
        """
        commit_index = int(self._SyncObj__raftCommitIndex)  # type: ignore[has-type]
        applied, end = False, pysyncobj.syncobj.monotonicTime() + SLICE_SECONDS
        try:
            while self._SyncObj__raftLastApplied < commit_index and not (
                applied and pysyncobj.syncobj.monotonicTime() >= end
            ):
                if not self._SyncObj__otherNodes and not self._journal.has_synced(self._SyncObj__raftLastApplied + 1):
                    break
                self._SyncObj__raftCommitIndex = self._SyncObj__raftLastApplied + 1
                applied = super()._SyncObj__applyLogEntries()
        finally:
            self._SyncObj__raftCommitIndex = commit_index
        return False

    @property
    def has_to_apply(self) -> bool:
        """Whether more is committed than the last tick has applied."""
        return bool(self._SyncObj__raftLastApplied < self._SyncObj__raftCommitIndex)

    def _SyncObj__sendAppendEntries(self) -> None:  # noqa: N802
        """pysyncobj sends an entry to all at once. Here those that are furthest along get it, as many as a majority
        needs; the others get what has gathered every SPARE_SECONDS, for a cycle and a sync of theirs cost as much as
        anybody's. If those who were asked keep silent, the others are further along by then, and are asked first.

        It also goes round and round for a peer that waits for a snapshot, a whole heartbeat long.
        """
        now = pysyncobj.syncobj.monotonicTime()
        behind = self._waiting_for_snapshots()
        spared = set[Node]()
        if now < self._spares_due:
            spared = self._spares(behind)
        else:
            self._spares_due = now + SPARE_SECONDS
        self._send_entries(self._SyncObj__connectedNodes - behind - spared)
        for node in sorted(behind, key=lambda node: str(node.id)):
            self._send_snapshot(node.id)

    def _send_entries(self, to: set[Node]) -> None:
        connected = self._SyncObj__connectedNodes
        self._SyncObj__connectedNodes = to
        try:
            super()._SyncObj__sendAppendEntries()
        finally:
            self._SyncObj__connectedNodes = connected

    def _waiting_for_snapshots(self) -> set[Node]:
        return self._reachable_that_want(self._SyncObj__raftLog[0].idx)

    def _reachable_that_want(self, index: int) -> set[Node]:
        """Peers to whom neither this entry nor what follows it was sent."""
        wanting = {node for node, wanted in self._SyncObj__raftNextIndex.items() if wanted <= index}
        return wanting & self._reachable if wanting else wanting

    def _spares(self, behind: set[Node]) -> set[Node]:
        """Followers that no majority needs. Of several that are equally far along, each group asks another first."""
        matches, order, learners = self._SyncObj__raftMatchIndex, self.order, self._SyncObj__readonlyNodes
        voters = self._reachable - behind - learners
        able = sorted(voters, key=lambda node: (-matches[node], order.index(node.id)))
        return learners.union(able[(len(self._SyncObj__otherNodes) + 1) // 2 :])

    @property
    def _reachable(self) -> set[Node]:
        """Learners, too."""
        return self._followers & self._SyncObj__connectedNodes

    @property
    def _followers(self) -> set[Node]:
        """The other members and the learners. pysyncobj sends to these, and counts those alone."""
        return self._SyncObj__otherNodes | self._SyncObj__readonlyNodes

    def _lacking(self) -> set[Node]:
        """Followers to whom not all entries were sent."""
        lacking = self._reachable_that_want(self._SyncObj__raftLog[-1].idx)
        return lacking - self._waiting_for_snapshots() if lacking else lacking

    # ---- entries and messages

    def submit(self, commands: Sequence[bytes], ended: Callable[[list[object] | None, int], None]) -> None:
        """Queues one entry of all the commands; `ended` hears what each `apply` returned, or a reason."""
        self._applyCommand(entry_of(commands), ended)

    def submit_members(self, new: Members, ended: Callable[[list[object] | None, int], None]) -> None:
        self._applyCommand(members.encode(new), ended)

    def deliver(self, sender: str, message: Message) -> None:
        self._SyncObj__transport._onMessageReceived(_peer(sender), message)

    def connected(self, peer: str) -> None:
        self._SyncObj__transport._onNodeConnected(_peer(peer))

    def disconnected(self, peer: str) -> None:
        self._SyncObj__transport._onNodeDisconnected(_peer(peer))

    def next_index(self, peer: str) -> int:
        """The first entry that this leader has not sent to the peer yet."""
        indexes: dict[Any, int] = self._SyncObj__raftNextIndex
        return indexes.get(_peer(peer), 0)

    def set_progress(self, peer: str, sent_up_to: int, reply: Message) -> None:
        """Corrects what pysyncobj made of an answer: it moves back to what was acknowledged, and sends again all that
        is still on its way; it never believes that a peer has less than it once had; and when a peer asks for what
        follows its own, longer log, it sends what no log has."""
        if not self.leading:
            return
        node, asked = _peer(peer), reply["next_node_idx"]
        if reply["reset"]:
            matches = self._SyncObj__raftMatchIndex
            matches[node] = min(matches[node], asked - 1)
            self._SyncObj__raftNextIndex[node] = min(asked, self._SyncObj__raftLog[-1].idx + 1)
        else:
            acknowledged = asked if reply["success"] else 0
            self._SyncObj__raftNextIndex[node] = max(sent_up_to, acknowledged, self.next_index(peer))

    def _said(self, message: Message) -> Message:
        """A follower whose entries contradict the leader's asks for those from where their term began, or from its own
        commits on (Raft, 5.3). pysyncobj goes back by one entry at a time, is sent all that follow each time, and is
        put back to the end of its log by whatever is on its way: under load it never gets there."""
        asked = message.get("next_node_idx", 0)
        if message.get("reset") and asked <= self._journal[-1].idx:
            agreed = max(self._journal[0].idx, int(self._SyncObj__raftCommitIndex))
            message["next_node_idx"] = min(asked, max(agreed + 1, self._journal.first_of_term(asked)))
        return message

    # ---- members

    def set_members(self, current: Members, learners: Iterable[str] = ()) -> None:
        """Whom this replica counts, and to whom it sends beside them. pysyncobj's own way of changing that is left
        alone. What is known of how far a learner has come stays known when it becomes a member."""
        others = {_peer(node_id) for node_id in current if node_id != self._own_id}
        learning = {_peer(node_id) for node_id in learners} - others - {_peer(self._own_id)}
        before = self._followers
        for gone in before - others - learning:
            for kept in (self._SyncObj__raftNextIndex, self._SyncObj__raftMatchIndex, self._SyncObj__lastResponseTime):
                kept.pop(gone, None)
        for new in (others | learning) - before:
            self._SyncObj__raftNextIndex[new] = self._SyncObj__raftLog[-1].idx + 1
            self._SyncObj__raftMatchIndex[new] = 0
            self._SyncObj__lastResponseTime[new] = pysyncobj.syncobj.monotonicTime()
        self._SyncObj__otherNodes, self._SyncObj__readonlyNodes = others, learning
        everybody = {self._own_id, *current}
        self.order = sorted(everybody, key=lambda node_id: zlib.crc32(f"{self._group} {node_id}".encode()))

    def matched(self, peer: str) -> int:
        """The last entry that a follower is known to have."""
        indexes: dict[Any, int] = self._SyncObj__raftMatchIndex
        return indexes.get(_peer(peer), 0)

    # ---- elections

    @property
    def election_due(self) -> bool:
        return bool(not self.leading and self._SyncObj__raftElectionDeadline < pysyncobj.syncobj.monotonicTime())

    def idle_seconds(self) -> float:
        """Until this replica does something by itself: sends a heartbeat, or else looks for a new leader."""
        due = self._SyncObj__newAppendEntriesTime if self.leading else self._SyncObj__raftElectionDeadline
        if self.leading and self._lacking():
            due = min(due, self._spares_due)
        return float(due - pysyncobj.syncobj.monotonicTime())

    def postpone_election(self) -> None:
        """Puts it off by another time-out, chosen by chance."""
        timeout = self._SyncObj__generateRaftTimeout()
        self._SyncObj__raftElectionDeadline = pysyncobj.syncobj.monotonicTime() + timeout

    def tick(self, *, campaign: bool) -> None:
        """pysyncobj begins an election in its tick, once its time-out is over: here, if and only if `campaign`."""
        deadline = self._SyncObj__raftElectionDeadline
        held = 0 if campaign else float("inf")
        self._SyncObj__raftElectionDeadline = held
        if self._journal.bytes > self._settings.snapshot_bytes and self._compaction.is_idle:
            self.forceLogCompaction()
        self.doTick(0)
        if self.leading and pysyncobj.syncobj.monotonicTime() >= self._spares_due and (lacking := self._lacking()):
            self._spares_due = pysyncobj.syncobj.monotonicTime() + SPARE_SECONDS
            self._send_entries(lacking)
        if self._SyncObj__raftElectionDeadline == held:
            self._SyncObj__raftElectionDeadline = deadline

    def ask_successor(self, avoided: Set[str]) -> bool:
        """Asks the follower that is furthest along to take over, if it has everything; one of those that are avoided
        only if there is no other."""
        successor = self.most_advanced_peer(avoided) or self.most_advanced_peer()
        asked: list[int] = []
        if successor:
            self.transferLeadership(_peer(successor), lambda _result, failure: asked.append(failure))
        return asked == [SUCCESS]

    def has_successor(self, avoided: Set[str]) -> bool:
        """Whether one that is not avoided has all that is committed, and is connected."""
        successor = self.most_advanced_peer(avoided)
        return bool(successor) and self.matched(successor) >= int(self._SyncObj__raftCommitIndex)

    def most_advanced_peer(self, avoided: Set[str] = frozenset()) -> str:
        """The most advanced of the connected peers; empty = there is none."""
        matches = self._SyncObj__raftMatchIndex
        near = [
            (matches.get(node, 0), node.id)
            for node in self._SyncObj__otherNodes & self._SyncObj__connectedNodes
            if node.id not in avoided
        ]
        return str(max(near)[1]) if near else ""

    def step_down(self) -> None:
        self._SyncObj__setState(_FOLLOWER)
        self._SyncObj__raftLeader = None
        self.postpone_election()

    def _SyncObj__setState(self, state: int) -> None:  # noqa: N802
        """`leading` is asked several times a cycle, and this is where it changes."""
        self.leading = state == _LEADER
        super()._SyncObj__setState(state)

    @property
    def leader_id(self) -> str:
        """The last known leader; empty = unknown."""
        leader = self._getLeader()
        return str(leader.id) if leader else ""

    @property
    def knows_ready(self) -> bool:
        """Whether the leader is known to have committed the entry with which it began to lead, or any later one."""
        if self.leading:
            return bool(self._SyncObj__raftLastApplied >= self.own_noop_index)
        return self._journal.has(int(self.raftCommitIndex), int(self.raftCurrentTerm))

    @property
    def own_noop_index(self) -> int:
        """The index of the entry with which this replica began to lead."""
        return int(self._SyncObj__noopIDx or NEVER)


def _configuration(settings: RaftSettings) -> SyncObjConf:
    return SyncObjConf(
        autoTick=False,
        raftMinTimeout=settings.election_min_seconds,
        raftMaxTimeout=settings.election_max_seconds,
        appendEntriesPeriod=settings.heartbeat_seconds,
        leaderFallbackTimeout=settings.election_max_seconds,
        appendEntriesUseBatch=False,
        # An entry of ours never reaches this, so pysyncobj never cuts one into pieces.
        appendEntriesBatchSizeBytes=4 * MAX_BATCH_BYTES,
        commandsWaitLeader=False,
        connectionTimeout=max(3.5, settings.election_max_seconds),
        logCompactionMinEntries=settings.snapshot_entries,
        logCompactionMinTime=10**9,
        useFork=False,
        dynamicMembershipChange=False,
    )
