"""Savepoints of a transaction on a table: its record as it was is kept, and comes back.

Locks and claimed directories stay what they are: so what was written since is nobody's, and is cleaned when the
transaction ends. What was compacted meanwhile the record that comes back hears of as every open transaction does, when
it is read or prepares: until then `translation.retirable_until` keeps what tells it.
"""

from __future__ import annotations

from txnparticipant.shard import commands as cmd
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.saved_work import SavedWork, copied
from txnstatus.errors import LimitReached, NotFound, TxnError
from txnstatus.limits import MAX_TXN_SAVEPOINTS

MAX_SAVED_WRITES = 10_000
"""Writes of files in all of them."""
MAX_REMEMBERED = 100
"""Rollbacks of which one that comes again is known."""


Step = cmd.SetSavepoint | cmd.RollbackTo


def take(txn: TableTxn, command: Step) -> TxnError | None:
    """Returns the refusal, if there is one; then nothing has changed."""
    return _save(txn, command) if isinstance(command, cmd.SetSavepoint) else _roll_back(txn, command)


def _save(txn: TableTxn, command: cmd.SetSavepoint) -> TxnError | None:
    """Keeps what it has written, and drops savepoints that were released."""
    if command.savepoint_id in txn.savepoints:
        return None
    left = {id_: saved for id_, saved in txn.savepoints.items() if id_ not in command.released}
    if len(left) >= MAX_TXN_SAVEPOINTS:
        return _too_many(txn, f"{MAX_TXN_SAVEPOINTS} savepoints")
    if sum(len(saved.writes) for saved in left.values()) + len(txn.writes) > MAX_SAVED_WRITES:
        return _too_many(txn, f"savepoints of {MAX_SAVED_WRITES} writes together")
    rows = tuple(write_id for write_id, batch in txn.rows.items() if batch.keys)
    txn.savepoints = {**left, command.savepoint_id: SavedWork(command.savepoint_id, copied(txn.writes), rows)}
    _forget_rows(txn)
    return None


def _roll_back(txn: TableTxn, command: cmd.RollbackTo) -> TxnError | None:
    """Takes back what was written since the savepoint; all, where it was not set here."""
    if command.rollback_id in txn.rolled_back or command.rollback_id in txn.superseded:
        return None
    if command.is_held and command.savepoint_id not in txn.savepoints:
        return NotFound(
            f"transaction {txn.txn_id} has no savepoint {command.savepoint_id} on {command.table_id}",
            txn_id=txn.txn_id,
            hint="it was released, or a rollback to one before it has ended it",
        )
    saved = txn.savepoints.get(command.savepoint_id, SavedWork(command.savepoint_id, {}, ()))
    known = [*txn.writes, *txn.superseded]
    txn.writes = copied(saved.writes)
    # Of whatever comes late: nothing of it may come back.
    txn.superseded = [id_ for id_ in dict.fromkeys((*known, *command.void)) if id_ not in saved.writes]
    txn.rows = {
        write_id: txn.overwritten.get(write_id, batch) if write_id in saved.rows else batch.overwritten()
        for write_id, batch in txn.rows.items()
    }
    txn.savepoints = _up_to(txn, command.savepoint_id) if command.is_held else {}
    txn.rolled_back = [*txn.rolled_back, command.rollback_id][-MAX_REMEMBERED:]
    txn.rollbacks += 1
    _forget_rows(txn)
    return None


def _up_to(txn: TableTxn, savepoint_id: str) -> dict[str, SavedWork]:
    """The savepoint, and those before it."""
    ids = list(txn.savepoints)
    return {id_: txn.savepoints[id_] for id_ in ids[: ids.index(savepoint_id) + 1]}


def _forget_rows(txn: TableTxn) -> None:
    """Overwritten rows go that no savepoint has any more, or that are there again."""
    wanted = {write_id for saved in txn.savepoints.values() for write_id in saved.rows}
    txn.overwritten = {
        write_id: batch
        for write_id, batch in txn.overwritten.items()
        if write_id in wanted and not txn.rows[write_id].keys
    }


def _too_many(txn: TableTxn, what: str) -> LimitReached:
    return LimitReached(
        f"transaction {txn.txn_id} has {what} on a table: more are not possible",
        txn_id=txn.txn_id,
        hint="release savepoints to which nobody goes back",
    )
