"""A cluster of RaftGroups in one thread: its clock, chance, network and disks are the test's.

Each node runs the cycle of raft/driver.py on a disk in memory. Links are FIFO and may drop; a power cut loses what no
sync has covered, and may leave part of it torn. What must hold always is checked after every cycle:

- all replicas apply the same commands in the same order, each once;
- one leader a term, and one holder of a lease at any moment;
- an entry that a node acknowledged stays in its journal while the term lasts;
- no process ends itself, unless the test says that it may.
"""

from __future__ import annotations

import errno
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pysyncobj.syncobj
import pytest

from tests.sim.world.disk import SimDisk
from txnstatus.errors import TxnError
from txnstatus.process.disk import DiskFull
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.machine import Restoring, RestoringWhole
from txnstatus.raft.proposals import Proposal
from txnstatus.raft.settings import RaftSettings

GROUP = "test-0"
STEP = 0.01
FAST = RaftSettings(
    heartbeat_seconds=0.05,
    promise_seconds=0.18,
    election_min_seconds=0.2,
    election_max_seconds=0.4,
    snapshot_entries=1_000_000,
    segment_bytes=2_000,
)
SMALL_SNAPSHOTS = RaftSettings(
    heartbeat_seconds=0.05,
    promise_seconds=0.18,
    election_min_seconds=0.2,
    election_max_seconds=0.4,
    snapshot_entries=12,
    segment_bytes=400,
)

Tap = Callable[[str, str, pb.RaftMessage], bool]
"""Sees every message that is sent; False drops it."""


class PowerCut(BaseException):
    """The node's machine stops here. No handler of the code under test may catch it as an error of its own."""


class ProcessStopped(BaseException):
    """What stands for the end of a process in `stop_process`."""


class Recorder:
    """A state machine that keeps the commands it applied, and checks them against all the others' at once."""

    def __init__(self, node_id: str, history: list[bytes], work: Callable[[], None]) -> None:
        """`work` is called for every command and every chunk: it takes its time."""
        self.node_id = node_id
        self.work = work
        self.applied: list[bytes] = []
        self.restored = 0
        self._history = history

    def apply(self, commands: Sequence[bytes]) -> list[object]:
        return [self._apply(command) for command in commands]

    def _apply(self, command: bytes) -> object:
        if command == b"poison":
            raise ZeroDivisionError("a fault in the state machine")
        self.work()
        self.applied.append(command)
        position = len(self.applied) - 1
        if position == len(self._history):
            self._history.append(command)
        expected = self._history[position]
        if command != expected:
            # Not AssertionError: `apply` is not allowed to raise, and the adapter would take it for a fault.
            raise Diverged(f"{self.node_id} applied {command!r} at {position}, where others applied {expected!r}")
        return len(self.applied)

    def snapshot(self) -> Iterator[bytes]:
        frozen = list(self.applied)
        for start in range(0, len(frozen), 5):
            yield b"".join(len(c).to_bytes(4, "little") + c for c in frozen[start : start + 5])

    def restoring(self) -> Restoring:
        return RestoringRecorder(self)

    def restore(self, data: bytes) -> None:
        self.restored += 1
        self.applied = []
        offset = 0
        while offset < len(data):
            end = offset + 4 + int.from_bytes(data[offset : offset + 4], "little")
            self.applied.append(data[offset + 4 : end])
            offset = end
        if self.applied != self._history[: len(self.applied)]:
            raise Diverged(f"{self.node_id} restored another history")


class RestoringRecorder(RestoringWhole):
    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder.restore)
        self._work = recorder.work

    def add(self, chunk: bytes) -> None:
        self._work()
        super().add(chunk)


class Diverged(BaseException):
    pass


@dataclass
class Sent:
    """A proposal made through one life of one node."""

    node_id: str
    proposal: Proposal
    endings: int = 0
    life_over: bool = False

    @property
    def command(self) -> bytes:
        return self.proposal.commands[0]

    @property
    def outcome(self) -> object:
        """None as long as it has not applied here."""
        return next(iter(self.proposal.outcomes), None)

    @property
    def ended(self) -> bool:
        return self.endings > 0

    @property
    def acknowledged(self) -> bool:
        return self.ended and self.proposal.error is None


@dataclass
class SimNode:
    node_id: str
    disk: SimDisk
    bootstrap: list[str]
    directory: Path = Path("/raft")
    never_here: bool = True
    """Whether the node has never been started."""
    group: RaftGroup | None = None
    machine: Recorder | None = None
    inbox: list[tuple[str, pb.RaftMessage]] = field(default_factory=list)
    promised: tuple[int, int] = (0, 0)
    """The term and the index up to which it acknowledged."""
    paused: bool = False
    job: tuple[float, Callable[[], None] | None] | None = None
    """Disk work under way, and when it is done; then it stays for another cycle."""
    holds_jobs: bool = False
    """Disk work is done, and the group does not get to know."""

    @property
    def live(self) -> RaftGroup:
        assert self.group is not None, f"{self.node_id} is down"
        return self.group

    @property
    def has_snapshot(self) -> bool:
        return self.disk.size(self.directory / "snapshot") is not None

    @property
    def applied(self) -> list[bytes]:
        assert self.machine is not None
        return self.machine.applied


class Cluster:
    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        size: int = 3,
        seed: int = 0,
        settings: RaftSettings = FAST,
        never_here: bool = True,
    ) -> None:
        """`never_here` is what each node's first start says."""
        self.now = 1000.0
        self.rng = random.Random(seed)
        self.settings = settings
        self.history: list[bytes] = []
        self.cut: set[tuple[str, str]] = set()
        self.tap: Tap = lambda _sender, _receiver, _message: True
        self.sent: list[Sent] = []
        self._by_proposal: dict[int, Sent] = {}
        self.stopped: list[str] = []
        self.may_stop = False
        self.crash_chance = 0.0
        self.work_seconds = 0.0
        """What it takes to apply a command, or to restore a chunk."""
        self._links: defaultdict[tuple[str, str], deque[tuple[float, bytes]]] = defaultdict(deque)
        self._leaders: dict[int, str] = {}
        self._numbers = 0
        monkeypatch.setattr(pysyncobj.syncobj, "monotonicTime", self._look_at_clock)
        monkeypatch.setattr(pysyncobj.syncobj, "random", random.Random(seed + 1))
        monkeypatch.setattr("txnstatus.raft.group.stop_process", self._stop_process)
        self.ids = [f"n{i}" for i in range(size)]
        self.nodes: dict[str, SimNode] = {}
        for node_id in list(self.ids):
            self._add_node(node_id, list(self.ids)).never_here = never_here
        for node_id in self.ids:
            self.start(node_id)

    def __getitem__(self, node_id: str) -> SimNode:
        return self.nodes[node_id]

    def _look_at_clock(self) -> float:
        # Each look costs a little: pysyncobj has loops that end only because time goes on.
        self.now += 1e-6
        return self.now

    def _work(self) -> None:
        self.now += self.work_seconds

    def _stop_process(self, story: str, error: BaseException) -> NoReturn:
        self.stopped.append(f"{story}: {error!r}")
        raise ProcessStopped(story)

    # ---- nodes

    @property
    def up(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.group is not None]

    def _add_node(self, node_id: str, bootstrap: list[str]) -> SimNode:
        node = self.nodes[node_id] = SimNode(node_id, SimDisk(self.rng), bootstrap)
        node.disk.before = lambda _operation, _path: self._seam()
        return node

    def start(self, node_id: str) -> None:
        """With a `crash_chance`, its machine may stop again at once."""
        node = self.nodes[node_id]
        assert node.group is None
        node.machine = Recorder(node_id, self.history, self._work)
        node.job = None
        try:
            node.group = RaftGroup(
                GROUP,
                node_id,
                node.bootstrap,
                node.machine,
                node.directory,
                self.settings,
                lambda: self.now,
                node.disk,
                never_here=node.never_here,
            )
            node.never_here = False
        except PowerCut:
            node.disk.lose_power()
            return
        for other in self.up:
            if other is not node:
                node.group.connected(other.node_id)
                other.live.connected(node_id)

    def join(self, node_id: str) -> None:
        """A new node, that no member knows of yet."""
        self.ids.append(node_id)
        self._add_node(node_id, [])
        self.start(node_id)

    def crash(self, node_id: str) -> None:
        """A power cut: memory, messages under way and what was not synced are gone."""
        self.kill(node_id)
        self.nodes[node_id].disk.lose_power()

    def lose_directory(self, node_id: str) -> None:
        """A power cut, after which the node's disk is empty."""
        self.crash(node_id)
        node = self.nodes[node_id]
        node.disk.wipe(node.directory)

    def kill(self, node_id: str) -> None:
        """The process ends; its machine goes on."""
        node = self.nodes[node_id]
        node.group = node.machine = node.job = None
        node.inbox.clear()
        node.promised = (0, 0)
        for sent in self.sent:
            sent.life_over |= sent.node_id == node_id
        for other in self.ids:
            self._links[node_id, other].clear()
            self._links[other, node_id].clear()
        for other_node in self.up:
            other_node.live.disconnected(node_id)

    def restart(self, node_id: str) -> None:
        if self.nodes[node_id].group is not None:
            self.crash(node_id)
        self.start(node_id)

    # ---- network

    def isolate(self, *node_ids: str) -> None:
        """Cuts the links between these and the others, both ways; nobody is told."""
        for inside in node_ids:
            for outside in set(self.ids) - set(node_ids):
                self.cut |= {(inside, outside), (outside, inside)}

    def heal(self) -> None:
        self.cut.clear()

    def reconnect(self, one: str, other: str) -> None:
        """A new connection between the two: what was under way on the old one is gone."""
        self._links[one, other].clear()
        self._links[other, one].clear()
        for here, there in ((one, other), (other, one)):
            if (group := self.nodes[here].group) is not None and self.nodes[there].group is not None:
                group.disconnected(there)
                group.connected(there)

    def _send(self, sender: str, messages: Iterable[tuple[str, pb.RaftMessage]]) -> None:
        for receiver, message in messages:
            if not self.tap(sender, receiver, message):
                continue
            if (sender, receiver) in self.cut or self.nodes[receiver].group is None:
                continue
            link = self._links[sender, receiver]
            earliest = link[-1][0] if link else 0.0
            link.append((max(earliest, self.now + self.rng.uniform(0, 2 * STEP)), message.SerializeToString()))

    def _take(self, receiver: str) -> None:
        for sender in self.ids:
            link = self._links[sender, receiver]
            while link and link[0][0] <= self.now:
                _, data = link.popleft()
                if (sender, receiver) not in self.cut:
                    self.nodes[receiver].inbox.append((sender, pb.RaftMessage.FromString(data)))

    # ---- the cycle

    def cycle(self, node_id: str) -> None:
        """One cycle of the node's driver. With `crash_chance`, its machine may stop at any of its seams."""
        node = self.nodes[node_id]
        self._take(node_id)
        try:
            self._cycle(node)
        except PowerCut:
            self.crash(node_id)
            return
        except OSError as error:
            # In raft/driver.py any exception ends the process.
            self.stopped.append(repr(error))
            self.kill(node_id)
        if self.stopped and not self.may_stop:
            raise AssertionError(f"{node_id} ended itself: {self.stopped}")
        if node.group is not None:
            self._check(node)

    def _cycle(self, node: SimNode) -> None:
        group, journal = node.live, node.live.journal
        self._run_jobs(node)
        inbox, node.inbox = node.inbox, []
        for sender, message in inbox:
            group.receive(sender, message)
        group.tick()
        self._send(node.node_id, group.take_early())
        if journal.dirty and journal.has_synced(group.applied_index):
            self._end_done(group)
        self._seam()
        if journal.dirty:
            try:
                journal.write(journal.take_unsynced())
            except DiskFull as error:
                group.stand_still(error)
            else:
                group.go_on()
        self._seam()
        late = group.take_late()
        self._note_promises(node, late)
        self._send(node.node_id, late)
        self._seam()
        self._end_done(group)

    def _end_done(self, group: RaftGroup) -> None:
        for proposal in group.take_done():
            self._by_proposal[id(proposal)].endings += 1

    def _run_jobs(self, node: SimNode) -> None:
        """Disk work beside the cycles takes its time, and the power may fail in it."""
        if node.job is None:
            work = node.live.jobs.take()
            node.job = (self.now + self.rng.choice([0.0, 0.01, 0.05]), work) if work is not None else None
        elif node.job[0] <= self.now:
            work, node.job = node.job[1], (self.now, None)
            if work is not None:
                work()
            elif not node.holds_jobs:
                node.job = None
                node.live.jobs.finish()

    def _seam(self) -> None:
        if self.rng.random() < self.crash_chance:
            raise PowerCut

    def _note_promises(self, node: SimNode, late: list[tuple[str, pb.RaftMessage]]) -> None:
        for _, message in late:
            if message.WhichOneof("body") == "append_reply" and message.append_reply.success:
                node.promised = max(node.promised, (message.term, message.append_reply.next_index - 1))

    def _check(self, node: SimNode) -> None:
        group = node.live
        term, index = node.promised
        if term == group.term:
            last = group.journal[-1].idx
            assert last >= index, f"{node.node_id} acknowledged {index} in term {term}, and its journal ends at {last}"
        if group.is_ready:
            assert self._leaders.setdefault(group.term, node.node_id) == node.node_id, "two leaders in one term"
        holders = [n.node_id for n in self.up if n.live.has_lease]
        assert len(holders) <= 1, f"two leases at once: {holders}"

    def step(self) -> None:
        order = [node.node_id for node in self.up]
        self.rng.shuffle(order)
        for node_id in order:
            node = self.nodes[node_id]
            if node.group is not None and not node.paused:
                self.cycle(node_id)
        self.now += STEP

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.step()

    def run_until(self, condition: Callable[[], object], limit: float = 30.0) -> None:
        end = self.now + limit
        while not condition():
            assert self.now < end, f"did not come about within {limit} s of the cluster's time"
            self.step()

    # ---- helpers

    def leaders(self) -> list[str]:
        return [node.node_id for node in self.up if node.live.is_ready]

    def leader(self, among: Iterable[str] | None = None) -> str:
        """Runs until one of the nodes leads, and can prove it."""
        candidates = list(among or self.ids)

        def found() -> list[str]:
            return [n.node_id for n in self.up if n.node_id in candidates and n.live.has_lease]

        self.run_until(found)
        return found()[0]

    def followers(self) -> list[str]:
        leader = self.leader()
        return [node_id for node_id in self.ids if node_id != leader]

    def propose(self, node_id: str, command: bytes | None = None) -> Sent:
        self._numbers += 1
        proposal = Proposal([command or b"command-%d" % self._numbers])
        self.nodes[node_id].live.propose(proposal)
        return self._sent(node_id, proposal)

    def _sent(self, node_id: str, proposal: Proposal) -> Sent:
        sent = self._by_proposal[id(proposal)] = Sent(node_id, proposal)
        self.sent.append(sent)
        return sent

    def change(self, node_id: str, *, add: str = "", remove: str = "") -> Sent:
        return self._sent(node_id, self.nodes[node_id].live.change_members(add, remove))

    def replace(self, old: str, new: str) -> None:
        """As an operator does it: through whoever leads, until it is done. A node that runs goes last."""
        if new not in self.ids:
            self.join(new)
        changes = [{"add": new}, {"remove": old}]
        for change in changes if self.nodes[old].group is not None else reversed(changes):
            while True:
                leader = self.leader([node_id for node_id in self.ids if node_id != old])
                self[leader].live.follow((*self[leader].live.members, new), frozenset())
                try:
                    self[leader].live.learners.check_caught_up(new)
                    sent = self.change(leader, **change)
                except TxnError:
                    self.step()
                    continue
                self.run_until(lambda sent=sent: sent.ended or sent.life_over)  # type: ignore[misc]
                if sent.acknowledged:
                    break

    def commit(self, count: int, via: str | None = None, batch: int = 1) -> list[Sent]:
        """Proposes through the leader, `batch` in a cycle, until all are acknowledged."""
        leader, made = via or self.leader(), []
        for number in range(count):
            made.append(self.propose(leader))
            if (number + 1) % batch == 0:
                self.step()
        self.run_until(lambda: all(sent.ended for sent in made))
        assert all(sent.acknowledged for sent in made)
        return made

    def members(self) -> list[str]:
        """As the leader counts them; empty = nobody leads."""
        leaders = self.leaders()
        return list(self[leaders[0]].live.members) if len(leaders) == 1 else []

    def converged(self) -> bool:
        members = self.members()
        nodes = [node for node in self.up if node.node_id in members]
        return bool(
            members
            and len(nodes) == len(members)
            and all(len(node.applied) == len(self.history) for node in nodes)
            and len({node.live.journal[-1].idx for node in nodes}) == 1
        )

    def settle(self) -> None:
        """Ends all faults, waits until the replicas are alike, and checks what was promised to proposers."""
        self.crash_chance = 0.0
        self.heal()
        for node in self.nodes.values():
            node.paused = False
            node.disk.capacity = None
            if node.group is None:
                self.start(node.node_id)
        self.run_until(self.converged)
        self.commit(1)
        self.run_until(self.converged)
        assert len(set(self.history)) == len(self.history), "a command was applied twice"
        applied = set(self.history)
        for sent in self.sent:
            if sent.acknowledged and sent.proposal.members is None:
                assert sent.command in applied, f"acknowledged and lost: {sent.command!r}"
                assert sent.outcome == self.history.index(sent.command) + 1
            assert sent.ended or sent.life_over, f"never answered: {sent.proposal}"
            assert sent.proposal.error is None or isinstance(sent.proposal.error, TxnError)


def failing(operation: str) -> Callable[[str, Path], None]:
    """What a disk does before each operation: this one fails."""

    def before(asked: str, _path: Path) -> None:
        if asked == operation:
            raise OSError(errno.EIO, "the disk is broken")

    return before
