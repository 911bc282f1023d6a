"""A manager on the serving side, for tests of the ways that lead to its handlers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from txnstatus.errors import NotFound
from txnstatus.proto import txn_manager_pb2 as pb

STATE = "txnstatus.TxnManager/GetTransactionState"
SECONDS = 10.0


class Manager:
    """Answers for even transactions at once, for odd ones that there are none; 0 hangs."""

    def __init__(self) -> None:
        self.gave_up = asyncio.Event()
        self.asked = 0
        self.meanwhile: Callable[[], object] = lambda: None
        """What happens while it answers."""

    def __getattr__(self, _name: str) -> Callable[..., Awaitable[object]]:
        async def handler(request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
            self.asked += 1
            self.meanwhile()
            if request.txn_id == 0:
                try:
                    await asyncio.sleep(SECONDS)
                except asyncio.CancelledError:
                    self.gave_up.set()
                    raise
            if request.txn_id % 2:
                raise NotFound(f"no transaction {request.txn_id}")
            return pb.GetTransactionStateResponse(txn={"txn_id": request.txn_id})

        return handler
