"""Watches every Raft group from inside: what its replicas apply, who leads, who holds a lease."""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.sim.judges import derived
from tests.sim.judges.consensus import Consensus
from tests.sim.judges.replicas import Replica
from tests.sim.world.loop import Process
from txnparticipant.leader.machine import keeper_among
from txnparticipant.shard import commands as shard_cmd
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.machine import Restoring, StateMachine
from txnstatus.raft.members import Members
from txnstatus.raft.parts import Parts, split
from txnstatus.raft.proposals import Proposal

FULL_DIGEST_EVERY = 50
"""Commands; the digest of the whole state costs a snapshot."""


_COUNT = struct.Struct("<Q")


class Violation(AssertionError):
    """Something that must hold does not. `rule` names it: an invariant of docs/testing.md by number, or a word."""

    def __init__(self, rule: str, story: str) -> None:
        super().__init__(f"{rule}: {story}")
        self.rule = rule
        self.story = story


@dataclass(slots=True)
class GroupHistory:
    """What one group has applied, as its first replica did it."""

    name: str
    commands: list[bytes] = field(default_factory=list)
    outcomes: list[object] = field(default_factory=list)
    digests: dict[int, bytes] = field(default_factory=dict)
    """Digests of the whole state, by the number of commands."""
    leaders: dict[int, str] = field(default_factory=dict)
    """Leaders by term."""
    led_since: float = 0.0
    """When the latest of them was ready."""
    members: dict[int, Members] = field(default_factory=dict)
    """The members by the index of the committed entry that says so."""
    votes: dict[tuple[str, int], str] = field(default_factory=dict)
    """Votes by node and term."""
    entries: dict[tuple[int, int], bytes] = field(default_factory=dict)
    """What any replica ever had in its log, by index and term."""
    needed: dict[str, int] = field(default_factory=dict)
    """The index up to which all was committed when a node lost its data."""
    promises: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The term of each node, and the index up to which it acknowledged entries in it, in all its lives."""
    groups: dict[str, tuple[Process, WatchedGroup]] = field(default_factory=dict)
    """The live replicas, by node."""

    @property
    def committed(self) -> int:
        """Index up to which all is committed, as far as any replica knew."""
        return max((group.commit_index for _, group in self.groups.values()), default=0)


@dataclass
class Watch:
    """Eyes on one world. `on_violation` hears what is wrong; `on_first_apply` each command once, with its outcome."""

    on_violation: Callable[[str, str], None]
    current: Callable[[], Process]
    now: Callable[[], float]
    on_first_apply: Callable[[str, StateMachine, bytes, object], None] = lambda *_: None
    on_every_apply: Callable[[str, str, StateMachine], None] = lambda *_: None
    on_change: Callable[[str], None] = lambda _leader: None
    """Hears of each leader that changes the members of its group, before anybody else does."""
    on_entry: Callable[[str, str, bytes], None] = lambda *_: None
    """Hears of each entry that gets into a node's log of a group, or is there at a start."""
    derived_every: int = 12
    """Commands after which what follows from the state is made anew, by the first replica that gets there."""
    histories: dict[str, GroupHistory] = field(default_factory=dict)

    def history(self, group: str) -> GroupHistory:
        return self.histories.setdefault(group, GroupHistory(group))

    def history_of(self, part: str) -> GroupHistory | None:
        """The one of the group that has it in its log, as far as anybody knows; a group's name stands for itself."""
        for history in self.histories.values():
            for _, group in history.groups.values():
                inner = group.watched.inner
                if history.name == part or (isinstance(inner, Parts) and part in inner.machines):
                    return history
        return None

    def group_class(self) -> type[WatchedGroup]:
        """The RaftGroup of this world: takes the place of the name in txndeploy.node.roles."""
        watch = self

        class Group(WatchedGroup):
            _watch = watch

        return Group


class WatchedMachine:
    """A state machine that compares itself with the other replicas' at every command."""

    def __init__(self, machine: StateMachine, watch: Watch, history: GroupHistory, node: str) -> None:
        self.inner = machine
        self._watch, self._history, self._node = watch, history, node
        self.applied = 0

    def apply(self, commands: Sequence[bytes]) -> list[object]:
        return [self._apply(command) for command in commands]

    def _apply(self, command: bytes) -> object:
        history, at = self._history, self.applied
        if at < len(history.commands) and history.commands[at] != command:
            self._watch.on_violation(
                "11 replicas agree",
                f"{self._node} applies {command!r} as command {at} of {history.name}, others {history.commands[at]!r}",
            )
        (outcome,) = self.inner.apply([command])
        self.applied += 1
        if at == len(history.commands):
            history.commands.append(command)
            history.outcomes.append(_comparable(outcome))
            for step in _steps(history.name, self.inner, command, outcome):
                self._watch.on_first_apply(*step)
            if self.applied % self._watch.derived_every == 0:
                self._compare_with_anew()
        elif _comparable(outcome) != history.outcomes[at]:
            self._watch.on_violation(
                "11 replicas agree",
                f"{self._node} answers {outcome!r} to command {at} of {history.name}, others {history.outcomes[at]}",
            )
        if self.applied % FULL_DIGEST_EVERY == 0:
            self.digest()
            self.check()
        return outcome

    def _compare_with_anew(self) -> None:
        for part, machine in parts(self._history.name, self.inner):
            for story in derived.faults(machine):
                self._watch.on_violation("derived state", f"{part} on {self._node}: {story}")

    def check(self) -> None:
        """By the state machine's own rules."""
        for part, machine in parts(self._history.name, self.inner):
            self._watch.on_every_apply(part, self._node, machine)

    def digest(self) -> bytes:
        """The digest of the whole state; it must be the others' after as many commands."""
        return self._note(b"".join(self.inner.snapshot()))

    def _note(self, state: bytes) -> bytes:
        digest = hashlib.sha256(state).digest()
        known = self._history.digests.setdefault(self.applied, digest)
        if known != digest:
            self._watch.on_violation(
                "11 replicas agree",
                f"the state of {self._history.name} on {self._node} after {self.applied} commands is not the others'",
            )
        return digest

    def snapshot(self) -> Iterator[bytes]:
        """Begins with the number of commands behind it: equal states do not tell it."""
        self.digest()
        rest = self.inner.snapshot()  # made while later commands apply; whoever restores it compares
        return itertools.chain([_COUNT.pack(self.applied)], rest)

    def restoring(self) -> Restoring:
        return _RestoringWatched(self)


class _RestoringWatched:
    """The first chunk is the number of commands."""

    def __init__(self, machine: WatchedMachine) -> None:
        self._machine = machine
        self._inner = machine.inner.restoring()
        self._applied: int | None = None

    def add(self, chunk: bytes) -> None:
        if self._applied is None:
            (self._applied,) = _COUNT.unpack(chunk)
        else:
            self._inner.add(chunk)

    def finish(self) -> None:
        assert self._applied is not None
        self._inner.finish()
        self._machine.applied = self._applied
        self._machine.digest()
        self._machine.check()


def parts(group: str, machine: StateMachine) -> Iterator[tuple[str, StateMachine]]:
    """What a group's machine is made of, by name; itself, where it has no parts."""
    yield from machine.machines.items() if isinstance(machine, Parts) else [(group, machine)]


def _steps(
    group: str, machine: StateMachine, command: bytes, outcome: object
) -> Iterator[tuple[str, StateMachine, bytes, object]]:
    """What a command did, part by part and in the order of the protocol; nothing: it is about the parts themselves."""
    if not isinstance(machine, Parts):
        yield group, machine, command, outcome
        return
    part, own = split(command)
    if part not in machine.machines:
        return
    asked = [
        (keeper_among(machine.machines, step.participant_id) or "", step.command, step.outcome)
        for step in getattr(outcome, "steps", ())
    ]
    for shard, each, answer in asked:
        if isinstance(each, shard_cmd.BeginCommit):
            yield shard, machine.machines[shard], shard_cmd.encode(each), answer
    yield part, machine.machines[part], own, outcome
    for shard, each, answer in asked:
        if not isinstance(each, shard_cmd.BeginCommit):
            yield shard, machine.machines[shard], shard_cmd.encode(each), answer


def _comparable(outcome: object) -> object:
    """Errors are the same when they say the same."""
    error = getattr(outcome, "error", None)
    if getattr(outcome, "steps", ()):
        return repr(outcome)
    return outcome if error is None else f"{type(error).__name__}: {error}"


class WatchedGroup(RaftGroup):
    """RaftGroup, with its promises checked after every tick."""

    _watch: Watch

    def __init__(
        self, group: str, node_id: str, bootstrap: Any, machine: StateMachine, *args: Any, **kwargs: Any
    ) -> None:
        self.history = self._watch.history(group)
        self.watched = WatchedMachine(machine, self._watch, self.history, node_id)
        self._process = self._watch.current()
        super().__init__(group, node_id, bootstrap, self.watched, *args, **kwargs)
        self._replica_watch = Replica(self, self.history.members, self._violated)
        self._consensus = Consensus(self, self._violated)
        self.history.groups[node_id] = (self._process, self)
        self._check_promise()

    def receive(self, sender: str, wire: pb.RaftMessage) -> None:
        self._consensus.hears(sender, wire)
        super().receive(sender, wire)
        self._consensus.heard(sender)

    def tick(self) -> None:
        super().tick()
        if self.is_ready:
            if self.term not in self.history.leaders:
                self.history.led_since = self._watch.now()
            first = self.history.leaders.setdefault(self.term, self.node_id)
            if first != self.node_id:
                self._violated("one leader a term", f"{first} and {self.node_id} lead in term {self.term}")
        if self.has_lease:
            for node, (process, other) in self.history.groups.items():
                if other is not self and process.alive and other.has_lease:
                    self._violated("one lease", f"{node} and {self.node_id} hold a lease at once")
        self._check_promise()
        self._replica_watch.ticked()
        self._consensus.ticked()

    def take_early(self) -> list[tuple[str, pb.RaftMessage]]:
        early = super().take_early()
        self._replica_watch.says(early)
        self._consensus.says(early)
        return early

    def take_done(self) -> list[Proposal]:
        done = super().take_done()
        self._replica_watch.answers(done)
        return done

    @property
    def synced(self) -> int:
        """The index of the last entry that is on the disk."""
        return self._replica_watch.synced

    departs = False
    """Whether its node is stopped, to come back with what it has."""

    def close(self) -> None:
        if not self.departs:
            self._replica_watch.closes()
            self.history.promises.pop(self.node_id, None)  # it was moved away: where it comes back, it abstains
            self.history.needed[self.node_id] = self.history.committed
        self.history.groups.pop(self.node_id, None)
        super().close()

    def _check_promise(self) -> None:
        term, index = self.history.promises.get(self.node_id, (0, 0))
        if self.term < term:
            self._violated("an acknowledged entry stays", f"{self.node_id} forgot term {term}: it is in {self.term}")
        if self.term == term and len(self.journal) and self.journal[-1].idx < index:
            self._violated("an acknowledged entry stays", f"{self.node_id} acknowledged {index} and forgot it")

    def take_late(self) -> list[tuple[str, pb.RaftMessage]]:
        late = super().take_late()
        self._replica_watch.says(late)
        self._consensus.says(late)
        promises = self.history.promises
        for receiver, message in late:
            kind = message.WhichOneof("body")
            if kind == "append_reply" and message.append_reply.success:
                promise = (message.term, message.append_reply.next_index - 1)
                promises[self.node_id] = max(promises.get(self.node_id, promise), promise)
            elif kind == "response_vote":
                first = self.history.votes.setdefault((self.node_id, message.term), receiver)
                if first != receiver:
                    self._violated("one vote a term", f"{self.node_id} voted for {first} and {receiver}")
        return late

    def _violated(self, rule: str, story: str) -> None:
        self._watch.on_violation(rule, f"{self.group}: {story}")
