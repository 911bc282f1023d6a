"""Migration: parts that leave a group's log for another group's, and those that come.

A part leaves by one entry, at which its state stands still on all replicas alike; from there it is read, and comes into
the other log chunk by chunk. With the last chunk it opens there. Every migration of a part has a higher number than
the one before: what an old leader still asks for changes nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from txnstatus.errors import IllegalState, TxnError, Unavailable
from txnstatus.raft.machine import Restoring, StateMachine
from txnstatus.replicated import Rejected
from txnstatus.values import value


@value
class Leaves:
    """The part leaves for another group; or what it has left behind is not needed any more."""

    part: str
    number: int


@value
class Arrives:
    part: str
    number: int
    chunk: int
    """0: it comes anew."""
    data: bytes
    is_last: bool


class Released:
    """A part that has left: its state is read, and does not change any more."""

    def __init__(self, number: int, machine: StateMachine) -> None:
        self.number = number
        self.machine = machine
        self._chunks: list[bytes] = []
        self._more: Iterator[bytes] | None = None

    def chunk(self, at: int) -> tuple[bytes, bool]:
        """Its state's chunk, and whether that is the last one. Raises IllegalState where there is none."""
        if self._more is None:
            self._more = self.machine.snapshot()
        self._chunks += itertools.islice(self._more, max(0, at + 2 - len(self._chunks)))
        if at >= len(self._chunks):
            raise IllegalState(f"chunk {at} of a state that has {len(self._chunks)}")
        return self._chunks[at], at == len(self._chunks) - 1


@dataclass(slots=True)
class Arriving:
    """A part of which the first chunks have come."""

    number: int
    chunks: list[bytes] = field(default_factory=list)


class Migrations:
    """What a group has of parts that are on their way. Only commands of its log change it."""

    def __init__(
        self,
        released: Mapping[str, Released] | None = None,
        arriving: Mapping[str, Arriving] | None = None,
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        self.released = dict(released or {})
        self.arriving = dict(arriving or {})
        self.numbers = dict(numbers or {})
        """Part → number of the last migration by which it has left, or has come."""

    def refusal(self, part: str) -> TxnError:
        """Why a command for a part that is not here does nothing."""
        if part in self.numbers:
            return Unavailable(f"{part} is on its way to another group, or there by now")
        return IllegalState(f"{part} is no part of this group")

    def release(self, command: Leaves, machine: StateMachine | None) -> Rejected | bool:
        """Whether the part leaves now; it may have before. `machine`: the part's, if it is here."""
        part, number = command.part, command.number
        if number <= self.numbers.get(part, 0):
            return False
        if machine is None:
            return Rejected(self.refusal(part))
        self.released[part], self.numbers[part] = Released(number, machine), number
        return True

    def forget(self, command: Leaves) -> None:
        """The part is in the other group's log."""
        found = self.released.get(command.part)
        if found is not None and found.number == command.number:
            del self.released[command.part]

    def arrive(self, command: Arrives, *, is_here: bool) -> Rejected | list[bytes] | None:
        """All chunks of the part's state with the last one, None before. `is_here`: it is a part already."""
        part, number = command.part, command.number
        if number <= self.numbers.get(part, 0):
            return None
        if is_here:
            return Rejected(IllegalState(f"{part} is a part of this group"))
        if command.chunk == 0:
            # Of what it left behind when it went, nobody needs anything any more: it was there before it comes back.
            self.released.pop(part, None)
            self.arriving[part] = Arriving(number)
        coming = self.arriving.get(part)
        if coming is None or coming.number != number or command.chunk != len(coming.chunks):
            return Rejected(IllegalState(f"chunk {command.chunk} of {part} does not follow what has come"))
        coming.chunks.append(command.data)
        if not command.is_last:
            return None
        del self.arriving[part]
        return coming.chunks

    def arrived(self, command: Arrives) -> None:
        """The part is here, with its state."""
        self.numbers[command.part] = command.number


def restored(machine: StateMachine, chunks: list[bytes]) -> Rejected | None:
    """Gives the machine the state. Refused where this version cannot read it."""
    restoring: Restoring = machine.restoring()
    try:
        for chunk in chunks:
            restoring.add(chunk)
        restoring.finish()
    except ValueError as error:
        return Rejected(IllegalState(f"a state that cannot be read here: {error}"))
    return None
