"""Who wins when two transactions change the same keys, by rows or by files: the first to prepare."""

from __future__ import annotations

from collections.abc import Container, Iterator

from txnparticipant.rows.changed_keys import Met
from txnparticipant.rows.key_places import Changed
from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.table import TableState
from txnparticipant.versions.conflicts import full_name
from txnstatus.errors import Conflict
from txnstatus.key_ranges import KeyOrder, KeyRange
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import NO_TIMESTAMP, AbortCause, AbortCode, ParticipantState, Timestamp, TxnId

MAX_NAMED = 10
_AGAIN = "run the transaction again"


def key_conflict(table: TableState, txn: TableTxn) -> Conflict | None:
    """The refusal to prepare, if another transaction was first.

    Concurrent is what was committed above the snapshot at which the rows were judged, or the keys of files looked for,
    or is prepared here: what was committed below, the leader had finalised before the write.
    """
    if not table.schema.primary_key:
        return None
    looks = [(changed, snapshot) for changed, snapshot in _looks(table, txn) if changed]
    if any(snapshot < table.rows.keys.above for _, snapshot in looks):
        return _too_many(table, txn)
    conflict = _overwritten(table, txn) if txn.row_keys else None
    return conflict or _changed_under_an_overwrite(table, txn) or _same_keys(table, txn, looks)


def own_key_twice(table: TableState, txn: TableTxn, at: Timestamp, decided: Container[TxnId]) -> Conflict | None:
    """Why the transaction cannot read at the timestamp: keys of its files were looked for before, and others have
    added them since. It would see such a key twice, and cannot commit.

    `decided`: those that are prepared here, and committed at or below the timestamp.
    """
    if not table.schema.primary_key:
        return None
    looks = [(changed, looked_at) for changed, looked_at in txn.file_keys(table.schema) if changed and looked_at < at]
    if any(looked_at < table.rows.keys.above for _, looked_at in looks):
        return _too_many(table, txn)
    return _same_keys(table, txn, looks, decided)


def replaces_unseen(table: TableState, txn: TableTxn, at: Timestamp) -> bool:
    """Whether a reader at the timestamp may see rows with keys of the transaction's files: these were looked for later,
    by another handle, when somebody had deleted or overwritten those rows.
    """
    claims = (write.claim for write in txn.writes.values() if write.partitions)
    if max((claim.snapshot for claim in claims if claim is not None), default=NO_TIMESTAMP) <= at:
        return False
    about_to = any(
        other.state is ParticipantState.COMMIT_IN_PROGRESS and other.row_keys
        for other in table.unfinished.values()
        if other is not txn
    )
    overwritten = table.overwrites.since(txn.txn_id, WHOLE_TABLE, at) is not None
    return about_to or overwritten or table.rows.keys.newest > at


def _looks(table: TableState, txn: TableTxn) -> Iterator[tuple[Changed, Timestamp]]:
    """What it changes, each with the timestamp at which it was seen to be possible."""
    yield Changed(txn.row_keys), txn.snapshot
    yield from txn.file_keys(table.schema)


def _too_many(table: TableState, txn: TableTxn) -> Conflict:
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


def _same_keys(
    table: TableState, txn: TableTxn, looks: list[tuple[Changed, Timestamp]], decided: Container[TxnId] | None = None
) -> Conflict | None:
    order = KeyOrder(table.schema)
    for changed, snapshot in looks:
        if met := table.rows.keys.met(changed, snapshot, order, decided):
            names = _names(table.name, met)
            more = len(met.keys) + len(met.ranges) - 1
            what = f"{names[0]} and {more} more rows were" if more else f"{names[0]} was"
            return _conflict(table, txn, met.winner, f"{what} changed", names)
    return None


def _names(table: str, met: Met) -> list[str]:
    return [
        *(row_name(table, key) for key in met.keys[:MAX_NAMED]),
        *(range_name(table, each) for each in met.ranges[: MAX_NAMED - len(met.keys)]),
    ]


def _changed_under_an_overwrite(table: TableState, txn: TableTxn) -> Conflict | None:
    """It replaces what a reader at its base sees; rows that were changed since would come back, or be lost."""
    bases = [write.base_ts for write in txn.writes.values() if write.overwrites]
    if not bases:
        return None
    rows, what = table.rows, f"rows of {table.name} were changed"
    for other in table.unfinished.values():
        if other.state is ParticipantState.COMMIT_IN_PROGRESS and other.row_keys:
            return _conflict(table, txn, other.txn_id, what, [table.name])
    if rows.newest <= min(bases):
        return None
    # Where it is kept no more, its name is forgotten.
    winner = next((commit.txn_id for commit in rows.keys if commit.commit_ts == rows.newest), None)
    return _conflict(table, txn, winner, what, [table.name])


def _conflict(table: TableState, txn: TableTxn, winner: TxnId | None, what: str, objects: list[str]) -> Conflict:
    who = f"transaction {winner}" if winner is not None else "a transaction"
    message = f"{what} by {who}, which was first"
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, winner, tuple(objects))
    return Conflict(message, txn_id=txn.txn_id, hint=_AGAIN, cause=cause)


def row_name(table: str, key: bytes) -> str:
    """A row, for people."""
    return f"{table}({key.decode(errors='backslashreplace')})"


def range_name(table: str, keys: KeyRange) -> str:
    """The rows with these keys, for people."""
    return f"{table}({keys})"
