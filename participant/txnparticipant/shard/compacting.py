"""What the commands of a compaction do to a table, and what becomes of writes that speak of what was compacted.

A row of an input is the same row in the output. So a write that deletes rows of inputs, or replaces some, is kept as it
is, for readers below the switch and to be compared with others of its time, and gets the same once more in the words of
the outputs. While a transaction is open, that waits until it prepares, or reads above the switch itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from txnparticipant.rows.memrowset import Fold
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.compaction_choice import input_bytes
from txnparticipant.shard.table import TableState
from txnparticipant.shard.translation import untranslated
from txnparticipant.versions.compactions import Compaction, Ended, State, Switched
from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import DeleteSet, FileSet, Manifest, Moved, PendingWrite, file_set_id
from txnstatus.errors import IllegalState, InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.replicated import Rejected
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId

OVERWRITTEN = "what it reads was overwritten meanwhile"
HIDDEN = "hidden"
"""The write, in the words of delete sets, that hides rows of files which a compaction has left as they are."""


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
    if table.schema.primary_key and command.partition:
        return InvalidArgument(f"{table.name} has a primary key: all of it is compacted, and no partition by itself")
    if other := compactions.of(command.partition):
        return IllegalState(f"{table.name} has another compaction of the same partition, {other.compaction_id}")
    compactions.add(
        Compaction(
            wanted,
            command.kind,
            command.partition,
            command.requested,
            command.at,
            input_bytes=command.input_bytes,
        )
    )
    return None


def _claim(table: TableState, command: cmd.ClaimCompaction) -> TxnError | None:
    wanted = table.compactions.open.get(command.compaction_id)
    if wanted is None:
        return _over(table, command.compaction_id)
    if wanted.worker:
        return None if wanted.lease_id == command.lease_id else _not_the_workers(table, wanted)
    if _overwritten(table, command.inputs, command.as_of):
        return Unavailable(f"files of {table.name} were overwritten meanwhile")
    inputs = tuple(command.inputs)
    table.compactions.claim(
        command.compaction_id,
        command.worker,
        command.lease_id,
        command.as_of,
        inputs,
        input_bytes(table, inputs, command.as_of),
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


def _overwritten(table: TableState, inputs: tuple[str, ...], as_of: Timestamp) -> bool:
    """Whether somebody has replaced one of these, or all row changes, or is about to."""
    if any(id_ not in table.file_sets or table.file_sets[id_].replaced_by is not None for id_ in inputs):
        return True
    if not table.schema.primary_key:
        return False
    return any(cleared > as_of for cleared in table.rows.cleared) or any(
        txn.clears_table for txn in table.unfinished.values() if txn.state is ParticipantState.COMMIT_IN_PROGRESS
    )


def overwritten(table: TableState, wanted: Compaction) -> bool:
    """Whether nothing can come of it any more."""
    return _overwritten(table, wanted.inputs, wanted.as_of)


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
    as_of = wanted.as_of if table.schema.primary_key else NO_TIMESTAMP
    added = _outputs(wanted, command, as_of)
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
    outputs = tuple(each.id for each in added)
    done = Switched(wanted.compaction_id, command.switch_ts, command.lineage, wanted.inputs, outputs, as_of)
    published = list(_published(table, wanted, command, outputs))
    for id_ in done.inputs:
        table.file_sets[id_].replaced_by = COMPACTIONS
    table.replace(done.inputs, done.switch_ts)
    if added:
        table.add(added)
    if as_of:
        table.rows.folded.append(Fold(command.switch_ts, as_of))
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


def output_ids(wanted: str, manifest: Manifest) -> tuple[str, ...]:
    """The ids of the file sets that the compaction adds."""
    return tuple(file_set_id(COMPACTIONS, wanted, partition) for partition in _partitions(manifest))


def _partitions(manifest: Manifest) -> tuple[str, ...]:
    """None, where no row is left."""
    return (manifest.partitions or (WHOLE_TABLE,)) if manifest.file_count else ()


def _outputs(wanted: Compaction, command: cmd.CommitCompaction, as_of: Timestamp) -> list[FileSet]:
    return [
        FileSet(wanted.compaction_id, COMPACTIONS, partition, command.manifest, command.switch_ts, as_of=as_of)
        for partition in _partitions(command.manifest)
    ]


def _published(
    table: TableState, wanted: Compaction, command: cmd.CommitCompaction, outputs: tuple[str, ...]
) -> Iterator[DeleteSet]:
    """What is deleted of the output: by those that have committed, also since the command was proposed."""
    if command.carried.ref is not None:
        id_ = wanted.compaction_id
        yield DeleteSet(id_, COMPACTIONS, command.carried.ref, command.switch_ts, set(outputs), (), id_)
    if command.hidden is not None:
        whose = HIDDEN, COMPACTIONS
        file_sets = set(command.hidden.file_sets)
        yield DeleteSet(*whose, command.hidden.ref, command.switch_ts, file_sets, (), wanted.compaction_id)
    commits = {(each.txn_id, each.write_id): each.commit_ts for each in later_deletes(table, wanted)}
    for each in command.moved:
        commit_ts, deletes = commits.get((each.txn_id, each.write_id)), each.moved.deletes
        if commit_ts is not None and deletes is not None:
            whose = each.write_id, each.txn_id
            touched = set(deletes.file_sets)
            yield DeleteSet(*whose, deletes.ref, commit_ts, touched, deletes.files, wanted.compaction_id)


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
