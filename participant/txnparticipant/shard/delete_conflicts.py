"""Who wins where rows have no key: when two delete the same rows, or one rows and one their files, or both insert what
neither found. The first to prepare does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from txnparticipant.shard.records import TableTxn
from txnparticipant.shard.table import TableState
from txnparticipant.versions.conflicts import full_name
from txnparticipant.versions.deletes import Overlap
from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import Deletes, FileDeletes, FileSet, Looked, PendingWrite, partition_of, written_by
from txnstatus.errors import Conflict
from txnstatus.partitions import covers
from txnstatus.types import AbortCause, AbortCode, ParticipantState, TxnId

MAX_NAMED = 10


def delete_conflict(table: TableState, txn: TableTxn) -> Conflict | None:
    """The refusal to prepare, if another transaction was first.

    Concurrent is what was committed above the snapshot at which the rows were found, or above an overwrite's base, or
    is prepared here. A row that is deleted twice is one that two have changed: an update deletes, too. Where files were
    compacted meanwhile, rows are compared by every position that they have had: others tell one that both know.
    """
    for write in txn.writes.values():
        for replaced in table.deletes.touched(chain(write.replaces, _compacted(table, write))):
            winner = table.deletes.since(txn.txn_id, replaced, write.base_ts)
            if winner is not None:
                name = full_name(table.name, partition_of(replaced))
                return _conflict(table, txn, winner, f"rows of {name}, which is overwritten, were changed", (name,))
        if write.looked is not None and (added := _added(table, txn, write.looked)):
            return added
        if write.deletes is not None and (found := _replaced(table, txn, write, write.deletes)):
            return found
        for _, deletes in write.all_deletes:
            if found := _in_the_way(table, txn, deletes):
                return found
    return None


def _compacted(table: TableState, write: PendingWrite) -> Iterator[str]:
    """File sets that it would replace, had not compactions done so. Rows that were dead by then are in no output: of
    those only marks on their old places tell, of whoever brings some of them back."""
    if write.overwrites:
        names = frozenset(write.overwrites)
        for id_, each in table.file_sets.items():
            if each.replaced_by == COMPACTIONS and each.commit_ts <= write.base_ts and covers(names, each.partition):
                yield id_


def _replaced(table: TableState, txn: TableTxn, write: PendingWrite, deletes: Deletes) -> Conflict | None:
    """Rows that a compaction has dropped, as they were dead, where their partition was overwritten since."""
    for dropped in _dropped(table, write, deletes):
        other = table.overwrites.since(txn.txn_id, dropped.partition, deletes.snapshot)
        if other is not None:
            return _overwritten(table, txn, other.txn_id, full_name(table.name, dropped.partition))
    return None


def _dropped(table: TableState, write: PendingWrite, deletes: Deletes) -> Iterator[FileSet]:
    """File sets of which it speaks of rows that a compaction has dropped."""
    said: list[FileDeletes] = list(deletes.files)
    for moved in write.moved:
        inputs = frozenset(table.compactions.switched[moved.compaction_id].inputs)
        left = moved.deletes.files if moved.deletes is not None else ()
        of_inputs = [each for each in said if each.file_set in inputs]
        if sum(each.row_count for each in of_inputs) > sum(each.row_count for each in left):
            yield from (table.file_sets[id_] for id_ in dict.fromkeys(each.file_set for each in of_inputs))
        said += left


def _in_the_way(table: TableState, txn: TableTxn, deletes: Deletes) -> Conflict | None:
    for id_ in deletes.file_sets:
        if written_by(id_) == txn.txn_id:
            continue
        file_set, name = table.file_sets.get(id_), full_name(table.name, partition_of(id_))
        if file_set is None or file_set.replaced_by not in (None, txn.txn_id, COMPACTIONS):
            winner = file_set.replaced_by if file_set else None
            return _overwritten(table, txn, winner, name)
    overlap = table.deletes.overlap(txn.txn_id, deletes, MAX_NAMED)
    return _same_rows(table, txn, overlap) if overlap else None


def _overwritten(table: TableState, txn: TableTxn, winner: TxnId | None, name: str) -> Conflict:
    return _conflict(table, txn, winner, f"files of {name} with rows to be changed were overwritten", (name,))


def _added(table: TableState, txn: TableTxn, looked: Looked) -> Conflict | None:
    """Others' rows that may be among those that it looked for in vain."""
    if looked.snapshot < table.additions.above:
        what = f"too many rows were added to {table.name} since the transaction's snapshot to compare them all"
        return _conflict(table, txn, None, what, (table.name,))
    others = (
        (other.txn_id, write)
        for other in table.unfinished.values()
        if other.state is ParticipantState.COMMIT_IN_PROGRESS
        for write in other.writes.values()
    )
    winner = table.additions.since(txn.txn_id, looked, table.schema, others)
    if winner is None:
        return None
    what = f"rows that were not there, and may be those that are inserted, were added to {table.name}"
    return _conflict(table, txn, winner, what, (table.name,))


def _same_rows(table: TableState, txn: TableTxn, overlap: Overlap) -> Conflict:
    where = full_name(table.name, overlap.file)
    if not overlap.positions:
        return _conflict(table, txn, overlap.txn_id, f"rows of {where}, too many to compare, were changed", (where,))
    rows = ", ".join(map(str, overlap.positions))
    return _conflict(table, txn, overlap.txn_id, f"rows {rows} of {where} were changed", (where,))


def _conflict(table: TableState, txn: TableTxn, winner: TxnId | None, what: str, objects: tuple[str, ...]) -> Conflict:
    message = what if winner is None else f"{what} by transaction {winner}, which was first"
    cause = AbortCause(AbortCode.CONFLICT, message, table.name, winner, objects)
    return Conflict(message, txn_id=txn.txn_id, hint="run the transaction again", cause=cause)
