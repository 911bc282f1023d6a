"""A simulated program that sends again what was answered long ago, as one does whose answer was lost on its way."""

from __future__ import annotations

from tests.sim.actors.caller import COMES_LATE, Caller
from txnstatus.errors import TxnError
from txnstatus.proto import txn_manager_pb2 as pb


class Latecomer(Caller):
    async def _come_late(self) -> None:
        if not self._shared.sent:
            return
        late = self._rng.choice(list(self._shared.sent))
        sent_at = self._shared.now()
        if isinstance(late.request, pb.BeginTransactionRequest):
            late.request.is_retry = True
        try:
            answer = await self._call(late.method, late.request, COMES_LATE[type(late.request)])
        except TxnError as error:
            self._log(f"{late.method} comes too late: {error.message}")
            return
        if isinstance(late.request, pb.BeginTransactionRequest):
            assert isinstance(answer, pb.BeginTransactionResponse)
            ids, label = list(answer.txn_ids), late.request.label
            keepalive = answer.keepalive_millis / 1000
            self._ledger.begun(late.request.request_id, ids, late.request.owner, label, keepalive, sent_at)
        elif isinstance(answer, (pb.CommitTransactionResponse, pb.AbortTransactionResponse)):
            self._ledger.told(answer.txn, sent_at)
