"""Cleaner: removes the directories of ended transactions that nobody will ever see, or see again.

It deletes only what a durable record names: the claims of an aborted transaction, those of a committed one that no
manifest uses, and what was retired after an overwrite or a drop (see retirement.py). It goes over each twice, at once
and again after a grace, because a task that outlived its transaction may still be writing; then the record is told, and
forgets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field

from txnparticipant.commands import ForgetTable, MarkCleaned
from txnparticipant.table_store import ParticipantShard
from txnstatus.errors import TxnError
from txnstatus.failpoints import failpoint
from txnstatus.storage import delete_directory, delete_if_empty
from txnstatus.types import TxnId

log = logging.getLogger(__name__)

PASS_SECONDS = 1.0


@dataclass(slots=True)
class _Pass:
    first_at: float
    write_ids: tuple[str, ...]


@dataclass(slots=True)
class Cleaner:
    """One for a shard, on its leader."""

    shard: ParticipantShard
    propose: Callable[[MarkCleaned | ForgetTable], Awaitable[object]]
    disk: Executor
    zombie_grace_seconds: float
    _passes: dict[tuple[str, TxnId], _Pass] = field(default_factory=dict)

    def forget(self) -> None:
        """For a new leadership: both passes anew."""
        self._passes.clear()

    async def run_once(self) -> None:
        now = asyncio.get_running_loop().time()
        for table, txn_id, write_ids in list(self.shard.to_clean()):
            key = table.table_id, txn_id
            done = self._passes.get(key)
            if done and done.write_ids == write_ids and now - done.first_at < self.zombie_grace_seconds:
                continue
            directories = [table.directory(txn_id, write_id) for write_id in write_ids]
            if not await self._delete(directories):
                continue
            if done is None or done.write_ids != write_ids:
                self._passes[key] = _Pass(now, write_ids)
                continue
            try:
                await self.propose(MarkCleaned(txn_id, table.table_id, write_ids))
            except TxnError as error:
                log.info("cleaning of transaction %s on %s will be repeated: %s", txn_id, table.name, error)
            else:
                self._passes.pop(key, None)  # a new leadership may have begun meanwhile

        await self._forget_tables()

    async def _forget_tables(self) -> None:
        """Those that were dropped, and are empty now. What somebody else has put into a table's directory stays."""
        for table in self.shard.spent():
            loop = asyncio.get_running_loop()
            try:
                await loop.run_in_executor(self.disk, delete_if_empty, table.location)
                await self.propose(ForgetTable(table.table_id))
            except (OSError, TxnError) as error:
                log.info("table %s, which was dropped, is forgotten later: %s", table.name, error)

    async def _delete(self, directories: list[str]) -> bool:
        loop = asyncio.get_running_loop()
        try:
            failpoint("cleaner.before_delete")
            for directory in directories:
                await loop.run_in_executor(self.disk, delete_directory, directory)
            failpoint("cleaner.after_delete")
        except (OSError, TxnError) as error:
            log.warning("cannot remove %s, will try again: %s", directories, error)
            return False
        return True
