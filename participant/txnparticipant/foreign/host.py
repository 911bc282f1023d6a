"""ForeignHost: serves a foreign participant, and asks the status table about work whose outcome nobody tells.

It keeps nothing: what is prepared, the participant itself knows. So it may die at any point and begin anew, and two of
them, as while one moves, do no harm.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from txnparticipant.foreign.protocol import Participant
from txnparticipant.upkeep.in_doubt import InDoubt
from txnstatus.errors import IllegalState, InternalError, InvalidArgument, TxnError, Unavailable
from txnstatus.foreign import foreign_id
from txnstatus.id_sets import IdSet
from txnstatus.limits import MAX_OPS_PER_CALL
from txnstatus.process.environment import Environment
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import participant_pb2 as pb
from txnstatus.rpc.errors import to_detail
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import HybridClock, ParticipantId, ParticipantOpType, Timestamp, TxnId

log = logging.getLogger(__name__)

PASS_SECONDS = 1.0
FORGET_SECONDS = 30.0


class ForeignHost:
    """Implements the Participant service for a foreign participant."""

    def __init__(self, name: str, participant: Participant, ranges: StatusRanges, environment: Environment) -> None:
        self._id = foreign_id(name)
        self._participant = participant
        self._ranges = ranges
        self._environment = environment
        self._clock = HybridClock(environment.wall_micros)
        self._busy: dict[TxnId, asyncio.Future[None]] = {}
        self._in_doubt = InDoubt(ranges, self._publish, self._discard, on_request=False)
        self._next_forgetting = 0.0

    async def run(self) -> None:
        """For ever: resolves what is in doubt."""
        while True:
            try:
                await self.resolve()
                await self._forget()
            except TxnError as error:
                log.warning("%s: nothing is resolved for now: %s", self._id, error.message)
            await asyncio.sleep(PASS_SECONDS)

    # ---- what status leaders ask

    async def participate(self, request: pb.ParticipateRequest) -> pb.ParticipateResponse:
        """Each operation is answered by itself: one that takes long is to be asked for again."""
        if len(request.ops) > MAX_OPS_PER_CALL:
            raise InvalidArgument(f"{len(request.ops)} operations in one call: {MAX_OPS_PER_CALL} are possible")
        self._clock.update(Timestamp(request.now))
        results = await asyncio.gather(*(self._answer(op) for op in request.ops))
        return pb.ParticipateResponse(results=results)

    async def _answer(self, op: pb.ParticipantOp) -> pb.ParticipantOpResult:
        try:
            await self._perform(op)
        except TxnError as error:
            if not error.retriable:
                log.warning("%s: transaction %s: %s", self._id, op.txn_id, error.message, extra={"txn_id": op.txn_id})
            return pb.ParticipantOpResult(error=to_detail(error))
        return pb.ParticipantOpResult(timestamp=self._clock.now())

    async def _perform(self, op: pb.ParticipantOp) -> None:
        if op.table_id != self._id:
            raise IllegalState(f"this is the host of {self._id}, not of {op.table_id[:100]!r}")
        txn_id = TxnId(op.txn_id)
        match op.type:
            case ParticipantOpType.BEGIN_COMMIT:
                await self._do(txn_id, "BEGIN_COMMIT", self._participant.prepare, txn_id)
            case ParticipantOpType.FINALIZE_COMMIT:
                await self._publish(self._id, txn_id, Timestamp(op.commit_timestamp))
            case ParticipantOpType.ABORT_TXN:
                await self._discard(self._id, txn_id)
            case _:
                raise InvalidArgument(f"no participant operation {op.type}")

    async def _do(self, txn_id: TxnId, name: str, act: Callable[..., None], *arguments: Any) -> None:
        """One at a time for each transaction; it goes on when its caller is gone."""
        if txn_id in self._busy:
            raise Unavailable(f"transaction {txn_id} is busy on {self._id}", txn_id=txn_id)
        failpoint(f"foreign.before.{name}", Unavailable)
        task = self._busy[txn_id] = asyncio.ensure_future(self._blocking(act, *arguments))
        task.add_done_callback(lambda done: self._done(txn_id, done))
        await asyncio.shield(task)
        failpoint(f"foreign.after.{name}", Unavailable)

    def _done(self, txn_id: TxnId, task: asyncio.Future[None]) -> None:
        del self._busy[txn_id]
        if not task.cancelled():
            task.exception()  # its caller has it; one who has given up asks again

    async def _blocking(self, act: Callable[..., Any], *arguments: Any) -> Any:
        """In a thread. Raises TxnErrors only."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._environment.blocking, act, *arguments)
        except TxnError:
            raise
        except Exception as error:
            log.exception("%s failed", self._id)
            raise InternalError(f"{self._id} failed: {type(error).__name__}: {error}") from error

    # ---- what nobody tells the outcome of

    async def resolve(self) -> None:
        """One pass over what is prepared. Raises Unavailable when the participant cannot be asked."""
        prepared = await self._blocking(lambda: list(self._participant.prepared()))
        await self._in_doubt.resolve([(self._id, txn_id) for txn_id in prepared], self._environment.monotonic())

    async def _publish(self, _id: ParticipantId, txn_id: TxnId, commit_ts: Timestamp) -> None:
        await self._do(txn_id, "FINALIZE_COMMIT", self._participant.publish, txn_id, commit_ts)

    async def _discard(self, _id: ParticipantId, txn_id: TxnId) -> None:
        await self._do(txn_id, "ABORT_TXN", self._participant.discard, txn_id)

    async def _forget(self) -> None:
        now = self._environment.monotonic()
        if now < self._next_forgetting:
            return
        self._next_forgetting = now + FORGET_SECONDS
        forgotten = await self._ranges.forgotten()
        await self._blocking(self._forget_all, forgotten)

    def _forget_all(self, forgotten: IdSet) -> None:
        for first, below in forgotten.spans():
            self._participant.forget(first, below)
