"""Flusher: writes committed MemRowSets of a table to one file, together; on the shard's leader.

The file holds every change with its commit timestamp, so a reader at any timestamp gets the same answer before and
after. Its directory is claimed in the log before anything is written there. A claim that came to nothing is removed:
its directory goes twice, at once and again after a grace, because a leader that was deposed may still be writing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from txnparticipant.rows.memrowset import RowSet
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.mvcc import Manifest
from txnstatus.errors import TxnError
from txnstatus.lake import data_files, manifest
from txnstatus.lake import rows as row_format
from txnstatus.lake.storage import delete_directory, file_system, make_directory
from txnstatus.process.failpoints import failpoint
from txnstatus.types import HybridClock

log = logging.getLogger(__name__)

FLUSH_TXNS = 1_000
"""Transactions whose rows of one table are in memory, from which on they are flushed: readers are sent each."""
MAX_GIVEN_UP = 10
"""Claims of one table that wait for their directories to be removed: while there are so many, it is not flushed."""


@dataclass(slots=True)
class Flusher:
    """One for a shard."""

    shard: ParticipantShard
    propose: Callable[[cmd.Command], Awaitable[object]]
    clock: HybridClock
    blocking: Executor
    zombie_grace_seconds: float
    flush_bytes: int
    """Bytes of committed rows of one table in memory, from which on they are flushed."""
    wanted: asyncio.Event
    """Set by whoever waits for memory: then the table with the most rows is flushed, however few they are."""
    _dropped_at: dict[tuple[str, str], float] = field(default_factory=dict)
    """When the directory of a claim that came to nothing was removed for the first time."""

    def forget(self) -> None:
        """For a new leadership."""
        self._dropped_at.clear()

    async def run_once(self) -> None:
        """Flushes what is due, one table after the other, and removes what came to nothing.

        What is claimed when nothing is being flushed here came to nothing.
        """
        for table in self._due():
            try:
                await self._flush(table)
            except (OSError, TxnError) as error:
                log.warning("row changes of %s stay in memory, will try again: %s", table.name, error)
        for table in list(self.shard.tables()):
            for flush_id in (*table.rows.flushing, *table.rows.given_up, *table.rows.spent):
                try:
                    await self._drop(table, flush_id)
                except (OSError, TxnError) as error:
                    log.warning("cannot remove flush %s of %s, will try again: %s", flush_id, table.name, error)

    def _due(self) -> list[TableState]:
        wanted = self.wanted.is_set()
        self.wanted.clear()
        sizes = {table.table_id: table.rows.unflushed_bytes for table in self.shard.tables() if table.rows.unflushed}
        largest = max(sizes.values(), default=0)
        return [
            table
            for table in self.shard.tables()
            if (size := sizes.get(table.table_id, 0))
            and len(table.rows.given_up) < MAX_GIVEN_UP
            and (size >= self.flush_bytes or len(table.rows.unflushed) >= FLUSH_TXNS or (wanted and size == largest))
        ]

    async def _flush(self, table: TableState) -> None:
        row_sets = tuple(table.rows.unflushed.values())
        flush_id = f"rows{self.clock.now():016x}"
        await self.propose(cmd.OpenFlush(table.table_id, flush_id))
        failpoint("flush.before_write", OSError)
        loop = asyncio.get_running_loop()
        written = await loop.run_in_executor(self.blocking, _write_file, table, flush_id, row_sets)
        failpoint("flush.after_write", OSError)
        txn_ids = tuple(row_set.txn_id for row_set in row_sets)
        await self.propose(cmd.FlushRows(table.table_id, flush_id, written, txn_ids))
        log.info("row changes of %d transactions on %s are in %s", len(row_sets), table.name, written.path)

    async def _drop(self, table: TableState, flush_id: str) -> None:
        """First nobody may make anything of it any more: a former leader that wrote it may lead again."""
        if flush_id in table.rows.flushing:
            await self.propose(cmd.DropFlush(table.table_id, flush_id, gone=False))
        key, now = (table.table_id, flush_id), asyncio.get_running_loop().time()
        first = self._dropped_at.get(key)
        if first is not None and now - first < self.zombie_grace_seconds:
            return
        directory = table.flush_directory(flush_id)
        await asyncio.get_running_loop().run_in_executor(self.blocking, delete_directory, directory)
        if first is None and flush_id not in table.rows.spent:
            self._dropped_at[key] = now
            return
        await self.propose(cmd.DropFlush(table.table_id, flush_id, gone=True))
        self._dropped_at.pop(key, None)


def _write_file(table: TableState, flush_id: str, row_sets: Sequence[RowSet]) -> Manifest:
    """Writes the last of the changes that each transaction made to a row. Blocking; durable when it returns."""
    changes = row_format.changes_table(
        (
            row_format.Change(row_set.commit_ts, batch.deletes, batch.rows)
            for row_set in sorted(row_sets, key=lambda each: each.commit_ts)
            for batch in row_set.batches
        ),
        table.schemas.columns_of_all_times(table.schema),
    )
    commits = changes[row_format.COMMIT_TS]
    changes = row_format.last_of_each(changes, [commits, row_format.encode_keys(changes, table.schema)])
    directory = table.flush_directory(flush_id)
    system, root = file_system(directory)
    make_directory(system, root)
    uri = f"{directory}/changes.parquet"
    sorted_by_key = changes.sort_by([(name, "ascending") for name in table.schema.primary_key])
    _, size, ending, crc32 = data_files.write(sorted_by_key, f"{root}/changes.parquet", system)
    file = manifest.DataFile(uri, changes.num_rows, size, ending=ending, crc32=crc32)
    newest = max(row_set.txn_id for row_set in row_sets)
    ref = manifest.write(
        directory, [file], table_id=table.table_id, txn_id=newest, write_id=flush_id, not_durable=[file]
    )
    return cmd.manifest_from_wire(ref)
