"""RaftGroup: one pysyncobj SyncObj, adapted at its seams; synchronous, and free of threads and sockets.

The caller runs cycles: `receive` messages, `propose` commands, `tick`, send `take_early`, make the journal durable,
send `take_late`, hand out `take_done`. The order is the contract: nothing that depends on the journal leaves before
it is synced, and nothing else touches the group while it syncs. That is group commit. Beside the cycles the caller runs
the work that `jobs` has, and nothing depends on when.

What pysyncobj 0.3.17 does otherwise, and what is done about it here, stands at each place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence, Set
from pathlib import Path

from txnstatus.errors import NotTheLeader, OutcomeUnknown, Unavailable
from txnstatus.process.disk import Disk, DiskFull
from txnstatus.process.failpoints import failpoint
from txnstatus.process.stop import stop_process
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import members, messages
from txnstatus.raft.catch_up import CatchUp
from txnstatus.raft.compaction import Compaction
from txnstatus.raft.elections import Elections
from txnstatus.raft.entries import commands_of
from txnstatus.raft.jobs import Jobs
from txnstatus.raft.learners import Learners
from txnstatus.raft.machine import StateMachine
from txnstatus.raft.members import Members
from txnstatus.raft.messages import Message
from txnstatus.raft.proposals import Proposal, Proposals
from txnstatus.raft.replica import Replica
from txnstatus.raft.settings import RaftSettings
from txnstatus.raft.snapshot import open_files

log = logging.getLogger(__name__)

FULL_RETRY_SECONDS, MIN_IDLE_SECONDS, MAX_IDLE_SECONDS = 0.1, 0.001, 0.5
Outgoing = list[tuple[str, pb.RaftMessage]]


class RaftGroup:
    def __init__(
        self,
        group: str,
        node_id: str,
        bootstrap: Sequence[str],
        machine: StateMachine,
        directory: Path,
        settings: RaftSettings,
        monotonic: Callable[[], float],
        disk: Disk,
        *,
        never_here: bool = False,
    ) -> None:
        """Opens the group's files and replays them.

        `bootstrap` is the set of members that the group begins with, this node included, in the same order on each;
        it counts only as long as there are no files. Empty = this node is to join a group that runs: it does nothing
        by itself until the members have added it. `never_here`: it is certain that this node never had a replica of
        the group. Where it may have had one, and the files are gone, the replica abstains (see `elections`).

        Raises JournalCorrupt or SnapshotCorrupt: then the node must not start.
        """
        self.group = group
        self.node_id = node_id
        self.settings = settings
        self.jobs = Jobs()
        self.no_room = ""
        """Reason why the replica stands still: its disk is full. Empty = it does not."""
        self._machine = machine
        self._monotonic = monotonic
        self._early, self._late = Outgoing(), Outgoing()
        path, bootstrap = directory / "snapshot", tuple(bootstrap)
        meta, self.journal = open_files(
            disk, directory, group, settings.segment_bytes, bootstrap, never_here, machine.restoring
        )
        self.compaction = Compaction(disk, path, group, machine, self.jobs, monotonic, self.journal.members.at)
        self.compaction.loaded = meta
        self._replica = Replica(
            group,
            node_id,
            settings,
            self.journal,
            self.compaction,
            apply=self._apply,
            send=self._queue_message,
            send_snapshot=self._send_snapshot,
        )
        self._proposals = Proposals(f"{node_id} of {group}", self._replica)
        self.elections = Elections(node_id, settings, self.journal, self._replica, monotonic, self._send_late)
        files = (group, disk, path, self.jobs, self.journal)
        self._catch_up = CatchUp(*files, self._replica, self.compaction, machine.restoring, monotonic, settings)
        self.learners = Learners(group, node_id, self.journal, self._replica, settings, monotonic)
        try:
            self.journal.sync()
        except DiskFull as error:
            self.stand_still(error)

    # ---- the cycle

    def receive(self, sender: str, wire: pb.RaftMessage) -> None:
        if self.no_room:
            return  # as if this replica were away
        term, kind = wire.term, wire.WhichOneof("body")
        if kind in ("append_entries", "snapshot_part"):
            if not self.elections.may_hear(sender, term):
                return
            if term < self.term:
                # pysyncobj would ignore it, and the sender would go on leading whom it can never win back.
                self._send_late(sender, pb.RaftMessage(term=self.term, stale_term={}))
                return
            if kind == "snapshot_part" or self.learners.lacks_beginning(wire.append_entries.prev_log_index):
                self._receive_part(sender, term, wire.snapshot_part)
                return
        elif kind in ("append_reply", "snapshot_reply", "response_vote"):
            if term != self.term or not self.learners.may_answer(sender, kind):
                return  # an answer to another term's leader would be counted for entries the sender never saw
            if kind == "snapshot_reply":
                self._receive_snapshot_reply(sender, wire.snapshot_reply)
                return
        elif kind == "pre_vote":
            self.elections.asked(sender, term, wire.pre_vote)
            return
        elif kind == "pre_vote_reply" and wire.pre_vote_reply.granted:
            self.elections.granted(sender, term, abstaining=wire.pre_vote_reply.abstaining)
            return
        elif kind in ("pre_vote_reply", "stale_term"):
            self._note_term(sender, term)
            return
        self._receive_message(sender, messages.decode(wire))

    def can_wait(self, wire: pb.RaftMessage) -> bool:
        """Whether nobody waits for what the message says, so that it needs no cycle of its own."""
        return self.is_leader and self.elections.is_old_news(wire, self.commit_index)

    def _receive_message(self, sender: str, message: Message) -> None:
        """A message that pysyncobj knows."""
        match message["type"]:
            case "append_entries":
                self.elections.heard_leader(sender, message["sent"])
                self.elections.led_by(message["last_index"])
            case "request_vote" if self.elections.refuses_vote(sender, message):
                return
            case "next_node_idx":
                self.elections.answered(sender, message["echo"])
            case "timeout_now":
                if message["term"] != self.term or sender != self.leader or not self.elections.may_campaign:
                    return
                self.elections.asked_over_term = self.term
        self._deliver(sender, message)

    def _deliver(self, sender: str, message: Message) -> None:
        sent_up_to = self._replica.next_index(sender)
        self._replica.deliver(sender, message)
        self.journal.settle()
        self.learners.adopt_members()
        if message["type"] == "next_node_idx":
            self._replica.set_progress(sender, sent_up_to, message)
            self.learners.answered(sender)

    def _note_term(self, sender: str, term: int) -> None:
        if term > self.term:
            # pysyncobj steps down for a vote request of a later term, and grants none to a log that is behind.
            self._deliver(sender, {"type": "request_vote", "term": term, "last_log_index": 0, "last_log_term": -1})

    def _receive_part(self, sender: str, term: int, part: pb.RaftMessage.SnapshotPart) -> None:
        self.elections.heard_leader(sender, part.sent_micros)
        # To pysyncobj it is a sign of life. It says nothing of this replica's entries, so it commits none.
        self._deliver(sender, {"type": "append_entries", "term": term, "commit_index": 0})
        had = self._catch_up.take(sender, part)
        if had is not None:
            has = {"type": "next_node_idx", "next_node_idx": had + 1, "reset": not had, "success": had > 0}
            self._queue_message(sender, has)

    def _receive_snapshot_reply(self, sender: str, reply: pb.RaftMessage.SnapshotReply) -> None:
        if not self.is_leader:
            return
        self.elections.answered(sender, reply.echo_micros)
        self._deliver(sender, {"type": "next_node_idx", "next_node_idx": 0, "reset": False, "success": False})
        if self._catch_up.answered(sender, reply):
            self._send_snapshot(sender)

    def propose(self, proposal: Proposal) -> None:
        """Queues a command; it ends in `take_done` of this or a later cycle, with its outcome or an error."""
        self._proposals.add(proposal)

    def change_members(self, add: str = "", remove: str = "") -> Proposal:
        """Queues the change; one at a time. It ends like a command; its outcome is the members then.

        Raises NotTheLeader, InvalidArgument, or Unavailable: try again in a moment.
        """
        new = members.changed(self.group, self.members, add, remove)
        if not self.is_ready:
            raise self.not_the_leader()
        if self.node_id not in new:
            self.hand_over()
            raise NotTheLeader(f"{self.node_id} leads {self.group}, and hands over before it is removed")
        if self._proposals.change_members or self.journal.members.index > self.commit_index:
            raise Unavailable(f"another change of the members of {self.group} is under way")
        self.learners.check_caught_up(add)
        proposal = Proposal((), members=new)
        self._proposals.add(proposal)
        return proposal

    def tick(self) -> None:
        """Advances elections, heartbeats, commits and applies; takes up what was proposed."""
        if self.no_room:
            self._proposals.refuse(self.not_the_leader())
            return
        for receiver, reply in self._catch_up.step():
            reply.echo_micros = self.elections.echo_for(receiver)
            self._send_late(receiver, pb.RaftMessage(term=self.term, snapshot_reply=reply))
        if self.elections.handing_over:
            self.elections.press_on()
        if (leading := self.is_leader) and not self.elections.handing_over:
            self._proposals.submit()
        elif self._proposals.queued:
            self._proposals.refuse(self.not_the_leader())
        if not leading:
            self._catch_up.stop_sending()
            self.learners.forget()
        elif self.elections.gives_way and self.is_ready:
            self.hand_over()
        self.compaction.step()
        self._replica.tick(campaign=self.elections.should_campaign())
        self.learners.adopt_members()
        if leading := self.is_leader:
            self.elections.leads()
        if not leading or self.term != self._proposals.term:
            self._proposals.lose()
        self.elections.taking_over, self.elections.asked_over_term = False, -1
        self.journal.applied_index = self.applied_index

    def take_early(self) -> Outgoing:
        """What may leave before the journal is synced: a leader's entries (Raft thesis, 10.2.1)."""
        self._early, early = [], self._early
        return early

    def take_late(self) -> Outgoing:
        """Votes and acknowledgements: only after the journal is synced."""
        late, self._late = self._late, []
        return late

    def take_done(self) -> list[Proposal]:
        """Proposals that have ended: only once what this replica has applied is synced."""
        return self._proposals.take_done()

    def stand_still(self, error: DiskFull) -> None:
        """The journal could not be written: from here on this replica is as good as paused, and leads no more.

        What it knows is ahead of its disk, so it must say nothing: no vote, no acknowledgement. Instead of `tick`ing
        on, its caller writes the same frame again, until there is room; then it calls `go_on`.
        """
        if self.no_room:
            return
        log.error("%s: %s stands still until there is room: %s", self.group, self.node_id, error)
        self._late.clear()
        if self._replica.leading:
            successor = self._replica.most_advanced_peer()
            self.elections.hand_over()
            self._replica.step_down()
            if successor:
                self._queue_message(successor, {"type": "timeout_now", "term": self.term})
        self.no_room = str(error)
        self._proposals.lose()
        self._proposals.refuse(self.not_the_leader())

    def go_on(self) -> None:
        """All that this replica knows is on its disk."""
        if self.no_room:
            log.warning("%s: there is room again, %s goes on", self.group, self.node_id)
            self.no_room = ""
            self._replica.postpone_election()

    def idle_seconds(self) -> float:
        """How long there is nothing to do unless a message or a proposal comes, or a job ends; 0 = not at all."""
        if self.no_room:
            return FULL_RETRY_SECONDS
        proposed = self._proposals.queued or (self._proposals.submitted and not self.peers)
        if proposed or self.compaction.has_work or self._catch_up.has_work or self._replica.has_to_apply:
            return 0.0
        if self.elections.handing_over:
            return self.settings.heartbeat_seconds / 4
        due = self._replica.idle_seconds(), self.elections.idle_seconds(), MAX_IDLE_SECONDS
        return max(min(due), MIN_IDLE_SECONDS)

    # ---- what it knows

    @property
    def members(self) -> Members:
        """The members by the latest entry that names them, committed or not."""
        return self.journal.members.current

    @property
    def peers(self) -> Members:
        return tuple(member for member in self.members if member != self.node_id)

    @property
    def is_leader(self) -> bool:
        return self._replica.leading and not self.no_room

    @property
    def is_ready(self) -> bool:
        """Leads, and has applied its own no-op: all that was committed before is in the state machine."""
        return self.is_leader and self.applied_index >= self._replica.own_noop_index

    @property
    def has_lease(self) -> bool:
        """Whether no other leader can exist yet (see `elections`)."""
        return self.is_ready and self.elections.has_lease()

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

    def not_the_leader(self) -> NotTheLeader:
        if self.no_room:
            return NotTheLeader(f"{self.node_id} cannot serve {self.group}, its disk is full: {self.no_room}")
        leader = self.leader
        hint = self.elections.successor or leader if leader in ("", self.node_id) else leader
        return NotTheLeader(f"{self.node_id} does not lead {self.group}, or cannot prove it now", hint=hint)

    # ---- connections

    def connected(self, peer: str) -> None:
        self._replica.connected(peer)
        self.elections.connected(peer)

    def disconnected(self, peer: str) -> None:
        self._replica.disconnected(peer)
        self.elections.disconnected(peer)

    def hand_over(self) -> None:
        """Ends this leader's lease and takes no more proposals; the first follower that has everything takes over."""
        if self.is_leader and self.peers:
            self.elections.hand_over()
            self.elections.press_on()

    def close(self) -> None:
        self._proposals.lose()
        self._proposals.refuse(OutcomeUnknown(f"{self.node_id} stops"))
        self._replica.destroy()

    def follow(self, replicas: Iterable[str], drained: Set[str]) -> None:
        """`replicas`: nodes that are members, or are to be. `drained`: nodes that are to lead nothing."""
        self.elections.drained = drained
        self.learners.expect(replicas)

    def _apply(self, entry: bytes) -> Sequence[object]:
        try:
            failpoint("raft.before_apply")
            return self._machine.apply(commands_of(entry))
        except Exception as error:  # noqa: BLE001
            # pysyncobj would log it and apply the entry again at every tick, for ever.
            stop_process(f"group {self.group}: applying entry {self.applied_index + 1} failed", error)

    def _send_late(self, receiver: str, wire: pb.RaftMessage) -> None:
        wire.group = self.group
        self._late.append((receiver, wire))

    def _send_snapshot(self, peer: str) -> None:
        part = self._catch_up.part_for(peer)
        self._early.append((peer, pb.RaftMessage(group=self.group, term=self.term, snapshot_part=part)))

    def _queue_message(self, receiver: str, message: Message) -> None:
        """What pysyncobj sends."""
        match message["type"]:
            case "apply_command":
                return  # forwarding would leave its caller without an answer; `tick` fails what a follower is given
            case "append_entries":
                message["sent"] = int(self._monotonic() * 1e6)
                message["last_index"] = self.journal[-1].idx
                self._early.append((receiver, messages.encode(self.group, message, self.term)))
                return
            case "next_node_idx":
                message["echo"] = self.elections.echo_for(receiver)
                if message["success"]:
                    self.elections.acknowledged(message["next_node_idx"] - 1)
            case "request_vote":
                message["transfer"] = self.elections.taking_over
            case "response_vote":
                self.elections.took_part()
            case "timeout_now":
                self.elections.successor = receiver
        self._late.append((receiver, messages.encode(self.group, message, self.term)))
