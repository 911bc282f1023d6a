"""What the commands of a compaction do to a table, and what becomes of writes that speak of what was compacted.

A row of an input is the same row in the output. So a write that deletes rows of inputs, or replaces some, is kept as it
is, for readers below the switch and to be compared with others of its time, and gets the same once more in the words of
the outputs. While a transaction is open, that waits until it prepares, or reads above the switch itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.table import TableState
from txnparticipant.shard.translation import untranslated
from txnparticipant.versions.compactions import Compaction, Ended, State, Switched
from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import DeleteSet, FileSet, Moved, PendingWrite
from txnstatus.errors import IllegalState, InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.replicated import Rejected
from txnstatus.types import ParticipantState, TxnId

OVERWRITTEN = "what it reads was overwritten meanwhile"


def compact(table: TableState, command: cmd.CompactionCommand) -> ShardApplied | Rejected:
    match command:
        case cmd.OpenCompaction():
            refusal = _open(table, command)
        case cmd.ClaimCompaction():
            refusal = _claim(table, command)
        case cmd.CommitCompaction():
            return _commit(table, command)
        case cmd.DropCompaction():
            wanted = table.compactions.open.get(command.compaction_id)
            if wanted is not None:
                table.compactions.end(Ended(wanted, command.state, command.at, reason=command.reason))
                table.leave_to_cleaner(COMPACTIONS, wanted.compaction_id)
            return ShardApplied()
    return Rejected(refusal) if refusal else ShardApplied()


def _open(table: TableState, command: cmd.OpenCompaction) -> TxnError | None:
    compactions, wanted = table.compactions, command.compaction_id
    if wanted in compactions.open:
        return None
    if table.is_database or table.dropped is not None:
        return NotFound(f"{table.name} is no table that there is now")
    if table.schema.primary_key:
        return InvalidArgument(f"{table.name} has a primary key: tables with one are not compacted yet")
    if other := compactions.of(command.partition):
        return IllegalState(f"{table.name} has another compaction of the same partition, {other.compaction_id}")
    compactions.add(Compaction(wanted, command.kind, command.partition, command.requested, command.at))
    return None


def _claim(table: TableState, command: cmd.ClaimCompaction) -> TxnError | None:
    wanted = table.compactions.open.get(command.compaction_id)
    if wanted is None:
        return _over(table, command.compaction_id)
    if wanted.worker:
        return None if wanted.lease_id == command.lease_id else _not_the_workers(table, wanted)
    if _overwritten(table, command.inputs):
        return Unavailable(f"files of {table.name} were overwritten meanwhile")
    table.compactions.claim(
        command.compaction_id, command.worker, command.lease_id, command.as_of, tuple(command.inputs)
    )
    return None


def held(table: TableState, compaction_id: str, lease_id: str) -> Compaction:
    """The compaction of whoever has this lease. Raises NotFound, IllegalState."""
    wanted = table.compactions.open.get(compaction_id)
    if wanted is None:
        raise _over(table, compaction_id)
    if not wanted.worker or wanted.lease_id != lease_id:
        raise _not_the_workers(table, wanted)
    return wanted


def _over(table: TableState, compaction_id: str) -> TxnError:
    for ended in table.compactions.ended:
        if ended.compaction.compaction_id == compaction_id:
            why = f": {ended.reason}" if ended.reason else ""
            return IllegalState(f"compaction {compaction_id} of {table.name} is over, {ended.state.name}{why}")
    return NotFound(f"{table.name} has no compaction {compaction_id[:100]!r}")


def _not_the_workers(table: TableState, wanted: Compaction) -> IllegalState:
    whose = f"worker {wanted.worker}'s" if wanted.worker else "nobody's yet"
    return IllegalState(f"compaction {wanted.compaction_id} of {table.name} is {whose}, and not of this lease")


def _overwritten(table: TableState, inputs: tuple[str, ...]) -> bool:
    """Whether somebody has replaced one of these, or is about to."""
    return any(id_ not in table.file_sets or table.file_sets[id_].replaced_by is not None for id_ in inputs)


def overwritten(table: TableState, wanted: Compaction) -> bool:
    """Whether nothing can come of it any more."""
    return _overwritten(table, wanted.inputs)


def _commit(table: TableState, command: cmd.CommitCompaction) -> ShardApplied | Rejected:
    done = table.compactions.switched.get(command.compaction_id)
    if done is not None:
        return ShardApplied(done.switch_ts)
    try:
        wanted = held(table, command.compaction_id, command.lease_id)
    except TxnError as error:
        return Rejected(error)
    if table.dropping is not None and table.dropping.state is ParticipantState.COMMIT_IN_PROGRESS:
        return Rejected(Unavailable(f"{table.name} is being dropped"))
    if overwritten(table, wanted):
        return Rejected(IllegalState(f"compaction {wanted.compaction_id} of {table.name}: {OVERWRITTEN}"))
    carried, moved = set(command.carried.delete_sets), {(each.txn_id, each.write_id) for each in command.moved}
    needed = [(each.id, (each.txn_id, each.write_id)) for each in later_deletes(table, wanted)]
    needed += [("", (txn_id, write.write_id)) for txn_id, write in prepared_deletes(table, wanted)]
    missing = [f"{whose[0]}_{whose[1]}" for id_, whose in needed if id_ not in carried and whose not in moved]
    if missing:
        return Rejected(Unavailable(f"rows of {table.name} were deleted meanwhile: {', '.join(missing[:10])}"))
    added = _output(wanted, command)
    inputs = [table.file_sets[id_].manifest for id_ in wanted.inputs]
    how = Ended(
        wanted,
        State.SUCCEEDED,
        command.at,
        command.switch_ts,
        sum(each.row_count for each in inputs),
        command.manifest.row_count,
        command.manifest.file_count,
    )
    outputs = (added.id,) if added else ()
    done = Switched(wanted.compaction_id, command.switch_ts, command.lineage, wanted.inputs, outputs)
    published = list(_published(table, wanted, command, outputs))
    for id_ in done.inputs:
        table.file_sets[id_].replaced_by = COMPACTIONS
        table.replace(table.file_sets[id_], done.switch_ts)
    if added is not None:
        table.add([added])
    table.compactions.switch(done)
    table.used[COMPACTIONS, done.compaction_id] += 1  # its lineage
    for deleted in published:
        table.add_deletes(deleted)
    table.compactions.end(how)
    for each in command.moved:
        txn = table.unfinished.get(each.txn_id)
        if txn and txn.state is ParticipantState.COMMIT_IN_PROGRESS and each.write_id in txn.writes:
            _translate(txn.writes[each.write_id], each.moved)
            if each.moved.deletes is not None:
                table.deletes.prepare_also(txn.txn_id, each.moved.deletes)
    return ShardApplied(command.switch_ts)


def later_deletes(table: TableState, wanted: Compaction) -> list[DeleteSet]:
    """The delete sets that its output must have, and that it has not read."""
    return table.deletes.later(wanted.inputs, wanted.as_of)


def prepared_deletes(table: TableState, wanted: Compaction) -> Iterator[tuple[TxnId, PendingWrite]]:
    """Transactions that are prepared, with their writes that delete rows of its inputs."""
    inputs = frozenset(wanted.inputs)
    for txn in table.unfinished.values():
        if txn.state is ParticipantState.COMMIT_IN_PROGRESS:
            for write in txn.writes.values():
                if any(not inputs.isdisjoint(deletes.file_sets) for _, deletes in write.all_deletes):
                    yield txn.txn_id, write


def _output(wanted: Compaction, command: cmd.CommitCompaction) -> FileSet | None:
    """None: no row is left."""
    if not command.manifest.file_count:
        return None
    return FileSet(wanted.compaction_id, COMPACTIONS, wanted.partition, command.manifest, command.switch_ts)


def _published(
    table: TableState, wanted: Compaction, command: cmd.CommitCompaction, outputs: tuple[str, ...]
) -> Iterator[DeleteSet]:
    """What is deleted of the output: by those that have committed, also since the command was proposed."""
    if command.carried.ref is not None:
        id_ = wanted.compaction_id
        yield DeleteSet(id_, COMPACTIONS, command.carried.ref, command.switch_ts, set(outputs), (), id_)
    commits = {(each.txn_id, each.write_id): each.commit_ts for each in later_deletes(table, wanted)}
    for each in command.moved:
        commit_ts, deletes = commits.get((each.txn_id, each.write_id)), each.moved.deletes
        if commit_ts is not None and deletes is not None:
            whose = each.write_id, each.txn_id
            yield DeleteSet(*whose, deletes.ref, commit_ts, set(outputs), deletes.files, wanted.compaction_id)


# ---- writes that speak of what was compacted


def translate(table: TableState, command: cmd.TranslateWrites) -> ShardApplied:
    """Gives writes the words of outputs, unless they have them by now, or are over."""
    txn = table.txns.get(command.txn_id)
    if txn is None or txn.state is not ParticipantState.OPEN:
        return ShardApplied()
    first = {(write.write_id, switched.compaction_id) for write, switched in untranslated(table, txn)}
    for each in command.moved:
        if (each.write_id, each.moved.compaction_id) in first:
            _translate(txn.writes[each.write_id], each.moved)
    return ShardApplied()


def _translate(write: PendingWrite, moved: Moved) -> None:
    write.moved = (*write.moved, moved)
    write.replaces = (*write.replaces, *moved.replaces)
