"""Who wins when two transactions remove the same files: the first to prepare (first-committer-wins)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from txnparticipant.mvcc import FileSet, PendingWrite
from txnstatus.errors import Conflict
from txnstatus.types import AbortCause, AbortCode, TxnId


def first_committer_wins(
    table: str, txn_id: TxnId, writes: Iterable[PendingWrite], file_sets: Mapping[str, FileSet]
) -> Conflict | None:
    """The refusal to prepare, if another transaction removed or is about to remove one of the same file sets.

    Blind appends remove nothing, so they never conflict.
    """
    for write in writes:
        for replaced in write.replaces:
            winner = file_sets[replaced].replaced_by
            if winner is None or winner == txn_id:
                continue
            message = f"{table} was overwritten by transaction {winner}, which was first"
            cause = AbortCause(AbortCode.CONFLICT, message, table, winner, (table,))
            return Conflict(message, txn_id=txn_id, hint="run the transaction again", cause=cause)
    return None
