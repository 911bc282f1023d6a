"""What of a connection's calls waits because their user asks for more than he may: nothing else waits behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from txnstatus.errors import TxnError
from txnstatus.pace import Turn
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.security.access import Access
from txnstatus.security.principals import Principal


class _Refusal:
    __slots__ = ("method", "tell", "turn")

    def __init__(self, method: str, turn: Turn, tell: Callable[[TxnError], object]) -> None:
        self.method, self.turn, self.tell = method, turn, tell


class Late:
    def __init__(self, access: Access, caller: Principal | None) -> None:
        """`caller`: whose connection it is."""
        self._access, self._caller = access, caller
        self._begins: Deadlines[Callable[[], object]] = Deadlines(lambda begin: begin())
        self._refusals: dict[_Refusal, None] = {}
        self._due: Deadlines[_Refusal] = Deadlines(self._tell)

    def begin(self, turn: Turn, begin: Callable[[], object]) -> None:
        """Runs it when it has its turn."""
        self._begins.add(begin, turn.seconds)

    def refuse(self, method: str, turn: Turn, tell: Callable[[TxnError], object]) -> None:
        """`tell` hears why, when it has its turn."""
        refusal = _Refusal(method, turn, tell)
        self._refusals[refusal] = None
        if turn.seconds > 0:
            self._due.add(refusal, turn.seconds)
        else:
            self._tell(refusal)

    def clear(self) -> None:
        """The connection has ended: nobody waits any more."""
        self._begins.clear()
        self._due.clear()
        for refusal in self._refusals:
            self._why(refusal)
        self._refusals.clear()

    def _tell(self, refusal: _Refusal) -> None:
        del self._refusals[refusal]
        refusal.tell(self._why(refusal))

    def _why(self, refusal: _Refusal) -> TxnError:
        return self._access.told(self._caller, refusal.method, refusal.turn, asyncio.get_running_loop().time())
