"""Dispatcher: the gate before a transaction's first write on a table.

While the table registers itself with the status table, what arrives waits, up to a limit. A gate exists only as long as
that takes. A failed registration leaves nothing behind: the next write tries anew.

Source: Kudu's TxnOpDispatcher.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field

from txnstatus.errors import Overloaded, TxnError
from txnstatus.process.background import Tasks
from txnstatus.tracing import spans
from txnstatus.tracing.spans import Span

MAX_WAITING = 1_000


@dataclass(slots=True, eq=False)
class _Gate:
    owner: str
    waiting: dict[asyncio.Future[Exception | None], None] = field(default_factory=dict)
    """Callers that hear how it ended, in the order in which they came."""


class Dispatcher:
    def __init__(self, max_waiting: int = MAX_WAITING) -> None:
        self._max_waiting = max_waiting
        self._gates: dict[Hashable, _Gate] = {}
        self._tasks = Tasks("the registration of a table failed")

    def is_busy(self, key: Hashable) -> bool:
        return key in self._gates

    async def admit(self, key: Hashable, register: Callable[[], Awaitable[None]], owner: str = "") -> None:
        """Returns when the table is registered; `register` runs once however many writes wait.

        It outlives the write that started it, since others wait for it. Raises what `register` raised, or Overloaded;
        to another owner than the first one's, how it ended says nothing: that one has to look again.
        """
        loop = asyncio.get_running_loop()
        gate = self._gates.get(key)
        if gate is None:
            gate = self._gates[key] = _Gate(owner)
            self._tasks.spawn(self._open(key, gate, register, spans.current()))
        if len(gate.waiting) >= self._max_waiting:
            raise Overloaded(f"{self._max_waiting} writes already wait for the registration of their table")
        answer: asyncio.Future[Exception | None] = loop.create_future()
        gate.waiting[answer] = None
        try:
            error = await answer
        finally:
            gate.waiting.pop(answer, None)
        if error is not None and (gate.owner == owner or not isinstance(error, TxnError)):
            raise error

    async def _open(
        self, key: Hashable, gate: _Gate, register: Callable[[], Awaitable[None]], span: Span | None
    ) -> None:
        """`span`: of whoever was first."""
        spans.begin_within(span)
        error: Exception | None = None
        try:
            await register()
        except Exception as raised:  # noqa: BLE001 whatever it is, those who wait have it
            error = raised
        finally:
            # Here and not in a callback: who came in between would find an open gate, and look again for ever.
            del self._gates[key]
        for answer in gate.waiting:
            if not answer.done():
                answer.set_result(error)
