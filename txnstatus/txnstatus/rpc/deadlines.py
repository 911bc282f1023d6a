"""Deadlines of many things at once: one timer for all, where a timer for each would be most of the work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

LOOK_SECONDS = 0.05
"""What is late is found so much later, at most."""

KeyT = TypeVar("KeyT", bound=Hashable)


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
