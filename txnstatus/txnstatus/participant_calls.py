"""ParticipantCalls: what a status leader asks of participants; all that one loop turn has for a shard is one call."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from typing import Any

from txnstatus.catalog import shard_group
from txnstatus.cluster_map import shard_of_table_id
from txnstatus.commit_tasks import MAX_OPS_PER_CALL, SendOp
from txnstatus.errors import TxnError, Unavailable
from txnstatus.events import ParticipantAnswered
from txnstatus.failpoints import failpoint
from txnstatus.proto import participant_pb2 as pb
from txnstatus.rpc.errors import from_detail, to_detail
from txnstatus.system_client import TxnSystemClient
from txnstatus.types import HybridClock, Timestamp

CALL_SECONDS = 5.0


class ParticipantCalls:
    def __init__(
        self,
        client: TxnSystemClient,
        clock: HybridClock,
        answered: Callable[[ParticipantAnswered], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`answered` hears of every SendOp once, also of one that nobody answered."""
        self._client = client
        self._clock = clock
        self._answered = answered
        self._spawn = spawn
        self._outbox: defaultdict[int, list[SendOp]] = defaultdict(list)

    def send(self, op: SendOp) -> None:
        shard = shard_of_table_id(op.participant_id)
        if not self._outbox[shard]:
            asyncio.get_running_loop().call_soon(self._flush, shard)
        self._outbox[shard].append(op)

    def _flush(self, shard: int) -> None:
        sends = self._outbox.pop(shard)
        for start in range(0, len(sends), MAX_OPS_PER_CALL):
            self._spawn(self._participate(shard, sends[start : start + MAX_OPS_PER_CALL]))

    async def _participate(self, shard: int, sends: list[SendOp]) -> None:
        ops = [
            pb.ParticipantOp(
                txn_id=send.txn_id,
                table_id=send.participant_id,
                type=send.op.name,
                commit_timestamp=send.commit_ts,
            )
            for send in sends
        ]
        try:
            failpoint("status.before_participate", Unavailable)
            response = await self._client.call_leader(
                shard_group(shard),
                "txnstatus.Participant/Participate",
                pb.ParticipateRequest(shard=shard, now=self._clock.now(), ops=ops),
                pb.ParticipateResponse,
                CALL_SECONDS,
            )
            failpoint("status.after_participate", Unavailable)
            results = list(response.results)
        except TxnError as error:
            failure = Unavailable(error.message)  # of the call as a whole: no participant has refused anything
            results = [pb.ParticipantOpResult(error=to_detail(failure))] * len(sends)
        for send, result in zip(sends, results, strict=True):
            timestamp = Timestamp(result.timestamp)
            self._clock.update(timestamp)
            refusal = from_detail(result.error) if result.HasField("error") else None
            self._answered(ParticipantAnswered(send.txn_id, send.participant_id, send.op, timestamp, refusal))
