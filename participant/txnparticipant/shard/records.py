"""What a shard keeps of a table and of a transaction on it, and the form of both in a snapshot."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from txnparticipant.locks.locks import Claim, Lock, LockTable, Request, with_parents
from txnparticipant.rows.changed_keys import ChangedKeys
from txnparticipant.rows.memrowset import Flush, PreparedRows, RowBatch, RowSet, RowsView, TableRows, changed_keys
from txnparticipant.shard import cleanable
from txnparticipant.shard import commands as cmd
from txnparticipant.versions.conflicts import Overwrite, Overwrites
from txnparticipant.versions.directories import FlushDirectory, WriteDirectory
from txnparticipant.versions.mvcc import FileSet, PendingWrite
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import participant_pb2 as pb
from txnstatus.schema import Schema, is_database_name
from txnstatus.types import NO_TIMESTAMP, ConflictStrategy, ParticipantState, Timestamp, TxnId

NOBODY = TxnId(0)
"""As the one that dropped a table: none is older."""
LIVE = (ParticipantState.OPEN, ParticipantState.COMMIT_IN_PROGRESS)


@dataclass(slots=True)
class TxnRecord:
    """One transaction on one table."""

    txn_id: TxnId
    owner: str
    state: ParticipantState
    prepare_ts: Timestamp = NO_TIMESTAMP
    commit_ts: Timestamp = NO_TIMESTAMP
    claimed: list[str] = field(default_factory=list)
    """Writes whose directories it holds; once it has ended, those that are to be cleaned."""
    writes: dict[str, PendingWrite] = field(default_factory=dict)
    superseded: list[str] = field(default_factory=list)
    """Writes that an overwrite of this transaction replaced: adding one again must not bring it back."""
    rows: dict[str, RowBatch] = field(default_factory=dict)
    """Its MemRowSet: by write id, in the order in which they were written."""
    snapshot: Timestamp = NO_TIMESTAMP
    """At which its rows were judged."""
    drops: bool = False
    """Whether the table goes with its commit."""

    @property
    def clears_table(self) -> bool:
        """Whether it overwrites the whole table."""
        return any(WHOLE_TABLE in write.overwrites for write in self.writes.values())


@dataclass(frozen=True, slots=True)
class Dropped:
    """How a table came to its end."""

    txn_id: TxnId
    owner: str
    commit_ts: Timestamp
    """A reader below it still sees the table, as long as what it needs is kept."""


@dataclass(slots=True)
class TableState:
    """A table; or a database, which has locks and nothing else."""

    table_id: str
    name: str
    location: str
    schema: Schema
    request_id: str
    """Of its creation: the same request, sent again, is answered alike."""
    conflicts: str = ConflictStrategy.FIRST_COMMITTER_WINS
    """The name of the strategy."""
    txns: dict[TxnId, TxnRecord] = field(default_factory=dict)
    file_sets: dict[str, FileSet] = field(default_factory=dict)
    """By id, in the order in which they were finalised here."""
    unfinished: dict[TxnId, TxnRecord] = field(default_factory=dict)
    """Those of `txns` that are OPEN or COMMIT_IN_PROGRESS: work goes by these, not by history."""
    uncleaned: dict[TxnId, TxnRecord] = field(default_factory=dict)
    """Those of `txns` that have ended and still hold directories."""
    overwrites: Overwrites = field(default_factory=Overwrites)
    created: Timestamp = NO_TIMESTAMP
    """The last commit before it was: to a reader below there is no such table."""
    readable_from: Timestamp = NO_TIMESTAMP
    """What a reader below it would need may be gone. It rises only as far as what is removed makes it."""
    retired: dict[TxnId, list[str]] = field(default_factory=dict)
    """Writes whose directories no file set needs any more, to be cleaned."""
    fresh: dict[TxnId, None] = field(default_factory=dict, compare=False)
    """Those of `uncleaned` and `retired` that the cleaner has not heard of as they are now. Only a leader's asks."""
    replaced: list[tuple[Timestamp, str]] = field(default_factory=list)
    """When, and which of `file_sets`; in that order. What is to be retired is in front."""
    used: Counter[tuple[TxnId, str]] = field(default_factory=Counter)
    """How many of `file_sets` have files in the directory of a write."""
    locks: LockTable = field(default_factory=LockTable)
    """Of the live among `txns`, in whose records they are kept in a snapshot."""
    rows: TableRows = field(default_factory=TableRows)
    """Of the committed; those of the live are in their records."""
    pending_row_bytes: int = 0
    """Of the rows in those records."""
    dropped: Dropped | None = None
    dropping: TxnRecord | None = None
    """The live one among `txns` that drops it: nobody else prepares meanwhile."""
    follows: TxnId = NOBODY
    """Who dropped the table of this name before it: transactions that are older than that stay out."""
    _info: common.TableInfo | None = field(default=None, init=False, compare=False, repr=False)

    @classmethod
    def database(cls, table_id: str) -> TableState | None:
        """The database with this id, SHARD.DATABASE; None: it is not the id of one."""
        name = table_id.partition(".")[2]
        return cls(table_id, name, "", Schema(()), "") if is_database_name(name) else None

    @property
    def is_database(self) -> bool:
        return is_database_name(self.table_id.partition(".")[2])

    def has_object(self, name: str) -> bool:
        """Whether it is this participant's to lock: itself, or a partition."""
        return name == self.name or (not self.is_database and name.startswith(f"{self.name}/"))

    def with_parents(self, locks: Iterable[Lock]) -> tuple[Lock, ...]:
        """With those parents that are this participant's."""
        return tuple(lock for lock in with_parents(locks) if self.has_object(lock.object))

    def directory(self, txn_id: TxnId, write_id: str) -> str:
        """Where one write's files are: unique, so that a listing of it is exact and cleaning it is safe."""
        return f"{self.location}/{WriteDirectory(txn_id, write_id).name}"

    def add(self, file_set: FileSet) -> None:
        self.file_sets[file_set.id] = file_set
        self.used.update((file_set.txn_id, write_id) for write_id in file_set.used_writes)
        if file_set.replaced_ts:
            insort(self.replaced, (file_set.replaced_ts, file_set.id))

    def replace(self, file_set_id: str, commit_ts: Timestamp) -> None:
        """It is removed by a commit."""
        self.file_sets[file_set_id].replaced_ts = commit_ts
        insort(self.replaced, (commit_ts, file_set_id))

    def replaced_until(self, horizon: Timestamp) -> int:
        """How many file sets were removed at or below the timestamp."""
        return bisect_right(self.replaced, horizon, key=lambda entry: entry[0])

    def removed_until(self, horizon: Timestamp, at_most: int | None = None) -> Timestamp:
        """When, at or below the timestamp, something was removed for the last time and is not retired: 0 = never.

        `at_most`: of so many file sets. A drop removes the table, with whatever is in it.
        """
        count = self.replaced_until(horizon)
        if count and at_most is not None:
            count = min(count, at_most)
        if count:
            return self.replaced[count - 1][0]
        drop = self.dropped
        return drop.commit_ts if drop and self.readable_from < drop.commit_ts <= horizon else NO_TIMESTAMP

    def index(self, record: TxnRecord) -> None:
        """To be called after every change of a record."""
        txn_id, live = record.txn_id, record.state in LIVE
        if live:
            self.unfinished[txn_id] = record
        else:
            self.unfinished.pop(txn_id, None)
        if record.claimed and not live:
            self.uncleaned[txn_id] = record
        else:
            self.uncleaned.pop(txn_id, None)
        cleanable.note(self, txn_id)
        if record.drops and live:
            self.dropping = record
        elif self.dropping is record:
            self.dropping = None

    def flush_directory(self, flush_id: str) -> str:
        """Where one flush's file of row changes is."""
        return f"{self.location}/{FlushDirectory(flush_id).name}"

    def rows_view(self) -> RowsView:
        return self.rows.view(
            PreparedRows(txn.txn_id, tuple(txn.rows.values()), txn.clears_table)
            for txn in self.unfinished.values()
            if txn.state is ParticipantState.COMMIT_IN_PROGRESS
        )

    def info(self) -> common.TableInfo:
        """Not to be changed: every first write is answered with it, so it is made once."""
        if self._info is None:
            self._info = common.TableInfo(
                table_id=self.table_id,
                name=self.name,
                location=self.location,
                schema=self.schema.to_wire(),
                conflicts=self.conflicts,
            )
        return self._info


def table_to_wire(table: TableState) -> pb.ShardSnapshot.TableState:
    waits: defaultdict[TxnId, list[pb.ShardSnapshot.LockWait]] = defaultdict(list)
    for position, request in enumerate(table.locks.queue()):
        locks = map(cmd.lock_to_wire, request.locks)
        waits[request.txn_id].append(pb.ShardSnapshot.LockWait(position=position, since=request.since, locks=locks))
    return pb.ShardSnapshot.TableState(
        info=table.info(),
        request_id=table.request_id,
        txns=[
            _txn_to_wire(table.txns[txn_id], table.locks.held_by(txn_id), waits.get(txn_id, ()))
            for txn_id in sorted(table.txns)
        ],
        file_sets=[
            pb.ShardSnapshot.FileSet(
                write_id=fs.write_id,
                txn_id=fs.txn_id,
                partition=fs.partition,
                manifest=cmd.manifest_to_wire(fs.manifest),
                commit_timestamp=fs.commit_ts,
                replaced_by=fs.replaced_by,
                replaced_timestamp=fs.replaced_ts,
                from_writes=fs.from_writes,
            )
            for fs in table.file_sets.values()
        ],
        overwrites=[
            pb.ShardSnapshot.Overwrite(object=done.object, txn_id=done.txn_id, commit_timestamp=done.commit_ts)
            for done in table.overwrites.committed()
        ],
        created=table.created,
        readable_from=table.readable_from,
        retired=[
            pb.ShardSnapshot.RetiredWrites(txn_id=txn_id, write_ids=table.retired[txn_id])
            for txn_id in sorted(table.retired)
        ],
        rows=_rows_to_wire(table.rows),
        dropped=_dropped_to_wire(table.dropped),
        follows=table.follows,
    )


def _dropped_to_wire(dropped: Dropped | None) -> pb.ShardSnapshot.Dropped | None:
    if dropped is None:
        return None
    return pb.ShardSnapshot.Dropped(txn_id=dropped.txn_id, owner=dropped.owner, commit_timestamp=dropped.commit_ts)


def _rows_to_wire(rows: TableRows) -> pb.ShardSnapshot.TableRows:
    row_sets = [
        pb.ShardSnapshot.RowSet(
            txn_id=each.txn_id,
            commit_timestamp=each.commit_ts,
            batches=[batch.to_wire() for batch in each.batches],
        )
        for each in rows.unflushed.values()
    ]
    flushed = [
        pb.ShardSnapshot.RowSet(
            txn_id=each.txn_id, commit_timestamp=each.commit_ts, batches=[pb.RowBatch(keys=each.keys)], flushed=True
        )
        for each in rows.keys
        if each.txn_id not in rows.unflushed
    ]
    return pb.ShardSnapshot.TableRows(
        row_sets=[*row_sets, *flushed],
        flushes=[
            pb.ShardSnapshot.Flush(
                flush_id=each.flush_id,
                manifest=cmd.manifest_to_wire(each.manifest),
                first_timestamp=each.first_ts,
                last_timestamp=each.last_ts,
            )
            for each in rows.flushes.values()
        ],
        flushing=rows.flushing,
        given_up=rows.given_up,
        cleared=rows.cleared,
        keys_above=rows.keys.above,
    )


def _rows_from_wire(wire: pb.ShardSnapshot.TableRows) -> TableRows:
    rows = TableRows(
        flushing=list(wire.flushing),
        given_up=list(wire.given_up),
        cleared=[Timestamp(commit_ts) for commit_ts in wire.cleared],
        keys=ChangedKeys(Timestamp(wire.keys_above)),
    )
    for flush in wire.flushes:
        manifest = cmd.manifest_from_wire(flush.manifest)
        rows.add(Flush(flush.flush_id, manifest, Timestamp(flush.first_timestamp), Timestamp(flush.last_timestamp)))
    for each in wire.row_sets:
        batches = tuple(map(RowBatch.from_wire, each.batches))
        row_set = RowSet(TxnId(each.txn_id), Timestamp(each.commit_timestamp), batches)
        if each.flushed:
            rows.keys.add(row_set.commit)
        else:
            rows.publish(row_set)
    return rows


def _txn_to_wire(
    record: TxnRecord, held: Iterable[Claim], waits: Iterable[pb.ShardSnapshot.LockWait]
) -> pb.ShardSnapshot.TxnRecord:
    return pb.ShardSnapshot.TxnRecord(
        txn_id=record.txn_id,
        state=f"PARTICIPANT_{record.state.name}",
        owner=record.owner,
        prepare_timestamp=record.prepare_ts,
        commit_timestamp=record.commit_ts,
        claimed=record.claimed,
        writes=[
            pb.ShardSnapshot.PendingWrite(
                write_id=w.write_id,
                manifest=cmd.manifest_to_wire(w.manifest),
                partitions=w.partitions,
                overwrites=w.overwrites,
                base_timestamp=w.base_ts,
                replaces=w.replaces,
                from_writes=w.from_writes,
            )
            for w in record.writes.values()
        ],
        superseded=record.superseded,
        locks=[pb.ShardSnapshot.HeldLock(lock=cmd.lock_to_wire(claim.lock), since=claim.since) for claim in held],
        waits=waits,
        rows=[batch.to_wire() for batch in record.rows.values()],
        snapshot=record.snapshot,
        drops=record.drops,
    )


def table_from_wire(wire: pb.ShardSnapshot.TableState) -> TableState:
    info = wire.info
    schema, conflicts = Schema.from_wire(info.schema), cmd.conflicts_from_wire(info.conflicts)
    table = TableState(info.table_id, info.name, info.location, schema, wire.request_id, conflicts)
    table.created, table.readable_from = Timestamp(wire.created), Timestamp(wire.readable_from)
    for retired in wire.retired:
        cleanable.set_retired(table, TxnId(retired.txn_id), list(retired.write_ids))
    table.rows, table.follows = _rows_from_wire(wire.rows), TxnId(wire.follows)
    if wire.HasField("dropped"):
        drop = wire.dropped
        table.dropped = Dropped(TxnId(drop.txn_id), drop.owner, Timestamp(drop.commit_timestamp))
    queue: dict[int, Request] = {}
    for txn in wire.txns:
        record = table.txns[TxnId(txn.txn_id)] = TxnRecord(
            TxnId(txn.txn_id),
            txn.owner,
            ParticipantState(txn.state),
            Timestamp(txn.prepare_timestamp),
            Timestamp(txn.commit_timestamp),
            list(txn.claimed),
            {w.write_id: _write_from_wire(w) for w in txn.writes},
            list(txn.superseded),
            {batch.write_id: RowBatch.from_wire(batch) for batch in txn.rows},
            Timestamp(txn.snapshot),
            txn.drops,
        )
        table.index(record)
        table.pending_row_bytes += sum(batch.bytes for batch in record.rows.values())
        if record.state is ParticipantState.COMMIT_IN_PROGRESS:
            table.overwrites.prepare(record.txn_id, record.writes.values())
            table.rows.keys.prepare(record.txn_id, changed_keys(record.rows.values()))
        for held in txn.locks:
            lock = cmd.lock_from_wire(held.lock)
            table.locks.restore_held(Claim(record.txn_id, lock, Timestamp(held.since), granted=True))
        for wait in txn.waits:
            locks = tuple(map(cmd.lock_from_wire, wait.locks))
            queue[wait.position] = Request(record.txn_id, locks, Timestamp(wait.since))
    table.locks.restore_queue(queue[position] for position in sorted(queue))
    for fs in wire.file_sets:
        file_set = FileSet(
            fs.write_id,
            TxnId(fs.txn_id),
            fs.partition,
            cmd.manifest_from_wire(fs.manifest),
            Timestamp(fs.commit_timestamp),
            TxnId(fs.replaced_by) if fs.HasField("replaced_by") else None,
            Timestamp(fs.replaced_timestamp),
            tuple(fs.from_writes),
        )
        table.add(file_set)
    for done in wire.overwrites:
        table.overwrites.restore(Overwrite(done.object, TxnId(done.txn_id), Timestamp(done.commit_timestamp)))
    return table


def _write_from_wire(wire: pb.ShardSnapshot.PendingWrite) -> PendingWrite:
    return PendingWrite(
        wire.write_id,
        cmd.manifest_from_wire(wire.manifest),
        tuple(wire.partitions),
        tuple(wire.overwrites),
        Timestamp(wire.base_timestamp),
        tuple(wire.replaces),
        tuple(wire.from_writes),
    )
