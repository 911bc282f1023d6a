"""Who wins when two transactions change the same rows: the first to prepare (first-committer-wins on keys)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from txnparticipant.conflicts import full_name
from txnparticipant.memrowset import RowBatch
from txnparticipant.records import TableState, TxnRecord
from txnstatus.errors import Conflict
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import AbortCause, AbortCode, ParticipantState, Timestamp, TxnId

MAX_NAMED = 10
_AGAIN = "run the transaction again"


def row_conflict(table: TableState, record: TxnRecord) -> Conflict | None:
    """The refusal to prepare, if another transaction was first.

    Concurrent is what was committed above the snapshot at which the rows were judged, or is prepared here: what was
    committed below, the leader had finalised before the first row was written.
    """
    if record.rows:
        return _too_old(table, record) or _overwritten(table, record) or _same_keys(table, record)
    bases = [write.base_ts for write in record.writes.values() if write.overwrites]
    return _changed_under_an_overwrite(table, record, min(bases)) if bases else None


def _too_old(table: TableState, record: TxnRecord) -> Conflict | None:
    if record.snapshot >= table.rows.keys_above:
        return None
    message = f"too many rows of {table.name} were changed since the transaction's snapshot to compare them all"
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, None, (table.name,))
    return Conflict(message, txn_id=record.txn_id, hint=_AGAIN, cause=cause)


def _overwritten(table: TableState, record: TxnRecord) -> Conflict | None:
    """Of any part of the table: which partitions the rows are in, nobody here knows."""
    found = table.overwrites.since(record.txn_id, WHOLE_TABLE, record.snapshot)
    if found is None:
        return None
    name = full_name(table.name, found.object)
    return _conflict(table, record, found.txn_id, f"{name} was overwritten", [name])


def _same_keys(table: TableState, record: TxnRecord) -> Conflict | None:
    own = frozenset[bytes]().union(*(batch.key_set for batch in record.rows.values()))
    for winner, batches in _concurrent(table, record):
        shared = sorted(frozenset[bytes]().union(*(own & batch.key_set for batch in batches)))
        if shared:
            named = [row_name(table.name, key) for key in shared[:MAX_NAMED]]
            more = f" and {len(shared) - 1} more rows were" if len(shared) > 1 else " was"
            return _conflict(table, record, winner, f"{named[0]}{more} changed", named)
    return None


def _concurrent(table: TableState, record: TxnRecord) -> Iterator[tuple[TxnId, Iterable[RowBatch]]]:
    for row_set in table.rows.row_sets.values():
        if row_set.commit_ts > record.snapshot:
            yield row_set.txn_id, row_set.batches
    for other in _prepared_beside(table, record):
        yield other.txn_id, other.rows.values()


def _changed_under_an_overwrite(table: TableState, record: TxnRecord, base_ts: Timestamp) -> Conflict | None:
    """It replaces what a reader at its base sees; rows that were changed since would come back, or be lost."""
    winners: list[TxnId | None] = [other.txn_id for other in _prepared_beside(table, record) if other.rows]
    winners += [row_set.txn_id for row_set in table.rows.row_sets.values() if row_set.commit_ts > base_ts]
    if not winners and table.rows.newest > base_ts:
        winners.append(None)  # it is flushed, and its name forgotten
    what = f"rows of {table.name} were changed"
    return _conflict(table, record, winners[0], what, [table.name]) if winners else None


def _prepared_beside(table: TableState, record: TxnRecord) -> Iterator[TxnRecord]:
    for other in table.unfinished.values():
        if other is not record and other.state is ParticipantState.COMMIT_IN_PROGRESS:
            yield other


def _conflict(table: TableState, record: TxnRecord, winner: TxnId | None, what: str, objects: list[str]) -> Conflict:
    who = f"transaction {winner}" if winner is not None else "a transaction"
    message = f"{what} by {who}, which was first"
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, winner, tuple(objects))
    return Conflict(message, txn_id=record.txn_id, hint=_AGAIN, cause=cause)


def row_name(table: str, key: bytes) -> str:
    """A row, for people."""
    return f"{table}({key.decode(errors='backslashreplace')})"
