"""Restoring: how a state machine takes over the state of a snapshot, a chunk at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Restoring(Protocol):
    """Gets all chunks of a snapshot in their order, then `finish`. Until then the machine's state is what it was.

    Raises ValueError where the chunks are of another version, or of something else.
    """

    def add(self, chunk: bytes) -> None: ...
    def finish(self) -> None: ...


class RestoringWhole:
    """Of a small state, which is restored in one go."""

    def __init__(self, restore: Callable[[bytes], None]) -> None:
        self._restore = restore
        self._chunks: list[bytes] = []

    def add(self, chunk: bytes) -> None:
        self._chunks.append(chunk)

    def finish(self) -> None:
        self._restore(b"".join(self._chunks))
