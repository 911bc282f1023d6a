"""Which writes of a transaction speak of files that were compacted, and not yet of what these have become."""

from __future__ import annotations

from collections.abc import Iterator

from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.table import TableState
from txnparticipant.versions.compactions import Switched
from txnparticipant.versions.mvcc import PendingWrite
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId


def untranslated(table: TableState, txn: TableTxn) -> Iterator[tuple[PendingWrite, Switched]]:
    """Writes, and the first compaction of which each speaks and has not been given the words of its output yet."""
    for write in txn.writes.values():
        known = {moved.compaction_id for moved in write.moved}
        for switched in table.compactions.replacing(write.touched, write.clears_as_of):
            if switched.compaction_id not in known:
                yield write, switched
                break


def speaks_of_old(table: TableState, txn_id: TxnId, at: Timestamp) -> bool:
    """Whether an open transaction's writes lack the words of what readers at the timestamp see."""
    txn = table.txns.get(txn_id)
    if txn is None or txn.state is not ParticipantState.OPEN:
        return False
    return any(switched.switch_ts <= at for _, switched in untranslated(table, txn))


def retirable_until(table: TableState, horizon: Timestamp) -> Timestamp:
    """The last time up to which what was removed may be retired, as far as the horizon.

    What savepoints need is kept; and what was compacted, for transactions that speak of it, as they found it before.
    """
    horizon = min(horizon, *table.held_at) if table.held_at else horizon
    if not table.compactions.switched:
        return horizon
    writes = [write for txn in table.unfinished.values() for write in txn.all_writes]
    cleared = min((at for write in writes if (at := write.clears_as_of) is not None), default=None)
    first = next(table.compactions.replacing((id_ for write in writes for id_ in write.touched), cleared), None)
    return horizon if first is None else min(horizon, Timestamp(first.switch_ts - 1))


def removed_until(table: TableState, horizon: Timestamp, at_most: int | None = None) -> Timestamp:
    """The last time at or below the timestamp that something of the table was removed, of so many file sets, which is
    not retired: 0 = never. A drop removes the table, with whatever is in it."""
    gone, drop = table.replaced, table.dropped
    if count := min(table.replaced_until(horizon), len(gone) if at_most is None else at_most):
        return gone[count - 1][0]
    dropped = drop.commit_ts if drop and table.readable_from < drop.commit_ts <= horizon else NO_TIMESTAMP
    return max(table.compactions.folds(NO_TIMESTAMP, horizon), default=dropped)
