"""A simulated program that takes back what was committed, and keeps what was by savepoints, by the library's code.

What it takes back is judged by rolls.py, and what savepoints keep by tests.sim.judges.points.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import quote

from pyroaring import BitMap

from tests.sim.actors.registrar import Registrar
from tests.sim.actors.rolls import ROLLS, Entry, Span
from tests.sim.actors.rows import Write
from tests.sim.actors.transactor import OWNER
from tests.sim.judges.points import Point
from txnclient.history.effects import Copy, inverse
from txnclient.read.table_files import TableFiles
from txnstatus.errors import AlreadyExists, Conflict, SnapshotTooOld, TxnError, Unavailable
from txnstatus.lake import dead_rows
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import duplicate, partition_directory
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import savepoint_pb2, table_pb2
from txnstatus.types import Timestamp

NAMES = ("monday", "tuesday", "wednesday")
"""Few, so that programs want the same."""
RECENT = 6
"""Commits of which one is taken back."""
SAVEPOINTS = "txnstatus.Savepoints"


class Historian(Registrar):
    # ---- undo and restore

    async def _take_back(self) -> None:
        """What one transaction did, or all since a time; now and then by several transactions at once, or again."""
        done, now = self._some_commit(), await self._take_snapshot()
        spans: dict[str, Span] = {}
        if done is not None and self._rng.random() < 0.7:
            at = self._ledger.txns[done.txn_id].told_commit_ts or 0
            spans = {table: Span(Timestamp(at - 1), Timestamp(at)) for table in done.tables}
        elif self._shared.snapshots:
            to = Timestamp(min(now, self._rng.choice(self._shared.snapshots[-RECENT:])))
            spans = {table: Span(to, now) for table in self._rng.sample(ROLLS, self._rng.randint(1, len(ROLLS)))}
        for txn_id in await self._begin() if spans else ():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                await self._take_back_in(txn_id, spans)
            except Conflict as error:
                self._log(f"{txn_id} takes nothing back: {error.message}")
            finally:
                beating.cancel()

    def _some_commit(self) -> Entry | None:
        """One of the last, as far as programs were told."""
        txns = self._ledger.txns
        done = [each for each in self._shared.rolls.entries.values() if txns[each.txn_id].told_commit_ts]
        done.sort(key=lambda each: txns[each.txn_id].told_commit_ts or 0)
        return self._rng.choice(done[-RECENT:]) if done else None

    async def _take_back_in(self, txn_id: int, spans: Mapping[str, Span]) -> None:
        until = next(iter(spans.values())).until
        entry = self._shared.rolls.entries[txn_id] = Entry(txn_id, until, takes_back=spans)
        for table, span in spans.items():
            await self._take_table_back(entry, table, span)
            await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.1]))
        entry.commits_at = self._shared.now()
        try:
            await self._commit(txn_id)
        except Conflict as error:
            entry.refused = error.winner, error.message
            raise

    async def _take_table_back(self, entry: Entry, table: str, span: Span) -> None:
        """As txnclient.history.reverting."""
        before, after = [await self._read_roll(table, at) for at in span]
        found = inverse(before, after)
        if copies := found.copies_in(replaced=True):
            write = await self._open_write(entry.txn_id, table)
            made = self._copied(copies, write)
            request = self._request(entry, table, write, made)
            request.mode, request.read_timestamp = table_pb2.OVERWRITE, entry.snapshot
            request.overwrites.extend(sorted(found.replaced - {WHOLE_TABLE}))
            await self._add(request)
            await self._add_parts(entry, table, _dead(copies, made), _shown(after, entry, write, made))
        if (copies := found.copies_in(replaced=False)) or found.dead:
            write = await self._open_write(entry.txn_id, table)
            made = self._copied(copies, write)
            dead, shown = dead_rows.union([found.dead, _dead(copies, made)]), _shown(after, entry, write, made)
            await self._add_parts(entry, table, dead, shown, write, made)

    def _copied(self, copies: Sequence[Copy], write: Write) -> list[DataFile]:
        """Raises Unavailable where a file is gone, and so is the lease by which it was found."""
        made = []
        for number, copy in enumerate(copies):
            name = f"{partition_directory(copy.file.partition)}/part-{number:05}.parquet"
            path = f"{write.directory}{quote(name, safe='/=')}"
            try:
                duplicate(copy.file.path, path)
            except OSError as error:
                raise Unavailable(str(error)) from error
            made.append(replace(copy.file, path=path))
        return made

    # ---- savepoints

    async def _keep_points(self) -> None:
        kept = [each for each in self._shared.points.all if each.is_kept]
        match self._rng.choice(["make", "read", "read", "list", "release"]):
            case "make":
                await self._make_point()
            case "read" if kept:
                await self._read_point(self._rng.choice(kept))
            case "release" if kept:
                await self._release_point(self._rng.choice(kept))
            case _:
                await self._list_points()

    async def _make_point(self) -> None:
        there = sorted({*self._shared.rolls.tables, *self._ledger.tables})
        some = self._rng.sample(there, self._rng.randint(1, len(there))) if self._rng.random() < 0.7 else []
        at, asked_at = await self._take_snapshot(), self._shared.now()
        point = Point(self._id(), self._rng.choice(NAMES), at, frozenset(some or there), asked_at)
        self._shared.points.all.append(point)
        request = savepoint_pb2.CreateSavepointRequest(
            savepoint_id=point.savepoint_id, name=point.name, owner=OWNER, timestamp=at, tables=some
        )
        try:
            for _ in range(self._rng.choice([1, 1, 2])):
                await self._call(f"{SAVEPOINTS}/CreateSavepoint", request, savepoint_pb2.CreateSavepointResponse)
        except AlreadyExists as error:
            point.let_go_at = self._shared.now()
            self._log(f"{point.name} is not made: {error.message}")
            return
        except TxnError:
            point.let_go_at = self._shared.now()  # whether it is there, nobody knows
            raise
        point.made_at = self._shared.now()
        self._log(f"{point.savepoint_id} keeps {some or 'all'} as {point.name} at {at}")
        self._shared.points.made(point, self._ledger)

    async def _read_point(self, point: Point) -> None:
        """What it keeps is there, whatever was retired since; at later timestamps, too."""
        later = [at for at in self._shared.snapshots if at >= point.timestamp]
        at = Timestamp(self._rng.choice([point.timestamp, *later[-1:]]))
        for table in sorted(point.tables):
            try:
                await (self._read_roll(table, at) if table in ROLLS else self._scan(table, at, self._id()))
            except SnapshotTooOld as error:
                if point.is_kept:
                    self._ledger.violation("savepoints", f"{table} is kept at {at} by {point}: {error.message}")
                return

    async def _release_point(self, point: Point) -> None:
        point.let_go_at = self._shared.now()
        request = savepoint_pb2.ReleaseSavepointRequest(name=point.name, savepoint_id=point.savepoint_id)
        await self._call(f"{SAVEPOINTS}/ReleaseSavepoint", request, savepoint_pb2.ReleaseSavepointResponse)
        point.gone_at = self._shared.now()
        self._log(f"{point.savepoint_id} is released")

    async def _list_points(self) -> None:
        asked_at = self._shared.now()
        request, method = savepoint_pb2.ListSavepointsRequest(), f"{SAVEPOINTS}/ListSavepoints"
        answer = await self._call(method, request, savepoint_pb2.ListSavepointsResponse)
        self._shared.points.listed(answer.savepoints, asked_at, self._ledger)

    async def read_everything(self) -> None:
        await super().read_everything()
        for point in self._shared.points.all:
            if point.is_kept:
                await self._read_point(point)
        if self._shared.looks_back:
            await self._list_points()


def _shown(after: TableFiles, entry: Entry, write: Write, made: Sequence[DataFile]) -> TableFiles:
    """The table with the files of the write."""
    own = f"{entry.txn_id}_{write.write_id}", made
    return replace(after, files=(*after.files, *made), writes=(*after.writes, own))


def _dead(copies: Sequence[Copy], made: Sequence[DataFile]) -> dict[str, BitMap]:
    return {file.path: copy.dead for copy, file in zip(copies, made, strict=True) if copy.dead}
