"""RaftDriver: runs one group's cycle on the node's event loop.

One cycle: drain messages, coalesce what is proposed into one entry, tick, send a leader's entries, make the journal
durable, then release votes and acknowledgements. A follower makes durable and acknowledges what it was sent before it
ticks, which applies what is committed. Answers are released before or meanwhile, where an earlier cycle has synced what
they rest on. Beside the cycles, one at a time, run the pieces of disk work that take longer: writing
snapshots, and checking those that arrive.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from txnstatus.errors import InvalidArgument, NotTheLeader, Unavailable
from txnstatus.process.background import Tasks
from txnstatus.process.disk import DiskFull
from txnstatus.process.environment import Environment
from txnstatus.process.failpoints import failpoint
from txnstatus.process.waking import Waking
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.elections import Takeover
from txnstatus.raft.group import Outgoing, RaftGroup
from txnstatus.raft.journal import Frame
from txnstatus.raft.members import Members
from txnstatus.raft.proposals import Proposal
from txnstatus.raft.replica import MAX_BATCH_BYTES

log = logging.getLogger(__name__)

LINGER_SECONDS = 0.02
"""Time that a command may wait, if nobody waits for it, for others to share its entry, messages and sync."""
TURNS_TO_LEAVE = 2
"""Turns of the loop in which answers leave: a task may wait for one, and they are framed in the turn after that."""


class Sender(Protocol):
    """The way to the other replicas; may drop messages, never reorders or repeats them."""

    def send(self, messages: Sequence[tuple[str, pb.RaftMessage]]) -> None:
        """Messages and their receivers: they leave now, as far as those take anything in."""


@dataclass(slots=True, eq=False)
class Hold:
    """A time in which nothing is proposed to a group."""

    term: int
    rests: asyncio.Future[None]
    """Ends once all that was proposed before has applied."""
    timer: asyncio.TimerHandle | None = None

    def come_to_rest(self) -> None:
        if not self.rests.done():
            self.rests.set_result(None)


class RaftDriver:
    def __init__(self, group: RaftGroup, sender: Sender, environment: Environment) -> None:
        self.group = group
        self._sender = sender
        self._environment = environment
        self._listeners: list[Callable[[bool], None]] = []
        self._leader_listeners: list[Callable[[str], None]] = []
        self._told_leader = (-1, "")
        self.takeover: Takeover | None = None
        """How this replica came to lead, the last time that it did."""
        self._inbox: list[tuple[str, pb.RaftMessage]] = []
        self._wake = Waking()
        self._lingering: list[Proposal] = []
        self._linger_timer: asyncio.TimerHandle | None = None
        self._submitted_at: dict[int, float] = {}
        """When those were submitted that have not ended, in that order, by the ids of the objects."""
        self._tasks = Tasks(f"the Raft driver of {group.group} failed")
        self._running: asyncio.Task[None] | None = None
        self._job: asyncio.Future[None] | None = None
        self._ready_term: int | None = None
        self._hold: Hold | None = None
        self._stopping = self._gives_way = False
        self._stop_by = float("-inf")

    def subscribe(self, listener: Callable[[bool], None]) -> None:
        """`listener` hears True once this replica leads and is ready, and False when it no longer does."""
        self._listeners.append(listener)

    def on_leader(self, listener: Callable[[str], None]) -> None:
        """`listener` hears who leads and is ready, whenever somebody else does, or the same one anew."""
        self._leader_listeners.append(listener)

    def start(self) -> None:
        self._running = self._tasks.spawn(self._run())

    async def stop(self) -> None:
        """Hands leadership over, and ends; the caller goes on delivering messages until this returns."""
        if self._running is None:
            return
        self._gives_way = self.group.is_leader
        self.group.hand_over()
        self._stop_by = asyncio.get_running_loop().time() + self.group.settings.election_max_seconds
        self._stopping = True
        self.let_go(self._hold)
        self._end_lingering()
        await self._running
        self._set_ready(None)
        self.group.close()
        self._end_done()

    def receive(self, sender: str, message: pb.RaftMessage) -> None:
        self._inbox.append((sender, message))
        if not self.group.can_wait(message):
            self._wake.set()

    def connected(self, peer: str) -> None:
        self.group.connected(peer)
        self._wake.set()

    def disconnected(self, peer: str) -> None:
        self.group.disconnected(peer)
        self._wake.set()  # whoever has lost its leader has something to do sooner

    def submit(self, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False) -> None:
        """Replicates the commands in one entry; `ended` hears what the state machine answered when they applied here,
        or an error.

        `linger`: they go with the group's next entry, or alone if none comes within LINGER_SECONDS.

        The error is NotTheLeader (nothing happened), or OutcomeUnknown: they may yet apply, here or under the next
        leader. Raises InvalidArgument or NotTheLeader; then `ended` hears nothing.
        """
        if self._stopping or not self.group.is_ready:
            raise self.not_the_leader()
        proposal = Proposal(commands, ended=ended, began=self._environment.monotonic())
        if proposal.size > MAX_BATCH_BYTES:
            raise InvalidArgument(f"a request of {proposal.size} bytes: {MAX_BATCH_BYTES} are possible")
        self._lingering.append(proposal)
        self._submitted_at[id(proposal)] = proposal.began
        if not linger:
            self._end_lingering()
        elif self._linger_timer is None:
            self._linger_timer = asyncio.get_running_loop().call_later(LINGER_SECONDS, self._end_lingering)

    async def change_members(self, *, add: str = "", remove: str = "") -> Members:
        """Adds or removes one member; returns the members then. To replace one, remove it and then add the other.

        Raises InvalidArgument, NotTheLeader or Unavailable (nothing happened, try again), or OutcomeUnknown: it may
        yet happen. A repeated call does no harm.
        """
        if self._stopping:
            raise self.not_the_leader()
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        proposal = self.group.change_members(add, remove)
        proposal.ended = lambda _proposal: None if future.done() else future.set_result(None)
        self._wake.set()
        await future
        if proposal.error is not None:
            raise proposal.error
        return proposal.members or ()

    async def hold(self, seconds: float) -> Hold:
        """Has what is submitted wait, for so long or until it is let go; then that goes on as if it came then.

        Returns once all that was submitted before has applied here: the state stays as it is for as long as it
        `is_held`. Raises NotTheLeader, or Unavailable where somebody else holds it, or it did not come to rest in time.
        """
        if self._stopping or not self.group.is_ready:
            raise self.not_the_leader()
        if self._hold is not None:
            raise Unavailable(f"{self.group.group} is held already")
        self._end_lingering()
        loop = asyncio.get_running_loop()
        hold = self._hold = Hold(self.group.term, loop.create_future())
        hold.timer = loop.call_later(seconds, self.let_go, hold)
        self._wake.set()
        await hold.rests
        if not self.is_held(hold):
            raise Unavailable(f"{self.group.group} did not come to rest within {seconds:g} s")
        return hold

    def is_held(self, hold: Hold) -> bool:
        """Whether nothing has applied since it came to rest, here or on a leader that there may be elsewhere."""
        return self._hold is hold and self.group.term == hold.term and self.group.has_lease

    def let_go(self, hold: Hold | None) -> None:
        """Harmless where it is over."""
        if hold is None or self._hold is not hold:
            return
        self._hold = None
        if hold.timer is not None:
            hold.timer.cancel()
        hold.come_to_rest()
        self._end_lingering()

    def check_lease(self) -> None:
        """Raises NotTheLeader unless this replica may answer reads from memory now."""
        if not self.group.has_lease:
            raise self.not_the_leader()

    def unsettled_seconds(self) -> float:
        """Age of the oldest of what was submitted and has not ended."""
        began = next(iter(self._submitted_at.values()), None)
        return 0.0 if began is None else self._environment.monotonic() - began

    def not_the_leader(self) -> NotTheLeader:
        return self.group.not_the_leader()

    async def _run(self) -> None:
        while not self._stopping or self._is_handing_over():
            await self._cycle()
            await self._sleep()
        await self._cycle()
        self._wake.close()
        if self._job is not None:
            await self._job

    async def _cycle(self) -> None:
        group = self.group
        self._wake.is_set = False
        self._run_jobs()
        inbox, self._inbox = self._inbox, []
        for sender, message in inbox:
            group.receive(sender, message)
        if not group.is_leader:
            await self._sync()  # the leader waits for the acknowledgement, and nobody for what is applied here
        hold = self._hold
        group.tick()
        failpoint("raft.before_send")
        self._send(group.take_early())
        await self._sync()
        self._release()
        if hold is not None and group.applied_index >= group.journal[-1].idx:
            hold.come_to_rest()

    def _send(self, messages: Outgoing) -> None:
        if messages:
            self._sender.send(messages)

    async def _sync(self) -> None:
        """Makes the journal durable, and sends what had to wait for that."""
        group, journal = self.group, self.group.journal
        if journal.dirty:
            # All that has ended was synced before; not so where others were a majority without this replica.
            settled = journal.has_synced(group.applied_index)
            frame = journal.take_unsynced()
            failpoint("raft.before_sync")
            try:
                await self._write(frame, self._release if settled else lambda: False)
            except DiskFull as error:
                group.stand_still(error)
            else:
                group.go_on()
            failpoint("raft.after_sync")
        self._send(group.take_late())

    async def _write(self, frame: Frame, release: Callable[[], bool]) -> None:
        """On the loop or in a thread. `release` runs before or meanwhile, and says whether anybody was answered.

        Raises DiskFull, OSError.
        """
        environment = self._environment
        if not environment.sync_place.is_loop(len(frame.data), environment.monotonic()):
            loop = asyncio.get_running_loop()
            writing = loop.run_in_executor(environment.blocking, self._write_timed, frame, False)
            release()
            environment.measures.syncs.add(await writing)
            return
        if release():
            for _ in range(TURNS_TO_LEAVE):
                await asyncio.sleep(0)
        environment.measures.syncs.add(self._write_timed(frame, True))

    def _write_timed(self, frame: Frame, on_loop: bool) -> float:
        """Seconds that it took."""
        monotonic = self._environment.monotonic
        began = monotonic()
        self.group.journal.write(frame)
        ended = monotonic()
        self._environment.sync_place.took(ended - began, ended, on_loop=on_loop)
        return ended - began

    def _end_lingering(self) -> None:
        """All that was submitted, in its order, becomes part of the next entry; of what is held, once it is let go."""
        if self._hold is not None:
            return
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None
        submitted, self._lingering = self._lingering, []
        for proposal in submitted:
            self.group.propose(proposal)
        self._wake.set()

    def _is_handing_over(self) -> bool:
        """Until another one is ready to lead: till then this replica's vote and its journal are of use to that one."""
        elections = self.group.elections
        is_led = elections.ready_leader not in ("", self.group.node_id)
        is_over = not self._gives_way or is_led or not elections.has_company
        return not is_over and asyncio.get_running_loop().time() < self._stop_by

    def _run_jobs(self) -> None:
        if self._job is not None and self._job.done():
            self._job.result()
            self._job = None
            self.group.jobs.finish()
        if self._job is None and (work := self.group.jobs.take()) is not None:
            self._job = asyncio.get_running_loop().run_in_executor(self._environment.blocking, work)
            self._job.add_done_callback(lambda _job: self._wake.set())

    async def _sleep(self) -> None:
        idle = 0.0 if self._wake.is_set else self.group.idle_seconds()
        if idle:
            await self._wake.wait(idle)
        else:
            await asyncio.sleep(0)

    def _release(self) -> bool:
        """Tells what has ended, and returns whether anything has."""
        failpoint("raft.before_release")
        self._set_ready(self.group.term if self.group.is_ready else None)
        self._tell_of_leader()
        return self._end_done()

    def _end_done(self) -> bool:
        done = self.group.take_done()
        if not done:
            return False
        now, measures = self._environment.monotonic(), self._environment.measures
        for proposal in done:
            self._submitted_at.pop(id(proposal), None)
            if proposal.error is None:
                measures.replications.add(now - proposal.began)
            proposal.ended(proposal)
        return True

    def _set_ready(self, term: int | None) -> None:
        """A new term is a new leadership, also of the same replica: what it kept in memory starts anew."""
        if term == self._ready_term:
            return
        if self._ready_term is not None:
            self._tell(leading=False)
            self.let_go(self._hold)
        self._ready_term = term
        if term is not None:
            self._tell(leading=True)
            took = self.takeover = self.group.elections.takeover()
            log.info(
                "%s: %s leads in term %d, after %.3f s without a leader, %.3f s of election, %.3f s of catching up",
                *(self.group.group, self.group.node_id, term),
                *(took.silence, took.election, took.catching_up),
            )

    def _tell_of_leader(self) -> None:
        """A leader that is not ready yet is not worth telling of: it would refuse whoever asks it."""
        leader = self.group.elections.ready_leader
        if leader and (news := (self.group.term, leader)) != self._told_leader:
            self._told_leader = news
            for listener in self._leader_listeners:
                listener(leader)

    def _tell(self, *, leading: bool) -> None:
        for listener in self._listeners:
            listener(leading)
