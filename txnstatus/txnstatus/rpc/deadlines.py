"""Deadlines of many things at once: one timer for all, where a timer for each would be most of the work.

And the deadline of a call, carried with it from handler to handler: who is asked on a caller's behalf answers in time
for the caller to hear why.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Hashable, Iterator
from contextvars import ContextVar
from typing import Generic, TypeVar

LOOK_SECONDS = 0.05
"""What is late is found so much later, at most."""

ANSWER_SHARE = 0.9
"""Part of the time for which a caller waits within which it is to be answered; the rest is for the way back."""

KeyT = TypeVar("KeyT", bound=Hashable)

_ANSWER_BY: ContextVar[float] = ContextVar("answer_by", default=math.inf)
"""The loop's time at which the caller is to be answered. What runs in the background has no caller."""


@contextlib.contextmanager
def answering_by(time: float) -> Iterator[None]:
    """The caller is to be answered at this time of the loop: what is waited for in the block is to be given up then."""
    token = _ANSWER_BY.set(min(_ANSWER_BY.get(), time))
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # what was never finished is closed from elsewhere, when it is garbage
            _ANSWER_BY.reset(token)


def answer_by(seconds: float) -> float:
    """The loop's time at which who waits so long is to be answered."""
    return asyncio.get_running_loop().time() + seconds * ANSWER_SHARE


def caller_waits_until() -> float:
    """The loop's time at which the caller of the running handler is to be answered; infinite without one."""
    return _ANSWER_BY.get()


def time_left(at_most: float) -> float:
    """Seconds for which something may be waited for on behalf of the caller; 0 where its time is over."""
    by = _ANSWER_BY.get()
    return at_most if by == math.inf else max(0.0, min(at_most, by - asyncio.get_running_loop().time()))


class Deadlines(Generic[KeyT]):
    def __init__(self, expired: Callable[[KeyT], object]) -> None:
        """`expired` hears of each that is not removed in time."""
        self._expired = expired
        self._due: dict[KeyT, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: KeyT, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._due[key] = loop.time() + seconds
        if self._timer is None:
            self._timer = loop.call_later(LOOK_SECONDS, self._look)

    def remove(self, key: KeyT) -> None:
        self._due.pop(key, None)

    def clear(self) -> None:
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._timer = None
        for key in [key for key, due in self._due.items() if due <= now]:
            self._due.pop(key, None)
            self._expired(key)
        if self._due and self._timer is None:
            self._timer = loop.call_later(LOOK_SECONDS, self._look)
