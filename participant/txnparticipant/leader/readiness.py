"""Before a transaction prepares: what it has on a table is surely part of it, and what it says of files that were
compacted is said of what they have become."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from txnparticipant.leader.registering import Registering
from txnparticipant.leader.switching import Switching
from txnparticipant.leader.translating import Translating
from txnstatus.errors import TxnError
from txnstatus.proto import participant_pb2 as pb
from txnstatus.types import ParticipantOpType, TxnId


@dataclass(slots=True)
class Readiness:
    """One for a shard, on its leader."""

    registering: Registering
    switching: Switching
    translating: Translating

    async def refusals(self, ops: Sequence[pb.ParticipantOp]) -> dict[int, TxnError]:
        """Makes those ready that are to prepare; why one never can be, such as a damaged file, by its place in `ops`.

        It is no other transaction's fault, and does not fail the others of the call. Raises what is retriable.
        """
        begun = [number for number, op in enumerate(ops) if op.type == int(ParticipantOpType.BEGIN_COMMIT)]
        while True:
            while waiting := [ops[number] for number in begun if not self._is_settled(ops[number])]:
                settle = self.registering.settle
                await asyncio.gather(*(settle(op.table_id, TxnId(op.txn_id), listed=True) for op in waiting))
            unready = [number for number in begun if not self.is_ready(ops[number].table_id, TxnId(ops[number].txn_id))]
            answers = await asyncio.gather(*(self._made_ready(ops[number]) for number in unready))
            # That may have taken a while, in which a first write came that may yet be refused.
            if all(self._is_settled(ops[number]) for number in begun):
                return {number: error for number, error in zip(unready, answers, strict=True) if error is not None}

    def _is_settled(self, op: pb.ParticipantOp) -> bool:
        return self.registering.is_settled(op.table_id, TxnId(op.txn_id))

    def is_ready(self, table_id: str, txn_id: TxnId) -> bool:
        return not (self.switching.holds(table_id) or self.translating.is_wanted(table_id, txn_id))

    async def make_ready(self, table_id: str, txn_id: TxnId) -> None:
        """Raises why it never can be, or what is retriable."""
        await self.switching.admit(table_id)
        await self.translating.translate(table_id, txn_id)

    async def _made_ready(self, op: pb.ParticipantOp) -> TxnError | None:
        try:
            await self.make_ready(op.table_id, TxnId(op.txn_id))
        except TxnError as error:
            if error.retriable:
                raise
            return error
        return None
