"""ParticipantShard: the replicated state of the tables of one shard.

`apply` is total and deterministic: every command gets `Applied` or `Rejected`, the same on every replica.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from txnparticipant import commands as cmd
from txnparticipant.conflicts import first_committer_wins
from txnparticipant.locks import Lock, Verdict
from txnparticipant.mvcc import FileSet, PendingWrite, Prepared
from txnparticipant.records import LIVE, TableState, TxnRecord, table_from_wire, table_to_wire
from txnparticipant.txn import TRANSITIONS, Op, Stay
from txnstatus.errors import (
    AlreadyExists,
    Conflict,
    IllegalState,
    InvalidArgument,
    Locked,
    NotAuthorized,
    NotFound,
    TxnError,
    aborted,
    forgotten,
)
from txnstatus.proto import participant_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, AbortCause, AbortCode, ParticipantState, Timestamp, TxnId

SNAPSHOT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Applied:
    timestamp: Timestamp = NO_TIMESTAMP
    """BEGIN_COMMIT: the prepare timestamp, or the final one of a transaction that is committed already."""
    table_id: str = ""
    """CreateTable: the new table's."""
    granted: bool = False
    """AcquireLocks: whether the locks are held now."""
    let_in: tuple[TxnId, ...] = ()
    """Other transactions, whose locks on this participant were granted by the command."""


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
        self.forgotten_below = TxnId(0)
        """Transactions below it are over for good; what still comes for one is late, and refused."""

    # ---- commands

    def apply(self, command: cmd.Command) -> Applied | Rejected:
        if isinstance(command, cmd.CreateTable):
            return self._create(command)
        if isinstance(command, cmd.ForgetTxns):
            return self._forget(command.below_txn_id)
        table = self._tables.get(command.table_id) or self._unlocked_database(command.table_id)
        if table is None:
            return Rejected(NotFound(f"no table with id {command.table_id!r} in shard {self.shard}"))
        if isinstance(command, cmd.MarkCleaned):
            cleaned = _mark_cleaned(table, command)
            self._drop_if_forgotten(table, command.txn_id)
            return cleaned
        record = table.txns.get(command.txn_id)
        if record is None and command.txn_id < self.forgotten_below:
            return Rejected(forgotten(command.txn_id))
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
            self._tables[table.table_id] = table
            table.txns[record.txn_id] = record
            table.index(record)
        return result

    def _unlocked_database(self, table_id: str) -> TableState | None:
        """Nobody creates a database: it is here while it is in a transaction's record."""
        return TableState.database(table_id) if table_id.startswith(f"{self.shard}.") else None

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

    def _forget(self, below: TxnId) -> Applied:
        self.forgotten_below = max(self.forgotten_below, below)
        for table in list(self._tables.values()):
            for txn_id in [txn_id for txn_id in table.txns if txn_id < below]:
                self._drop_if_forgotten(table, txn_id)
        return Applied()

    def _drop_if_forgotten(self, table: TableState, txn_id: TxnId) -> None:
        ended = txn_id not in table.unfinished and txn_id not in table.uncleaned
        if ended and txn_id < self.forgotten_below:
            table.txns.pop(txn_id, None)
            if table.is_database and not table.txns:
                del self._tables[table.table_id]

    # ---- questions

    def table(self, name: str) -> TableState:
        """Raises NotFound."""
        table_id = self._ids_by_name.get(name)
        if table_id is None:
            raise NotFound(f"table {name} does not exist")
        return self._tables[table_id]

    def participant(self, name: str) -> TableState:
        """A table, or a database, by its name. Raises NotFound."""
        if "." in name:
            return self.table(name)
        table_id = f"{self.shard}.{name}"
        found = self._tables.get(table_id) or TableState.database(table_id)
        if found is None:
            raise NotFound(f"{name!r} is no name of a database")
        return found

    def tables(self) -> Iterator[TableState]:
        """With the databases in which something is locked."""
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
            forgotten_below=self.forgotten_below,
            tables=[table_to_wire(self._tables[table_id]) for table_id in sorted(self._tables)],
        )
        return wire.SerializeToString(deterministic=True)

    def restore(self, data: bytes) -> None:
        """Raises ValueError for a snapshot of another version."""
        wire = pb.ShardSnapshot.FromString(data)
        if wire.version != SNAPSHOT_VERSION:
            raise ValueError(f"shard snapshot of version {wire.version}; this release reads {SNAPSHOT_VERSION}")
        self._next_table_number = wire.next_table_number
        self.forgotten_below = TxnId(wire.forgotten_below)
        self._tables = {t.info.table_id: table_from_wire(t) for t in wire.tables}
        self._ids_by_name = {table.name: id_ for id_, table in self._tables.items() if not table.is_database}

    def check_invariants(self) -> None:
        """Raises AssertionError."""
        for table in self._tables.values():
            assert not table.is_database or table.txns, f"nobody's database: {table.name}"
            table.locks.check_invariants(table.unfinished)
            waiting = {request.txn_id for request in table.locks.queue()}
            for record in table.txns.values():
                assert record.txn_id not in waiting or record.state is ParticipantState.OPEN, f"waits: {record}"
                prepared = record.state in (ParticipantState.COMMIT_IN_PROGRESS, ParticipantState.COMMITTED)
                assert prepared == (record.prepare_ts != NO_TIMESTAMP), f"prepare timestamp of {record}"
                committed = record.state is ParticipantState.COMMITTED
                assert committed == (record.commit_ts != NO_TIMESTAMP), f"commit timestamp of {record}"
                assert record.commit_ts >= record.prepare_ts or not committed, f"{record} committed before it prepared"
                live = record.state in LIVE
                assert live == (record.txn_id in table.unfinished), f"index of {record}"
                assert (bool(record.claimed) and not live) == (record.txn_id in table.uncleaned), f"index of {record}"
                assert live or not record.writes, f"ended, with writes pending: {record}"
                for write in record.writes.values():
                    used = {write.write_id, *write.from_writes}
                    assert used <= set(record.claimed), f"unclaimed directories: {write}"
            for file_set in table.file_sets.values():
                writer = table.txns.get(file_set.txn_id)
                assert (
                    file_set.txn_id < self.forgotten_below if writer is None else writer.commit_ts == file_set.commit_ts
                ), f"visible, not committed: {file_set}"
                if file_set.replaced_by is not None:
                    replacer = table.txns.get(file_set.replaced_by)
                    assert (
                        file_set.replaced_by < self.forgotten_below and file_set.replaced_ts
                        if replacer is None
                        else replacer.commit_ts == file_set.replaced_ts
                    ), f"wrong replacement: {file_set}"


_OP_OF_COMMAND = {
    cmd.BeginTxn: Op.BEGIN_TXN,
    cmd.OpenWrite: Op.WRITE,
    cmd.AddFiles: Op.WRITE,
    cmd.AcquireLocks: Op.WRITE,
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
        case cmd.AcquireLocks():
            return _lock(table, record, command)
        case cmd.BeginCommit():
            return _prepare(table, record, command)
        case cmd.FinalizeCommit() if command.commit_ts < record.prepare_ts:
            message = f"commit timestamp {command.commit_ts} is below the prepare timestamp {record.prepare_ts}"
            return Rejected(InvalidArgument(message, txn_id=record.txn_id))
        case cmd.FinalizeCommit():
            return _publish(table, record, command.commit_ts)
        case cmd.AbortTxn():
            return _discard(table, record)


def _write(table: TableState, record: TxnRecord, command: cmd.OpenWrite | cmd.AddFiles) -> Applied | Rejected:
    if command.owner != record.owner:
        return _not_the_owner(record, command.owner)
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


def _lock(table: TableState, record: TxnRecord, command: cmd.AcquireLocks) -> Applied | Rejected:
    if command.owner != record.owner:
        return _not_the_owner(record, command.owner)
    for lock in command.locks:
        if not table.has_object(lock.object):
            return Rejected(InvalidArgument(f"{lock.object!r} is no part of {table.name}", txn_id=record.txn_id))
    locks = table.with_parents(command.locks)
    answer = table.locks.acquire(record.txn_id, locks, command.strategy, command.since)
    match answer.verdict:
        case Verdict.DIES:
            return Rejected(_dies(table, record.txn_id, locks))
        case Verdict.CIRCLE:
            return Rejected(_closes_a_circle(table, record.txn_id, locks))
    return Applied(granted=answer.verdict is Verdict.GRANTED, let_in=answer.let_in)


def _dies(table: TableState, txn_id: TxnId, locks: tuple[Lock, ...]) -> Conflict:
    older = min(table.locks.blockers(txn_id, locks), key=lambda claim: claim.txn_id)
    does = "holds" if older.granted else "waits for"
    message = f"transaction {older.txn_id} {does} {older.lock}, and is older: wait-die"
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, older.txn_id, (older.lock.object,))
    return Conflict(message, txn_id=txn_id, hint="run the transaction again", cause=cause)


def _closes_a_circle(table: TableState, txn_id: TxnId, locks: tuple[Lock, ...]) -> Locked:
    claims = " and ".join(f"transaction {claim.txn_id}'s {claim.lock}" for claim in table.locks.blockers(txn_id, locks))
    message = f"transaction {txn_id} would wait for {claims}, and be waited for in turn: deadlock"
    return Locked(message, txn_id=txn_id, hint="end one of these transactions, and run it again")


def _prepare(table: TableState, record: TxnRecord, command: cmd.BeginCommit) -> Applied | Rejected:
    conflict = first_committer_wins(table.name, record.txn_id, record.writes.values(), table.file_sets)
    if conflict:
        return Rejected(conflict)
    for write in record.writes.values():
        for replaced in write.replaces:
            table.file_sets[replaced].replaced_by = record.txn_id
    record.state = ParticipantState.COMMIT_IN_PROGRESS
    record.prepare_ts = command.prepare_ts
    return Applied(command.prepare_ts, let_in=table.locks.stop_waiting(record.txn_id))


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
    return Applied(commit_ts, let_in=table.locks.release(record.txn_id))


def _discard(table: TableState, record: TxnRecord) -> Applied:
    if record.state is ParticipantState.COMMIT_IN_PROGRESS:
        for write in record.writes.values():
            for replaced in write.replaces:
                table.file_sets[replaced].replaced_by = None
    record.writes.clear()
    record.superseded.clear()
    record.state = ParticipantState.ABORTED
    record.prepare_ts = NO_TIMESTAMP
    return Applied(let_in=table.locks.release(record.txn_id))


def _not_the_owner(record: TxnRecord, owner: str) -> Rejected:
    message = f"transaction {record.txn_id} belongs to {record.owner!r}, not to {owner!r}"
    return Rejected(NotAuthorized(message, txn_id=record.txn_id))


def _mark_cleaned(table: TableState, command: cmd.MarkCleaned) -> Applied | Rejected:
    record = table.txns.get(command.txn_id)
    if record is None or record.state in LIVE:
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
