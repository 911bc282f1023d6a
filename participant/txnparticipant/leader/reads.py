"""Reads: what readers of a shard's tables see, at one timestamp; on the shard's leader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from txnparticipant.leader.waiters import Waiters
from txnparticipant.rows.memrowset import PreparedRows, SeenRows, own_time
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import dropping, views
from txnparticipant.shard.changes import illegal
from txnparticipant.shard.key_conflicts import own_key_twice, replaces_unseen
from txnparticipant.shard.leases import Leases
from txnparticipant.shard.records import Dropped
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.table import TableState
from txnparticipant.shard.translation import speaks_of_old
from txnparticipant.versions.deletes import own_deletes, visible_deletes
from txnparticipant.versions.mvcc import (
    PendingWrite,
    Prepared,
    commit_times,
    undecided_at,
    visible,
    visible_ids,
    with_own,
)
from txnstatus.errors import InvalidArgument, NotAuthorized, TxnError, Unavailable, forgotten
from txnstatus.limits import MAX_LEASE_ID_CHARACTERS, MAX_LEASES_PER_CALL, MAX_WAIT_SECONDS, check_count
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as pb
from txnstatus.rpc.deadlines import time_left
from txnstatus.rpc.errors import to_detail
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId

END = Timestamp(2**64)
"""A timestamp above all others."""


class Reads:
    def __init__(
        self,
        shard: ParticipantShard,
        ranges: StatusRanges,
        leases: Leases,
        check_lease: Callable[[], None],
        translate: Callable[[str, TxnId, Timestamp], Awaitable[None]],
    ) -> None:
        """`leases`: of snapshots. `check_lease`: of the leadership; raises NotTheLeader.

        `translate`: gives a transaction's writes on a table the words of what was compacted up to a timestamp.
        """
        self._shard = shard
        self._leases = leases
        self._ranges = ranges
        self._check_lease = check_lease
        self._settled = NO_TIMESTAMP
        """All commits to come, of any transaction, are above it."""
        self._translate = translate
        self._gates: dict[str, Timestamp] = {}
        """Table → the timestamp from which on what readers see is just being decided."""
        self._waiting: Waiters[str] = Waiters()
        self.turn = asyncio.Lock()
        """Held by whoever closes a gate, until it is open again."""

    async def scan(self, request: pb.ScanRequest) -> pb.ScanResponse:
        """What a reader at the timestamp sees. It never waits for a writer: see TxnStatusTable.commit_ts_at.

        Raises NotFound, SnapshotTooOld; and for a reader inside a transaction, why that is over.
        """
        at = Timestamp(request.timestamp)
        _check_lease_id(request.lease_id)
        if request.leased and not request.lease_id:
            raise InvalidArgument("a lease that was given before has an id")
        await self._check_settled(at)
        table = await self._passed(request, at)
        own = _own_writes(table, request, self._shard) if request.HasField("txn_id") else None
        # Held before anything is waited for: what is looked at now must be there when it is read.
        if not request.leased:
            self._leases.check_new_reader(table, at)
        if request.lease_id:
            self._leases.take(table, request.lease_id, at, self._leases.seconds)
        prepared = views.prepared(table)
        file_sets, delete_sets = list(table.file_sets.values()), list(table.deletes.all.values())
        rows, dropper = views.rows_view(table), table.dropping
        outcomes = self._with_ended(table, await self._outcomes(prepared, at), at)
        if dropper is not None and (dropped_ts := outcomes.get(dropper.txn_id)):
            raise dropping.not_found(table.name, Dropped(dropper.txn_id, dropper.owner, dropped_ts))
        if (record := table.txns.get(TxnId(request.txn_id))) and own is not None:
            decided = {txn_id for txn_id, commit_ts in outcomes.items() if commit_ts}
            if conflict := own_key_twice(table, record, at, decided):
                raise conflict
        seen = visible(file_sets, prepared, outcomes, at)
        are_deletes = delete_sets or any(any(write.all_deletes) for txn in prepared for write in txn.writes)
        seen_ids = visible_ids(file_sets, prepared, outcomes, at) if are_deletes else set()
        times, changes = commit_times(file_sets, prepared, outcomes), rows.at(at, outcomes)
        if own is not None:
            seen = with_own(seen, own.files, times, own.replaced)
            times.update((write.manifest.path, own_time(at)) for write in own.files)
            changes = changes.with_own(own.rows, at)
        response = pb.ScanResponse(table=_info(table, at), manifests=map(cmd.manifest_to_wire, seen))
        response.own_writes = own.position if own is not None else 0
        if own is not None and record is not None and replaces_unseen(table, record, at):
            mine = {write.manifest.path for write in own.files}
            response.replacing = sum(manifest.path in mine for manifest in seen)
        response.lease_millis = int(self._leases.seconds * 1000) if request.lease_id else 0
        dead = visible_deletes(delete_sets, prepared, outcomes, at, seen_ids)
        if request.HasField("lineages_above"):
            since = Timestamp(request.lineages_above)
            if table.schema.primary_key:
                response.folded.extend(table.compactions.folds(since, at))
            else:
                response.lineages.extend(map(cmd.lineage_to_wire, table.compactions.between(since, at)))
        response.dead.extend(map(cmd.dead_rows_to_wire, (*dead, *own_deletes(own.files if own else ()))))
        _add_row_changes(response, changes, times)
        return response

    async def _passed(self, request: pb.ScanRequest, at: Timestamp) -> TableState:
        """The table, once what a reader at the timestamp sees of it is decided. Nothing is awaited after that.

        Raises NotFound, NotTheLeader, Unavailable.
        """
        deadline = asyncio.get_running_loop().time() + time_left(MAX_WAIT_SECONDS)
        while True:
            self._check_lease()
            table = self._shard.table_at(request.table, at)
            if at >= self._gates.get(table.table_id, END):
                if asyncio.get_running_loop().time() >= deadline:
                    raise Unavailable(f"{table.name} is being switched to what a compaction has written")
                await self._waiting.wait(table.table_id, deadline)
            elif request.HasField("txn_id") and speaks_of_old(table, TxnId(request.txn_id), at):
                await self._translate(table.table_id, TxnId(request.txn_id), at)
            else:
                return table

    async def close_gate(self, table_id: str, now: Timestamp) -> Timestamp:
        """A timestamp above all that was read of the table so far; at and above it readers wait for `open_gate`.

        Readers of now have it, also where nobody commits. It is not older than `now`: what is not seen any more from it
        on was seen until now, and is kept for the retention from now on.
        """
        await self.base(None)
        self._gates[table_id] = Timestamp(self._settled + 1)
        at = max(now, Timestamp(self._settled + 1))
        self._settled = max(self._settled, await self._ranges.snapshot(at))
        return at

    def open_gate(self, table_id: str) -> None:
        self._gates.pop(table_id, None)
        self._waiting.wake(table_id)

    def forget(self, error: Callable[[], TxnError]) -> None:
        """For a replica that does not lead any more, or leads anew: what was under way is decided, or will never be."""
        self._gates.clear()
        self._waiting.fail(error)

    def renew(self, request: pb.RenewLeasesRequest) -> pb.RenewLeasesResponse:
        """Answers lease by lease; one that this leader never heard of is as good as any, if it comes in time."""
        self._check_lease()
        check_count(len(request.leases), "leases", MAX_LEASES_PER_CALL)
        return pb.RenewLeasesResponse(results=map(self._renew, request.leases))

    def _renew(self, lease: pb.SnapshotLease) -> pb.RenewLeaseResult:
        try:
            _check_lease_id(lease.lease_id)
            at = Timestamp(lease.timestamp)
            table = self._shard.table_at(lease.table, at)
            self._leases.take(table, lease.lease_id, at, lease.lease_millis / 1000)
        except TxnError as error:
            return pb.RenewLeaseResult(error=to_detail(error))
        return pb.RenewLeaseResult()

    async def base(self, read_timestamp: Timestamp | None) -> Timestamp:
        """On what an overwrite is based: what its transaction has read, or else all that is committed by now."""
        if read_timestamp is None:
            self._settled = max(self._settled, await self._ranges.snapshot())
            return self._settled
        await self._check_settled(read_timestamp)
        return read_timestamp

    async def settled(self, table: TableState) -> Timestamp:
        """A timestamp at or below which nothing of the table changes any more: no commit, and no switch to what a
        compaction has written. What is committed by then may still have to be finalised: see `decided`.
        """
        at = await self.base(None)
        return min(at, Timestamp(self._gates.get(table.table_id, END) - 1))

    def check_readable(self, table: TableState, at: Timestamp) -> None:
        """Raises SnapshotTooOld where not all is there any more that is visible at the timestamp."""
        self._leases.check_readable(table, at)

    async def decided(self, table: TableState, at: Timestamp) -> list[tuple[TxnId, Timestamp]]:
        """What is committed at or below a snapshot's timestamp and not yet finalised here, and when it was."""
        outcomes = await self._outcomes(views.prepared(table), at)
        return [(txn_id, commit_ts) for txn_id, commit_ts in outcomes.items() if commit_ts]

    async def _check_settled(self, at: Timestamp) -> None:
        """Raises InvalidArgument where something may yet commit at or below the timestamp.

        Whoever read there again would see more. What is prepared here does not tell: the next to prepare may get a
        lower timestamp, from a clock that is behind.
        """
        if at > self._settled:
            self._settled = max(self._settled, await self._ranges.snapshot())
        if at > self._settled:
            raise InvalidArgument(
                f"timestamp {at} is ahead of the last commit's, {self._settled}: take a snapshot first"
            )

    def _with_ended(
        self, table: TableState, outcomes: Mapping[TxnId, Timestamp], at: Timestamp
    ) -> dict[TxnId, Timestamp]:
        """The outcomes, with those of which the status table tells nothing any more.

        It may have forgotten, by the time it was asked, what had ended here meanwhile: then the table knows.

        Raises NotTheLeader where it may have ended under another leader; Unavailable where the table has forgotten it.
        """
        self._check_lease()
        known = dict(outcomes)
        for txn_id in [txn_id for txn_id, commit_ts in outcomes.items() if not commit_ts]:
            record = table.txns.get(txn_id)
            if record is None:
                raise Unavailable(f"transaction {txn_id} has ended while {table.name} was looked at")
            if record.commit_ts <= at:
                known[txn_id] = record.commit_ts
        return known

    async def _outcomes(self, prepared: Sequence[Prepared], at: Timestamp) -> dict[TxnId, Timestamp]:
        """The commit timestamps, at or below `at`, of those whose outcome this shard does not know."""
        return await self._ranges.outcomes(undecided_at(prepared, at), at)


def _check_lease_id(lease_id: str) -> None:
    if len(lease_id) > MAX_LEASE_ID_CHARACTERS:
        raise InvalidArgument(f"lease id of {len(lease_id)} characters: {MAX_LEASE_ID_CHARACTERS} are possible")


def _info(table: TableState, at: Timestamp) -> common.TableInfo:
    """The table, with the columns that a reader at the timestamp sees."""
    earlier = table.schemas.at(at)
    if earlier is None:
        return table.info()
    found = common.TableInfo()
    found.CopyFrom(table.info())
    found.schema.CopyFrom(earlier.to_wire())
    return found


class _Own(NamedTuple):
    """What a transaction has written to a table by the time it reads there."""

    files: tuple[PendingWrite, ...]
    rows: PreparedRows
    position: int
    """How many writes these are, with those that the transaction has overwritten."""
    replaced: frozenset[tuple[str, str]]
    """The paths of manifests, and the partitions, that they replace."""


def _own_writes(table: TableState, request: pb.ScanRequest, shard: ParticipantShard) -> _Own | None:
    """What the reader's transaction has added to the table itself; None, where it has not begun there.

    Raises NotAuthorized; where the transaction is prepared or over, IllegalState, TxnAborted or Forgotten.
    """
    txn_id = TxnId(request.txn_id)
    record = table.txns.get(txn_id)
    if record is None:
        if txn_id in shard.forgotten:
            raise forgotten(txn_id)
        return None
    if record.owner != request.owner:
        message = f"transaction {txn_id} belongs to {record.owner!r}, not to {request.owner!r}"
        raise NotAuthorized(message, txn_id=txn_id)
    if record.state is not ParticipantState.OPEN:
        raise illegal(table, txn_id, record, "a read")
    rows = PreparedRows(txn_id, tuple(record.rows.values()), record.clears_table)
    ids = (id_ for write in record.writes.values() for id_ in write.replaces)
    gone = (file_set for id_ in ids if (file_set := table.file_sets.get(id_)))
    replaced = frozenset((each.manifest.path, each.partition) for each in gone)
    return _Own(tuple(record.writes.values()), rows, record.position, replaced)


def _add_row_changes(response: pb.ScanResponse, seen: SeenRows, times: Mapping[str, Timestamp]) -> None:
    """Nothing, where a reader sees no row changes: then files are all that it has to read."""
    if not seen.row_sets and not seen.flushes:
        return
    response.commit_timestamps.extend(times[manifest.path] for manifest in response.manifests)
    response.changes.CopyFrom(changes_to_wire(seen))


def changes_to_wire(seen: SeenRows) -> pb.RowChanges:
    changes = pb.RowChanges(above=seen.above, flushed=(cmd.manifest_to_wire(flush.manifest) for flush in seen.flushes))
    for row_set in seen.row_sets:
        for batch in row_set.batches:
            if batch.keys:
                changes.batches.add(commit_timestamp=row_set.commit_ts, deletes=batch.deletes, rows=batch.rows)
    return changes
