"""What a command does to one table, once its transaction's state allows it. Used by `table_store` only."""

from __future__ import annotations

from txnparticipant.locks.locks import Lock, Mode, Verdict
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import dropping, row_changes
from txnparticipant.shard.cleanable import set_retired
from txnparticipant.shard.records import LIVE, TableState, TxnRecord
from txnparticipant.shard.row_conflicts import row_conflict
from txnparticipant.shard.transitions import Op
from txnparticipant.shard.written_locks import must_lock
from txnparticipant.versions.conflicts import first_committer_wins
from txnparticipant.versions.mvcc import FileSet, PendingWrite
from txnstatus.errors import IllegalState, InvalidArgument, Locked, NotAuthorized, NotFound, TxnError, aborted
from txnstatus.partitions import WHOLE_TABLE, covers
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId
from txnstatus.values import value


@value
class Applied:
    timestamp: Timestamp = NO_TIMESTAMP
    """BEGIN_COMMIT: the prepare timestamp, or the final one of a transaction that is committed already."""
    table_id: str = ""
    """CreateTable: the new table's, which may be dropped since."""
    granted: bool = False
    """AcquireLocks: whether the locks are held now."""
    let_in: tuple[TxnId, ...] = ()
    """Other transactions, whose locks on this participant were granted by the command."""


@value
class Rejected:
    error: TxnError


def change(table: TableState, record: TxnRecord, command: cmd.TxnCommand) -> Applied | Rejected:
    if refusal := dropping.refusal(table, record, command):
        return Rejected(refusal)
    match command:
        case cmd.OpenWrite() | cmd.AddFiles():
            return _write(table, record, command)
        case cmd.WriteRows():
            if command.owner != record.owner:
                return _not_the_owner(record, command.owner)
            refusal = row_changes.write(table, record, command)
            return Rejected(refusal) if refusal else Applied()
        case cmd.AcquireLocks():
            return _lock(table, record, command)
        case cmd.DropTable():
            if command.owner != record.owner:
                return _not_the_owner(record, command.owner)
            refusal = dropping.mark(table, record)
            return Rejected(refusal) if refusal else Applied()
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
    if refusal := _unlocked(table, record, command) or row_changes.stands_in_the_way(table, record, command):
        return Rejected(refusal)
    for write in record.writes.values():
        write.partitions = tuple(p for p in write.partitions if not covers(command.overwrites, p))
    gone = [write_id for write_id, write in record.writes.items() if not (write.partitions or write.overwrites)]
    for write_id in gone:
        del record.writes[write_id]
    record.superseded += gone
    record.writes[command.write_id] = PendingWrite(
        command.write_id,
        command.manifest,
        command.manifest.partitions if table.schema.partition_by else (WHOLE_TABLE,),
        command.overwrites,
        command.base_ts,
        _seen_at(table, command),
        command.from_writes,
    )
    return Applied()


def _unlocked(table: TableState, record: TxnRecord, command: cmd.AddFiles) -> IllegalState | None:
    """The refusal, if the table wants locks for what the transaction would overwrite or append to, and it has none."""
    added = command.manifest.partitions if table.schema.partition_by else (WHOLE_TABLE,)
    return must_lock(table, record, Mode.X, command.overwrites) or must_lock(table, record, Mode.S, added)


def _seen_at(table: TableState, command: cmd.AddFiles) -> tuple[str, ...]:
    """What the overwrite replaces."""
    if not command.overwrites:
        return ()
    return tuple(
        id_
        for id_, file_set in table.file_sets.items()
        if file_set.visible_at(command.base_ts) and covers(command.overwrites, file_set.partition)
    )


def _lock(table: TableState, record: TxnRecord, command: cmd.AcquireLocks) -> Applied | Rejected:
    if command.owner != record.owner:
        return _not_the_owner(record, command.owner)
    for lock in command.locks:
        if not table.has_object(lock.object):
            return Rejected(InvalidArgument(f"{lock.object!r} is no part of {table.name}", txn_id=record.txn_id))
    locks = table.with_parents(command.locks)
    answer = table.locks.acquire(record.txn_id, locks, command.otherwise, command.since)
    if answer.verdict is Verdict.CIRCLE:
        return Rejected(_closes_a_circle(table, record.txn_id, locks))
    return Applied(granted=answer.verdict is Verdict.GRANTED, let_in=answer.let_in)


def _closes_a_circle(table: TableState, txn_id: TxnId, locks: tuple[Lock, ...]) -> Locked:
    claims = " and ".join(f"transaction {claim.txn_id}'s {claim.lock}" for claim in table.locks.blockers(txn_id, locks))
    message = f"transaction {txn_id} would wait for {claims}, and be waited for in turn: deadlock"
    return Locked(message, txn_id=txn_id, hint="end one of these transactions, and run it again")


def _prepare(table: TableState, record: TxnRecord, command: cmd.BeginCommit) -> Applied | Rejected:
    writes = record.writes.values()
    conflict = first_committer_wins(table.name, record.txn_id, writes, table.overwrites, table.file_sets)
    conflict = conflict or row_conflict(table, record)
    if conflict:
        return Rejected(conflict)
    for write in writes:
        for replaced in write.replaces:
            table.file_sets[replaced].replaced_by = record.txn_id
    table.overwrites.prepare(record.txn_id, writes)
    row_changes.prepare(table, record)
    record.state = ParticipantState.COMMIT_IN_PROGRESS
    record.prepare_ts = dropping.prepare_ts(table, command.prepare_ts) if record.drops else command.prepare_ts
    return Applied(record.prepare_ts, let_in=table.locks.stop_waiting(record.txn_id))


def _publish(table: TableState, record: TxnRecord, commit_ts: Timestamp) -> Applied:
    if record.writes:
        _publish_files(table, record, commit_ts)
    row_changes.publish(table, record, commit_ts)
    if record.drops:
        dropping.publish(table, record, commit_ts)
    record.writes.clear()
    record.superseded.clear()
    record.state = ParticipantState.COMMITTED
    record.commit_ts = commit_ts
    row_changes.ended(table, record)
    return Applied(commit_ts, let_in=table.locks.release(record.txn_id))


def _publish_files(table: TableState, record: TxnRecord, commit_ts: Timestamp) -> None:
    for write in record.writes.values():
        for partition in write.partitions:
            table.add(
                FileSet(
                    write.write_id,
                    record.txn_id,
                    partition,
                    write.manifest,
                    commit_ts,
                    from_writes=write.from_writes,
                )
            )
    # Once each: two of its writes may have replaced the same.
    for replaced in dict.fromkeys(id_ for write in record.writes.values() for id_ in write.replaces):
        table.replace(replaced, commit_ts)
    table.overwrites.commit(record.txn_id, record.writes.values(), commit_ts)
    used = {write_id for w in record.writes.values() if w.partitions for write_id in (w.write_id, *w.from_writes)}
    record.claimed = [write_id for write_id in record.claimed if write_id not in used]


def _discard(table: TableState, record: TxnRecord) -> Applied:
    if record.state is ParticipantState.COMMIT_IN_PROGRESS:
        for write in record.writes.values():
            for replaced in write.replaces:
                table.file_sets[replaced].replaced_by = None
        table.overwrites.abort(record.writes.values())
    record.writes.clear()
    record.superseded.clear()
    record.state = ParticipantState.ABORTED
    record.prepare_ts = NO_TIMESTAMP
    row_changes.ended(table, record)
    return Applied(let_in=table.locks.release(record.txn_id))


def withdraw(table: TableState, command: cmd.Withdraw) -> Applied | Rejected:
    """Leaves no tombstone: the write may have been another owner's, or before its time."""
    record = table.txns.get(command.txn_id)
    if record is None or record.state is ParticipantState.ABORTED:
        return Applied()
    if record.state is not ParticipantState.OPEN:
        return Rejected(illegal(table, command.txn_id, record, "a withdrawal"))
    others = {*record.claimed, *record.rows} - {command.write_id}
    more = others or record.writes or record.superseded or record.drops
    if more or record.txn_id in table.locks.txn_ids():
        message = f"transaction {record.txn_id} has more on {table.name} than write {command.write_id}"
        return Rejected(IllegalState(message, txn_id=record.txn_id))
    row_changes.ended(table, record)
    del table.txns[record.txn_id], table.unfinished[record.txn_id]
    return Applied()


def _not_the_owner(record: TxnRecord, owner: str) -> Rejected:
    message = f"transaction {record.txn_id} belongs to {record.owner!r}, not to {owner!r}"
    return Rejected(NotAuthorized(message, txn_id=record.txn_id))


def retire(table: TableState, up_to: Timestamp) -> Applied:
    """Drops what was removed at or below the timestamp; the directories that nothing else needs are to be cleaned.

    Whoever reads above sees none of it, so it takes from no reader but those below what is `readable_from` now.
    """
    count = table.replaced_until(up_to)
    for replaced_ts, file_set_id in table.replaced[:count]:
        table.readable_from = max(table.readable_from, replaced_ts)
        file_set = table.file_sets.pop(file_set_id)
        for write_id in sorted(file_set.used_writes):
            directory = file_set.txn_id, write_id
            table.used[directory] -= 1
            if not table.used[directory]:
                del table.used[directory]
                set_retired(table, file_set.txn_id, [*table.retired.get(file_set.txn_id, ()), write_id])
    del table.replaced[:count]
    if table.dropped is not None and table.dropped.commit_ts <= up_to:
        table.readable_from = max(table.readable_from, table.dropped.commit_ts)
        table.rows.retire()
    return Applied()


def mark_cleaned(table: TableState, command: cmd.MarkCleaned) -> Applied | Rejected:
    record = table.txns.get(command.txn_id)
    retired = table.retired.get(command.txn_id, [])
    left = [write_id for write_id in retired if write_id not in command.write_ids]
    set_retired(table, command.txn_id, left)
    if record is None or record.state in LIVE:
        if retired != left:
            return Applied()
        return Rejected(IllegalState(f"transaction {command.txn_id} has not ended on {table.name}"))
    record.claimed = [write_id for write_id in record.claimed if write_id not in command.write_ids]
    table.index(record)
    return Applied()


def illegal(table: TableState, txn_id: TxnId, record: TxnRecord | None, what: Op | str) -> TxnError:
    if record is None:
        return NotFound(f"transaction {txn_id} has not begun on {table.name}", txn_id=txn_id)
    if record.state is ParticipantState.ABORTED:
        return aborted(txn_id, None)  # why, the status table knows
    return IllegalState(
        f"{what} is not possible: transaction {txn_id} is {record.state.name} on {table.name}", txn_id=txn_id
    )
