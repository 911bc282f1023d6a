"""Savepoints of transactions on a shard's tables: they are set, and transactions go back to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from txnparticipant.leader.registering import Propose, Registering
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.shard.txn_savepoints import Step
from txnstatus.limits import MAX_OPS_PER_CALL, MAX_TXN_SAVEPOINTS, MAX_VOID, check_count
from txnstatus.proto import txn_savepoint_pb2 as pb
from txnstatus.schema import check_write_id
from txnstatus.wire import checked_txn_id


@dataclass(slots=True)
class TxnSavepointService:
    """Implements the TxnSavepoints service for one shard."""

    shard: ParticipantShard
    registering: Registering
    propose: Propose
    check_lease: Callable[[], None]
    """Raises NotTheLeader where this replica does not lead, or cannot prove it."""

    async def set_savepoint(self, request: pb.SetSavepointRequest) -> pb.SetSavepointResponse:
        """Raises InvalidArgument, NotFound, LimitReached; IllegalState and TxnAborted where the transaction is over."""
        self.check_lease()
        txn_id, savepoint_id = checked_txn_id(request.txn_id), check_write_id(request.savepoint_id)
        check_count(len(request.released), "savepoints", MAX_TXN_SAVEPOINTS)
        released = tuple(request.released)
        await self._take(
            cmd.SetSavepoint(txn_id, table_id, request.owner, savepoint_id, released)
            for table_id in _each_once(request.table_ids)
        )
        return pb.SetSavepointResponse()

    async def rollback_to(self, request: pb.RollbackToRequest) -> pb.RollbackToResponse:
        """Raises as `set_savepoint`; NotFound also for a savepoint that is not there."""
        self.check_lease()
        txn_id, savepoint_id = checked_txn_id(request.txn_id), check_write_id(request.savepoint_id)
        rollback_id = check_write_id(request.rollback_id)
        check_count(len(request.void), "failed writes and rollbacks", MAX_VOID)
        void, held_by = tuple(map(check_write_id, request.void)), _each_once(request.held_by)
        await self._take(
            cmd.RollbackTo(txn_id, table_id, request.owner, savepoint_id, rollback_id, table_id in held_by, void)
            for table_id in _each_once(request.table_ids)
        )
        return pb.RollbackToResponse()

    async def _take(self, steps: Iterable[Step]) -> None:
        wanted = list(steps)
        found = [self._participant(each.table_id) for each in wanted]
        await asyncio.gather(*(self._take_one(*each) for each in zip(found, wanted, strict=True)))

    async def _take_one(self, table: TableState, step: Step) -> None:
        """The table may be listed, and have no record: then nothing was written to it yet."""
        begins = await self.registering.registered(table, step.txn_id, step.owner)
        await self.propose(replace(step, begins=begins))

    def _participant(self, table_id: str) -> TableState:
        found = self.shard.find(table_id)
        if found is None:
            raise self.shard.no_table(table_id)
        return found


def _each_once(table_ids: Sequence[str]) -> dict[str, None]:
    check_count(len(table_ids), "participants", MAX_OPS_PER_CALL)
    return dict.fromkeys(table_ids)
