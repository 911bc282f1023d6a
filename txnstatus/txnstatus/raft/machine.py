"""What a Raft group replicates, and how that takes over the state of a snapshot, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol


class StateMachine(Protocol):
    """What is applied is total and deterministic; an exception ends the process."""

    def apply(self, commands: Sequence[bytes]) -> Sequence[object]:
        """Commands of one entry, one after the other; returns the outcome of each."""
        ...

    def snapshot(self) -> Iterator[bytes]:
        """The state as of this call, in chunks; each is made when it is asked for, also after later commands."""
        ...

    def restoring(self) -> Restoring: ...


class Divisible(StateMachine, Protocol):
    """One that may be split."""

    def divide(self, other: StateMachine, share: Sequence[str]) -> None:
        """Gives the other one, an empty one of the same kind, what of it the share names, as far as it has that."""
        ...


class Restoring(Protocol):
    """Gets all chunks of a snapshot in their order, then `finish`. Until then the machine's state is what it was.

    Raises ValueError where the chunks are of another version, or of something else.
    """

    def add(self, chunk: bytes) -> None: ...
    def finish(self) -> None: ...


class RestoringWhole:
    """A small state, which is restored in one go."""

    def __init__(self, restore: Callable[[bytes], None]) -> None:
        self._restore = restore
        self._chunks: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)

    def finish(self) -> None:
        self._restore(b"".join(self._chunks))
