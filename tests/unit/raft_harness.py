"""A cluster of RaftGroups in one thread: its clock, chance, network and disks are the test's.

Each node runs the cycle of raft/driver.py. Links are FIFO and may drop; a crash loses what no sync has covered, and
may leave part of it torn. What must hold always is checked after every cycle:

- all replicas apply the same commands in the same order, each once;
- one leader a term, and one holder of a lease at any moment;
- an entry that a node acknowledged stays in its journal while the term lasts;
- no process ends itself, unless the test says that it may.
"""

from __future__ import annotations

import os
import random
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import pysyncobj.syncobj
import pytest

from txnstatus.errors import TxnError
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.group import Proposal, RaftGroup, RaftSettings
from txnstatus.raft.journal import Journal

GROUP = "test-0"
STEP = 0.01
FAST = RaftSettings(
    heartbeat_seconds=0.05, election_min_seconds=0.2, election_max_seconds=0.4, snapshot_entries=1_000_000
)
SMALL_SNAPSHOTS = RaftSettings(
    heartbeat_seconds=0.05, election_min_seconds=0.2, election_max_seconds=0.4, snapshot_entries=12
)

Tap = Callable[[str, str, pb.RaftMessage], bool]
"""Sees every message that is sent; False drops it."""


class PowerCut(BaseException):
    """The node's machine stops here. No handler of the code under test may catch it as an error of its own."""


class ProcessStopped(BaseException):
    """What stands for the end of a process in `stop_process`."""


class Recorder:
    """A state machine that keeps the commands it applied, and checks them against all the others' at once."""

    def __init__(self, node_id: str, history: list[bytes]) -> None:
        self.node_id = node_id
        self.applied: list[bytes] = []
        self.restored = 0
        self._history = history

    def apply(self, command: bytes) -> object:
        if command == b"poison":
            raise ZeroDivisionError("a fault in the state machine")
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
        return iter([b"\n".join(self.applied)])

    def restore(self, chunks: Iterable[bytes]) -> None:
        data = b"".join(chunks)
        self.restored += 1
        self.applied = data.split(b"\n") if data else []
        if self.applied != self._history[: len(self.applied)]:
            raise Diverged(f"{self.node_id} restored another history")


class Diverged(BaseException):
    pass


class Disk:
    """Which bytes of which file a power cut leaves."""

    def __init__(self) -> None:
        self._synced: dict[int, int] = {}
        self.power_fails: Callable[[], bool] = lambda: False
        """Asked in every sync, before it has made anything durable."""

    def opened(self, path: Path) -> None:
        stat = path.stat()
        self._synced[stat.st_ino] = stat.st_size

    def sync(self, fd: int) -> None:
        if self.power_fails():
            raise PowerCut
        stat = os.fstat(fd)
        self._synced[stat.st_ino] = stat.st_size

    def lose_power(self, path: Path, rng: random.Random) -> None:
        """Of what was not synced, some first part may have reached the disk."""
        stat = path.stat()
        synced = self._synced.get(stat.st_ino, 0)
        os.truncate(path, synced + rng.randint(0, stat.st_size - synced))


class SimJournal(Journal):
    """The real journal, on a disk that can lose power."""

    def __bool__(self) -> bool:
        return True  # an empty journal is a journal, too


@dataclass
class Sent:
    """A proposal made through one life of one node."""

    node_id: str
    proposal: Proposal
    endings: int = 0
    life_over: bool = False

    @property
    def ended(self) -> bool:
        return self.endings > 0

    @property
    def acknowledged(self) -> bool:
        return self.ended and self.proposal.error is None


@dataclass
class SimNode:
    node_id: str
    directory: Path
    disk: Disk = field(default_factory=Disk)
    group: RaftGroup | None = None
    machine: Recorder | None = None
    inbox: list[tuple[str, pb.RaftMessage]] = field(default_factory=list)
    promised: tuple[int, int] = (0, 0)
    """The term and the index up to which it acknowledged."""
    paused: bool = False

    @property
    def live(self) -> RaftGroup:
        assert self.group is not None, f"{self.node_id} is down"
        return self.group

    @property
    def applied(self) -> list[bytes]:
        assert self.machine is not None
        return self.machine.applied


class Cluster:
    def __init__(
        self,
        root: Path,
        monkeypatch: pytest.MonkeyPatch,
        *,
        size: int = 3,
        seed: int = 0,
        settings: RaftSettings = FAST,
    ) -> None:
        self.now = 1000.0
        self.rng = random.Random(seed)
        self.settings = settings
        self.history: list[bytes] = []
        self.cut: set[tuple[str, str]] = set()
        self.tap: Tap = lambda _sender, _receiver, _message: True
        self.sent: list[Sent] = []
        self.stopped: list[str] = []
        self.may_stop = False
        self.crash_chance = 0.0
        self._links: defaultdict[tuple[str, str], deque[tuple[float, bytes]]] = defaultdict(deque)
        self._leaders: dict[int, str] = {}
        self._numbers = 0
        monkeypatch.setattr(pysyncobj.syncobj, "monotonicTime", self._look_at_clock)
        monkeypatch.setattr(pysyncobj.syncobj, "random", random.Random(seed + 1))
        monkeypatch.setattr("txnstatus.raft.group.stop_process", self._stop_process)
        self.ids = [f"n{i}" for i in range(size)]
        self.nodes = {node_id: SimNode(node_id, root / node_id) for node_id in self.ids}
        for node in self.nodes.values():
            node.disk.power_fails = self._power_fails
        for node_id in self.ids:
            self.start(node_id)

    def __getitem__(self, node_id: str) -> SimNode:
        return self.nodes[node_id]

    def _look_at_clock(self) -> float:
        # Each look costs a little: pysyncobj has loops that end only because time goes on.
        self.now += 1e-6
        return self.now

    def _stop_process(self, story: str, error: BaseException) -> NoReturn:
        self.stopped.append(f"{story}: {error!r}")
        raise ProcessStopped(story)

    # ---- nodes

    @property
    def up(self) -> list[SimNode]:
        return [node for node in self.nodes.values() if node.group is not None]

    def start(self, node_id: str) -> RaftGroup:
        node = self.nodes[node_id]
        assert node.group is None
        node.directory.mkdir(parents=True, exist_ok=True)
        journal = SimJournal(node.directory / "journal", node.disk.sync)
        node.disk.opened(journal.path)
        node.machine = Recorder(node_id, self.history)
        peers = [peer for peer in self.ids if peer != node_id]
        node.group = RaftGroup(
            GROUP, node_id, peers, node.machine, node.directory, self.settings, lambda: self.now, journal
        )
        for other in self.up:
            if other is not node:
                node.group.connected(other.node_id)
                other.live.connected(node_id)
        return node.group

    def crash(self, node_id: str) -> None:
        """A power cut: memory, messages under way and what was not synced are gone."""
        node = self.nodes[node_id]
        journal = node.live.journal
        os.close(journal._fd)
        node.disk.lose_power(journal.path, self.rng)
        node.group = node.machine = None
        node.inbox.clear()
        node.promised = (0, 0)
        for sent in self.sent:
            sent.life_over |= sent.node_id == node_id
        for other in self.ids:
            self._links[node_id, other].clear()
            self._links[other, node_id].clear()
        for other_node in self.up:
            other_node.live.disconnected(node_id)

    def restart(self, node_id: str) -> RaftGroup:
        if self.nodes[node_id].group is not None:
            self.crash(node_id)
        return self.start(node_id)

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
        self._check(node)

    def _cycle(self, node: SimNode) -> None:
        group, journal = node.live, node.live.journal
        inbox, node.inbox = node.inbox, []
        for sender, message in inbox:
            group.receive(sender, message)
        group.tick()
        self._send(node.node_id, group.take_early())
        self._seam()
        if journal.dirty:
            journal.write(journal.take_unsynced())
        self._seam()
        late = group.take_late()
        self._note_promises(node, late)
        self._send(node.node_id, late)
        self._seam()
        for proposal in group.take_done():
            (sent,) = (s for s in self.sent if s.proposal is proposal)
            sent.endings += 1

    def _power_fails(self) -> bool:
        return self.rng.random() < self.crash_chance

    def _seam(self) -> None:
        if self._power_fails():
            raise PowerCut

    def _note_promises(self, node: SimNode, late: list[tuple[str, pb.RaftMessage]]) -> None:
        for _, message in late:
            if message.WhichOneof("body") == "append_reply" and message.append_reply.success:
                node.promised = max(node.promised, (message.term, message.append_reply.next_index - 1))

    def _check(self, node: SimNode) -> None:
        if self.stopped and not self.may_stop:
            raise AssertionError(f"{node.node_id} ended itself: {self.stopped}")
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
        sent = Sent(node_id, Proposal(command or b"command-%d" % self._numbers))
        self.sent.append(sent)
        self.nodes[node_id].live.propose(sent.proposal)
        return sent

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

    def converged(self) -> bool:
        nodes = self.up
        return bool(
            len(nodes) == len(self.ids)
            and len(self.leaders()) == 1
            and all(len(node.applied) == len(self.history) for node in nodes)
            and len({node.live.journal[-1].idx for node in nodes}) == 1
        )

    def settle(self) -> None:
        """Ends all faults, waits until the replicas are alike, and checks what was promised to proposers."""
        self.crash_chance = 0.0
        self.heal()
        for node in self.nodes.values():
            node.paused = False
            if node.group is None:
                self.start(node.node_id)
        self.run_until(self.converged)
        self.commit(1)
        self.run_until(self.converged)
        assert len(set(self.history)) == len(self.history), "a command was applied twice"
        applied = set(self.history)
        for sent in self.sent:
            if sent.acknowledged:
                assert sent.proposal.command in applied, f"acknowledged and lost: {sent.proposal.command!r}"
                assert sent.proposal.outcome == self.history.index(sent.proposal.command) + 1
            assert sent.ended or sent.life_over, f"never answered: {sent.proposal.command!r}"
            assert sent.proposal.error is None or isinstance(sent.proposal.error, TxnError)
