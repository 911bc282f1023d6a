"""ParticipantShard: the replicated state of the tables of one shard.

`apply` is total and deterministic: every command gets `Applied` or `Rejected`, the same on every replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from txnparticipant import commands as cmd
from txnparticipant.conflicts import first_committer_wins
from txnparticipant.mvcc import FileSet, PendingWrite, Prepared
from txnparticipant.txn import TRANSITIONS, Op, Stay
from txnstatus.errors import (
    AlreadyExists,
    IllegalState,
    NotAuthorized,
    NotFound,
    TxnError,
    aborted,
)
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import participant_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId

SNAPSHOT_VERSION = 1
_LIVE = (ParticipantState.OPEN, ParticipantState.COMMIT_IN_PROGRESS)


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


@dataclass(slots=True)
class TableState:
    table_id: str
    name: str
    location: str
    schema: Schema
    request_id: str
    """Of its creation: the same request, sent again, is answered alike."""
    txns: dict[TxnId, TxnRecord] = field(default_factory=dict)
    file_sets: dict[str, FileSet] = field(default_factory=dict)
    """By id, in the order in which they were finalised here."""
    unfinished: dict[TxnId, TxnRecord] = field(default_factory=dict)
    """Those of `txns` that are OPEN or COMMIT_IN_PROGRESS: work goes by these, not by history."""
    uncleaned: dict[TxnId, TxnRecord] = field(default_factory=dict)
    """Those of `txns` that have ended and still hold directories."""

    def directory(self, txn_id: TxnId, write_id: str) -> str:
        """Where one write's files are: unique, so that a listing of it is exact and cleaning it is safe."""
        return f"{self.location}/delta_{txn_id}_{write_id}"

    def index(self, record: TxnRecord) -> None:
        """To be called after every change of a record."""
        live = record.state in _LIVE
        for index, belongs in ((self.unfinished, live), (self.uncleaned, bool(record.claimed) and not live)):
            if belongs:
                index[record.txn_id] = record
            else:
                index.pop(record.txn_id, None)

    def info(self) -> common.TableInfo:
        return common.TableInfo(
            table_id=self.table_id, name=self.name, location=self.location, schema=self.schema.to_wire()
        )


@dataclass(frozen=True, slots=True)
class Applied:
    timestamp: Timestamp = NO_TIMESTAMP
    """BEGIN_COMMIT: the prepare timestamp, or the final one of a transaction that is committed already."""
    table_id: str = ""
    """CreateTable: the new table's."""


@dataclass(frozen=True, slots=True)
class Rejected:
    error: TxnError


class ParticipantShard:
    """The state of one shard. Only `apply` and `restore` change it."""

    def __init__(self, shard: int) -> None:
        self.shard = shard
        self._tables: dict[str, TableState] = {}
        self._ids_by_name: dict[str, str] = {}
        self._next_table_number = 0

    # ---- commands

    def apply(self, command: cmd.Command) -> Applied | Rejected:
        if isinstance(command, cmd.CreateTable):
            return self._create(command)
        table = self._tables.get(command.table_id)
        if table is None:
            return Rejected(NotFound(f"no table with id {command.table_id!r} in shard {self.shard}"))
        if isinstance(command, cmd.MarkCleaned):
            return _mark_cleaned(table, command)
        record = table.txns.get(command.txn_id)
        op = _OP_OF_COMMAND[type(command)]
        outcome = TRANSITIONS[record.state if record else None, op]
        if outcome is Stay.ILLEGAL:
            return Rejected(_illegal(table, command.txn_id, record, op))
        if outcome is Stay.ALREADY:
            assert record is not None
            return Applied(record.commit_ts or record.prepare_ts)
        if record is None:
            owner = command.owner if isinstance(command, cmd.BeginTxn) else ""
            record = TxnRecord(command.txn_id, owner, ParticipantState.OPEN)
        result = _change(table, record, command)
        if isinstance(result, Applied):
            table.txns[record.txn_id] = record
            table.index(record)
        return result

    def _create(self, command: cmd.CreateTable) -> Applied | Rejected:
        existing = self._tables.get(self._ids_by_name.get(command.name, ""))
        if existing is not None and existing.request_id == command.request_id:
            return Applied(table_id=existing.table_id)
        if existing is not None:
            return Rejected(AlreadyExists(f"table {command.name} exists already"))
        table_id = f"{self.shard}.{self._next_table_number}"
        self._next_table_number += 1
        self._tables[table_id] = TableState(
            table_id, command.name, command.location, command.schema, command.request_id
        )
        self._ids_by_name[command.name] = table_id
        return Applied(table_id=table_id)

    # ---- questions

    def table(self, name: str) -> TableState:
        """Raises NotFound."""
        table_id = self._ids_by_name.get(name)
        if table_id is None:
            raise NotFound(f"table {name} does not exist")
        return self._tables[table_id]

    def tables(self) -> Iterator[TableState]:
        return iter(self._tables.values())

    def prepared(self, table: TableState) -> list[Prepared]:
        return [
            Prepared(txn.txn_id, txn.prepare_ts, tuple(txn.writes.values()))
            for txn in table.unfinished.values()
            if txn.state is ParticipantState.COMMIT_IN_PROGRESS
        ]

    def to_clean(self) -> Iterator[tuple[TableState, TxnRecord]]:
        """Ended transactions that hold directories nobody will ever see."""
        for table in self._tables.values():
            for record in table.uncleaned.values():
                yield table, record

    # ---- snapshots

    def snapshot(self) -> bytes:
        wire = pb.ShardSnapshot(
            version=SNAPSHOT_VERSION,
            next_table_number=self._next_table_number,
            tables=[_table_to_wire(self._tables[table_id]) for table_id in sorted(self._tables)],
        )
        return wire.SerializeToString(deterministic=True)

    def restore(self, data: bytes) -> None:
        """Raises ValueError for a snapshot of another version."""
        wire = pb.ShardSnapshot.FromString(data)
        if wire.version != SNAPSHOT_VERSION:
            raise ValueError(f"shard snapshot of version {wire.version}; this release reads {SNAPSHOT_VERSION}")
        self._next_table_number = wire.next_table_number
        self._tables = {t.info.table_id: _table_from_wire(t) for t in wire.tables}
        self._ids_by_name = {table.name: table_id for table_id, table in self._tables.items()}

    def check_invariants(self) -> None:
        """Raises AssertionError."""
        for table in self._tables.values():
            for record in table.txns.values():
                prepared = record.state in (ParticipantState.COMMIT_IN_PROGRESS, ParticipantState.COMMITTED)
                assert prepared == (record.prepare_ts != NO_TIMESTAMP), f"prepare timestamp of {record}"
                committed = record.state is ParticipantState.COMMITTED
                assert committed == (record.commit_ts != NO_TIMESTAMP), f"commit timestamp of {record}"
                assert record.commit_ts >= record.prepare_ts or not committed, f"{record} committed before it prepared"
                live = record.state in _LIVE
                assert live == (record.txn_id in table.unfinished), f"index of {record}"
                assert (bool(record.claimed) and not live) == (record.txn_id in table.uncleaned), f"index of {record}"
                assert live or not record.writes, f"ended, with writes pending: {record}"
                for write in record.writes.values():
                    used = {write.write_id, *write.from_writes}
                    assert used <= set(record.claimed), f"unclaimed directories: {write}"
            for file_set in table.file_sets.values():
                assert table.txns[file_set.txn_id].commit_ts == file_set.commit_ts, (
                    f"visible, not committed: {file_set}"
                )
                if file_set.replaced_by is not None:
                    replacer = table.txns[file_set.replaced_by]
                    assert replacer.commit_ts == file_set.replaced_ts, f"wrong replacement: {file_set}"


_OP_OF_COMMAND = {
    cmd.BeginTxn: Op.BEGIN_TXN,
    cmd.OpenWrite: Op.WRITE,
    cmd.AddFiles: Op.WRITE,
    cmd.BeginCommit: Op.BEGIN_COMMIT,
    cmd.FinalizeCommit: Op.FINALIZE_COMMIT,
    cmd.AbortTxn: Op.ABORT_TXN,
}


def _change(table: TableState, record: TxnRecord, command: cmd.TxnCommand) -> Applied | Rejected:
    match command:
        case cmd.BeginTxn():
            return Applied()
        case cmd.OpenWrite() | cmd.AddFiles():
            return _write(table, record, command)
        case cmd.BeginCommit():
            return _prepare(table, record, command)
        case cmd.FinalizeCommit():
            return _publish(table, record, command.commit_ts)
        case cmd.AbortTxn():
            return _discard(table, record)


def _write(table: TableState, record: TxnRecord, command: cmd.OpenWrite | cmd.AddFiles) -> Applied | Rejected:
    if command.owner != record.owner:
        message = f"transaction {record.txn_id} belongs to {record.owner!r}, not to {command.owner!r}"
        return Rejected(NotAuthorized(message, txn_id=record.txn_id))
    if isinstance(command, cmd.OpenWrite):
        if command.write_id not in record.claimed:
            record.claimed.append(command.write_id)
        return Applied()
    if command.write_id in record.superseded:
        return Applied()
    known = record.writes.get(command.write_id)
    if known is not None:
        if known.manifest == command.manifest:
            return Applied()
        message = f"write {command.write_id} of transaction {record.txn_id} was added already, with other files"
        return Rejected(IllegalState(message, txn_id=record.txn_id))
    for used in (command.write_id, *command.from_writes):
        if used not in record.claimed:
            message = f"write {used} was not opened by transaction {record.txn_id} on {table.name}"
            return Rejected(IllegalState(message, txn_id=record.txn_id))
    replaces: tuple[str, ...] = ()
    if command.overwrite:
        replaces = tuple(fs.id for fs in table.file_sets.values() if not fs.replaced_ts)
        record.superseded += record.writes
        record.writes.clear()
    record.writes[command.write_id] = PendingWrite(command.write_id, command.manifest, replaces, command.from_writes)
    return Applied()


def _prepare(table: TableState, record: TxnRecord, command: cmd.BeginCommit) -> Applied | Rejected:
    conflict = first_committer_wins(table.name, record.txn_id, record.writes.values(), table.file_sets)
    if conflict:
        return Rejected(conflict)
    for write in record.writes.values():
        for replaced in write.replaces:
            table.file_sets[replaced].replaced_by = record.txn_id
    record.state = ParticipantState.COMMIT_IN_PROGRESS
    record.prepare_ts = command.prepare_ts
    return Applied(command.prepare_ts)


def _publish(table: TableState, record: TxnRecord, commit_ts: Timestamp) -> Applied:
    for write in record.writes.values():
        added = FileSet(write.write_id, record.txn_id, write.manifest, commit_ts)
        table.file_sets[added.id] = added
        for replaced in write.replaces:
            table.file_sets[replaced].replaced_ts = commit_ts
    used = {write_id for w in record.writes.values() for write_id in (w.write_id, *w.from_writes)}
    record.claimed = [write_id for write_id in record.claimed if write_id not in used]
    record.writes.clear()
    record.superseded.clear()
    record.state = ParticipantState.COMMITTED
    record.commit_ts = commit_ts
    return Applied(commit_ts)


def _discard(table: TableState, record: TxnRecord) -> Applied:
    if record.state is ParticipantState.COMMIT_IN_PROGRESS:
        for write in record.writes.values():
            for replaced in write.replaces:
                table.file_sets[replaced].replaced_by = None
    record.writes.clear()
    record.superseded.clear()
    record.state = ParticipantState.ABORTED
    record.prepare_ts = NO_TIMESTAMP
    return Applied()


def _mark_cleaned(table: TableState, command: cmd.MarkCleaned) -> Applied | Rejected:
    record = table.txns.get(command.txn_id)
    if record is None or record.state in _LIVE:
        return Rejected(IllegalState(f"transaction {command.txn_id} has not ended on {table.name}"))
    record.claimed = [write_id for write_id in record.claimed if write_id not in command.write_ids]
    table.index(record)
    return Applied()


def _illegal(table: TableState, txn_id: TxnId, record: TxnRecord | None, op: Op) -> TxnError:
    if record is None:
        return NotFound(f"transaction {txn_id} has not begun on {table.name}", txn_id=txn_id)
    if record.state is ParticipantState.ABORTED:
        return aborted(txn_id, None)  # why, the status table knows
    return IllegalState(
        f"{op} is not possible: transaction {txn_id} is {record.state.name} on {table.name}", txn_id=txn_id
    )


def _table_to_wire(table: TableState) -> pb.ShardSnapshot.TableState:
    return pb.ShardSnapshot.TableState(
        info=table.info(),
        request_id=table.request_id,
        txns=[_txn_to_wire(table.txns[txn_id]) for txn_id in sorted(table.txns)],
        file_sets=[
            pb.ShardSnapshot.FileSet(
                write_id=fs.write_id,
                txn_id=fs.txn_id,
                manifest=cmd.manifest_to_wire(fs.manifest),
                commit_timestamp=fs.commit_ts,
                replaced_by=fs.replaced_by,
                replaced_timestamp=fs.replaced_ts,
            )
            for fs in table.file_sets.values()
        ],
    )


def _txn_to_wire(record: TxnRecord) -> pb.ShardSnapshot.TxnRecord:
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
                replaces=w.replaces,
                from_writes=w.from_writes,
            )
            for w in record.writes.values()
        ],
        superseded=record.superseded,
    )


def _table_from_wire(wire: pb.ShardSnapshot.TableState) -> TableState:
    info = wire.info
    table = TableState(info.table_id, info.name, info.location, Schema.from_wire(info.schema), wire.request_id)
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
        )
        table.index(record)
    for fs in wire.file_sets:
        file_set = FileSet(
            fs.write_id,
            TxnId(fs.txn_id),
            cmd.manifest_from_wire(fs.manifest),
            Timestamp(fs.commit_timestamp),
            TxnId(fs.replaced_by) if fs.HasField("replaced_by") else None,
            Timestamp(fs.replaced_timestamp),
        )
        table.file_sets[file_set.id] = file_set
    return table


def _write_from_wire(wire: pb.ShardSnapshot.PendingWrite) -> PendingWrite:
    return PendingWrite(
        wire.write_id, cmd.manifest_from_wire(wire.manifest), tuple(wire.replaces), tuple(wire.from_writes)
    )
