"""Parts: several state machines in one group's log, such as ranges of the status table and shards.

A command of the log says which part it is for, and so does a chunk of a snapshot. Which parts there are is itself in
the log: the group's leader opens what the catalog puts there, and closes what the catalog has dropped, so that every
replica has the same parts at the same entry, however late it hears of the catalog.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from txnstatus.codec import Codec, wholly_known
from txnstatus.errors import IllegalState, Unavailable
from txnstatus.names import kind_and_number
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.machine import Divisible, Restoring, StateMachine
from txnstatus.raft.migration import Arrives, Arriving, Leaves, Migrations, Released, Splits, copy
from txnstatus.raft.proposals import Proposal
from txnstatus.replicated import Rejected

VERSION = 1
MAX_NAME_BYTES = 63
_OPENS, _CLOSES = b"+", b"-"
_RELEASES, _FORGETS, _ARRIVES, _SPLITS = b">", b"~", b"<", b"%"
_LEAVES, _COMES = Codec(Leaves, pb.PartLeaves), Codec(Arrives, pb.PartArrives)
_HALVES = Codec(Splits, pb.PartSplits)


def address(part: str) -> bytes:
    """What a command, or a chunk of a snapshot, for the part begins with; empty: for the group itself."""
    name = part.encode()
    assert len(name) <= MAX_NAME_BYTES, part
    return bytes([len(name)]) + name


_TO_THE_GROUP = address("")


def split(data: bytes) -> tuple[str, bytes]:
    """The part's name, and what is for it. Raises ValueError."""
    if not data:
        raise ValueError("nothing, and no part's name")
    end = 1 + data[0]
    return data[1:end].decode(), data[end:]


def opening(part: str) -> bytes:
    """The command that opens the part."""
    return address("") + _OPENS + part.encode()


def closing(part: str) -> bytes:
    """The command that ends the part, with all that it has."""
    return address("") + _CLOSES + part.encode()


def releasing(part: str, number: int) -> bytes:
    """The command by which the part leaves for another group. `number`: of its migration."""
    return address("") + _RELEASES + _LEAVES.to_wire(Leaves(part, number)).SerializeToString()


def forgetting(part: str, number: int) -> bytes:
    """The command that ends what a part has left behind."""
    return address("") + _FORGETS + _LEAVES.to_wire(Leaves(part, number)).SerializeToString()


def arriving(command: Arrives) -> bytes:
    """The command that brings a chunk of a part's state."""
    return address("") + _ARRIVES + _COMES.to_wire(command).SerializeToString()


def splitting(command: Splits) -> bytes:
    """The command by which a part that has left is here again, as two."""
    return address("") + _SPLITS + _HALVES.to_wire(command).SerializeToString()


class Parts:
    """Implements raft.machine.StateMachine.

    A part's name is `KIND-NUMBER`. Those of a kind open in the order of their numbers, and each once: what was closed
    never begins anew, whatever an old leader believes. One may leave for another group, and come from another one.
    """

    def __init__(
        self, make: Callable[[str], StateMachine], arrives: Callable[[StateMachine], None] = lambda _machine: None
    ) -> None:
        """`make`: the empty state machine of a part, a function of its name. `arrives` hears of one that has come from
        another group, before anything else applies; what it does is a function of the group's state."""
        self._make = make
        self._arrives = arrives
        self.migrations = Migrations()
        self._machines: dict[str, StateMachine] = {}
        self._by_address: dict[bytes, StateMachine] = {}
        self._opened: dict[str, int] = {}
        """Kind → the highest number that was ever opened."""
        self._restored: dict[str, StateMachine] = {}
        """Machines of the parts that a snapshot has which is being restored: whatever entries do to a part meanwhile,
        it is this one that gets the snapshot's state."""
        self.on_change: Callable[[], None] = lambda: None
        """Hears that parts have come or gone."""

    @property
    def machines(self) -> Mapping[str, StateMachine]:
        """By name, in the order in which they were opened."""
        return self._machines

    def stay(self, part: str) -> int | None:
        """The number of the migration by which the part has come, 0 where it began here; None: it is not here."""
        return self.migrations.numbers.get(part, 0) if part in self._machines else None

    def apply(self, commands: Sequence[bytes]) -> list[object]:
        """What follows each other for one part goes to it together."""
        outcomes: list[object] = []
        for to, together in itertools.groupby(commands, lambda command: command[: 1 + command[0]]):
            outcomes += self._apply(to, [command[len(to) :] for command in together])
        return outcomes

    def _apply(self, to: bytes, commands: Sequence[bytes]) -> Sequence[object]:
        if to == _TO_THE_GROUP:
            return [self._tend(command[:1], command[1:]) for command in commands]
        machine = self._by_address.get(to)
        if machine is None:
            return [Rejected(self.migrations.refusal(to[1:].decode()))] * len(commands)
        return machine.apply(commands)

    def _tend(self, what: bytes, told: bytes) -> Rejected | None:
        if what == _RELEASES:
            return self._release(_LEAVES.from_wire(pb.PartLeaves.FromString(told)))
        if what == _ARRIVES:
            return self._arrive(_COMES.from_wire(pb.PartArrives.FromString(told)))
        if what == _SPLITS:
            return self._split(_HALVES.from_wire(pb.PartSplits.FromString(told)))
        if what == _FORGETS:
            self.migrations.forget(_LEAVES.from_wire(pb.PartLeaves.FromString(told)))
            return None
        return self._change(what, told.decode())

    def _release(self, command: Leaves) -> Rejected | None:
        outcome = self.migrations.release(command, self._machines.get(command.part))
        if outcome is True:
            del self._machines[command.part], self._by_address[address(command.part)]
            self.on_change()
        return outcome if isinstance(outcome, Rejected) else None

    def _arrive(self, command: Arrives) -> Rejected | None:
        part = command.part
        came = self.migrations.arrive(command, self._make, is_here=part in self._machines)
        if not isinstance(came, Arriving):
            return came
        self.migrations.arrived(command)
        self._come(part, self._expected(part, came.machine))
        self.on_change()
        return None

    def _split(self, command: Splits) -> Rejected | None:
        if (stay := self.stay(command.new_part)) is not None and stay < command.number:
            return Rejected(IllegalState(f"{command.new_part} is a part of this group"))
        whole = self.migrations.split(command)
        if whole is None or isinstance(whole, Rejected):
            return whole
        whole = self._expected(command.part, whole)
        half = self._empty(command.new_part)
        cast(Divisible, whole).divide(half, command.share)
        self._come(command.part, whole)
        self._come(command.new_part, half)
        self.on_change()
        return None

    def _empty(self, part: str) -> StateMachine:
        """One that a snapshot has gets that one's state: entries may apply while it is restored."""
        return self._restored.get(part) or self._make(part)

    def _expected(self, part: str, machine: StateMachine) -> StateMachine:
        """The one that a snapshot has which is being restored, with the state of this one; or this one."""
        if (expected := self._restored.get(part)) is None:
            return machine
        copy(machine, expected)
        return expected

    def _come(self, part: str, machine: StateMachine) -> None:
        """The part is here from now on, with what it was elsewhere."""
        kind, number = kind_and_number(part)
        self._open(part, machine)
        self._opened[kind] = max(number, self._opened.get(kind, -1))
        self._arrives(machine)

    def _change(self, what: bytes, part: str) -> Rejected | None:
        kind, number = kind_and_number(part)
        if what == _CLOSES:
            if self._machines.pop(part, None) is not None:
                del self._by_address[address(part)]
                self.on_change()
        elif part not in self._machines:
            if number <= self._opened.get(kind, -1):
                return Rejected(IllegalState(f"{part} was closed before"))
            self._open(part, self._empty(part))
            self._opened[kind] = number
            self.on_change()
        return None

    def _open(self, part: str, machine: StateMachine) -> None:
        self._machines[part] = machine
        self._by_address[address(part)] = machine

    # ---- snapshots

    def snapshot(self) -> Iterator[bytes]:
        its = self.migrations
        header = pb.PartsSnapshot(
            version=VERSION,
            parts=self._machines,
            opened=self._opened,
            released=[
                pb.PartsSnapshot.Released(part=part, number=each.number) for part, each in sorted(its.released.items())
            ],
            arriving=[
                pb.PartsSnapshot.Arriving(part=part, number=each.number, chunks=each.came, goes_on=each.goes_on)
                for part, each in sorted(its.arriving.items())
            ],
            migrated=its.numbers,
        )
        states = [(address(part), machine.snapshot()) for part, machine in self._machines.items()]
        states += [(address(part), each.machine.snapshot()) for part, each in sorted(its.released.items())]
        states += [(address(part), iter(each.whole())) for part, each in sorted(its.arriving.items())]
        return _chunks(header, states)

    def restoring(self) -> Restoring:
        return _RestoringParts(self)

    def become(self, opened: Mapping[str, int], restored: Mapping[str, Restoring], migrations: Migrations) -> None:
        """Takes over what a snapshot has: parts that are there get its state, and keep whoever works with them."""
        parts = {part: self._restored[part] for part in restored}
        for each in restored.values():
            each.finish()
        self._machines.clear()
        self._by_address.clear()
        for part, machine in parts.items():
            self._open(part, machine)
        self._opened, self._restored, self.migrations = dict(opened), {}, migrations
        self.on_change()


class _RestoringParts:
    """The first chunk says which parts there are; those of each follow in their order."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._restored: dict[str, Restoring] | None = None
        self._released: dict[str, Restoring] = {}
        self._coming: dict[str, _RestoringArriving] = {}
        self._opened: dict[str, int] = {}
        self._migrations = Migrations()

    def add(self, chunk: bytes) -> None:
        part, rest = split(chunk)
        if self._restored is None:
            self._begin(part, rest)
        elif part in self._restored:
            self._restored[part].add(rest)
        elif part in self._released:
            self._released[part].add(rest)
        elif part in self._coming:
            self._coming[part].add(rest)
        else:
            raise ValueError(f"a chunk for {part!r}, which is no part of the snapshot")

    def _begin(self, part: str, header: bytes) -> None:
        if part:
            raise ValueError(f"a group's snapshot that begins with a chunk for {part!r}")
        wire = wholly_known(pb.PartsSnapshot.FromString(header))
        if wire.version != VERSION:
            raise ValueError(f"a group's snapshot of version {wire.version}; this release reads {VERSION}")
        self._opened = dict(wire.opened)
        there = self._parts._machines
        machines = self._parts._restored = {name: there.get(name) or self._parts._make(name) for name in wire.parts}
        self._restored = {name: machine.restoring() for name, machine in machines.items()}
        released = {each.part: Released(each.number, self._parts._make(each.part)) for each in wire.released}
        self._released = {part: each.machine.restoring() for part, each in released.items()}
        self._coming = {
            each.part: _RestoringArriving(Arriving(each.number, self._parts._make(each.part)), each)
            for each in wire.arriving
        }
        arriving = {part: each.arriving for part, each in self._coming.items()}
        self._migrations = Migrations(released, arriving, wire.migrated)

    def finish(self) -> None:
        if self._restored is None:
            raise ValueError("a group's snapshot without a beginning")
        for each in (*self._released.values(), *self._coming.values()):
            each.finish()
        self._parts.become(self._opened, self._restored, self._migrations)


class _RestoringArriving:
    """A part that comes, as chunks of a snapshot bring it back: the last of them may not be whole."""

    def __init__(self, arriving: Arriving, wire: pb.PartsSnapshot.Arriving) -> None:
        self.arriving = arriving
        self._wire = wire
        self._last: bytes | None = None

    def add(self, chunk: bytes) -> None:
        if self._last is not None:
            self.arriving.add(self._last, goes_on=False)
        self._last = chunk

    def finish(self) -> None:
        if self._last is not None:
            self.arriving.add(self._last, goes_on=self._wire.goes_on)
        self.arriving.came = self._wire.chunks


class PartDriver:
    """The group's driver, as one part's services see it: what they submit is for that part, until it leaves.

    Where it comes back others serve it: what these have seen of it, and wait with, is of before.
    """

    def __init__(self, driver: RaftDriver, part: str, parts: Parts) -> None:
        """`parts`: of the group."""
        self._driver = driver
        self._part, self._parts, self._stay = part, parts, parts.stay(part)
        self._address = address(part)
        self.not_the_leader = driver.not_the_leader
        self.unsettled_seconds = driver.unsettled_seconds

    @property
    def group(self) -> RaftGroup:
        return self._driver.group

    def check_lease(self) -> None:
        """As `RaftDriver.check_lease`. Raises Unavailable where the part has gone to another group."""
        self._driver.check_lease()
        self._check_stay()

    def submit(self, commands: Sequence[bytes], ended: Callable[[Proposal], None], *, linger: bool = False) -> None:
        """As `RaftDriver.submit`. Raises Unavailable as well, as `check_lease` does."""
        self._check_stay()
        to = self._address
        self._driver.submit([to + command for command in commands], ended, linger=linger)

    def _check_stay(self) -> None:
        if (stay := self._parts.stay(self._part)) is None or stay != self._stay:
            raise Unavailable(f"{self._part} has left {self._driver.group.group}, or has done so in the meantime")


def _chunks(header: pb.PartsSnapshot, states: Sequence[tuple[bytes, Iterator[bytes]]]) -> Iterator[bytes]:
    yield address("") + header.SerializeToString(deterministic=True)
    for to, chunks in states:
        for chunk in chunks:
            yield to + chunk
