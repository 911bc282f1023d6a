"""Dropping a table: what it does to the table, and to the transactions that come after it, or were there before.

A transaction drops a table when it commits, so a drop has a timestamp like every other change: a reader below sees the
table, a reader above does not. From DropTable on until that transaction ends nobody else prepares on the table, and it
prepares only when nobody else is prepared. So a transaction commits before the drop, or it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator

from txnparticipant.locks.locks import Lock, Mode
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.records import Dropped, TableTxn
from txnparticipant.shard.table import TableState
from txnstatus.errors import Conflict, IllegalState, InvalidArgument, NotFound, TxnError
from txnstatus.id_sets import IdSet
from txnstatus.types import AbortCause, AbortCode, ParticipantState, Timestamp, TxnId, utc_of

_ONE_WAY = "drop a table in a transaction that does nothing else to it"


def not_found(name: str, drop: Dropped) -> NotFound:
    """The answer to whoever asks for a table that is dropped."""
    return NotFound(_story(name, drop))


def no_table(table_id: str, shard: int) -> NotFound:
    """The answer to whoever means a table by an id that none has, or none has any more."""
    return NotFound(f"no table with id {table_id[:100]!r} in shard {shard}")


def too_old(table: TableState, txn_id: TxnId) -> IllegalState | None:
    """Why the transaction must stay out of a table whose name is not what it was: it may mean another one."""
    before, why = table.before, ""
    if before is not None and txn_id in before.older:
        why = f"the table {table.name} that was there then was dropped by transaction {before.txn_id}"
    for renamed in (table.former.freed, *table.former.renames[-1:]):
        if renamed is not None and txn_id in renamed.older:
            why = f"table {renamed.was} was renamed to {renamed.now}"
    if not why:
        return None
    return IllegalState(
        f"transaction {txn_id} began before {why}: it cannot take part in {table.name}, which may not be what it means",
        txn_id=txn_id,
        hint="begin another transaction",
    )


def refusal(table: TableState, txn: TableTxn, command: cmd.WriteCommand) -> TxnError | None:
    """Why a write that the transaction's state allows is not possible: because the table is dropped, or will be."""
    if table.dropped is not None:
        return not_found(table.name, table.dropped)
    if refused := too_old(table, command.txn_id):
        return refused
    if txn.drops and not isinstance(command, cmd.DropTable):
        message = f"transaction {txn.txn_id} drops {table.name}: nothing else can be done to it"
        return IllegalState(message, txn_id=txn.txn_id, hint=_ONE_WAY)
    return None


def mark(table: TableState, txn: TableTxn, older: IdSet) -> TxnError | None:
    """DropTable. Returns the refusal, if there is one."""
    if txn.drops:
        return None
    if table.is_database:
        return InvalidArgument(f"{table.name!r} is a database: only a table can be dropped", txn_id=txn.txn_id)
    if not table.locks.holds(txn.txn_id, [Lock(table.name, Mode.X)]):
        return unlocked(table, txn.txn_id)
    if txn.writes or txn.rows or txn.claimed:
        message = f"transaction {txn.txn_id} has written to {table.name}: it cannot drop it"
        return IllegalState(message, txn_id=txn.txn_id, hint=_ONE_WAY)
    if table.dropping is not None:  # whoever held the lock before has it no more
        return _in_the_way(table, txn, table.dropping, "is being dropped")
    table.will_drop(txn, older)
    return None


def unlocked(table: TableState, txn_id: TxnId) -> IllegalState:
    message = f"transaction {txn_id} cannot drop {table.name}: it must be locked in X"
    return IllegalState(message, txn_id=txn_id, hint="lock it in X first")


def prepared_beside(table: TableState, txn: TableTxn) -> Iterator[TableTxn]:
    """Transactions that a drop has to wait for."""
    for other in table.unfinished.values():
        if other is not txn and other.state is ParticipantState.COMMIT_IN_PROGRESS:
            yield other


def prepare_ts(table: TableState, proposed: Timestamp) -> Timestamp:
    """The drop's: above all that was ever committed there, whichever clock its timestamp came from."""
    commits = [max(file_set.commit_ts, file_set.replaced_ts) for file_set in table.file_sets.values()]
    commits += [done.commit_ts for done in table.overwrites.committed()]
    return max(proposed, Timestamp(max(commits, default=0) + 1), Timestamp(table.rows.newest + 1))


def is_spent(table: TableState) -> bool:
    """Whether nothing is left of a dropped table: no file, no transaction, and nobody who may read it."""
    drop, rows = table.dropped, table.rows
    return (
        drop is not None
        and table.readable_from >= drop.commit_ts
        and not (table.txns or table.file_sets or table.retired)
        and not (rows.unflushed or rows.flushes or rows.flushing or rows.given_up or rows.spent)
    )


def _story(name: str, drop: Dropped) -> str:
    when = f"{utc_of(drop.commit_ts)}, at timestamp {drop.commit_ts}"
    return f"table {name} was dropped by transaction {drop.txn_id} of {drop.owner!r} on {when}"


def prepare_refused(table: TableState, txn: TableTxn) -> Conflict | None:
    """Why it cannot prepare: because the table is dropped, or will be."""
    if table.dropped is not None:
        story = _story(table.name, table.dropped)
        return _conflict(table, txn, table.dropped.txn_id, story, "run it again without the table")
    if table.dropping is None:
        return None
    if table.dropping is not txn:
        return _in_the_way(table, txn, table.dropping, "is being dropped")
    other = next(prepared_beside(table, txn), None)
    return _in_the_way(table, txn, other, "is being written to") if other else None


def _in_the_way(table: TableState, txn: TableTxn, other: TableTxn, what: str) -> Conflict:
    message = f"table {table.name} {what} by transaction {other.txn_id} of {other.owner!r}, which was first"
    return _conflict(table, txn, other.txn_id, message, "run the transaction again")


def _conflict(table: TableState, txn: TableTxn, winner: TxnId, message: str, hint: str) -> Conflict:
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, winner, (table.name,))
    return Conflict(message, txn_id=txn.txn_id, hint=hint, cause=cause)
