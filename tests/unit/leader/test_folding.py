"""Compaction of tables with a primary key: row changes become rows of files, and no answer is another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.harness.folding import MAJOR, MINOR, completed, folded, leased, worked
from tests.unit.harness.rows import TABLE_ID, Shard
from txnparticipant.shard import commands as cmd
from txnstatus.types import Timestamp, TxnId


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as shard:
        yield shard


def write_files(shard: Shard, txn_id: int, rows: dict[int, str]) -> Timestamp:
    shard.write_files(TxnId(txn_id), rows)
    return shard.commit(TxnId(txn_id))


def change(shard: Shard, txn_id: int, what: str, rows: dict[int, str]) -> Timestamp:
    shard.begin(TxnId(txn_id))
    assert not shard.write(txn_id, what, rows, shard.status.last).refused
    return shard.commit(TxnId(txn_id))


def aged(shard: Shard) -> list[Timestamp]:
    """Two files, upserts, updates and deletes, of which some are flushed. Returns the commits."""
    times = [
        write_files(shard, 1, {1: "a", 2: "b", 3: "c"}),
        change(shard, 2, "upsert", {2: "b2", 9: "i"}),
        write_files(shard, 3, {4: "d", 5: "e"}),
        change(shard, 4, "delete", {3: "", 9: ""}),
    ]
    shard.flush()
    times += [change(shard, 5, "upsert", {5: "e5", 10: "j"}), change(shard, 6, "update", {1: "a6"})]
    return times


@pytest.mark.parametrize("kind", [MAJOR, MINOR])
def test_every_timestamp_and_every_difference_is_as_it_was(shard: Shard, kind: int) -> None:
    times = aged(shard)
    before = {at: shard.read(at) for at in times}
    spans = [(since, until) for since in times for until in times if since < until]
    differences = {span: shard.diff(*span).to_pylist() for span in spans}
    at = folded(shard, kind)
    for time in times:
        assert shard.read(time) == before[time]
    assert shard.read(at) == before[times[-1]]
    for span in spans:
        assert shard.diff(*span).to_pylist() == differences[span]
        assert shard.diff(span[0], at).num_rows == shard.diff(span[0], times[-1]).num_rows
    assert shard.diff(times[-1], at).num_rows == 0
    assert not shard.scan(at).HasField("changes")


def test_a_second_fold_follows_the_first(shard: Shard) -> None:
    aged(shard)
    first = folded(shard)
    later = change(shard, 20, "upsert", {1: "a20", 30: "x"})
    gone = change(shard, 21, "delete", {2: ""})
    second = folded(shard, MINOR)
    rows = [(1, "a20"), (4, "d"), (5, "e5"), (10, "j"), (30, "x")]
    assert shard.read(second) == rows
    assert shard.read(later) == sorted([*rows, (2, "b2")])
    assert shard.read(first) == [(1, "a6"), (2, "b2"), (4, "d"), (5, "e5"), (10, "j")]
    assert shard.diff(first, second).num_rows == 4
    assert shard.diff(gone, second).num_rows == 0


def test_what_is_folded_goes_when_nobody_reads_below(shard: Shard) -> None:
    aged(shard)
    at = folded(shard)
    rows = shard.read(at)
    shard.restart()
    assert shard.read(at) == rows
    shard.apply(cmd.Retire(TABLE_ID, at))
    assert not shard.table.rows.unflushed
    assert not shard.table.rows.flushes
    assert len(shard.table.rows.spent) == 1
    shard.flush()
    assert not shard.table.rows.spent
    before = shard.shard.snapshot()
    shard.restart()
    assert shard.shard.snapshot() == before
    assert shard.read(at) == rows


def test_changes_of_the_time_of_the_work_are_seen_over_it(shard: Shard) -> None:
    aged(shard)
    task = leased(shard)
    assert task is not None
    done = worked(task)
    change(shard, 30, "upsert", {2: "later"})
    change(shard, 31, "delete", {10: ""})
    at = completed(shard, done)
    assert shard.read(at) == [(1, "a6"), (2, "later"), (4, "d"), (5, "e5")]
