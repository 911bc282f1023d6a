"""Calls that are recorded before they are answered: they wait for that, and are not begun where it cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from google.protobuf.message import Message

from txnstatus.errors import TxnError
from txnstatus.rpc.calls import Answer
from txnstatus.security.deeds import RECORDED, deed
from txnstatus.security.principals import Principal
from txnstatus.security.trail_files import Heard
from txnstatus.trail import Deed


class Trail(Protocol):
    """Where what was done is recorded."""

    def record(self, deed: Deed, heard: Heard | None = None) -> None: ...
    def refused(self, who: str, did: str, why: str) -> None: ...


class Recording:
    """What one process records: nothing of callers that nobody knows."""

    def __init__(self, trail: Trail | None = None) -> None:
        """`trail` None: nothing is recorded."""
        self._trail = trail

    def wanted(self, caller: Principal | None, method: str, request: Message) -> Act | None:
        """What is recorded before the call begins; None: nothing."""
        if self._trail is None or caller is None or method not in RECORDED:
            return None
        found = deed(caller.owner, method, request)
        return None if found is None else Act(self._trail, found)

    def refused(self, caller: Principal | None, method: str, why: str) -> None:
        """Somebody was not allowed a call: recorded where it is one of those that are."""
        if self._trail is not None and caller is not None and method in RECORDED:
            self._trail.refused(caller.owner, method.removeprefix("txnstatus."), why)

    def stranger(self, why: str) -> None:
        """Somebody was not let in."""
        if self._trail is not None:
            self._trail.refused("", "login", why)


class Act:
    """A call that is recorded: `begin`, and `end` with its answer."""

    def __init__(self, trail: Trail, deed: Deed) -> None:
        self._trail, self._deed = trail, deed

    def begin(self, heard: Heard) -> None:
        """`heard` hears that it may be done, or why not."""
        self._trail.record(self._deed, heard)

    async def begun(self) -> None:
        """Returns when it may be done. Raises what `heard` of `begin` hears."""
        heard: asyncio.Future[TxnError | None] = asyncio.get_running_loop().create_future()
        self.begin(lambda told: None if heard.done() else heard.set_result(told))
        if (refusal := await heard) is not None:
            raise refusal

    def end(self, answer: Answer) -> None:
        outcome = answer.code if isinstance(answer, TxnError) else "done"
        self._trail.record(Deed(self._deed.who, self._deed.did, self._deed.what, outcome))


async def around(act: Act | None, ask: Callable[[], Awaitable[Message]]) -> Message:
    """What `ask` answers, recorded before and after it; None: it is not recorded. Raises what it raises."""
    if act is None:
        return await ask()
    await act.begun()
    try:
        answer = await ask()
    except TxnError as error:
        act.end(error)
        raise
    act.end(answer)
    return answer
