"""Calls that a transaction's token allows while the transaction is open, and that would be answered after its end, too.

Whatever else a token allows asks those who know whether the transaction is open.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from txnstatus.errors import TxnError, Unavailable
from txnstatus.rpc.calls import Call
from txnstatus.rpc.deadlines import answering_by
from txnstatus.security.principals import Principal
from txnstatus.security.scopes import OPEN_ONLY
from txnstatus.types import TxnId

RequireOpen = Callable[[TxnId], Awaitable[object]]
"""Raises a TxnError where a transaction is not open any more."""


class Begins(Protocol):
    require_open: RequireOpen | None
    """None: this process cannot tell."""

    def begin(self, method: str, call: Call, group: str = "") -> None: ...


def begin_in_scope(registry: Begins, caller: Principal | None, method: str, call: Call, group: str) -> None:
    """Begins a call that is within the scope of whoever calls. Where that is a token's, and the transaction has to be
    asked for first, the call hears if it is over."""
    scope = caller.scope if caller is not None else None
    if scope is None or method not in OPEN_ONLY:
        registry.begin(method, call, group)
        return
    asking = asyncio.get_running_loop().create_task(_begin_while_open(registry, scope.txn_id, method, call, group))
    call.on_end = asking.cancel


async def _begin_while_open(registry: Begins, txn_id: TxnId, method: str, call: Call, group: str) -> None:
    try:
        if registry.require_open is None:
            raise Unavailable("this node cannot tell whether a transaction is open")
        with answering_by(call.answer_by):
            await registry.require_open(txn_id)
    except TxnError as error:
        call.tell(error)
    else:
        call.on_end = None
        registry.begin(method, call, group)
