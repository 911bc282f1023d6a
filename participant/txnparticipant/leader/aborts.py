"""Aborts that the locks of a shard ask for: each is seen through, whoever asked, and though the asker has gone.

Until then what the transaction has locked keeps others waiting, and its client may keep it alive. A leader that is lost
forgets them: whoever asked for the lock asks the next one, and is judged anew; who does not ask any more expires.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from txnstatus.errors import TxnError, Unavailable
from txnstatus.process.background import Tasks
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.deadlines import time_left
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import AbortCause, TxnId
from txnstatus.wire import cause_from_wire

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.5
"""Pause between two rounds of asking; in each the status table's leader is looked for."""
MAX_WAIT_SECONDS = 30.0
"""A caller without a deadline waits this long."""


class _Abort:
    """One that is under way."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        self.answer: asyncio.Future[AbortCause] = asyncio.get_running_loop().create_future()
        self.said = "no answer yet"

    def end(self, answer: AbortCause | TxnError) -> None:
        if isinstance(answer, TxnError):
            self.answer.set_exception(answer)
            self.answer.exception()  # seen, should nobody wait for it
        else:
            self.answer.set_result(answer)


class Aborts:
    def __init__(self, ranges: StatusRanges) -> None:
        self._ranges = ranges
        self._under_way: dict[TxnId, _Abort] = {}
        self._tasks = Tasks("an abort that a lock asked for failed")

    def __contains__(self, txn_id: TxnId) -> bool:
        """Whether it is being aborted."""
        return txn_id in self._under_way

    async def abort(self, txn_id: TxnId, owner: str, reason: str) -> AbortCause:
        """The cause for which it was aborted, now or before. It goes on when whoever waits is gone.

        Raises the status table's refusal; Unavailable when the caller's time is over before it is done.
        """
        self.start(txn_id, owner, reason)
        return await self.join(txn_id)

    def start(self, txn_id: TxnId, owner: str, reason: str) -> None:
        """As `abort`, for whom nobody waits."""
        if txn_id not in self._under_way:
            abort = self._under_way[txn_id] = _Abort(reason)
            self._tasks.spawn(self._see_through(abort, txn_id, owner))

    async def join(self, txn_id: TxnId) -> AbortCause:
        """As `abort`, of one that is under way."""
        abort = self._under_way[txn_id]
        try:
            async with asyncio.timeout(time_left(MAX_WAIT_SECONDS)):
                return await asyncio.shield(abort.answer)
        except TimeoutError:
            message = f"transaction {txn_id} is being aborted ({abort.reason}), which takes long: {abort.said}"
            raise Unavailable(message, txn_id=txn_id) from None

    def fail(self, error: Callable[[], TxnError]) -> None:
        """For a replica that does not lead any more."""
        failed, self._under_way = self._under_way, {}
        for abort in failed.values():
            abort.end(error())

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _see_through(self, abort: _Abort, txn_id: TxnId, owner: str) -> None:
        request = pb.AbortTransactionRequest(txn_id=txn_id, owner=owner, reason=abort.reason)
        while self._under_way.get(txn_id) is abort:
            try:
                response = await self._ranges.call(txn_id, "AbortTransaction", request, pb.AbortTransactionResponse)
            except TxnError as error:
                if error.retriable:
                    abort.said = error.message
                    log.info("transaction %s is not aborted yet: %s", txn_id, error.message, extra={"txn_id": txn_id})
                    await asyncio.sleep(PAUSE_SECONDS)
                    continue
                answer: AbortCause | TxnError = error
            else:
                answer = cause_from_wire(response.txn.cause)
            if self._under_way.get(txn_id) is abort:
                del self._under_way[txn_id]
                abort.end(answer)
