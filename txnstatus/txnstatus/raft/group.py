"""RaftGroup: one pysyncobj SyncObj, adapted at its seams; synchronous, and free of threads and sockets.

The caller runs cycles: `receive` messages, `propose` commands, `tick`, send `take_early`, make the journal durable,
send `take_late`, hand out `take_done`. The order is the contract: nothing that depends on the journal leaves before
it is synced, and nothing touches the group while it syncs. That is group commit.

What pysyncobj 0.3.17 does otherwise, and what is done about it here, stands at each place.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from pysyncobj import SyncObjConf

from txnstatus.durable import make_directory
from txnstatus.errors import NotTheLeader, OutcomeUnknown, TxnError
from txnstatus.failpoints import failpoint
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import messages, snapshot
from txnstatus.raft.journal import Entry, Journal
from txnstatus.raft.messages import Message
from txnstatus.raft.replica import SUCCESS, Replica, entry_size

log = logging.getLogger(__name__)

MAX_BATCH_BYTES = 1 << 20
"""Commands of one entry; a larger single command is refused."""


class StateMachine(Protocol):
    """What a group replicates. `apply` is total and deterministic; an exception ends the process."""

    def apply(self, command: bytes) -> object: ...
    def snapshot(self) -> Iterator[bytes]:
        """The state as of this call, in chunks; each is made when it is asked for, also after later commands."""
        ...

    def restore(self, chunks: Iterable[bytes]) -> None: ...


@dataclass(frozen=True, slots=True)
class RaftSettings:
    heartbeat_seconds: float = 0.15
    election_min_seconds: float = 0.8
    election_max_seconds: float = 1.6
    snapshot_entries: int = 20_000
    """Entries in the journal that make a snapshot worth while."""
    max_clock_drift: float = 0.1
    """How much faster one node's monotonic clock may run than another's; shortens the leader's lease."""

    def __post_init__(self) -> None:
        if not self.heartbeat_seconds * 3 < self.election_min_seconds < self.election_max_seconds:
            raise ValueError(
                f"heartbeat_seconds {self.heartbeat_seconds} must be less than a third of election_min_seconds "
                f"{self.election_min_seconds}, and that less than election_max_seconds {self.election_max_seconds}"
            )


@dataclass(slots=True)
class Proposal:
    """A command on its way. `outcome` is what `apply` returned, or the error that says what is known."""

    command: bytes
    outcome: object = None
    error: TxnError | None = None


class RaftGroup:
    def __init__(
        self,
        group: str,
        node_id: str,
        peers: Sequence[str],
        machine: StateMachine,
        directory: Path,
        settings: RaftSettings,
        monotonic: Callable[[], float],
        journal: Journal | None = None,
    ) -> None:
        """Opens the group's files and replays them. `peers` are the other members.

        Raises JournalCorrupt or SnapshotCorrupt: then the node must not start.
        """
        self.group = group
        self.node_id = node_id
        self.peers = tuple(peers)
        self.settings = settings
        self._machine = machine
        self._monotonic = monotonic
        self._snapshot_path = directory / "snapshot"
        self._queued: list[Proposal] = []
        self._submitted: list[Proposal] = []
        self._done: list[Proposal] = []
        self._early: list[tuple[str, pb.RaftMessage]] = []
        self._late: list[tuple[str, pb.RaftMessage]] = []
        self._last_sent: dict[str, int] = {}
        self._echoes: dict[str, int] = {}
        self._heard_leader_at = monotonic()
        self._taking_over = False
        self._handed_over_term = -1
        self._submitted_term = -1
        self._incoming: tuple[str, bytearray] = ("", bytearray())
        make_directory(directory)
        self.journal = journal if journal is not None else Journal(directory / "journal")
        snapshot.align(self.journal, self._snapshot_path, group)
        self._replica = Replica(
            node_id, self.peers, self._configuration(), self.journal, apply=self._apply, send=self._queue_message
        )
        self.journal.sync()

    def _configuration(self) -> SyncObjConf:
        return SyncObjConf(
            autoTick=False,
            raftMinTimeout=self.settings.election_min_seconds,
            raftMaxTimeout=self.settings.election_max_seconds,
            appendEntriesPeriod=self.settings.heartbeat_seconds,
            leaderFallbackTimeout=self.settings.election_max_seconds,
            appendEntriesUseBatch=False,
            # An entry of ours never reaches this, so pysyncobj never cuts one into pieces.
            appendEntriesBatchSizeBytes=4 * MAX_BATCH_BYTES,
            commandsWaitLeader=False,
            connectionTimeout=max(3.5, self.settings.election_max_seconds),
            fullDumpFile=str(self._snapshot_path),
            logCompactionMinEntries=self.settings.snapshot_entries,
            logCompactionMinTime=10**9,
            logCompactionBatchSize=1 << 18,
            useFork=False,
            serializer=self._write_snapshot,
            deserializer=self._read_snapshot,
            dynamicMembershipChange=False,
        )

    # ---- the cycle

    def receive(self, sender: str, wire: pb.RaftMessage) -> None:
        message = messages.decode(wire)
        kind, term = message["type"], message["term"]
        if kind == "append_entries":
            if term < self.term:
                # pysyncobj would ignore it, and the sender would go on leading whom it can never win back.
                self._late.append((sender, pb.RaftMessage(group=self.group, term=self.term, stale_term={})))
                return
            self._heard_leader_at = self._monotonic()
            self._last_sent[sender] = message["sent"]
            if "serialized" in message:
                message = self._gather_snapshot(sender, message)
        elif kind == "request_vote":
            if not message["transfer"] and self._leader_is_near():
                return  # a leader that this node heard from may hold a lease on its promise not to vote
        elif kind == "next_node_idx":
            if term != self.term:
                return  # an answer to another term's leader would be counted for entries the sender never saw
            self._echoes[sender] = max(self._echoes.get(sender, 0), message["echo"])
        elif kind == "timeout_now":
            self._taking_over = term == self.term and sender == self.leader
        elif kind == "stale_term":
            if term <= self.term:
                return
            # pysyncobj steps down for a vote request of a later term, and grants none to a log that is behind.
            message = {"type": "request_vote", "term": term, "last_log_index": 0, "last_log_term": -1}
        self._deliver(sender, message)

    def _deliver(self, sender: str, message: Message) -> None:
        sent_up_to = self._replica.next_index(sender)
        self._replica.deliver(sender, message)
        self.journal.settle()
        if message["type"] == "next_node_idx" and not message["reset"]:
            # pysyncobj moves back to what was acknowledged, and sends again all that is still on its way.
            self._replica.set_next_index(sender, max(sent_up_to, self._replica.next_index(sender)))

    def _gather_snapshot(self, sender: str, message: Message) -> Message:
        """What pysyncobj gets for a part of a snapshot: a sign of life, or at the end the whole of it.

        pysyncobj installs what arrives, whole or not, and clears its journal for it, also of entries that this
        replica has acknowledged. Here a snapshot counts only if it is whole and brings something new.
        """
        data, first, last = message.pop("serialized")
        if first:
            self._incoming = (sender, bytearray())
        gathering_from, gathered = self._incoming
        if gathering_from != sender:
            return message  # the beginning got lost
        gathered += data
        if not last:
            return message
        self._incoming = ("", bytearray())
        try:
            end, _, _ = snapshot.parse(bytes(gathered), self.group)
        except snapshot.SnapshotCorrupt as error:
            log.warning("%s: a snapshot from %s did not arrive whole: %s", self.group, sender, error)
            return message
        if end.idx <= self.applied_index or self.journal.has(end):
            reply = {"type": "next_node_idx", "next_node_idx": end.idx + 1, "reset": False, "success": True}
            self._queue_message(sender, reply)
            return message
        return {**message, "serialized": (bytes(gathered), True, True)}

    def propose(self, proposal: Proposal) -> None:
        """Queues a command; it ends in `take_done` of this or a later cycle, with its outcome or an error."""
        if len(proposal.command) > MAX_BATCH_BYTES:
            raise ValueError(f"a command of {len(proposal.command)} bytes: at most {MAX_BATCH_BYTES} are possible")
        self._queued.append(proposal)

    def tick(self) -> None:
        """Advances elections, heartbeats, commits and applies; takes up what was proposed."""
        if self.is_leader:
            while self._queued:
                self._submit(self._next_batch())
        else:
            self._fail(self._queued, NotTheLeader(f"{self.node_id} does not lead {self.group}", hint=self.leader))
            self._queued = []
        self._replica.doTick(0)
        if self._submitted and (not self.is_leader or self.term != self._submitted_term):
            # Their entries may yet be committed by the next leader, or be overwritten: not known here.
            self._fail(self._submitted, OutcomeUnknown(f"{self.node_id} lost the leadership of {self.group}"))
            self._submitted = []
        self._taking_over = False
        self.journal.applied_index = self.applied_index

    def take_early(self) -> list[tuple[str, pb.RaftMessage]]:
        """What may leave before the journal is synced: a leader's entries (Raft thesis, 10.2.1)."""
        early, self._early = self._early, []
        return early

    def take_late(self) -> list[tuple[str, pb.RaftMessage]]:
        """Votes and acknowledgements: only after the journal is synced."""
        late, self._late = self._late, []
        return late

    def take_done(self) -> list[Proposal]:
        """Proposals that have ended: only after the journal is synced."""
        done, self._done = self._done, []
        return done

    @property
    def wants_tick(self) -> bool:
        """Whether there is something to do before the next message or timer: a group of one commits by itself."""
        return bool(self._queued or (not self.peers and self._submitted))

    # ---- what it knows

    @property
    def is_leader(self) -> bool:
        return self._replica.leading

    @property
    def is_ready(self) -> bool:
        """Leads, and has applied its own no-op: all that was committed before is in the state machine."""
        return self.is_leader and self.applied_index >= self._replica.own_noop_index

    @property
    def has_lease(self) -> bool:
        """Whether no other leader can exist yet: a majority promised, by answering, not to vote for a while.

        A node does not vote for election_min_seconds after it heard from a leader, or after it started (see
        `receive`). The lease runs from when the answered message was sent, so delays only shorten it.
        """
        if not self.is_ready or self._handed_over_term == self.term:
            return False
        window = self.settings.election_min_seconds * (1 - self.settings.max_clock_drift)
        oldest = int((self._monotonic() - window) * 1e6)
        fresh = sum(1 for peer in self.peers if self._echoes.get(peer, 0) > oldest)
        return fresh + 1 > (len(self.peers) + 1) / 2

    @property
    def leader(self) -> str:
        """The last known leader's node id; empty = unknown."""
        return self._replica.leader_id

    @property
    def term(self) -> int:
        return int(self._replica.raftCurrentTerm)

    @property
    def commit_index(self) -> int:
        return int(self._replica.raftCommitIndex)

    @property
    def applied_index(self) -> int:
        return int(self._replica.raftLastApplied)

    # ---- connections

    def connected(self, peer: str) -> None:
        self._replica.connected(peer)

    def disconnected(self, peer: str) -> None:
        self._replica.disconnected(peer)

    def hand_over(self) -> None:
        """Asks the follower that is furthest along to take over now; ends this leader's lease for good."""
        if self.is_leader and self.peers:
            self._handed_over_term = self.term
            self._replica.transferLeadership()

    def close(self) -> None:
        self._fail(self._queued + self._submitted, OutcomeUnknown(f"{self.node_id} stops"))
        self._queued, self._submitted = [], []
        self._replica.destroy()

    # ---- inside

    def _next_batch(self) -> list[Proposal]:
        """As many queued proposals as fit in one entry."""
        size = 0
        for count, proposal in enumerate(self._queued):
            size += entry_size(proposal.command)
            if count and size > MAX_BATCH_BYTES:
                break
        else:
            count = len(self._queued)
        batch, self._queued = self._queued[:count], self._queued[count:]
        return batch

    def _submit(self, batch: list[Proposal]) -> None:
        self._submitted += batch
        self._submitted_term = self.term
        self._replica.submit(
            [proposal.command for proposal in batch], lambda outcomes, failure: self._ended(batch, outcomes, failure)
        )

    def _ended(self, batch: list[Proposal], outcomes: list[object] | None, failure: int) -> None:
        """pysyncobj's callback. Its SUCCESS means applied here; with any other word the entry may still commit."""
        if not batch or batch[0].error is not None:
            return  # this replica lost the leadership meanwhile, and said so
        ended = {id(proposal) for proposal in batch}
        self._submitted = [proposal for proposal in self._submitted if id(proposal) not in ended]
        if failure != SUCCESS or outcomes is None:
            self._fail(batch, OutcomeUnknown(f"{self.node_id} lost track of an entry of {self.group} ({failure})"))
            return
        for proposal, outcome in zip(batch, outcomes, strict=True):
            proposal.outcome = outcome
        self._done += batch

    def _fail(self, proposals: Sequence[Proposal], error: TxnError) -> None:
        for proposal in proposals:
            proposal.error = error
        self._done += proposals

    def _apply(self, command: bytes) -> object:
        try:
            failpoint("raft.before_apply")
            return self._machine.apply(command)
        except Exception as error:  # noqa: BLE001
            # pysyncobj would log it and apply the entry again at every tick, for ever.
            stop_process(f"group {self.group}: applying entry {self.applied_index + 1} failed", error)

    def _queue_message(self, receiver: str, message: Message) -> None:
        kind = message["type"]
        if kind == "apply_command":
            return  # forwarding would leave its caller without an answer; `tick` fails what a follower is given
        if kind == "append_entries":
            if "serialized" in message and not message["serialized"]:
                return  # a snapshot is being written: nothing to send yet
            message["sent"] = int(self._monotonic() * 1e6)
            self._early.append((receiver, messages.encode(self.group, message, self.term)))
            return
        if kind == "next_node_idx":
            message["echo"] = self._last_sent.get(receiver, 0)
        elif kind == "request_vote":
            message["transfer"] = self._taking_over
        self._late.append((receiver, messages.encode(self.group, message, self.term)))

    def _leader_is_near(self) -> bool:
        if self.is_leader:
            return self.has_lease
        return self._monotonic() - self._heard_leader_at < self.settings.election_min_seconds

    def _write_snapshot(self, path: str, meta: tuple[Entry, Entry, Any]) -> None:
        last, previous, _members = meta
        try:
            failpoint("raft.before_snapshot")
            snapshot.write(Path(path), self.group, last, previous, b"".join(self._machine.snapshot()))
            failpoint("raft.after_snapshot")
        except Exception as error:  # noqa: BLE001
            stop_process(f"group {self.group}: cannot write a snapshot to {path}", error)

    def _read_snapshot(self, path: str) -> tuple[Entry, Entry, list[str]]:
        """pysyncobj calls it at start and after a snapshot arrived; it logs what it raises, and goes on empty."""
        try:
            failpoint("raft.before_install")
            snapshot.make_durable(Path(path))
            last, previous, state = snapshot.read(Path(path), self.group)
            self._machine.restore([state])
        except Exception as error:  # noqa: BLE001
            stop_process(f"group {self.group}: cannot read the snapshot {path}", error)
        return last, previous, []


def stop_process(story: str, error: BaseException) -> NoReturn:
    """The end of a process that can no longer trust itself: acknowledged data is safe on disk and on its peers."""
    log.critical("%s; this process ends now", story, exc_info=error)
    logging.shutdown()
    os._exit(70)
