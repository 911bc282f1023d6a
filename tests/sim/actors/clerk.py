"""A simulated program's transactions of row writes, and its readers (see books.py)."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

from tests.sim.actors.books import APPEND, BOOKS, BY_ROW, KEYS, OVERWRITE, Change, Entry, Rows, RowsRead
from tests.sim.actors.teller import Teller
from txnstatus.errors import LimitReached, NotFound, SnapshotTooOld
from txnstatus.types import Timestamp


class Clerk(Teller):
    async def _keep_books(self) -> None:
        for txn_id in await self._begin():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                await self._keep_books_in(txn_id)
            finally:
                beating.cancel()

    async def _keep_books_in(self, txn_id: int) -> None:
        """What has failed is not committed: nobody knows what of it is written."""
        books = self._shared.books
        entry = books.entries[txn_id] = Entry(txn_id, await self._take_snapshot())
        for _ in range(self._rng.randint(1, 4)):
            table = self._rng.choice(BOOKS)
            with_files = self._rng.random() < max(0.25, self._shared.overwrites)
            try:
                await (self._change_files if with_files else self._change_keys)(entry, table)
            except LimitReached as error:
                self._log(f"{txn_id}: {error.message}")  # it is refused as a whole, and the transaction goes on
            if self._rng.random() < 0.2:
                rows = await self._read_rows(table, entry.snapshot, txn_id)
                books.reads.append(RowsRead(table, entry.snapshot, rows, entry, len(entry.changes)))
            await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.1, 0.5]))
        end = self._rng.random()
        if end < 0.1:
            await self._abort(txn_id)
        elif end > 0.15:
            await self._commit(txn_id)
            self._note_appended(entry)

    async def _change_keys(self, entry: Entry, table: str) -> None:
        kind, rows = self._rng.choice(BY_ROW), self._new_rows(self._some_keys(entry.snapshot))
        answer = await self._change_rows(entry.txn_id, table, kind, rows, entry.snapshot)
        entry.changes.append(Change(table, kind, rows, answer))

    async def _change_files(self, entry: Entry, table: str) -> None:
        kind = OVERWRITE if self._rng.random() < self._shared.overwrites else APPEND
        vouches = kind == APPEND and self._rng.random() < 0.3
        new = [self._shared.books.new_key() for _ in range(self._rng.randint(1, 2))]
        rows = self._new_rows(new if vouches or self._rng.random() < 0.3 else self._some_keys(entry.snapshot))
        answer, at = await self._add_file(
            entry.txn_id, table, rows, entry.snapshot, overwrites=kind == OVERWRITE, vouches=vouches
        )
        entry.changes.append(Change(table, kind, rows, answer, at))

    def _some_keys(self, snapshot: Timestamp) -> list[int]:
        """Keys, with appended rows that the snapshot shows: who does not see one makes it anew, and is not refused."""
        appended = [key for commit_ts, key in self._shared.books.appended if commit_ts <= snapshot]
        known = [*KEYS, *appended[-2:]]
        return self._rng.sample(known, self._rng.randint(1, 4))

    def _new_rows(self, keys: list[int]) -> Rows:
        """No value comes twice in a world."""
        return {key: f"{self._id()} {'x' * self._rng.choice([0, 0, 0, 300])}" for key in keys}

    def _note_appended(self, entry: Entry) -> None:
        """From now on others may change these rows."""
        commit_ts = self._ledger.txns[entry.txn_id].told_commit_ts
        for change in entry.changes:
            if change.kind == APPEND and change.answer.written and commit_ts is not None:
                self._shared.books.appended.extend((commit_ts, key) for key in change.rows)

    # ---- reading

    async def read_everything(self) -> None:
        await super().read_everything()
        for table in sorted(self._shared.books.tables):
            for at in set(self._shared.snapshots):
                with contextlib.suppress(NotFound, SnapshotTooOld):
                    await self._read_book(table, Timestamp(at))
            await self._read_newest(table, partial(self._read_book, table))

    async def _look_into_books(self) -> None:
        """At a new timestamp or an old one, sometimes twice: before and after a flush the same is there."""
        if self._shared.snapshots and self._rng.random() < 0.5:
            at = Timestamp(self._rng.choice(self._shared.snapshots))
        else:
            at = await self._take_snapshot()
            self._shared.snapshots.append(at)
        for table in self._rng.sample(BOOKS, self._rng.randint(1, len(BOOKS))):
            await self._read_book(table, at)

    async def _read_book(self, table: str, at: Timestamp) -> None:
        self._shared.books.reads.append(RowsRead(table, at, await self._read_rows(table, at)))
