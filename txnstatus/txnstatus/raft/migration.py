"""Migration: parts that leave a group's log for another group's, and those that come.

A part leaves by one entry, at which its state stands still on all replicas alike; from there it is read, and comes into
the other log chunk by chunk, in pieces where an entry has no room for one. With the last chunk it opens there. Every
migration of a part has a higher number than the one before: what an old leader still asks for changes nothing.

One that is split leaves, too, and is back with the next entry, as two. So nothing that was on its way to it in between
meets the half of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping

from txnstatus.errors import IllegalState, TxnError, Unavailable
from txnstatus.raft.machine import Restoring, StateMachine
from txnstatus.replicated import Rejected
from txnstatus.values import value

PIECE_BYTES = 256 << 10
"""Bytes of a state that come in one entry, at most."""


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
    goes_on: bool = False
    """Whether the next one is more of this one."""


@value
class Splits:
    """What has left by this number is here again, and a share of it is a new part."""

    part: str
    number: int
    new_part: str
    share: tuple[str, ...]


class Released:
    """A part that has left: its state is read, and does not change any more."""

    def __init__(self, number: int, machine: StateMachine) -> None:
        self.number = number
        self.machine = machine
        self._chunks: list[tuple[bytes, bool]] = []
        self._more: Iterator[tuple[bytes, bool]] | None = None

    def chunk(self, at: int) -> tuple[bytes, bool, bool]:
        """Its state's chunk, or a piece of one; whether that is the last, and whether the next is more of the same.

        Raises IllegalState where there is none.
        """
        if self._more is None:
            self._more = _pieces(self.machine.snapshot())
        self._chunks += itertools.islice(self._more, max(0, at + 2 - len(self._chunks)))
        if at >= len(self._chunks):
            raise IllegalState(f"chunk {at} of a state that has {len(self._chunks)}")
        data, goes_on = self._chunks[at]
        return data, at == len(self._chunks) - 1, goes_on


def _pieces(chunks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """The chunks, the large ones in pieces, and whether the next is more of the same; alike on all replicas."""
    for chunk in chunks:
        for start in range(0, max(1, len(chunk)), PIECE_BYTES):
            yield chunk[start : start + PIECE_BYTES], start + PIECE_BYTES < len(chunk)


class Arriving:
    """A part of which the first chunks have come. Its machine takes each over as it comes: all at once would take as
    long as all of them together, and nothing else of the group would apply meanwhile."""

    def __init__(self, number: int, machine: StateMachine) -> None:
        self.number = number
        self.machine = machine
        self.came = 0
        """How many, where pieces count."""
        self.chunks: list[bytes] = []
        """What has come, where it is whole: a snapshot has it, and the pieces of the next one."""
        self._pieces: list[bytes] = []
        self._restoring: Restoring = machine.restoring()

    @property
    def goes_on(self) -> bool:
        """Whether the last one is not all there yet."""
        return bool(self._pieces)

    def add(self, data: bytes, *, goes_on: bool) -> None:
        """Raises ValueError where this version cannot read it."""
        self.came += 1
        self._pieces.append(data)
        if not goes_on:
            self.chunks.append(b"".join(self._pieces))
            self._pieces.clear()
            self._restoring.add(self.chunks[-1])

    def finish(self) -> None:
        """All have come. Raises ValueError."""
        self._restoring.finish()

    def whole(self) -> list[bytes]:
        """The chunks that there are by now, and the beginning of the next."""
        return [*self.chunks, b"".join(self._pieces)] if self._pieces else list(self.chunks)


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

    def arrive(
        self, command: Arrives, make: Callable[[str], StateMachine], *, is_here: bool
    ) -> Rejected | Arriving | None:
        """The part with its whole state with the last chunk, None before.

        `make`: makes an empty one. `is_here`: it is a part already.
        """
        part, number = command.part, command.number
        if number <= self.numbers.get(part, 0):
            return None
        if is_here:
            return Rejected(IllegalState(f"{part} is a part of this group"))
        if command.chunk == 0:
            # Of what it left behind when it went, nobody needs anything any more: it was there before it comes back.
            self.released.pop(part, None)
            self.arriving[part] = Arriving(number, make(part))
        coming = self.arriving.get(part)
        if coming is None or coming.number != number or command.chunk != coming.came:
            return Rejected(IllegalState(f"chunk {command.chunk} of {part} does not follow what has come"))
        try:
            coming.add(command.data, goes_on=command.goes_on)
            if not command.is_last:
                return None
            coming.finish()
        except ValueError as error:
            del self.arriving[part]
            return Rejected(IllegalState(f"a state that cannot be read here: {error}"))
        del self.arriving[part]
        return coming

    def split(self, command: Splits) -> Rejected | StateMachine | None:
        """The part's state, to be split now; None: that is done."""
        if command.number <= self.numbers.get(command.new_part, 0):
            return None
        found = self.released.get(command.part)
        if found is None or found.number != command.number:
            return Rejected(IllegalState(f"{command.part} has not left by {command.number}, to be split"))
        del self.released[command.part]
        self.numbers[command.new_part] = command.number
        return found.machine

    def arrived(self, command: Arrives) -> None:
        """The part is here, with its state."""
        self.numbers[command.part] = command.number


def copy(machine: StateMachine, other: StateMachine) -> None:
    """Gives the other one the machine's state."""
    restoring = other.restoring()
    for chunk in machine.snapshot():
        restoring.add(chunk)
    restoring.finish()
