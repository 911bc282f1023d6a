"""Interruption: work in a thread for which nobody waits any more.

A thread cannot be stopped. What it writes fails, as if the interruption had been raised in it: its transaction is
aborted, or can only go back to a savepoint, and nothing more is written there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar

Failed = Callable[[BaseException], None]
"""What makes a write one that failed. Any thread may call it, also where the write has ended by then."""


class Interruption:
    """One call that a thread makes for somebody who may stop to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: list[Failed] = []
        self._error: BaseException | None = None

    @contextlib.contextmanager
    def concerns(self) -> Iterator[None]:
        """It is about what is done in the block, and in threads that have its context."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def happens(self, error: BaseException) -> None:
        """Fails all that was written by the call, whether or not that has ended: nobody hears of it."""
        with self._lock:
            self._error = error
            writes = list(self._writes)
        for failed in writes:
            failed(error)

    def begins(self, failed: Failed) -> None:
        with self._lock:
            self._writes.append(failed)
            error = self._error
        if error is not None:  # then who has told of it did not know of this write
            failed(error)
            raise error

    @property
    def error(self) -> BaseException | None:
        """What has happened; None: nothing has."""
        return self._error


_CURRENT: ContextVar[Interruption | None] = ContextVar("interruption", default=None)


def begins(failed: Failed) -> None:
    """A write begins; `failed` is called if it is interrupted. Raises what has interrupted it already."""
    if (current := _CURRENT.get()) is not None:
        current.begins(failed)


def happened() -> BaseException | None:
    """What has interrupted the work that this is part of: its writes have failed by that."""
    current = _CURRENT.get()
    return None if current is None else current.error
