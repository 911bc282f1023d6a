"""Cleaner: removes the directories of ended transactions that nobody will ever see, or see again.

It deletes only what a durable record names: the claims of an aborted transaction, those of a committed one that no
manifest uses, and what was retired after an overwrite or a drop (see retirement.py). It goes over each twice, at once
and again after a grace, because a task that outlived its transaction may still be writing; then the record is told, and
forgets.
"""

from __future__ import annotations

import asyncio
import heapq
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
    _knows_all: bool = False
    """Whether it has looked at all there is; from then on it is told of what changes."""
    _due: list[tuple[float, str, TxnId]] = field(default_factory=list)
    """A heap of when what is to be looked at, by table id: a pass does not touch what is in its grace."""
    _passes: dict[tuple[str, TxnId], _Pass] = field(default_factory=dict)

    def forget(self) -> None:
        """For a new leadership: both passes anew."""
        self._knows_all = False
        self._due.clear()
        self._passes.clear()

    async def run_once(self) -> None:
        now = asyncio.get_running_loop().time()
        for table_id, txn_id in self._news():
            heapq.heappush(self._due, (now, table_id, txn_id))
        due: dict[tuple[str, TxnId], None] = {}
        while self._due and self._due[0][0] <= now:
            _, table_id, txn_id = heapq.heappop(self._due)
            due[table_id, txn_id] = None
        for table_id, txn_id in due:
            again_at = await self._clean(table_id, txn_id, now)
            if again_at is not None:
                heapq.heappush(self._due, (again_at, table_id, txn_id))
        await self._forget_tables()

    def _news(self) -> list[tuple[str, TxnId]]:
        changed = self.shard.newly_to_clean()
        if self._knows_all:
            return changed
        self._knows_all = True
        return [(table.table_id, txn_id) for table, txn_id, _ in self.shard.to_clean()]

    async def _clean(self, table_id: str, txn_id: TxnId, now: float) -> float | None:
        """Returns when to look at it again; None: when it changes."""
        key = table_id, txn_id
        write_ids = self.shard.writes_to_clean(table_id, txn_id)
        if not write_ids:
            self._passes.pop(key, None)
            return None
        table, done = self.shard.table_by_id(table_id), self._passes.get(key)
        is_second = done is not None and done.write_ids == write_ids
        if done and is_second and now - done.first_at < self.zombie_grace_seconds:
            return done.first_at + self.zombie_grace_seconds
        if not await self._delete([table.directory(txn_id, write_id) for write_id in write_ids]):
            return now
        if not is_second:
            self._passes[key] = _Pass(now, write_ids)
            return now + self.zombie_grace_seconds
        try:
            await self.propose(MarkCleaned(txn_id, table_id, write_ids))
        except TxnError as error:
            log.info("cleaning of transaction %s on %s will be repeated: %s", txn_id, table.name, error)
            return now
        self._passes.pop(key, None)  # a new leadership may have begun meanwhile
        return None

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
