"""Cleaner: removes the directories of ended transactions that nobody will ever see, or see again.

It deletes only what a durable record names: the claims of an aborted transaction, those of a committed one that no
manifest uses, and what was retired after an overwrite or a drop (see retirement.py). It goes over each twice, at once
and again after a grace, because a task that outlived its transaction may still be writing; then the record is told, and
forgets. What a committed transaction has claimed and not used, such as a first write that came with its begin, is
nearly always empty: only the second look is taken.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field

from txnparticipant.shard.commands import ForgetTable, MarkCleaned
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import TxnError
from txnstatus.lake import delta_log
from txnstatus.lake.storage import delete_directory, delete_if_empty
from txnstatus.process.failpoints import failpoint
from txnstatus.types import TxnId

log = logging.getLogger(__name__)

PASS_SECONDS = 1.0
AT_ONCE = 50
"""Transactions whose directories one visit to the disk's thread removes, and that one turn of the loop looks at: others
want these, too."""

Key = tuple[str, TxnId]
"""A table's id, and a transaction that left something there."""


@dataclass(slots=True)
class _Pass:
    first_at: float
    write_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Work:
    table_id: str
    txn_id: TxnId
    write_ids: tuple[str, ...]
    directories: tuple[str, ...]
    is_second: bool

    @property
    def key(self) -> Key:
        return self.table_id, self.txn_id


@dataclass(slots=True)
class Cleaner:
    """One for a shard, on its leader."""

    shard: ParticipantShard
    propose_all: Callable[[Sequence[MarkCleaned | ForgetTable]], Awaitable[Sequence[object]]]
    """Proposes them in one go; gives what each came to, a TxnError for one that did not apply."""
    disk: Executor
    zombie_grace_seconds: float
    _knows_all: bool = False
    """Whether it has looked at all there is; from then on it is told of what changes."""
    _due: list[tuple[float, str, TxnId]] = field(default_factory=list)
    """A heap of when what is to be looked at, by table id: a pass does not touch what is in its grace."""
    _passes: dict[Key, _Pass] = field(default_factory=dict)
    _failed: list[Key] = field(default_factory=list)
    """What is to be tried again in the next pass."""

    @property
    def backlog(self) -> int:
        """Ended transactions with directories that are to go, by table."""
        return len(self._passes)

    def forget(self) -> None:
        """For a new leadership: both passes anew."""
        self._knows_all = False
        for known in (self._due, self._passes, self._failed):
            known.clear()

    async def run_once(self) -> None:
        now = asyncio.get_running_loop().time()
        for table_id, txn_id in self._news():
            heapq.heappush(self._due, (now, table_id, txn_id))
        while keys := self._take_due(now):
            if works := [work for key in keys if (work := self._work(*key, now)) is not None]:
                await self._clean(works, now)
            elif len(keys) == AT_ONCE:
                await asyncio.sleep(0)  # a new leader finds what was committed of late, all of it in its grace
        for key in self._failed:
            heapq.heappush(self._due, (now, *key))
        self._failed.clear()
        await self._forget_tables()

    def _news(self) -> list[Key]:
        changed = self.shard.newly_to_clean()
        if self._knows_all:
            return changed
        self._knows_all = True
        return [(table.table_id, txn_id) for table, txn_id, _ in self.shard.to_clean()]

    def _take_due(self, now: float) -> list[Key]:
        """Each once: what is due longest, up to AT_ONCE."""
        due: dict[Key, None] = {}
        while len(due) < AT_ONCE and self._due and self._due[0][0] <= now:
            _, table_id, txn_id = heapq.heappop(self._due)
            due[table_id, txn_id] = None
        return list(due)

    def _work(self, table_id: str, txn_id: TxnId, now: float) -> _Work | None:
        """What is to be removed now; None: nothing is, or it is in its grace."""
        key = table_id, txn_id
        write_ids = self.shard.writes_to_clean(table_id, txn_id)
        if not write_ids:
            self._passes.pop(key, None)
            return None
        done = self._passes.get(key)
        if done is None and self.shard.are_unused(table_id, txn_id, write_ids):
            done = self._passes[key] = _Pass(now, write_ids)
        is_second = done is not None and done.write_ids == write_ids
        if done and is_second and now - done.first_at < self.zombie_grace_seconds:
            heapq.heappush(self._due, (done.first_at + self.zombie_grace_seconds, *key))
            return None
        table = self.shard.table_by_id(table_id)
        directories = tuple(table.directory(txn_id, write_id) for write_id in write_ids)
        return _Work(table_id, txn_id, write_ids, directories, is_second)

    async def _clean(self, works: Sequence[_Work], now: float) -> None:
        """Removes the directories, and says when each is to be looked at again."""
        failed = await self._delete(works)
        gone = []
        for work in works:
            if work.key in failed:
                told = ", ".join(work.directories), failed[work.key]
                log.warning("cannot remove %s, will try again: %s", *told, extra={"txn_id": work.txn_id})
                self._failed.append(work.key)
            elif work.is_second:
                gone.append(work)
            else:
                self._passes[work.key] = _Pass(now, work.write_ids)
                heapq.heappush(self._due, (now + self.zombie_grace_seconds, *work.key))
        if gone:
            await self._tell(gone)

    async def _tell(self, works: Sequence[_Work]) -> None:
        answers = await self.propose_all([MarkCleaned(each.txn_id, each.table_id, each.write_ids) for each in works])
        for work, answer in zip(works, answers, strict=True):
            if isinstance(answer, TxnError):
                log.info(
                    "cleaning of transaction %s on %s will be repeated: %s",
                    work.txn_id,
                    work.table_id,
                    answer,
                    extra={"txn_id": work.txn_id},
                )
                self._failed.append(work.key)
            else:
                self._passes.pop(work.key, None)  # a new leadership may have begun meanwhile

    async def _forget_tables(self) -> None:
        """Forgets dropped tables that are empty now. What somebody else has put into a table's directory stays."""
        for table in self.shard.spent():
            loop = asyncio.get_running_loop()
            answer: object
            try:
                await loop.run_in_executor(self.disk, _delete_place, table.location, table.table_id)
                (answer,) = await self.propose_all([ForgetTable(table.table_id)])
            except OSError as error:
                answer = error
            if isinstance(answer, Exception):
                log.info("table %s, which was dropped, is forgotten later: %s", table.name, answer)

    async def _delete(self, works: Sequence[_Work]) -> Mapping[Key, Exception]:
        """In one visit to the disk's thread; returns what could not be removed, and why."""
        try:
            failpoint("cleaner.before_delete")
            failed = await asyncio.get_running_loop().run_in_executor(self.disk, _delete_all, works)
            failpoint("cleaner.after_delete")
        except OSError as error:
            return {work.key: error for work in works}
        return failed


def _delete_place(location: str, table_id: str) -> None:
    """The location of a table that is gone, with the log that was published of it."""
    if location.startswith("file:///"):
        delta_log.remove(location, table_id)
    delete_if_empty(location)


def _delete_all(works: Sequence[_Work]) -> Mapping[Key, Exception]:
    failed: dict[Key, Exception] = {}
    for work in works:
        try:
            for directory in work.directories:
                delete_directory(directory)
        except (OSError, TxnError) as error:
            failed[work.key] = error
    return failed
