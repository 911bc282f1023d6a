"""What of a connection's calls waits because their user asks for more than he may: nothing else waits behind it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence

from txnstatus.errors import TxnError
from txnstatus.pace import Turn
from txnstatus.rpc.deadlines import LOOK_SECONDS, Deadlines
from txnstatus.security.access import Access
from txnstatus.security.principals import Principal

Told = Callable[[Sequence[int], TxnError], object]
"""Tells calls, by their ids, why they are refused."""


class Late:
    def __init__(self, access: Access, caller: Principal | None, tell: Told) -> None:
        """`caller`: whose connection it is."""
        self._access, self._caller, self._tell = access, caller, tell
        self._begins: Deadlines[Callable[[], object]] = Deadlines(lambda begin: begin())
        self._refused: dict[int, dict[tuple[str, Turn], list[int]]] = {}
        """Ids of calls that are refused, by when they are told that, in LOOK_SECONDS, and by what they are told. Those
        that are alike are told together: it costs hardly more than to tell one."""
        self._timers: dict[int, asyncio.TimerHandle] = {}

    def begin(self, turn: Turn, begin: Callable[[], object]) -> None:
        """Runs it when it has its turn."""
        self._begins.add(begin, turn.seconds)

    def refuse(self, call_id: int, method: str, turn: Turn) -> None:
        """The call is told why when it has its turn."""
        loop = asyncio.get_running_loop()
        at = math.ceil((loop.time() + turn.seconds) / LOOK_SECONDS) if turn.seconds > 0 else 0
        alike = self._refused.setdefault(at, {})
        alike.setdefault((method, turn.alike), []).append(call_id)
        if not at:
            self._look(at)
        elif at not in self._timers:
            self._timers[at] = loop.call_at(at * LOOK_SECONDS, self._look, at)

    def clear(self) -> None:
        """The connection has ended: nobody waits any more."""
        self._begins.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        refused, self._refused = self._refused, {}
        for alike in refused.values():
            for (method, turn), ids in alike.items():
                self._why(method, turn, ids)

    def _look(self, at: int) -> None:
        self._timers.pop(at, None)
        for (method, turn), ids in self._refused.pop(at).items():
            self._tell(ids, self._why(method, turn, ids))

    def _why(self, method: str, turn: Turn, ids: Sequence[int]) -> TxnError:
        return self._access.told(self._caller, method, turn, asyncio.get_running_loop().time(), len(ids))
