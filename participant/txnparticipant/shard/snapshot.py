"""The tables in a shard's snapshot.

Of two things a table may have very many: transactions that have ended, until these are forgotten, and file sets. They
are made into chunks of their own, each when it is asked for, and restored as those come. All else is made at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from txnparticipant.locks.locks import Claim, Request
from txnparticipant.rows.changed_keys import ChangedKeys, Commit
from txnparticipant.rows.memrowset import Flush, Fold, RowSet, TableRows, changed_keys
from txnparticipant.shard.commands import Savepoint, dead_rows_from_wire, dead_rows_to_wire
from txnparticipant.shard.dividing import Gone
from txnparticipant.shard.placing import Placed
from txnparticipant.shard.records import Dropped, FormerNames, TableTxn
from txnparticipant.shard.schemas import Schemas
from txnparticipant.shard.table import TableState
from txnparticipant.versions.additions import Addition
from txnparticipant.versions.compactions import Compaction, Ended, Failures, Switched
from txnparticipant.versions.conflicts import Overwrite
from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import DeleteSet, FileDeletes, FileSet, Manifest
from txnstatus.codec import Codec, wholly_known
from txnstatus.key_ranges import KeyOrder
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.schema import Schema
from txnstatus.table_properties import Property
from txnstatus.types import Timestamp, TxnId
from txnstatus.values import value

_TXN = Codec(TableTxn, pb.ShardSnapshot.TableTxn)
_OVERWRITE = Codec(Overwrite, pb.ShardSnapshot.Overwrite)
_SCHEMAS = Codec(Schemas, pb.ShardSnapshot.Schemas)
_DROPPED = Codec(Dropped, pb.ShardSnapshot.Dropped)
_FORMER_NAMES = Codec(FormerNames, pb.ShardSnapshot.FormerNames)
_ROW_SET = Codec(RowSet, pb.ShardSnapshot.RowSet)
_FLUSH = Codec(Flush, pb.ShardSnapshot.Flush)
_FOLD = Codec(Fold, pb.ShardSnapshot.Fold)
_COMMIT = Codec(Commit, pb.ShardSnapshot.Commit)
_CLAIM = Codec(Claim, pb.ShardSnapshot.LockClaim)
_REQUEST = Codec(Request, pb.ShardSnapshot.LockRequest)
_ADDITION = Codec(Addition, pb.ShardSnapshot.Addition)
_COMPACTION = Codec(Compaction, pb.ShardSnapshot.Compaction)
_SWITCHED = Codec(Switched, pb.ShardSnapshot.Switched)
_ENDED = Codec(Ended, pb.ShardSnapshot.EndedCompaction)
_FAILURES = Codec(Failures, pb.ShardSnapshot.Failures)
_FILE_DELETES = Codec(FileDeletes, table_pb.FileDeletes)
_SAVEPOINT = Codec(Savepoint, pb.ShardSnapshot.Savepoint)
_PLACED = Codec(Placed, pb.ShardSnapshot.Placed)
_GONE = Codec(Gone, pb.ShardSnapshot.Gone)
placed_to_wire, placed_from_wire = _PLACED.to_wire, _PLACED.from_wire
gone_to_wire, gone_from_wire = _GONE.to_wire, _GONE.from_wire
savepoint_to_wire, savepoint_from_wire = _SAVEPOINT.to_wire, _SAVEPOINT.from_wire
VERSION = 3
CHUNK = 200
"""Transactions, or file sets, in a chunk: some two milliseconds' work."""


def _to_wire(table: TableState) -> pb.ShardSnapshot.TableState:
    """All but what `_More` has."""
    unfinished = sorted(table.unfinished)
    held = (claim for txn_id in unfinished for claim in table.locks.held_by(txn_id))
    return pb.ShardSnapshot.TableState(
        info=table.info(),
        request_id=table.request_id,
        created=table.created,
        before=_DROPPED.to_wire(table.before) if table.before else None,
        readable_from=table.readable_from,
        dropped=_DROPPED.to_wire(table.dropped) if table.dropped else None,
        txns=[_TXN.to_wire(table.unfinished[txn_id]) for txn_id in unfinished],
        overwrites=map(_OVERWRITE.to_wire, table.overwrites.committed()),
        retired=[
            pb.ShardSnapshot.RetiredWrites(txn_id=txn_id, write_ids=table.retired[txn_id])
            for txn_id in sorted(table.retired)
        ],
        locks=map(_CLAIM.to_wire, held),
        waits=map(_REQUEST.to_wire, table.locks.queue()),
        rows=_rows_to_wire(table.rows),
        delete_sets=map(_delete_set_to_wire, table.deletes.all.values()),
        additions=map(_ADDITION.to_wire, table.additions),
        additions_above=table.additions.above,
        compactions=map(_COMPACTION.to_wire, table.compactions.open.values()),
        switched=map(_SWITCHED.to_wire, table.compactions.switched.values()),
        ended=map(_ENDED.to_wire, table.compactions.ended),
        failures=map(_FAILURES.to_wire, table.compactions.failures.values()),
        schemas=_SCHEMAS.to_wire(table.schemas),
        former=_FORMER_NAMES.to_wire(table.former) if table.former != FormerNames() else None,
    )


class _More:
    """What a table has very many of, as of now: what has ended is only cleaned, and file sets only end."""

    def __init__(self, table: TableState) -> None:
        self._info = common.TableInfo(table_id=table.table_id)
        ended = sorted(table.txns.keys() - table.unfinished.keys())
        self._txns = [(txn := table.txns[txn_id], txn.claimed) for txn_id in ended]
        self._file_sets = [(each, each.replaced_by, each.replaced_ts) for each in table.file_sets.values()]

    def parts(self) -> Iterator[pb.ShardSnapshot.TableState]:
        for start in range(0, len(self._txns), CHUNK):
            these = self._txns[start : start + CHUNK]
            txns = [_TXN.to_wire(replace(txn, claimed=claimed)) for txn, claimed in these]
            yield pb.ShardSnapshot.TableState(info=self._info, txns=txns)
        written, size = list[pb.ShardSnapshot.FileSets](), 0
        for each in _file_sets_to_wire(self._file_sets):
            written.append(each)
            size += len(each.parts)
            if size >= CHUNK:
                yield pb.ShardSnapshot.TableState(info=self._info, file_sets=written)
                written, size = [], 0
        if written:
            yield pb.ShardSnapshot.TableState(info=self._info, file_sets=written)


def chunks(wire: pb.ShardSnapshot, tables: Sequence[TableState]) -> Iterator[bytes]:
    """The tables as of this call, with all else that the snapshot has; the chunks together are one message."""
    wire.tables.extend(map(_to_wire, tables))
    return _chunks(wire.SerializeToString(deterministic=True), list(map(_More, tables)))


def _chunks(first: bytes, more: Sequence[_More]) -> Iterator[bytes]:
    yield first
    for each in more:
        for part in each.parts():
            yield pb.ShardSnapshot(tables=[part]).SerializeToString(deterministic=True)


class Restored:
    """A shard's tables as chunks of a snapshot bring them back. Implements raft.machine.Restoring."""

    def __init__(self, become: Callable[[pb.ShardSnapshot, dict[str, TableState]], None]) -> None:
        """`become` gets the tables by their ids, and the first chunk, which has all else."""
        self._become = become
        self._first: pb.ShardSnapshot | None = None
        self._tables: dict[str, TableState] = {}

    def add(self, chunk: bytes) -> None:
        wire = wholly_known(pb.ShardSnapshot.FromString(chunk))
        if self._first is None:
            if wire.version != VERSION:
                raise ValueError(f"shard snapshot of version {wire.version}; this release reads {VERSION}")
            self._first = wire
        for part in wire.tables:
            self._add(part)

    def _add(self, part: pb.ShardSnapshot.TableState) -> None:
        """A part of a table: its first one has all but what there is very many of."""
        table_id = part.info.table_id
        table = self._tables.get(table_id)
        if table is None:
            table = self._tables[table_id] = _from_wire(part)
        for txn in part.txns:
            table.restore(_TXN.from_wire(txn))
        for written in part.file_sets:
            table.add(_file_sets_from_wire(written))

    def finish(self) -> None:
        if self._first is None:
            raise ValueError("a shard's snapshot without a beginning")
        for part in self._first.tables:
            for deleted in part.delete_sets:  # rows of the file sets, which are all there by now
                self._tables[part.info.table_id].add_deletes(_delete_set_from_wire(deleted))
        self._become(self._first, self._tables)


def _from_wire(wire: pb.ShardSnapshot.TableState) -> TableState:
    """All but its transactions and file sets, and what is deleted of those."""
    info = wire.info
    schema = Schema.from_wire(info.schema)
    table = TableState(
        info.table_id,
        info.name,
        info.location,
        schema,
        wire.request_id,
        info.conflicts,
        tuple(Property(each.name, each.value) for each in info.properties),
        _SCHEMAS.from_wire(wire.schemas),
        Timestamp(wire.created),
        Timestamp(info.made),
        _DROPPED.from_wire(wire.before) if wire.HasField("before") else None,
        Timestamp(wire.readable_from),
        former=_FORMER_NAMES.from_wire(wire.former),
        dropped=_DROPPED.from_wire(wire.dropped) if wire.HasField("dropped") else None,
        rows=_rows_from_wire(wire.rows, schema),
    )
    table.additions.above = Timestamp(wire.additions_above)
    for added in wire.additions:
        table.additions.add(_ADDITION.from_wire(added))
    for wanted in wire.compactions:
        table.compactions.open[wanted.compaction_id] = _COMPACTION.from_wire(wanted)
    for switched in wire.switched:
        table.compactions.switch(_SWITCHED.from_wire(switched))
        table.used[COMPACTIONS, switched.compaction_id] += 1
    table.compactions.ended = list(map(_ENDED.from_wire, wire.ended))
    table.compactions.failures = {each.partition: _FAILURES.from_wire(each) for each in wire.failures}
    for overwrite in wire.overwrites:
        table.overwrites.restore(_OVERWRITE.from_wire(overwrite))
    for retired in wire.retired:
        for write_id in retired.write_ids:
            table.leave_to_cleaner(TxnId(retired.txn_id), write_id)
    for claim in wire.locks:
        table.locks.restore_held(_CLAIM.from_wire(claim))
    table.locks.restore_queue(map(_REQUEST.from_wire, wire.waits))
    return table


@value
class _Part:
    """What a file set has for itself."""

    partition: str
    replaced_by: TxnId | None
    replaced_ts: Timestamp

    @property
    def end(self) -> tuple[TxnId | None, Timestamp]:
        return self.replaced_by, self.replaced_ts


@value
class _Written:
    """File sets of one write. The manifest names all partitions: it is there once."""

    write_id: str
    txn_id: TxnId
    manifest: Manifest
    commit_ts: Timestamp
    from_writes: tuple[str, ...]
    parts: tuple[_Part, ...]
    as_of: Timestamp


_WRITTEN = Codec(_Written, pb.ShardSnapshot.FileSets)


def _file_sets_to_wire(
    file_sets: Iterable[tuple[FileSet, TxnId | None, Timestamp]],
) -> Iterator[pb.ShardSnapshot.FileSets]:
    """In their order, each with how it ends: those of one write were published together."""
    for _, together in itertools.groupby(file_sets, key=lambda each: (each[0].txn_id, each[0].write_id)):
        group = list(together)
        first, _, _ = group[0]
        parts = tuple(_Part(each.partition, by, at) for each, by, at in group)
        yield _WRITTEN.to_wire(
            _Written(
                first.write_id, first.txn_id, first.manifest, first.commit_ts, first.from_writes, parts, first.as_of
            )
        )


def _file_sets_from_wire(wire: pb.ShardSnapshot.FileSets) -> list[FileSet]:
    its = _WRITTEN.from_wire(wire)
    common = its.write_id, its.txn_id
    return [
        FileSet(*common, part.partition, its.manifest, its.commit_ts, *part.end, its.from_writes, its.as_of)
        for part in its.parts
    ]


def _delete_set_to_wire(deleted: DeleteSet) -> pb.ShardSnapshot.DeleteSet:
    return pb.ShardSnapshot.DeleteSet(
        write_id=deleted.write_id,
        txn_id=deleted.txn_id,
        ref=dead_rows_to_wire(deleted.ref),
        commit_ts=deleted.commit_ts,
        file_sets=sorted(deleted.file_sets),
        files=map(_FILE_DELETES.to_wire, deleted.files),
        compaction_id=deleted.compaction_id,
    )


def _delete_set_from_wire(wire: pb.ShardSnapshot.DeleteSet) -> DeleteSet:
    files = tuple(map(_FILE_DELETES.from_wire, wire.files))
    whose = wire.write_id, TxnId(wire.txn_id)
    ref, file_sets = dead_rows_from_wire(wire.ref), set(wire.file_sets)
    return DeleteSet(*whose, ref, Timestamp(wire.commit_ts), file_sets, files, wire.compaction_id)


def _rows_to_wire(rows: TableRows) -> pb.ShardSnapshot.TableRows:
    """The keys of rows that are not flushed are with the rows, unless the transaction has files, too."""
    return pb.ShardSnapshot.TableRows(
        unflushed=map(_ROW_SET.to_wire, rows.unflushed.values()),
        commits=[_COMMIT.to_wire(commit) for commit in rows.keys if commit != _commit_of(rows, commit.txn_id)],
        flushes=map(_FLUSH.to_wire, rows.flushes.values()),
        flushing=rows.flushing,
        given_up=rows.given_up,
        cleared=rows.cleared,
        folded=map(_FOLD.to_wire, rows.folded),
        spent=rows.spent,
        newest_gone=rows.newest_gone,
        keys_above=rows.keys.above,
    )


def _rows_from_wire(wire: pb.ShardSnapshot.TableRows, schema: Schema) -> TableRows:
    rows = TableRows(
        flushing=list(wire.flushing),
        given_up=list(wire.given_up),
        cleared=list(map(Timestamp, wire.cleared)),
        folded=list(map(_FOLD.from_wire, wire.folded)),
        spent=list(wire.spent),
        newest_gone=Timestamp(wire.newest_gone),
        newest=Timestamp(wire.newest_gone),
        keys=ChangedKeys(Timestamp(wire.keys_above)),
    )
    for flush in wire.flushes:
        rows.add(_FLUSH.from_wire(flush))
    commits = {commit.txn_id: _COMMIT.from_wire(commit) for commit in wire.commits}
    for row_set in wire.unflushed:
        rows.publish(_ROW_SET.from_wire(row_set))
        if commit := _commit_of(rows, TxnId(row_set.txn_id)):
            commits.setdefault(commit.txn_id, commit)
    for commit in commits.values():
        rows.keys.add(commit, KeyOrder(schema))
    return rows


def _commit_of(rows: TableRows, txn_id: TxnId) -> Commit | None:
    """What a transaction changed whose rows are not flushed, by these rows."""
    row_set = rows.unflushed.get(txn_id)
    return Commit(row_set.commit_ts, txn_id, changed_keys(row_set.batches)) if row_set else None
