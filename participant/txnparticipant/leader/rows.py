"""The row writes of a shard, on its leader: every row is judged before what the rows change is proposed."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

from txnparticipant.leader import row_presence
from txnparticipant.leader.reads import Reads
from txnparticipant.leader.registering import Registering
from txnparticipant.leader.row_presence import Sight
from txnparticipant.rows.changed_keys import KEY_COST_BYTES
from txnparticipant.rows.memrowset import NO_ROWS, RowBatch, own_time
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import views
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.schemas import dropped_since
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.versions.deletes import own_deletes, visible_deletes
from txnparticipant.versions.mvcc import commit_times, visible, visible_ids, with_own
from txnstatus.errors import DataDamaged, InternalError, InvalidArgument, LimitReached, Overloaded, Unavailable
from txnstatus.lake import absent
from txnstatus.lake import rows as row_format
from txnstatus.lake.arrow_types import has_room
from txnstatus.process.failpoints import failpoint
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import check_write_id
from txnstatus.types import ParticipantState, Timestamp, TxnId

if TYPE_CHECKING:
    import pyarrow as pa

SOFT_LIMIT_BYTES = 16 << 20
"""Bytes of rows in a shard's memory, beyond which writes wait for a flush, if there is something to flush."""
HARD_LIMIT_BYTES = 32 << 20
"""Bytes beyond which they are refused; TXN_LIMIT_BYTES more for the transaction that is first in line.

Without that, transactions that have a part of it each would keep each other from their ends.
"""
TXN_LIMIT_BYTES = 8 << 20
"""Most bytes of one transaction's rows in one table: they stay in memory until it ends. One that has more in all
tables of a shard waits for no other."""
WAIT_SECONDS = 2.0

_CHANGES = (pb.ROW_INSERT, pb.ROW_INSERT_IGNORE, pb.ROW_UPSERT, pb.ROW_UPDATE, pb.ROW_DELETE)
Settled = Callable[[str, TxnId], Awaitable[TableState]]
Propose = Callable[[cmd.Command], Awaitable[ShardApplied]]


class RowService:
    def __init__(
        self,
        shard: ParticipantShard,
        reads: Reads,
        propose: Propose,
        registering: Registering,
        settled: Settled,
        blocking: Executor,
    ) -> None:
        self._shard = shard
        self._reads = reads
        self._propose = propose
        self._registering = registering
        self._settled = settled
        self._blocking = blocking
        self._turns: dict[tuple[str, TxnId], tuple[asyncio.Lock, list[None]]] = {}
        self._on_the_way: dict[tuple[str, TxnId, str], int] = {}
        """Write → bytes for which there is room, and that are not in the shard's memory yet."""
        self._room = asyncio.Event()
        self.wants_room = asyncio.Event()
        """Set when writes wait for a flush."""

    async def write(self, request: pb.WriteRowsRequest) -> pb.WriteRowsResponse:
        """Raises InvalidArgument for a request that is wrong as a whole; single rows are refused in the answer."""
        txn_id = TxnId(request.txn_id)
        table = await self._settled(request.table, txn_id)
        check_write_id(request.write_id)
        loop = asyncio.get_running_loop()
        rows, keys = await loop.run_in_executor(self._blocking, _checked, request, table)
        write = partial(self._write, request, table, rows, keys)
        return await self._registering.write(table, txn_id, request.owner, request.write_id, write)

    async def _write(
        self, request: pb.WriteRowsRequest, table: TableState, rows: pa.Table, keys: pa.Array, begins: bool
    ) -> pb.WriteRowsResponse:
        loop, txn_id = asyncio.get_running_loop(), TxnId(request.txn_id)
        async with self._turn(table.table_id, txn_id):
            record = table.txns.get(txn_id)
            known = record.rows.get(request.write_id) if record else None
            if known is not None:
                return pb.WriteRowsResponse.FromString(known.outcome)
            async with self._room_for(table, txn_id, request.write_id, _bytes_of(request, rows, keys)):
                sight = await self._sight(table, record, request)
                try:
                    failpoint("rows.before_judging")
                    judged = await loop.run_in_executor(self._blocking, _judged, request, rows, keys, table, sight)
                except (OSError, InternalError) as error:
                    self._reads.check_readable(table, sight.at)  # files may have been removed meanwhile
                    if isinstance(error, DataDamaged):
                        raise error.of_table(table.name) from error
                    if isinstance(error, InternalError):
                        raise
                    # What pyarrow raises of storage, too.
                    raise Unavailable(f"files of {table.name} cannot be read for now: {error}") from error
                write = txn_id, table.table_id, request.owner, sight.at, sight.position, judged
                await self._propose(cmd.WriteRows(*write, begins))
        return pb.WriteRowsResponse.FromString(judged.outcome)

    def made_room(self) -> None:
        """To be called when there may be less in memory."""
        self._room.set()

    async def _sight(self, table: TableState, record: TableTxn | None, request: pb.WriteRowsRequest) -> Sight:
        at = Timestamp(request.snapshot)
        if record is not None and record.rows:
            # Another handle may have read before: what was changed since then, it has not seen.
            at = min(at, record.snapshot)
        else:
            # From here on all that is visible at the snapshot is finalised here, and all that is to come is above it.
            for decided, commit_ts in await self._reads.decided(table, await self._reads.base(at)):
                await self._propose(cmd.FinalizeCommit(decided, table.table_id, commit_ts))
        record = record or table.txns.get(TxnId(request.txn_id))
        rows, files = (tuple(record.rows.values()), tuple(record.writes.values())) if record else ((), ())
        position = record.position if record else 0
        if request.change == pb.ROW_UPSERT:
            return Sight(rows, NO_ROWS, (), (), at, position)  # it asks for nothing that is there
        self._reads.check_readable(table, at)
        others, file_sets = views.rows_view(table).at(at, {}), list(table.file_sets.values())
        seen = NO_ROWS if record and record.clears_table else others
        times = commit_times(file_sets, (), {})
        listed = with_own(visible(file_sets, (), {}, at), files, times)
        times.update((write.manifest.path, own_time(at)) for write in files)
        shown = visible_ids(file_sets, (), {}, at)
        dead = (*visible_deletes(table.deletes.all.values(), (), {}, at, shown), *own_deletes(files))
        return Sight(
            rows,
            seen,
            [cmd.manifest_to_wire(flush.manifest) for flush in seen.flushes],
            [(times[ref.path], cmd.manifest_to_wire(ref)) for ref in listed],
            at,
            position,
            list(map(cmd.dead_rows_to_wire, dead)),
        )

    @contextlib.asynccontextmanager
    async def _room_for(self, table: TableState, txn_id: TxnId, write_id: str, more: int) -> AsyncIterator[None]:
        """Waits for room for so many bytes, and holds it: others who wait must not count on it, too.

        Raises LimitReached for a transaction that is too large for memory, Overloaded for a shard that is full.
        """
        record = table.txns.get(txn_id)
        own = record.row_bytes if record else 0
        if own + more > TXN_LIMIT_BYTES:
            raise LimitReached(
                f"transaction {txn_id} holds {own} bytes of rows of {table.name} in memory: "
                f"with {more} more they would be over {TXN_LIMIT_BYTES}",
                txn_id=txn_id,
                hint="commit more often, or write so many rows as files, with txn.write",
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS):
                while self._has_to_wait(txn_id, more):
                    self._room.clear()
                    self.wants_room.set()
                    await self._room.wait()
        if not self._has_room(txn_id, more):
            raise self._refusal(txn_id, more)
        self._on_the_way[table.table_id, txn_id, write_id] = more
        try:
            yield
        finally:
            del self._on_the_way[table.table_id, txn_id, write_id]

    def _has_to_wait(self, txn_id: TxnId, more: int) -> bool:
        """For a flush, where there is something to flush; for whatever makes room, where there is none at all."""
        if self._used() + more <= SOFT_LIMIT_BYTES:
            return False
        if any(table.rows.unflushed for table in self._shard.tables()):
            return True
        return not self._has_room(txn_id, more) and self._held_by(txn_id) + more <= TXN_LIMIT_BYTES

    def _has_room(self, txn_id: TxnId, more: int) -> bool:
        wanted = self._used() + more
        if wanted <= HARD_LIMIT_BYTES:
            return True
        if wanted > HARD_LIMIT_BYTES + TXN_LIMIT_BYTES or self._held_by(txn_id) + more > TXN_LIMIT_BYTES:
            return False
        older = (each for each in self._in_line() if each < txn_id)
        return not any(self._held_by(each) <= TXN_LIMIT_BYTES for each in older) and txn_id in self._in_line()

    def _first_in_line(self) -> TxnId | None:
        """The oldest that does not hold more than each may have."""
        line = sorted(set(self._in_line()))
        return next((each for each in line if self._held_by(each) <= TXN_LIMIT_BYTES), None)

    def _in_line(self) -> Iterator[TxnId]:
        """Transactions that have rows here and may write more; most of the older ones come first.

        Whoever comes gets in line below the limit only, so what is beyond it is there for the first.
        """
        for table in self._shard.tables():
            for txn_id, record in table.unfinished.items():
                if record.rows and record.state is ParticipantState.OPEN:
                    yield txn_id
        for _, txn_id, _ in self._on_the_way:
            yield txn_id

    def _held_by(self, txn_id: TxnId) -> int:
        """Bytes of its rows in all tables, with those on their way."""
        records = {table.table_id: table.unfinished.get(txn_id) for table in self._shard.tables()}
        held = sum(record.row_bytes for record in records.values() if record)
        for (table_id, writer, write_id), more in self._on_the_way.items():
            record = records.get(table_id)
            if writer == txn_id and not (record and write_id in record.rows):
                held += more
        return held

    def _refusal(self, txn_id: TxnId, more: int) -> LimitReached | Overloaded:
        used, held = self._used(), self._held_by(txn_id)
        full = f"{used} bytes of rows are in the memory of shard {self._shard.shard}: {HARD_LIMIT_BYTES} are possible"
        unflushed = sum(table.rows.unflushed_bytes for table in self._shard.tables())
        if held + more > TXN_LIMIT_BYTES and used - unflushed + more > HARD_LIMIT_BYTES:
            return LimitReached(
                f"{full}, and transaction {txn_id}, with {held} of them and {more} more, would have over "
                f"{TXN_LIMIT_BYTES}: one that has waits for no other",
                txn_id=txn_id,
                hint="commit more often, or write so many rows as files, with txn.write",
            )
        hint = "they cannot be flushed: see the log of the shard's leader"
        if (first := self._first_in_line()) is not None:
            kept = f"transaction {first} first, for which {TXN_LIMIT_BYTES} more are kept"
            hint = f"unfinished transactions hold them: commit some, {kept}; or {hint}"
        return Overloaded(full, txn_id=txn_id, hint=hint)

    def _used(self) -> int:
        return sum(self._on_the_way.values()) + sum(
            table.rows.unflushed_bytes + table.pending_row_bytes for table in self._shard.tables()
        )

    @contextlib.asynccontextmanager
    async def _turn(self, table_id: str, txn_id: TxnId) -> AsyncIterator[None]:
        """One write of a transaction on a table after the other: each is judged by what those before it left."""
        key = table_id, txn_id
        lock, users = self._turns.setdefault(key, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._turns[key]


def _checked(request: pb.WriteRowsRequest, table: TableState) -> tuple[pa.Table, pa.Array]:
    """The rows, and their keys. Blocking. Raises InvalidArgument."""
    import pyarrow as pa

    schema = table.schema.in_files
    row_format.require_key(schema, table.name)
    if request.change not in _CHANGES:
        names = ", ".join(map(pb.RowChange.Name, _CHANGES))
        raise InvalidArgument(f"no kind of row change {request.change}; there are {names}")
    rows = row_format.from_ipc(request.rows)
    expected = row_format.rows_schema(schema, deletes=request.change == pb.ROW_DELETE)
    rows = _with_added(rows, table, expected)
    if [(field.name, field.type) for field in rows.schema] != [(field.name, field.type) for field in expected]:
        found, wanted = (", ".join(f"{field.name} {field.type}" for field in each) for each in (rows.schema, expected))
        raise InvalidArgument(f"rows for table {table.name} with the columns {found}: expected {wanted}")
    if rows.num_rows > row_format.MAX_ROWS:
        raise InvalidArgument(f"{rows.num_rows} rows in one request: {row_format.MAX_ROWS} are possible")
    keys = row_format.encode_keys(rows, schema)
    row_format.check_keys(rows, keys, schema, table.name)
    for field in expected:
        if not field.nullable and rows[field.name].null_count:
            raise InvalidArgument(f"column {field.name!r} of table {table.name} takes no nulls")
    rows = pa.Table.from_arrays(rows.columns, schema=expected)
    if rows.nbytes + keys.nbytes > row_format.MAX_REQUEST_BYTES:
        size = rows.nbytes + keys.nbytes
        raise InvalidArgument(f"rows of {size} bytes in one request: {row_format.MAX_REQUEST_BYTES} are possible")
    return rows, keys


def _with_added(rows: pa.Table, table: TableState, expected: pa.Schema) -> pa.Table:
    """The rows of a program that does not know of columns that were added, or in which order columns are now.

    Raises InvalidArgument for rows without another column, or with one that the table has not.
    """
    import pyarrow as pa

    added = {column.in_files for column in table.schema.columns if column.added}
    names = set(rows.column_names)
    if dropped := sorted(names.intersection(table.schema.retired)):
        raise dropped_since(table.name, dropped)
    if len(names) < rows.num_columns or not names <= set(expected.names) or set(expected.names) - names - added:
        found = [", ".join(f"{field.name} {field.type}" for field in each) for each in (rows.schema, expected)]
        raise InvalidArgument(f"rows for table {table.name} with the columns {found[0]}: expected {found[1]}")
    before = {column.name for column in table.schema.in_files.columns if column.widened}
    if rows.column_names == expected.names and not before:
        return rows
    columns = [
        absent.column(each, rows.num_rows)
        if each.name not in names
        else _widened(rows[each.name], each.type)
        if each.name in before
        else rows[each.name]
        for each in expected
    ]
    return pa.Table.from_arrays(columns, names=expected.names)


def _widened(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """The values by the type of now, if they come by a narrower one."""
    import pyarrow as pa

    found = column.type
    whole = pa.types.is_signed_integer(found) and pa.types.is_signed_integer(kind) and found.bit_width < kind.bit_width
    fraction = pa.types.is_float32(found) and pa.types.is_float64(kind)
    decimal = pa.types.is_decimal128(found) and pa.types.is_decimal128(kind) and found.scale == kind.scale
    narrower = whole or fraction or (decimal and found.precision < kind.precision) or has_room(found, kind)
    return column.cast(kind) if narrower else column


def _bytes_of(request: pb.WriteRowsRequest, rows: pa.Table, keys: pa.Array) -> int:
    """In memory, about; the request itself may be compressed."""
    return max(len(request.rows), int(rows.nbytes)) + int(keys.nbytes) + KEY_COST_BYTES * (1 + len(keys))


def _judged(
    request: pb.WriteRowsRequest, rows: pa.Table, encoded: pa.Array, table: TableState, sight: Sight
) -> RowBatch:
    """What the rows change, and the answer. Blocking."""
    import pyarrow as pa
    import pyarrow.compute as pc

    passed = pa.repeat(True, len(encoded))
    if request.change != pb.ROW_UPSERT and len(encoded):
        there = row_presence.present(rows, encoded.to_pylist(), table.schema, sight)
        passed = pc.is_in(encoded, value_set=pa.array(sorted(there), pa.binary()))
        if request.change in (pb.ROW_INSERT, pb.ROW_INSERT_IGNORE):
            passed = pc.invert(passed)
    kept = rows.filter(passed)
    others = pc.indices_nonzero(pc.invert(passed)).to_pylist()
    ignores = request.change == pb.ROW_INSERT_IGNORE
    outcome = pb.WriteRowsResponse(
        written=kept.num_rows, ignored=len(others) if ignores else 0, refused=() if ignores else others
    )
    return RowBatch(
        request.write_id,
        request.change == pb.ROW_DELETE,
        row_format.to_ipc(kept) if kept.num_rows else b"",
        tuple(encoded.filter(passed).to_pylist()),
        outcome.SerializeToString(),
    )
