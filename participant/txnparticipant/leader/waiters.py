"""Waiters: requests that stand still on a shard's leader until something changes, or the leadership is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from txnstatus.errors import TxnError

KeyT = TypeVar("KeyT", bound=Hashable)


class Waiters(Generic[KeyT]):
    """By what they wait for. Who is woken looks again; nobody is told what has changed."""

    def __init__(self) -> None:
        self._waiting: defaultdict[KeyT, list[asyncio.Future[None]]] = defaultdict(list)

    def __len__(self) -> int:
        """For how many different things somebody waits."""
        return len(self._waiting)

    def wake(self, key: KeyT) -> None:
        for waiter in self._waiting.get(key, ()):
            if not waiter.done():
                waiter.set_result(None)

    def fail(self, error: Callable[[], TxnError]) -> None:
        """All of them: for a replica that does not lead any more."""
        for waiters in self._waiting.values():
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_exception(error())

    async def wait(self, key: KeyT, deadline: float) -> None:
        """Returns at the deadline at the latest. Raises what `fail` is given."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[key].append(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(deadline):
                    await waiter
        finally:
            self._waiting[key].remove(waiter)
            if not self._waiting[key]:
                del self._waiting[key]
