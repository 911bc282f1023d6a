"""What a command does to one table, once its transaction's state allows it: whether it may, and then the change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from txnparticipant.locks.locks import Lock, Mode, Verdict
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import dropping, key_claims
from txnparticipant.shard.delete_conflicts import delete_conflict
from txnparticipant.shard.key_conflicts import key_conflict
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.table import TableState
from txnparticipant.shard.transitions import Op
from txnparticipant.shard.translation import untranslated
from txnparticipant.versions.conflicts import first_committer_wins, full_name
from txnparticipant.versions.mvcc import PendingWrite, partition_of
from txnstatus.errors import (
    IllegalState,
    InvalidArgument,
    LimitReached,
    Locked,
    NotAuthorized,
    NotFound,
    TxnError,
    Unavailable,
    aborted,
)
from txnstatus.limits import MAX_PARTITION_VALUES
from txnstatus.partitions import WHOLE_TABLE, above, covers, values
from txnstatus.replicated import Outcome, Rejected
from txnstatus.table_properties import altered
from txnstatus.types import NO_TIMESTAMP, ConflictStrategy, ParticipantState, Timestamp, TxnId


class ShardApplied(Outcome):
    timestamp: Timestamp = NO_TIMESTAMP
    """BEGIN_COMMIT: the prepare timestamp, or the final one of a transaction that is committed already."""
    table_id: str = ""
    """CreateTable: the new table's, which may be dropped since."""
    granted: bool = False
    """AcquireLocks: whether the locks are held now."""
    let_in: tuple[TxnId, ...] = ()
    """Other transactions, whose locks on this participant were granted by the command."""


OP_OF_COMMAND: Mapping[type[cmd.Command], Op] = {
    cmd.OpenWrite: Op.WRITE,
    cmd.AddFiles: Op.WRITE,
    cmd.WriteRows: Op.WRITE,
    cmd.AcquireLocks: Op.WRITE,
    cmd.DropTable: Op.WRITE,
    cmd.SetSavepoint: Op.WRITE,
    cmd.RollbackTo: Op.WRITE,
    cmd.BeginCommit: Op.BEGIN_COMMIT,
    cmd.FinalizeCommit: Op.FINALIZE_COMMIT,
    cmd.AbortTxn: Op.ABORT_TXN,
}


def change(table: TableState, txn: TableTxn, command: cmd.TxnCommand) -> ShardApplied | Rejected:
    match command:
        case cmd.BeginCommit():
            return _prepare(table, txn, command)
        case cmd.FinalizeCommit() if command.commit_ts < txn.prepare_ts:
            message = f"commit timestamp {command.commit_ts} is below the prepare timestamp {txn.prepare_ts}"
            return Rejected(InvalidArgument(message, txn_id=txn.txn_id))
        case cmd.FinalizeCommit():
            return ShardApplied(command.commit_ts, let_in=table.publish(txn, command.commit_ts))
        case cmd.AbortTxn():
            _claim_first(table, txn, command)
            return ShardApplied(let_in=table.discard(txn))
    if refused := dropping.refusal(table, txn, command):
        return Rejected(refused)
    if command.owner != txn.owner:
        message = f"transaction {txn.txn_id} belongs to {txn.owner!r}, not to {command.owner!r}"
        return Rejected(NotAuthorized(message, txn_id=txn.txn_id))
    match command:
        case cmd.AcquireLocks():
            return _lock(table, txn, command)
        case cmd.OpenWrite():
            table.claim(txn, command.write_id)
            return ShardApplied()
        case cmd.AddFiles():
            refusal = _add_files(table, txn, command)
        case cmd.WriteRows():
            refusal = _write_rows(table, txn, command)
        case cmd.DropTable():
            refusal = dropping.mark(table, txn, command.older)
        case cmd.SetSavepoint() | cmd.RollbackTo():
            refusal = table.save_or_roll_back(txn, command)
    return Rejected(refusal) if refusal else ShardApplied()


def alter(table: TableState, command: cmd.AlterTable) -> ShardApplied | Rejected:
    """A dropped table has nobody any more who could want it otherwise."""
    if table.dropped is not None:
        return Rejected(dropping.not_found(table.name, table.dropped))
    if (new := command.columns) is not None:
        if table.schemas.has_made(new.request_id):
            return ShardApplied()
        if not table.schemas.fits(new):
            return Rejected(Unavailable(f"the columns of {table.name} were changed meanwhile"))
    table.alter(altered(table.properties, command.properties), new)
    return ShardApplied()


def _add_files(table: TableState, txn: TableTxn, command: cmd.AddFiles) -> TxnError | None:
    if command.write_id in txn.superseded:
        return None
    known = txn.writes.get(command.write_id)
    if known is not None:
        # How much of its positions is kept depends on when it came.
        refs = [each.deletes and each.deletes.ref for each in (known, command)]
        if known.manifest == command.manifest and refs[0] == refs[1]:
            return None
        message = f"write {command.write_id} of transaction {txn.txn_id} was added already, with other files"
        return IllegalState(message, txn_id=txn.txn_id)
    if too_many := _too_many(table, txn, command):
        return too_many
    claimed = frozenset(txn.claimed)
    for used in command.from_writes:
        if used not in claimed:
            message = f"write {used} was not opened by transaction {txn.txn_id} on {table.name}"
            return IllegalState(message, txn_id=txn.txn_id)
    if command.from_writes and (again := _added_before(txn, command.from_writes)):
        message = f"the staged files of write {again} were added to {table.name} by transaction {txn.txn_id} before"
        return InvalidArgument(message, txn_id=txn.txn_id, hint="staged files are added once: each row would be twice")
    partitions = command.manifest.partitions if table.schema.partition_by else (WHOLE_TABLE,)
    if command.deletes and not command.manifest.file_count:
        partitions = ()
    write = PendingWrite(
        command.write_id,
        command.manifest,
        partitions,
        command.overwrites,
        command.base_ts,
        _seen_at(table, command),
        command.from_writes,
        command.claim,
        command.deletes,
        command.looked,
        command.holds,
    )
    deleted = [partition_of(each) for each in command.deletes.file_sets] if command.deletes else []
    refusal = (
        _must_lock(table, txn, Mode.X, command.overwrites)
        or _must_lock(table, txn, Mode.S, partitions)
        or _must_lock(table, txn, Mode.SHARED_WRITE, deleted)
        or key_claims.refusal(table, txn, write)
    )
    if refusal is None:
        table.claim(txn, command.write_id)
        table.add_write(txn, write)
    return refusal


def _added_before(txn: TableTxn, from_writes: Iterable[str]) -> str:
    """The first of the staged writes of which the transaction has files; empty: none is."""
    taken = {used for write in txn.writes.values() for used in (write.write_id, *write.from_writes)}
    return next((used for used in from_writes if used in taken), "")


def _too_many(table: TableState, txn: TableTxn, command: cmd.AddFiles) -> LimitReached | None:
    """The refusal of what would take a while to publish: all that the transaction has in a table shows at once."""
    names = [name for write in txn.writes.values() for name in (*write.partitions, *write.overwrites)]
    count = values([*names, *command.manifest.partitions, *command.overwrites])
    if count <= MAX_PARTITION_VALUES:
        return None
    return LimitReached(
        f"transaction {txn.txn_id} adds to, and overwrites, partitions of {table.name} that have {count} values "
        f"together: {MAX_PARTITION_VALUES} are possible",
        txn_id=txn.txn_id,
        hint="write fewer partitions in one transaction",
    )


def _seen_at(table: TableState, command: cmd.AddFiles) -> tuple[str, ...]:
    """What the overwrite replaces."""
    if not command.overwrites:
        return ()
    overwrites = frozenset(command.overwrites)
    return tuple(
        id_
        for id_, file_set in table.file_sets.items()
        if file_set.visible_at(command.base_ts) and covers(overwrites, file_set.partition)
    )


def _write_rows(table: TableState, txn: TableTxn, command: cmd.WriteRows) -> TxnError | None:
    """Appends to the transaction's MemRowSet. Returns the refusal, if there is one."""
    if command.batch.write_id in txn.rows or command.batch.write_id in txn.superseded:
        return None
    if not table.schema.primary_key:
        return InvalidArgument(f"{table.name} has no primary key: rows are known by it", txn_id=txn.txn_id)
    # Which partitions the rows are in, nobody here knows; a lock on any of them locks the table in S.
    if refusal := _must_lock(table, txn, Mode.S, [WHOLE_TABLE]):
        return refusal
    if command.position != txn.position or (txn.rows and command.snapshot > txn.snapshot):
        # Judged while another write of the transaction was on its way: it has to be judged again.
        return Unavailable(f"transaction {txn.txn_id} wrote more to {table.name} meanwhile")
    table.add_rows(txn, command.batch, command.snapshot)
    return None


def _must_lock(table: TableState, txn: TableTxn, mode: Mode, names: Iterable[str]) -> IllegalState | None:
    """The refusal, if the table wants locks, and of one of these parts there is none, and no X on one above it."""
    if table.conflicts == ConflictStrategy.FIRST_COMMITTER_WINS:
        return None
    for name in names:
        objects = [full_name(table.name, each) for each in above(name)]
        wanted = [Lock(objects[0], mode), *(Lock(each, Mode.X) for each in objects)]
        if not any(table.locks.holds(txn.txn_id, [lock]) for lock in wanted):
            return IllegalState(
                f"{table.name} settles conflicts by {table.conflicts}: {objects[0]} must be locked to be written to",
                txn_id=txn.txn_id,
                hint=f"lock it in {mode.name} first",
            )
    return None


def _lock(table: TableState, txn: TableTxn, command: cmd.AcquireLocks) -> ShardApplied | Rejected:
    for lock in command.locks:
        if not table.has_object(lock.object):
            return Rejected(InvalidArgument(f"{lock.object!r} is no part of {table.name}", txn_id=txn.txn_id))
    locks = table.with_parents(command.locks)
    answer = table.acquire(txn, locks, command.otherwise, command.since)
    if answer.verdict is Verdict.CIRCLE:
        return Rejected(_closes_a_circle(table, txn.txn_id, locks))
    return ShardApplied(granted=answer.verdict is Verdict.GRANTED, let_in=answer.let_in)


def _closes_a_circle(table: TableState, txn_id: TxnId, locks: tuple[Lock, ...]) -> Locked:
    claims = " and ".join(f"transaction {claim.txn_id}'s {claim.lock}" for claim in table.locks.blockers(txn_id, locks))
    message = f"transaction {txn_id} would wait for {claims}, and be waited for in turn: deadlock"
    return Locked(message, txn_id=txn_id, hint="end one of these transactions, and run it again")


def _prepare(table: TableState, txn: TableTxn, command: cmd.BeginCommit) -> ShardApplied | Rejected:
    refusal: TxnError | None = dropping.prepare_refused(table, txn)
    if refusal is None and not txn.is_empty:
        refusal = _in_the_way(table, txn)
    if refusal is not None:
        return Rejected(refusal)
    _claim_first(table, txn, command)
    prepare_ts = dropping.prepare_ts(table, command.prepare_ts) if txn.drops else command.prepare_ts
    return ShardApplied(prepare_ts, let_in=table.prepare(txn, prepare_ts))


def _in_the_way(table: TableState, txn: TableTxn) -> TxnError | None:
    """Why what it has written cannot be published as it is."""
    if any(untranslated(table, txn)):
        return Unavailable(f"{table.name} was compacted while transaction {txn.txn_id} wrote to it")
    return (
        first_committer_wins(table.name, txn.txn_id, txn.writes.values(), table.overwrites, table.file_sets)
        or delete_conflict(table, txn)
        or key_conflict(table, txn)
    )


def _claim_first(table: TableState, txn: TableTxn, command: cmd.BeginCommit | cmd.AbortTxn) -> None:
    """From here on it is this table's to clean, if nothing is made of it."""
    if command.first_write:
        table.claim(txn, command.first_write)


def withdraw(table: TableState, command: cmd.Withdraw) -> ShardApplied | Rejected:
    """Leaves no tombstone: the write may have been another owner's, or before its time."""
    txn = table.txns.get(command.txn_id)
    if txn is None or txn.state is ParticipantState.ABORTED:
        return ShardApplied()
    if txn.state is not ParticipantState.OPEN:
        return Rejected(illegal(table, command.txn_id, txn, "a withdrawal"))
    others = {*txn.claimed, *txn.rows, *txn.writes} - {command.write_id}
    more = others or txn.superseded or txn.drops or txn.savepoints
    if more or txn.txn_id in table.locks.txn_ids():
        message = f"transaction {txn.txn_id} has more on {table.name} than write {command.write_id}"
        return Rejected(IllegalState(message, txn_id=txn.txn_id))
    table.withdraw(txn)
    return ShardApplied()


def mark_cleaned(table: TableState, command: cmd.MarkCleaned) -> ShardApplied | Rejected:
    if table.cleaned(command.txn_id, command.write_ids):
        return ShardApplied()
    return Rejected(IllegalState(f"transaction {command.txn_id} has not ended on {table.name}"))


def flush(table: TableState, command: cmd.FlushCommand) -> ShardApplied | Rejected:
    rows = table.rows
    match command:
        case cmd.OpenFlush(_, flush_id):
            if flush_id in (*rows.flushes, *rows.given_up, *rows.spent):
                return Rejected(IllegalState(f"flush {flush_id} of {table.name} is over already"))
            rows.open_flush(flush_id)
        case cmd.FlushRows(_, flush_id, manifest, txn_ids) if flush_id not in rows.flushes:
            if flush_id not in rows.flushing or not txn_ids or not rows.unflushed.keys() >= set(txn_ids):
                return Rejected(IllegalState(f"flush {flush_id} of {table.name} was overtaken by another one"))
            rows.flush(flush_id, manifest, txn_ids)
        case cmd.DropFlush(_, flush_id, gone):
            if flush_id in rows.flushing:
                rows.give_up(flush_id)
            if gone:
                rows.cleaned(flush_id)
    return ShardApplied()


def illegal(table: TableState, txn_id: TxnId, txn: TableTxn | None, what: Op | str) -> TxnError:
    if txn is None:
        return NotFound(f"transaction {txn_id} has not begun on {table.name}", txn_id=txn_id)
    if txn.state is ParticipantState.ABORTED:
        return aborted(txn_id, None)  # why, the status table knows
    return IllegalState(
        f"{what} is not possible: transaction {txn_id} is {txn.state.name} on {table.name}", txn_id=txn_id
    )
