"""Dispatcher: the gate before a transaction's first write on a table.

While the table registers itself with the status table, what arrives waits, up to a limit. A gate exists only as long as
that takes. A failed registration leaves nothing behind: the next write tries anew.

Source: Kudu's TxnOpDispatcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import NamedTuple

from txnstatus.errors import Overloaded, TxnError

MAX_WAITING = 1_000


class _Gate(NamedTuple):
    owner: str
    task: asyncio.Task[None]


class Dispatcher:
    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._gates: dict[Hashable, _Gate] = {}
        self._waiting: dict[Hashable, int] = {}

    def is_busy(self, key: Hashable) -> bool:
        return key in self._gates

    async def admit(self, key: Hashable, register: Callable[[], Awaitable[None]], owner: str = "") -> None:
        """Returns when the table is registered; `register` runs once however many writes wait.

        It outlives the write that started it, since others wait for it. Raises what `register` raised, or Overloaded;
        to another owner than the first one's, how it ended says nothing: that one has to look again.
        """
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = _Gate(owner, asyncio.ensure_future(self._open(key, register)))
            # Its waiters have what it raises; where all of them gave up, nobody needs it.
            gate.task.add_done_callback(lambda task: task.cancelled() or task.exception())
        if self._waiting.get(key, 0) >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting} writes already wait for the registration of their table")
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            await asyncio.shield(gate.task)
        except TxnError:
            if gate.owner == owner:
                raise
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    async def _open(self, key: Hashable, register: Callable[[], Awaitable[None]]) -> None:
        try:
            await register()
        finally:
            # Here and not in a callback: who came in between would find an open gate, and look again for ever.
            del self._gates[key]
