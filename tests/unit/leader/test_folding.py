"""Compaction of tables with a primary key: row changes become rows of files, and no answer is another one."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.harness.leader.asked import Asked
from tests.unit.harness.leader.bulk_model import by_position
from tests.unit.harness.leader.compactions import MAJOR, MINOR
from tests.unit.harness.leader.folding import completed, folded, leased, worked
from tests.unit.harness.leader.keyed import Writer
from tests.unit.harness.leader.rows import TABLE_ID, Shard
from txnclient.read.table_files import TableFiles
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.compaction_choice import Thresholds, due
from txnparticipant.shard.translation import removed_until
from txnparticipant.versions.compactions import Kind
from txnstatus.errors import AlreadyExists, IllegalState, SnapshotTooOld
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId

Parts = dict[int, tuple[str, int]]
PARTED = Schema((Column("id", "bigint"), Column("p", "string"), Column("n", "bigint")), ("p",), ("id",))


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Asked(tmp_path) as shard:
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
    spans = [*pairwise(times), (times[0], times[-1]), (times[1], times[4])]
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


def test_an_overwrite_of_the_whole_table_is_not_refused_and_leaves_nothing(shard: Shard) -> None:
    aged(shard)
    base = shard.status.last
    shard.write_files(TxnId(40), {1: "new"}, overwrite="", read_at=base)
    task = leased(shard)
    assert task is not None
    at = completed(shard, worked(task))
    assert shard.read(at, 40) == [(1, "new")], "the transaction sees what it will leave"
    assert shard.read(shard.commit(TxnId(40))) == [(1, "new")]
    assert shard.read(at) == shard.read(base)


def test_an_overwrite_after_the_switch_of_what_was_read_before_is_not_refused(shard: Shard) -> None:
    aged(shard)
    base = shard.status.last
    at = folded(shard)
    shard.write_files(TxnId(40), {1: "new", 4: "x"}, overwrite="", read_at=base)
    assert shard.read(shard.commit(TxnId(40))) == [(1, "new"), (4, "x")]
    assert shard.read(at) == shard.read(base)


def test_an_overwrite_leaves_files_that_came_after_what_it_has_read(shard: Shard) -> None:
    aged(shard)
    base = shard.status.last
    write_files(shard, 41, {77: "after"})
    at = folded(shard)
    shard.write_files(TxnId(40), {1: "new"}, overwrite="", read_at=base)
    assert shard.read(shard.commit(TxnId(40))) == [(1, "new"), (77, "after")]
    assert len(shard.read(at)) == len(shard.read(base)) + 1


def test_of_rows_alone_nothing_is_left_by_an_overwrite(shard: Shard) -> None:
    change(shard, 1, "upsert", {1: "a", 2: "b"})
    base = shard.status.last
    shard.write_files(TxnId(40), {3: "new"}, overwrite="", read_at=base)
    folded(shard)
    assert shard.read(shard.commit(TxnId(40))) == [(3, "new")]


@pytest.mark.parametrize("prepared", [False, True])
def test_what_is_overwritten_meanwhile_is_not_folded(shard: Shard, prepared: bool) -> None:
    change(shard, 1, "upsert", {1: "a", 2: "b"})
    task = leased(shard)
    assert task is not None
    done = worked(task)
    shard.write_files(TxnId(40), {3: "new"}, overwrite="", read_at=shard.status.last)
    shard.prepare(TxnId(40))
    if not prepared:
        shard.decide(TxnId(40))
        shard.finalize(TxnId(40))
    with pytest.raises(IllegalState, match="overwritten meanwhile"):
        completed(shard, done)


def test_rows_alone_are_folded_and_retired(shard: Shard) -> None:
    first = change(shard, 1, "upsert", {1: "a", 2: "b"})
    at = folded(shard)
    assert removed_until(shard.table, at) == at
    shard.apply(cmd.Retire(TABLE_ID, at))
    assert shard.table.readable_from == at
    assert shard.read(at) == [(1, "a"), (2, "b")]
    # An overwrite of what is older than what was folded is still second.
    with pytest.raises(SnapshotTooOld):
        shard.service._reads.check_readable(shard.table, first)


def test_a_key_is_there_once_whatever_was_folded(shard: Shard) -> None:
    aged(shard)
    folded(shard)
    shard.begin(TxnId(50))
    assert list(shard.write(50, "insert", {1: "x", 3: "back", 10: "y"}, shard.status.last).refused) == [0, 2]
    at = shard.commit(TxnId(50))
    assert dict(shard.read(at))[3] == "back"
    with pytest.raises(AlreadyExists):
        write_files(shard, 51, {10: "z"})
    shard.begin(TxnId(52))
    assert not shard.write(52, "delete", {3: "", 10: ""}, at).refused
    assert [key for key, _ in shard.read(shard.commit(TxnId(52)))] == [1, 2, 4, 5]


def test_partitions_are_folded_each_into_its_own_files(tmp_path: Path) -> None:
    with Asked(tmp_path, PARTED) as shard:
        add(shard, 1, {1: ("a", 0), 2: ("b", 0), 3: ("b", 0)})
        upsert(shard, 2, {2: ("b", 1), 4: ("c", 1)})
        add(shard, 3, {5: ("a", 0)})
        before = parted(shard, shard.status.last)
        at = folded(shard)
        assert parted(shard, at) == before == {1: ("a", 0), 2: ("b", 1), 3: ("b", 0), 4: ("c", 1), 5: ("a", 0)}
        found = TableFiles.of(shard.scan(at), at)
        assert sorted(file.partition for file in found.files) == ["p=a", "p=b", "p=c"]
        assert found.are_the_table
        upsert(shard, 4, {5: ("a", 9)})
        second = folded(shard, MINOR)
        assert parted(shard, second) == {**before, 5: ("a", 9)}
        assert TableFiles.of(shard.scan(second), second).changes is None
        shard.restart()
        assert parted(shard, second) == {**before, 5: ("a", 9)}


def test_a_transaction_deletes_rows_of_several_partitions_over_the_switch(tmp_path: Path) -> None:
    with Asked(tmp_path, PARTED) as shard, by_position(0):
        add(shard, 1, {1: ("a", 0), 2: ("b", 0), 3: ("b", 0), 4: ("a", 0)})
        upsert(shard, 2, {9: ("b", 0)})
        writer = Writer(shard, TxnId(3), shard.status.last)
        assert writer.delete_where("id in (1, 3)").deleted == 2
        task = leased(shard)
        assert task is not None
        at = completed(shard, worked(task))
        assert sorted(parted(shard, at)) == [1, 2, 3, 4, 9]
        assert sorted(parted(shard, shard.commit(TxnId(3)))) == [2, 4, 9]
        assert sorted(parted(shard, at)) == [1, 2, 3, 4, 9]


def test_one_small_file_in_each_partition_is_nothing_to_be_done(tmp_path: Path) -> None:
    with Asked(tmp_path, PARTED) as shard:
        add(shard, 1, {number: (f"part{number}", 0) for number in range(12)})
        add(shard, 2, {20: ("another", 0)})
        assert due_now(shard) == []
        upsert(shard, 3, {number: (f"part{number}", 1) for number in range(4)})
        assert due_now(shard) == [], "what is in memory begins none"
        shard.flush()
        assert due_now(shard) == [("", Kind.MAJOR)]
        folded(shard)
        assert due_now(shard) == []
        upsert(shard, 4, {5: ("part5", 1)})
        shard.flush()
        assert due_now(shard) == [], "it is few of all rows"


def due_now(shard: Shard) -> list[tuple[str, Kind]]:
    found = [each for each in due(shard.table, Thresholds(10, 20, 1 << 20)) if each is not None]
    return [(each.partition, each.kind) for each in found]


def table_of_parts(rows: Parts) -> pa.Table:
    parts, values = zip(*rows.values(), strict=True)
    return pa.table({"id": pa.array(rows, pa.int64()), "p": list(parts), "n": pa.array(values, pa.int64())})


def add(shard: Shard, txn_id: int, rows: Parts) -> None:
    shard.write_files(TxnId(txn_id), table_of_parts(rows))
    shard.commit(TxnId(txn_id))


def upsert(shard: Shard, txn_id: int, rows: Parts) -> None:
    shard.begin(TxnId(txn_id))
    assert not shard.send(shard.request(txn_id, "upsert", table_of_parts(rows), shard.status.last)).refused
    shard.commit(TxnId(txn_id))


def parted(shard: Shard, at: Timestamp) -> Parts:
    found = TableFiles.of(shard.scan(at), at).to_arrow().to_pydict()
    assert len(set(found["id"])) == len(found["id"]), "a key comes twice"
    return dict(sorted(zip(found["id"], zip(found["p"], found["n"], strict=True), strict=True)))
