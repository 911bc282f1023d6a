"""Initiator: on a shard's leader, finds partitions that are worth compacting, and tasks that nobody works at any more.

When a worker was heard of is in this leader's memory: a new one gives each the whole time of a lease. Who has a task is
replicated, so that nobody else's output is ever taken for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from txnparticipant.shard import commands as cmd
from txnparticipant.shard.compacting import OVERWRITTEN, overwritten
from txnparticipant.shard.compaction_choice import Due, Thresholds, due
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.compactions import Compaction, State, compaction_id
from txnstatus.catalog.options import Options
from txnstatus.errors import TxnError
from txnstatus.table_properties import no_auto_compaction, own
from txnstatus.types import HybridClock

log = logging.getLogger(__name__)

LOOKED_AT_ONCE = 100
"""Tables of a pass in one turn of the loop."""
SLACK = 1.1
"""Two clocks do not tick alike: here a lease lasts longer than its holder counts on."""


@dataclass(slots=True)
class Initiator:
    """One for a shard."""

    shard: ParticipantShard
    propose: Callable[[cmd.Command], Awaitable[object]]
    clock: HybridClock
    options: Callable[[], Options]
    _heard: dict[tuple[str, str], float] = field(default_factory=dict)
    """Table and compaction → when its worker was heard of."""
    _looked: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Table → what there was of it at the last look: nothing is counted where nothing has changed."""

    def forget(self) -> None:
        """For a new leadership."""
        self._heard.clear()
        self._looked.clear()

    def heard_of(self, table_id: str, compaction: str) -> None:
        self._heard[table_id, compaction] = asyncio.get_running_loop().time()

    async def run_once(self) -> None:
        """One pass over all tables."""
        for looked_at, table in enumerate(list(self.shard.tables()), start=1):
            if looked_at % LOOKED_AT_ONCE == 0:
                await asyncio.sleep(0)
            try:
                await self._end_lost(table)
                await self._open(table)
            except TxnError as error:
                log.info("compactions of %s are looked at again later: %s", table.name, error.message)

    async def _end_lost(self, table: TableState) -> None:
        now, seconds = asyncio.get_running_loop().time(), self.options().compact_lease_ms / 1000
        for wanted in list(table.compactions.open.values()):
            if not wanted.worker:
                continue
            heard = self._heard.setdefault((table.table_id, wanted.compaction_id), now)
            if overwritten(table, wanted):
                await self._drop(table, wanted, State.ATTEMPTED, OVERWRITTEN)
            elif now - heard > seconds * SLACK:
                await self._drop(
                    table, wanted, State.FAILED, f"worker {wanted.worker} was not heard of for {seconds} s"
                )

    async def _drop(self, table: TableState, wanted: Compaction, state: State, reason: str) -> None:
        log.info("compaction %s of %s is given up: %s", wanted.compaction_id, table.name, reason)
        await self.propose(cmd.DropCompaction(table.table_id, wanted.compaction_id, state, reason, self.clock.now()))
        self._heard.pop((table.table_id, wanted.compaction_id), None)

    async def _open(self, table: TableState) -> None:
        if table.is_database or table.dropped is not None:
            return
        if no_auto_compaction(table.properties):
            return
        options = self.options()
        at = Thresholds(
            own(table.properties, "compact_delta_num", options.compact_delta_num),
            own(table.properties, "compact_delta_pct", options.compact_delta_pct),
            options.compact_file_bytes,
        )
        ended = table.compactions.ended
        there = len(table.file_sets), len(table.replaced), len(table.deletes.all), len(table.rows.flushes)
        now = *there, ended[-1].ended if ended else 0
        looked = *now, at.delta_num, at.delta_pct, at.file_bytes, options.compact_failures
        if self._looked.get(table.table_id) == looked:
            return
        for found in due(table, at):
            if found is None:
                await asyncio.sleep(0)
            elif table.compactions.of(found.partition) is None:
                await self._initiate(table, found, options.compact_failures)
        self._looked[table.table_id] = looked

    async def _initiate(self, table: TableState, due: Due, failures: int) -> None:
        at = self.clock.now()
        new = compaction_id(due.kind, at)
        failed = table.compactions.failed(due.partition)
        if failed >= failures and table.compactions.is_told_off(due.partition):
            return
        await self.propose(
            cmd.OpenCompaction(
                table.table_id, new, due.kind, due.partition, requested=False, at=at, input_bytes=due.input_bytes
            )
        )
        if failed >= failures:
            reason = f"{failed} compactions of the partition have failed in a row: only a request begins another one"
            await self._drop(table, table.compactions.open[new], State.ATTEMPTED, reason)
