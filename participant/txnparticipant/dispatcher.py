"""Dispatcher: the gate before a transaction's first write on a table.

The table registers itself with the status table; writes that arrive meanwhile wait, up to a limit. All that come
through carry BEGIN_TXN, and the first to apply begins. A gate exists only while the registration is under way: a
transaction that is OPEN here passes by it, and one that has ended is refused by the state machine. A failed
registration leaves nothing behind: the next write tries anew.

Source: Kudu's TxnOpDispatcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable

from txnstatus.errors import Overloaded

MAX_WAITING = 1_000


class Dispatcher:
    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._gates: dict[Hashable, asyncio.Task[None]] = {}
        self._waiting: dict[Hashable, int] = {}

    async def admit(self, key: Hashable, register: Callable[[], Awaitable[None]]) -> None:
        """Returns when the table is registered; `register` runs once however many writes wait.

        It outlives the write that started it, since others wait for it. Raises what `register` raised, or Overloaded.
        """
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = asyncio.ensure_future(register())
            gate.add_done_callback(lambda task: self._opened(key, task))
        if self._waiting.get(key, 0) >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting} writes already wait for the registration of their table")
        self._waiting[key] = self._waiting.get(key, 0) + 1
        try:
            await asyncio.shield(gate)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]

    def _opened(self, key: Hashable, gate: asyncio.Task[None]) -> None:
        del self._gates[key]
        if not gate.cancelled():
            gate.exception()  # its waiters have it; where all of them gave up, nobody needs it
