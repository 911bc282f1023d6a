"""What holds of a table between any two commands: for tests and the simulator."""

from __future__ import annotations

from collections import Counter

from txnparticipant.rows.memrowset import changed_keys
from txnparticipant.shard.records import LIVE, TableTxn
from txnparticipant.shard.table import TableState
from txnparticipant.shard.translation import untranslated
from txnparticipant.versions.directories import COMPACTIONS
from txnstatus.id_sets import IdSet
from txnstatus.limits import MAX_TXN_SAVEPOINTS
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp


def check_held(table: TableState, at: Counter[Timestamp]) -> None:
    """`at`: timestamps of the savepoints that hold the table. Raises AssertionError."""
    assert table.held_at == at, f"savepoints of {table.name}: {table.held_at}, not {at}"
    dropped = table.dropped.commit_ts if table.dropped else None
    lost = [each for each in at if each < table.readable_from and (dropped is None or each < dropped)]
    assert not lost, f"{table.name} is readable from {table.readable_from}, and held at {lost}"


def check_table(table: TableState, forgotten: IdSet) -> None:
    """Raises AssertionError."""
    assert not table.is_database or table.txns, f"nobody's database: {table.name}"
    table.locks.check_invariants(table.unfinished)
    promised = {txn.txn_id: txn.writes.values() for txn in table.unfinished.values() if txn.prepare_ts != NO_TIMESTAMP}
    table.overwrites.check_invariants(promised)
    table.deletes.check_invariants(table.file_sets.keys(), promised)
    waiting = {request.txn_id for request in table.locks.queue()}
    for record in table.txns.values():
        assert record.txn_id not in waiting or record.state is ParticipantState.OPEN, f"waits: {record}"
        prepared = record.state in (ParticipantState.COMMIT_IN_PROGRESS, ParticipantState.COMMITTED)
        assert prepared == (record.prepare_ts != NO_TIMESTAMP), f"prepare timestamp of {record}"
        committed = record.state is ParticipantState.COMMITTED
        assert committed == (record.commit_ts != NO_TIMESTAMP), f"commit timestamp of {record}"
        assert record.commit_ts >= record.prepare_ts or not committed, f"{record} committed before it prepared"
        live = record.state in LIVE
        assert live == (record.txn_id in table.unfinished), f"index of {record}"
        assert (bool(record.claimed) and not live) == (record.txn_id in table.uncleaned), f"index of {record}"
        assert live or not record.writes, f"ended, with writes pending: {record}"
        assert live or not (record.rows or record.snapshot), f"ended, with rows pending: {record}"
        assert live or not record.keys_from, f"ended, and keys are kept for it: {record}"
        _check_savepoints(record)
        for write in record.all_writes:
            used = {write.write_id, *write.from_writes}
            assert used <= set(record.claimed), f"unclaimed directories: {write}"
            claims = bool(table.schema.primary_key and (write.manifest.file_count or write.deletes))
            assert claims == (write.claim is not None), f"keys that nobody claims: {write}"
    table.schemas.check_invariants()
    _check_retirement(table)
    _check_rows(table)
    _check_drop(table)
    _check_compactions(table)
    for file_set in table.file_sets.values():
        writer = table.txns.get(file_set.txn_id)
        assert file_set.txn_id in forgotten if writer is None else writer.commit_ts == file_set.commit_ts, (
            f"visible, not committed: {file_set}"
        )
        if file_set.replaced_by is not None:
            replacer = table.txns.get(file_set.replaced_by)
            prepared = replacer is not None and replacer.state is ParticipantState.COMMIT_IN_PROGRESS
            assert file_set.replaced_ts or prepared, f"promised to nobody: {file_set}"
            assert (
                file_set.replaced_by in forgotten and file_set.replaced_ts
                if replacer is None
                else replacer.commit_ts == file_set.replaced_ts
            ), f"wrong replacement: {file_set}"


def _check_savepoints(record: TableTxn) -> None:
    saved = record.savepoints.values()
    assert record.state in LIVE or not (saved or record.overwritten), f"ended, with savepoints: {record}"
    assert len(saved) <= MAX_TXN_SAVEPOINTS, f"too many savepoints: {record}"
    assert record.writes.keys().isdisjoint(record.superseded), f"written, and superseded: {record}"
    known = {*record.writes, *record.superseded}
    for each in saved:
        assert each.writes.keys() <= known, f"of a savepoint, and never written: {each}"
        there = {id_ for id_ in each.rows if record.rows[id_].keys}
        assert there | record.overwritten.keys() >= set(each.rows), f"rows of a savepoint are lost: {each}"
    assert not any(record.rows[id_].keys for id_ in record.overwritten), f"rows that are there twice: {record}"


def _check_retirement(table: TableState) -> None:
    file_sets = table.file_sets.values()
    replaced = sorted((fs.replaced_ts, fs.id) for fs in file_sets if fs.replaced_ts)
    assert table.replaced == replaced, "the index of what is replaced"
    used = Counter((fs.txn_id, write_id) for fs in file_sets for write_id in fs.used_writes)
    used.update(deleted.directory for deleted in table.deletes.all.values())
    used.update((COMPACTIONS, compaction_id) for compaction_id in table.compactions.switched)
    assert table.used == used, "the index of the directories"
    assert table.fresh.keys() <= table.uncleaned.keys() | table.retired.keys(), (
        "the cleaner would be told of what is gone"
    )
    for txn_id, write_ids in table.retired.items():
        record = table.txns.get(txn_id)
        held = set(record.claimed) if record else set()
        for write_id in write_ids:
            assert (txn_id, write_id) not in used, f"to be cleaned, and in use: {txn_id} {write_id}"
            assert write_id not in held, f"to be cleaned twice: {txn_id} {write_id}"


def _check_rows(table: TableState) -> None:
    rows = table.rows
    if not table.schema.primary_key:
        assert not any((rows.unflushed, rows.cleared, rows.keys.newest)), f"rows without a key: {table.name}"
        return
    claims = [*rows.flushing, *rows.given_up, *rows.spent, *rows.flushes]
    assert len(set(claims)) == len(claims), f"a flush that is two things: {claims}"
    commits_by_txn = {commit.txn_id: commit for commit in rows.keys}
    for row_set in rows.unflushed.values():
        keys = changed_keys(row_set.batches)
        assert keys, f"a row set without rows: {row_set}"
        writer = table.txns.get(row_set.txn_id)
        assert writer is None or writer.commit_ts == row_set.commit_ts, f"visible, not committed: {row_set}"
        known = commits_by_txn.get(row_set.txn_id)
        assert row_set.commit_ts <= rows.keys.above or (known and set(keys) <= set(known.keys)), (
            f"committed, and its keys are not known: {row_set}"
        )
    assert rows.unflushed_bytes == sum(each.cost for each in rows.unflushed.values()), "the bytes in memory"
    pending = sum(record.row_bytes for record in table.unfinished.values())
    assert table.pending_row_bytes == pending, "the bytes of unfinished transactions"
    rows.keys.check_prepared(
        {
            record.txn_id: record.changed(table.schema)
            for record in table.unfinished.values()
            if record.state is ParticipantState.COMMIT_IN_PROGRESS
        }
    )
    commits = [each.commit_ts for each in rows.unflushed.values()] + [each.last_ts for each in rows.flushes.values()]
    assert rows.newest == max([rows.newest_gone, *commits]), "the last row change"
    _check_folds(table)


def _check_folds(table: TableState) -> None:
    folded = table.rows.folded
    assert folded == sorted(folded, key=lambda each: (each.switch_ts, each.as_of)), f"the order of folds: {folded}"
    assert all(each.as_of < each.switch_ts for each in folded), f"folded before it came: {folded}"
    seen = [(each.switch_ts, each.as_of) for each in table.compactions.switched.values() if each.as_of]
    last = [(each.switch_ts, each.as_of) for each in folded]
    assert last[len(last) - len(seen) :] == seen, f"folds that readers see, and those that count: {seen}, {last}"
    assert len(last) - len(seen) <= 1, f"folds of which no reader knows: {last}"


def _check_compactions(table: TableState) -> None:
    compactions = table.compactions
    compactions.check_invariants(table.file_sets)
    going = table.retired.get(COMPACTIONS, [])
    for wanted in compactions.open.values():
        assert (COMPACTIONS, wanted.compaction_id) not in table.used, f"open, and in use: {wanted}"
        assert wanted.compaction_id not in going, f"open, and to be cleaned: {wanted}"
    for done in compactions.switched.values():
        for id_ in done.inputs:
            found = table.file_sets[id_]
            end = found.replaced_by, found.replaced_ts
            assert end == (COMPACTIONS, done.switch_ts), f"compacted, and seen above: {found}"
    for file_set in table.file_sets.values():
        if file_set.replaced_by == COMPACTIONS:
            assert any(compactions.replacing([file_set.id])), f"compacted by nobody: {file_set}"
    assert table.dropped is None or not compactions.open, f"a dropped table is compacted: {compactions.open}"
    for txn in table.unfinished.values():
        if txn.state is ParticipantState.COMMIT_IN_PROGRESS:
            assert not any(untranslated(table, txn)), f"prepared, and speaks of what was compacted: {txn}"


def _check_drop(table: TableState) -> None:
    droppers = [txn for txn in table.unfinished.values() if txn.drops]
    assert table.dropping is (droppers[0] if droppers else None), f"the index of who drops {table.name}"
    assert len(droppers) <= 1, f"dropped by two at once: {table.name}"
    prepared = [txn for txn in table.unfinished.values() if txn.state is ParticipantState.COMMIT_IN_PROGRESS]
    if table.dropping in prepared:
        assert prepared == [table.dropping], f"prepared beside the drop of {table.name}"
    if table.dropped is not None:
        assert not prepared, f"prepared on {table.name}, which is dropped"
        drop_ts = table.dropped.commit_ts
        for file_set in table.file_sets.values():
            assert file_set.commit_ts < drop_ts >= file_set.replaced_ts > NO_TIMESTAMP, (
                f"outlives its table: {file_set}"
            )
        for row_set in table.rows.unflushed.values():
            assert row_set.commit_ts < drop_ts, f"came after the drop: {row_set}"
