"""Translates the writes of an open transaction that speak of files which were compacted meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from txnparticipant.leader import moving
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.shard.translation import untranslated
from txnparticipant.versions.compactions import Switched
from txnparticipant.versions.mvcc import PendingWrite
from txnstatus.errors import DataDamaged
from txnstatus.types import NO_TIMESTAMP, HybridClock, ParticipantState, Timestamp, TxnId


@dataclass(slots=True)
class Translating:
    """One for a shard, on its leader."""

    shard: ParticipantShard
    propose: Callable[[cmd.Command], Awaitable[object]]
    clock: HybridClock
    blocking: Executor

    def is_wanted(self, table_id: str, txn_id: TxnId) -> bool:
        """Whether the transaction speaks of something that was compacted."""
        return self._first(table_id, txn_id, NO_TIMESTAMP) is not None

    async def translate(self, table_id: str, txn_id: TxnId, at: Timestamp = NO_TIMESTAMP) -> None:
        """All of the transaction's on the table; `at`: what switched up to this timestamp, at least.

        One compaction after the other: outputs of one may be inputs of the next. Raises DataDamaged.
        """
        while found := self._first(table_id, txn_id, at):
            await self._translate(table_id, txn_id, *found)

    def _first(self, table_id: str, txn_id: TxnId, at: Timestamp) -> tuple[TableState, PendingWrite, Switched] | None:
        record = self.shard.record(table_id, txn_id)
        if record is None or record.state is not ParticipantState.OPEN:
            return None
        table = self.shard.table_by_id(table_id)
        for write, switched in untranslated(table, record):
            if not at or switched.switch_ts <= at:
                return table, write, switched
        return None

    async def _translate(
        self, table_id: str, txn_id: TxnId, table: TableState, write: PendingWrite, through: Switched
    ) -> None:
        source = moving.sources(write, through, lambda id_: table.file_sets[id_].manifest)
        directory = table.directory(txn_id, write.write_id)
        name = f"_deletes_{through.compaction_id}_{self.clock.now():016x}.parquet"
        loop = asyncio.get_running_loop()
        try:
            with moving.patient():
                moved = await loop.run_in_executor(self.blocking, moving.move, source, table.location, directory, name)
        except DataDamaged as error:
            raise error.of_table(table.name) from error
        written = cmd.MovedWrite(txn_id, write.write_id, moved)
        await self.propose(cmd.TranslateWrites(txn_id, table_id, (written,)))
