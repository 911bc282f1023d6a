"""Who wins when two transactions change the same rows: the first to prepare (first-committer-wins on keys)."""

from __future__ import annotations

from txnparticipant.rows.memrowset import changed_keys
from txnparticipant.shard.table import TableState, TableTxn
from txnparticipant.versions.conflicts import full_name
from txnstatus.errors import Conflict
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import AbortCause, AbortCode, Timestamp, TxnId

MAX_NAMED = 10
_AGAIN = "run the transaction again"


def row_conflict(table: TableState, txn: TableTxn) -> Conflict | None:
    """The refusal to prepare, if another transaction was first.

    Concurrent is what was committed above the snapshot at which the rows were judged, or is prepared here: what was
    committed below, the leader had finalised before the first row was written.
    """
    if txn.rows:
        return _too_old(table, txn) or _overwritten(table, txn) or _same_keys(table, txn)
    bases = [write.base_ts for write in txn.writes.values() if write.overwrites]
    return _changed_under_an_overwrite(table, txn, min(bases)) if bases else None


def _too_old(table: TableState, txn: TableTxn) -> Conflict | None:
    if txn.snapshot >= table.rows.keys.above:
        return None
    message = f"too many rows of {table.name} were changed since the transaction's snapshot to compare them all"
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, None, (table.name,))
    return Conflict(message, txn_id=txn.txn_id, hint=_AGAIN, cause=cause)


def _overwritten(table: TableState, txn: TableTxn) -> Conflict | None:
    """An overwrite of any part of the table: which partitions the rows are in, nobody here knows."""
    found = table.overwrites.since(txn.txn_id, WHOLE_TABLE, txn.snapshot)
    if found is None:
        return None
    name = full_name(table.name, found.object)
    return _conflict(table, txn, found.txn_id, f"{name} was overwritten", [name])


def _same_keys(table: TableState, txn: TableTxn) -> Conflict | None:
    found = table.rows.keys.changed_since(changed_keys(txn.rows.values()), txn.snapshot)
    if found is None:
        return None
    winner, shared = found
    named = [row_name(table.name, key) for key in shared[:MAX_NAMED]]
    more = f" and {len(shared) - 1} more rows were" if len(shared) > 1 else " was"
    return _conflict(table, txn, winner, f"{named[0]}{more} changed", named)


def _changed_under_an_overwrite(table: TableState, txn: TableTxn, base_ts: Timestamp) -> Conflict | None:
    """It replaces what a reader at its base sees; rows that were changed since would come back, or be lost."""
    keys, what = table.rows.keys, f"rows of {table.name} were changed"
    if (prepared := keys.first_prepared) is not None:
        return _conflict(table, txn, prepared, what, [table.name])
    if table.rows.newest <= base_ts:
        return None
    last = keys.last_commit  # where that is another one, its name is forgotten
    winner = last.txn_id if last is not None and last.commit_ts == table.rows.newest else None
    return _conflict(table, txn, winner, what, [table.name])


def _conflict(table: TableState, txn: TableTxn, winner: TxnId | None, what: str, objects: list[str]) -> Conflict:
    who = f"transaction {winner}" if winner is not None else "a transaction"
    message = f"{what} by {who}, which was first"
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, winner, tuple(objects))
    return Conflict(message, txn_id=txn.txn_id, hint=_AGAIN, cause=cause)


def row_name(table: str, key: bytes) -> str:
    """A row, for people."""
    return f"{table}({key.decode(errors='backslashreplace')})"
