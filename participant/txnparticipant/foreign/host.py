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
from txnstatus.commit_tasks import MAX_OPS_PER_CALL
from txnstatus.environment import Environment
from txnstatus.errors import Forgotten, IllegalState, InternalError, InvalidArgument, TxnError, Unavailable
from txnstatus.failpoints import failpoint
from txnstatus.foreign import Verdict, foreign_id, verdict
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.rpc.errors import to_detail
from txnstatus.status_ranges import StatusRanges
from txnstatus.types import HybridClock, ParticipantOpType, Timestamp, TxnId, TxnState

log = logging.getLogger(__name__)

PASS_SECONDS = 1.0
IN_DOUBT_SECONDS = 3.0
"""Prepared for longer than this: the status table is asked. Until then, the outcome is probably on its way."""
FORGET_SECONDS = 30.0


class ForeignHost:
    """Implements the Foreign service."""

    def __init__(self, name: str, participant: Participant, ranges: StatusRanges, environment: Environment) -> None:
        self._id = foreign_id(name)
        self._participant = participant
        self._ranges = ranges
        self._environment = environment
        self._clock = HybridClock(environment.wall_micros)
        self._busy: dict[TxnId, asyncio.Future[None]] = {}
        self._first_seen: dict[TxnId, float] = {}
        """When what is prepared was first found so, by the monotonic clock."""
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
                log.warning("%s: transaction %s: %s", self._id, op.txn_id, error.message)
            return pb.ParticipantOpResult(error=to_detail(error))
        return pb.ParticipantOpResult(timestamp=self._clock.now())

    async def _perform(self, op: pb.ParticipantOp) -> None:
        if op.table_id != self._id:
            raise IllegalState(f"this is the host of {self._id}, not of {op.table_id[:100]!r}")
        txn_id, participant = TxnId(op.txn_id), self._participant
        match op.type:
            case ParticipantOpType.BEGIN_COMMIT:
                await self._do(txn_id, "BEGIN_COMMIT", participant.prepare, txn_id)
            case ParticipantOpType.FINALIZE_COMMIT:
                await self._do(txn_id, "FINALIZE_COMMIT", participant.publish, txn_id, Timestamp(op.commit_timestamp))
            case ParticipantOpType.ABORT_TXN:
                await self._do(txn_id, "ABORT_TXN", participant.discard, txn_id)
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
        now = self._environment.monotonic()
        prepared = await self._blocking(lambda: list(self._participant.prepared()))
        self._first_seen = {txn_id: self._first_seen.get(txn_id, now) for txn_id in prepared}
        in_doubt = [txn_id for txn_id, since in self._first_seen.items() if now - since >= IN_DOUBT_SECONDS]
        await asyncio.gather(*map(self._resolve, in_doubt))

    async def _resolve(self, txn_id: TxnId) -> None:
        try:
            match await self._outcome(txn_id):
                case Verdict.PUBLISH, commit_ts:
                    await self._do(txn_id, "FINALIZE_COMMIT", self._participant.publish, txn_id, commit_ts)
                case Verdict.DISCARD, _:
                    await self._do(txn_id, "ABORT_TXN", self._participant.discard, txn_id)
                case _:
                    return
        except TxnError as error:
            log.warning("%s: transaction %s stays in doubt for now: %s", self._id, txn_id, error.message)
        else:
            log.info("%s: transaction %s was in doubt, and is resolved", self._id, txn_id)

    async def _outcome(self, txn_id: TxnId) -> tuple[Verdict, Timestamp]:
        """Raises NotFound for one that was never given out: whoever lost the status table must say what to do."""
        request = manager_pb.GetTransactionStateRequest(txn_id=txn_id)
        try:
            answer = await self._ranges.call(
                txn_id, "GetTransactionState", request, manager_pb.GetTransactionStateResponse
            )
        except Forgotten:
            # Every participant has acknowledged its end. So this was prepared too late, or is no part of it.
            return Verdict.DISCARD, Timestamp(0)
        takes_part = any(participant.participant_id == self._id for participant in answer.txn.participants)
        said = verdict(TxnState(answer.txn.state), takes_part=takes_part)
        return said, Timestamp(answer.txn.commit_timestamp)

    async def _forget(self) -> None:
        now = self._environment.monotonic()
        if now < self._next_forgetting:
            return
        self._next_forgetting = now + FORGET_SECONDS
        await self._blocking(self._participant.forget, await self._ranges.forgotten_below())
