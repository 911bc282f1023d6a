"""A simulated program's statements on tables without a key, by the client library's code, and its readers (rolls.py).

Only the engine is its own: it says which rows at which positions of which files a statement is about.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap

from tests.sim.actors.reader import LEASE_SECONDS
from tests.sim.actors.rolls import (
    APPEND,
    DELETE,
    KEYS,
    MERGE,
    OVERWRITE,
    PARTED_ROLL,
    PARTS,
    ROLL_SCHEMAS,
    ROLLS,
    UPDATE,
    Change,
    Difference,
    Entry,
    RollRead,
    Row,
)
from tests.sim.actors.rows import RowCaller, Write
from tests.sim.actors.transactor import OWNER
from txnclient.change.plan import Looked, RowsChanged
from txnclient.formats import arrow
from txnclient.read import diff
from txnclient.read.table_files import TableFiles
from txnclient.write.changing import looked_for
from txnclient.write.deletes import described, parts_of
from txnclient.write.files import holds_of
from txnstatus.errors import Conflict, NotFound, SnapshotTooOld, Unavailable
from txnstatus.lake import manifest
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import WRITE_PREFIX
from txnstatus.proto import table_pb2
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

STATEMENTS = {APPEND: 3, DELETE: 3, UPDATE: 4, MERGE: 5, OVERWRITE: 2}
"""Kinds, and how often each comes."""


class Placed(NamedTuple):
    file: str
    position: int
    row: Row


@dataclass(frozen=True)
class Asked:
    """What a statement is about, among what its transaction sees."""

    kind: str
    gone: Sequence[Placed] = ()
    added: tuple[Row, ...] = ()
    missed: frozenset[int] = frozenset()
    looked: tuple[Looked, ...] = ()
    overwrites: tuple[str, ...] = ()
    """Partitions; none: the whole table, where it overwrites."""


class Registrar(RowCaller):
    # ---- writing

    async def _keep_rolls(self) -> None:
        for txn_id in await self._begin():
            beating = asyncio.ensure_future(self._keep_alive(txn_id))
            try:
                await self._keep_rolls_in(txn_id)
            finally:
                beating.cancel()

    async def _keep_rolls_in(self, txn_id: int) -> None:
        """What has failed is not committed: nobody knows what of it is written."""
        rolls = self._shared.rolls
        entry = rolls.entries[txn_id] = Entry(txn_id, await self._take_snapshot())
        for _ in range(self._rng.randint(1, 3)):
            await self._change_roll(entry, self._rng.choice(ROLLS))
            await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.1, 0.5]))
        if self._rng.random() < 0.2:
            await self._read_roll(self._rng.choice(ROLLS), entry.snapshot, entry)
        end = self._rng.random()
        if end < 0.1:
            await self._abort(txn_id)
        elif end > 0.15:
            entry.commits_at = self._shared.now()
            try:
                await self._commit(txn_id)
            except Conflict as error:
                entry.refused = error.winner, error.message
                raise

    async def _change_roll(self, entry: Entry, table: str) -> None:
        write = await self._open_write(entry.txn_id, table)
        seen = await self._read_roll(table, entry.snapshot, entry)
        asked = self._ask(table, list(self._placed(seen)))
        await asyncio.sleep(self._rng.choice([0.0, 0.0, 0.05, 0.3]))
        if asked.kind == OVERWRITE:
            await self._overwrite(entry, table, write, asked)
        else:
            await self._add_changed(entry, table, write, seen, asked)
        gone = frozenset(placed.row.v for placed in asked.gone)
        entry.changes.append(Change(table, asked.kind, gone, asked.added, asked.missed))

    def _ask(self, table: str, there: Sequence[Placed]) -> Asked:
        """A statement by chance."""
        kind = self._rng.choices(list(STATEMENTS), list(STATEMENTS.values()))[0]
        keys = self._rng.sample(KEYS, self._rng.randint(1, 3))
        hit = [placed for placed in there if placed.row.k in keys]
        if self._rng.random() < 0.3:
            hit = self._rng.sample(hit, min(len(hit), 1))
        match kind:
            case "delete":
                return Asked(kind, hit)
            case "update":
                new = self._rng.random() < 0.2
                return Asked(kind, hit, tuple(self._row(k=None if new else placed.row.k) for placed in hit))
            case "merge":
                return self._ask_merge(keys, there)
            case "overwrite":
                part = self._rng.choice(PARTS)
                whole = table != PARTED_ROLL or self._rng.random() < 0.4
                rows = tuple(self._row(p=None if whole else part) for _ in range(self._rng.randint(0, 4)))
                gone = [placed for placed in there if whole or placed.row.p == part]
                return Asked(kind, gone, rows, overwrites=() if whole else (f"p={part}",))
        return Asked(APPEND, added=tuple(self._row() for _ in range(self._rng.randint(1, 5))))

    def _ask_merge(self, keys: Sequence[int], there: Sequence[Placed]) -> Asked:
        hit = [placed for placed in there if placed.row.k in keys]
        missed = frozenset(keys) - {placed.row.k for placed in hit}
        updated = () if self._rng.random() < 0.3 else tuple(self._row(k=placed.row.k) for placed in hit)
        looked = Looked("k", str(min(keys)), str(max(keys)))
        return Asked(MERGE, hit, (*updated, *(self._row(k=k) for k in sorted(missed))), missed, (looked,))

    def _row(self, k: int | None = None, p: int | None = None) -> Row:
        chosen = self._rng.choice(KEYS) if k is None else k, self._rng.choice(PARTS) if p is None else p
        return self._shared.rolls.new_row(*chosen)

    async def _overwrite(self, entry: Entry, table: str, write: Write, asked: Asked) -> None:
        files = self._written(table, write, asked.added)
        request = self._request(entry, table, write, files)
        request.mode, request.read_timestamp = table_pb2.OVERWRITE, entry.snapshot
        request.overwrites.extend(asked.overwrites)
        await self._add(request)

    async def _add_changed(self, entry: Entry, table: str, write: Write, seen: TableFiles, asked: Asked) -> None:
        """As txnclient.write.changing.Changes."""
        dead: defaultdict[str, BitMap] = defaultdict(BitMap)
        for placed in asked.gone:
            dead[placed.file].add(placed.position)
        changed = RowsChanged(dead, inserted=len(asked.missed), looked=asked.looked)
        looked = looked_for(changed, entry.snapshot, seen.schema) if changed.inserted else None
        files = self._written(table, write, asked.added)
        await self._add_parts(entry, table, changed.dead, seen, write, files, looked)

    async def _add_parts(
        self,
        entry: Entry,
        table: str,
        dead: Mapping[str, BitMap],
        seen: TableFiles,
        write: Write | None = None,
        files: Sequence[DataFile] = (),
        looked: table_pb2.Looked | None = None,
    ) -> None:
        """Adds files, and deletes rows. `write`: of the files; further ones have what one may not say alone."""
        for number, part in enumerate(parts_of(dead) if dead or files else ()):
            into = write if write is not None and not number else await self._open_write(entry.txn_id, table)
            request = self._request(entry, table, into, () if number else files)
            if not number:
                request.holds.extend(holds_of(files, Schema.from_wire(ROLL_SCHEMAS[table])))
            if looked is not None and not number:
                request.looked.CopyFrom(looked)
            try:
                deletes = described(into.directory, seen, part, entry.snapshot)
            except OSError as error:
                raise Unavailable(str(error)) from error
            if deletes is not None:
                request.deletes.CopyFrom(deletes)
            await self._add(request)

    def _written(self, table: str, write: Write, rows: Sequence[Row]) -> list[DataFile]:
        if not rows:
            return []
        columns = zip(Row._fields, zip(*rows, strict=True), strict=True)
        data = pa.table({name: pa.array(values, pa.int64()) for name, values in columns})
        return arrow.write_files(data, write.directory, Schema.from_wire(ROLL_SCHEMAS[table]), table)

    def _request(self, entry: Entry, table: str, write: Write, files: Sequence[DataFile]) -> table_pb2.AddFilesRequest:
        listed = {"table_id": write.table_id, "txn_id": entry.txn_id, "write_id": write.write_id}
        try:
            ref = manifest.write(write.directory, files, **listed, not_durable=files)  # type: ignore[arg-type]
        except OSError as error:
            raise Unavailable(str(error)) from error
        return table_pb2.AddFilesRequest(
            txn_id=entry.txn_id,
            owner=OWNER,
            table=table,
            write_id=write.write_id,
            mode=table_pb2.APPEND,
            manifest=ref,
        )

    async def _add(self, request: table_pb2.AddFilesRequest) -> None:
        for _ in range(self._rng.choice([1, 1, 2])):
            await self._call("txnstatus.Table/AddFiles", request, table_pb2.AddFilesResponse)

    # ---- reading

    async def read_everything(self) -> None:
        await super().read_everything()
        for table in sorted(self._shared.rolls.tables):
            earlier: Timestamp | None = None
            for at in sorted({*self._shared.snapshots, await self._take_snapshot()}):
                with contextlib.suppress(NotFound, SnapshotTooOld):
                    await self._read_roll(table, Timestamp(at))
                    if earlier is not None:
                        await self._compare_roll(table, earlier, Timestamp(at))
                    earlier = Timestamp(at)
            await self._read_newest(table, partial(self._read_roll, table))

    async def _look_into_rolls(self) -> None:
        """At a new timestamp or an old one, sometimes for long, and in comparison."""
        snapshots = self._shared.snapshots
        old = Timestamp(self._rng.choice(snapshots)) if snapshots else None
        at = old if old is not None and self._rng.random() < 0.3 else await self._take_snapshot()
        if at not in snapshots:
            snapshots.append(at)
        table = self._rng.choice(ROLLS)
        match self._rng.choice(["read", "read", "compare", "hold"]):
            case "compare" if old is not None:
                await self._compare_roll(table, min(old, at), max(old, at))
            case "hold":
                await self._hold_roll(table, at)
            case _:
                await self._read_roll(table, at)

    async def _compare_roll(self, table: str, since: Timestamp, until: Timestamp) -> None:
        before = await self._scan_roll(table, since, self._id())
        after = await self._scan_roll(table, until, self._id(), since=since)
        found = diff.between(before, after, since, until)
        assert isinstance(found, diff.Changes), "there is no key"
        went, came = (tuple(each.row for each in self._placed(part)) for part in found.parts.values())
        self._shared.rolls.differences.append(Difference(table, since, until, went, came))

    async def _hold_roll(self, table: str, at: Timestamp) -> None:
        """Under one lease, which is renewed: what a scan has shown is there until the end."""
        lease_id = self._id()
        seen = TableFiles.of(await self._scan_roll(table, at, lease_id), at)
        lease = table_pb2.SnapshotLease(
            lease_id=lease_id, table=table, timestamp=at, lease_millis=int(LEASE_SECONDS * 1000)
        )
        end = self._shared.now() + self._rng.uniform(0.0, 4.0)
        while self._shared.now() < end and not self._shared.stopping:
            await asyncio.sleep(LEASE_SECONDS / 3)
            if not await self._renew([lease]):
                return
            gone = [file.path for file in seen.files if not self._shared.warehouse.exists(file.path)]
            self._ledger.read_files(lease_id, table, gone)
        await self._read_roll(table, at, lease_id=lease_id)

    async def _read_roll(
        self, table: str, at: Timestamp, within: Entry | None = None, lease_id: str = ""
    ) -> TableFiles:
        """By a snapshot, or inside a transaction. `lease_id`: of a lease that it has already."""
        changes = len(within.changes) if within is not None else 0
        response = await self._scan_roll(table, at, lease_id or self._id(), within, leased=bool(lease_id))
        seen = TableFiles.of(response, at)
        rows = tuple(placed.row for placed in self._placed(seen))
        self._shared.rolls.reads.append(RollRead(table, at, rows, within, changes))
        return seen

    async def _scan_roll(
        self,
        table: str,
        at: Timestamp,
        lease_id: str,
        within: Entry | None = None,
        *,
        leased: bool = False,
        since: Timestamp | None = None,
    ) -> table_pb2.ScanResponse:
        """All files that it names are there. `since`: with what was compacted since then."""
        sent_at = self._shared.now()
        request = table_pb2.ScanRequest(
            table=table, timestamp=at, lease_id=lease_id, leased=leased, lineages_above=since
        )
        if within is not None:
            request.txn_id, request.owner = within.txn_id, OWNER
        try:
            answer = await self._call("txnstatus.Table/Scan", request, table_pb2.ScanResponse)
        except SnapshotTooOld as error:
            self._shared.refused(table, error.message)
            self._ledger.refused_lease(lease_id, table, error.message)
            raise
        if within is None and (story := self._shared.rolls.shown(table, at, [ref.path for ref in answer.manifests])):
            self._ledger.violation("5 repeatable", story)
        named = [*(ref.path for ref in answer.manifests), *(ref.path for ref in answer.dead)]
        named += [ref.path for ref in answer.lineages]
        own = f"/{WRITE_PREFIX}{within.txn_id}_" if within is not None else None
        kept = [path for path in named if own is None or own not in path]  # its own go with it
        self._ledger.leased(lease_id, table, kept, sent_at + LEASE_SECONDS)
        self._check_there(lease_id, table, named)
        return answer

    def _check_there(self, lease_id: str, table: str, named: Sequence[str]) -> None:
        gone = [path for path in named if not self._shared.warehouse.exists(path)]
        self._ledger.read_files(lease_id, table, gone)
        if gone:
            raise Unavailable(f"{gone} are gone, and so is the lease")

    def _placed(self, seen: TableFiles) -> Iterator[Placed]:
        """The rows that are not dead."""
        for file in seen.files:
            gone = seen.dead.get(file.path, ())
            for position, row in enumerate(self._content(file.path)):
                if position not in gone:
                    yield Placed(file.path, position, row)

    def _content(self, uri: str) -> tuple[Row, ...]:
        contents = self._shared.rolls.contents
        if uri not in contents:
            system, path = self._shared.warehouse.file_system(uri)
            found = pq.read_table(path, filesystem=system, partitioning=None, use_threads=False)
            contents[uri] = tuple(map(Row, *(found[name].to_pylist() for name in Row._fields)))
        return contents[uri]
