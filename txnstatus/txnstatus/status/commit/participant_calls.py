"""ParticipantCalls: what a status leader asks of participants.

All that one loop turn has for one shard, or for one foreign participant, is one call.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from txnstatus.catalog.catalog import shard_group
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import NotFound, PlacedElsewhere, TxnError, Unavailable
from txnstatus.foreign import foreign_name
from txnstatus.limits import MAX_OPS_PER_CALL
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import participant_pb2 as pb
from txnstatus.rpc.errors import from_detail, to_detail
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.events import ParticipantAnswered
from txnstatus.tracing.spans import Span, below
from txnstatus.types import HybridClock, ParticipantId, ParticipantOpType, Timestamp, TxnId

CALL_SECONDS = 5.0

Results = Sequence[pb.ParticipantOpResult]


class ParticipantCalls:
    def __init__(
        self,
        client: TxnSystemClient,
        clock: HybridClock,
        answered: Callable[[Sequence[ParticipantAnswered]], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        span: Callable[[TxnId, ParticipantId, ParticipantOpType], Span | None] = lambda *_: None,
    ) -> None:
        """`answered` hears of every SendOp once, also of one that nobody answered; of all in one call at once. `span`
        begins one of an operation, where its transaction is traced."""
        self._span = span
        self._client = client
        self._clock = clock
        self._answered = answered
        self._spawn = spawn
        self._outbox: defaultdict[int | str, list[SendOp]] = defaultdict(list)
        """Operations to send, by shard or by the name of a foreign participant."""

    def send(self, op: SendOp) -> None:
        foreign = foreign_name(op.participant_id)
        to = self._client.cluster.shard_of(op.participant_id) if foreign is None else foreign
        if not self._outbox[to]:
            asyncio.get_running_loop().call_soon(self._flush, to)
        self._outbox[to].append(op)

    def _flush(self, to: int | str) -> None:
        sends = self._outbox.pop(to)
        for start in range(0, len(sends), MAX_OPS_PER_CALL):
            self._spawn(self._participate(to, sends[start : start + MAX_OPS_PER_CALL]))

    async def _participate(self, to: int | str, sends: list[SendOp]) -> None:
        traced = [self._span(send.txn_id, send.participant_id, send.op) for send in sends]
        ops = [
            pb.ParticipantOp(
                txn_id=send.txn_id,
                table_id=send.participant_id,
                type=send.op,  # type: ignore[arg-type]  # its name takes several calls
                commit_timestamp=send.commit_ts,
                first_write=send.first_write,
                trace=below(span),
            )
            for send, span in zip(sends, traced, strict=True)
        ]
        try:
            failpoint("status.before_participate", Unavailable)
            results = await self._ask(to, ops)
            if len(results) != len(ops):
                raise Unavailable(f"{to} has answered {len(results)} operations, and was asked for {len(ops)}")
            failpoint("status.after_participate", Unavailable)
        except TxnError as error:
            failure = Unavailable(error.message)  # of the call as a whole: no participant has refused anything
            results = [pb.ParticipantOpResult(error=to_detail(failure))] * len(sends)
        self._clock.update(Timestamp(max(result.timestamp for result in results)))
        for span, result in zip(traced, results, strict=True):
            if span is not None:
                span.end(result.error.message)
        # A host's clock may be anybody's: one that this leader does not follow makes no commit timestamp either.
        most = self._clock.now() if isinstance(to, str) else None
        answers = [_answer(send, result, most) for send, result in zip(sends, results, strict=True)]
        if isinstance(to, int):
            answers = [answer for send, answer in zip(sends, answers, strict=True) if not self._sent_on(send, answer)]
        self._answered(answers)

    def _sent_on(self, send: SendOp, answer: ParticipantAnswered) -> bool:
        """Whether the shard that was asked has said which one keeps the participant: then that one is asked."""
        if not isinstance(answer.error, PlacedElsewhere):
            return False
        self._client.cluster.has_gone(send.participant_id, answer.error.shard)
        self.send(send)
        return True

    async def _ask(self, to: int | str, ops: list[pb.ParticipantOp]) -> Results:
        method, request = "txnstatus.Participant/Participate", pb.ParticipateRequest(now=self._clock.now(), ops=ops)
        if isinstance(to, int):
            group = shard_group(to)
            return (
                await self._client.call_leader(group, method, request, pb.ParticipateResponse, CALL_SECONDS)
            ).results
        if self._client.cluster.state.foreign.get(to) == "":
            return [_of_removed(to, op) for op in ops]
        return (await self._client.call_foreign(to, method, request, pb.ParticipateResponse, CALL_SECONDS)).results


def _answer(send: SendOp, result: pb.ParticipantOpResult, most: Timestamp | None) -> ParticipantAnswered:
    """`most`: the highest timestamp that counts; None: whatever it is."""
    refusal = from_detail(result.error) if result.HasField("error") else None
    at = Timestamp(result.timestamp if most is None else min(result.timestamp, most))
    return ParticipantAnswered(send.txn_id, send.participant_id, send.op, at, refusal)


def _of_removed(name: str, op: pb.ParticipantOp) -> pb.ParticipantOpResult:
    """An operator has said that it is gone for good, with whatever it held: only a commit can still be refused."""
    if op.type != pb.BEGIN_COMMIT:
        return pb.ParticipantOpResult()
    return pb.ParticipantOpResult(error=to_detail(NotFound(f"the foreign participant {name} was removed")))
