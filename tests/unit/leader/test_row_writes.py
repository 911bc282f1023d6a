"""Row writes of a shard: outcomes row by row as Kudu has them, bad input, conflicts, flushes and what memory allows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.unit.harness.leader.rows import OWNER, TABLE, TABLE_ID, Shard, table_of
from txnparticipant.leader import rows as row_service
from txnparticipant.rows import changed_keys, memrowset
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as cmd
from txnparticipant.upkeep import flusher
from txnstatus.errors import (
    Conflict,
    IllegalState,
    InvalidArgument,
    LimitReached,
    NotAuthorized,
    Overloaded,
    SnapshotTooOld,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.lake import rows as row_format
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.process.failpoints import arm
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId


@pytest.fixture
def shard(tmp_path: Path) -> Iterator[Shard]:
    with Shard(tmp_path) as running:
        yield running


def committed(shard: Shard, txn: int, change: str, rows: dict[int, str]) -> Timestamp:
    shard.write(txn, change, rows, shard.status.last)
    return shard.commit(TxnId(txn))


# ---- outcomes, row by row


PLACES = [
    "nowhere",
    "own rows",
    "memory",
    "flush",
    "files",
    "deleted by itself",
    "deleted in memory",
    "deleted in flush",
]
THERE = {"own rows", "memory", "flush", "files"}


def put(shard: Shard, place: str, txn_id: int) -> None:
    """Row 7 where the transaction will look for it."""
    if place == "files" or place.startswith("deleted"):
        shard.write_files(TxnId(1), {7: "old"})
        shard.commit(TxnId(1))
    if place in ("memory", "flush"):
        committed(shard, 2, "insert", {7: "old"})
    if place in ("deleted in memory", "deleted in flush"):
        committed(shard, 2, "delete", {7: ""})
    if place in ("flush", "deleted in flush"):
        shard.flush()
        assert not shard.table.rows.unflushed
    if place == "own rows":
        shard.write(txn_id, "insert", {7: "old"}, shard.status.last)
    if place == "deleted by itself":
        shard.write(txn_id, "delete", {7: ""}, shard.status.last)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("change", ["insert", "insert_ignore", "upsert", "update", "delete"])
def test_what_becomes_of_a_row(shard: Shard, change: str, place: str) -> None:
    """As in Kudu: a duplicate or missing key is that row's error, the others are written, the transaction goes on."""
    put(shard, place, 5)
    there = place in THERE
    answer = shard.write(
        5, change, {7: "new", 8: "other"} if change in ("insert", "upsert") else {7: "new"}, shard.status.last
    )
    other = 1 if change in ("insert", "upsert") else 0
    written = {"insert": not there, "insert_ignore": not there, "upsert": True}.get(change, there)
    assert answer.written == written + other
    assert answer.ignored == (1 if change == "insert_ignore" and there else 0)
    assert list(answer.refused) == ([] if written or answer.ignored else [0])
    commit_ts = shard.commit(TxnId(5))
    left = dict(shard.read(commit_ts))
    expected = ("new" if change != "delete" else None) if written else ("old" if there else None)
    assert left.get(7) == expected
    assert (8 in left) == other


def test_the_answer_names_the_rows_that_were_refused(shard: Shard) -> None:
    committed(shard, 1, "insert", {2: "", 4: ""})
    answer = shard.write(2, "insert", {1: "", 2: "", 3: "", 4: ""}, shard.status.last)
    assert (answer.written, list(answer.refused)) == (2, [1, 3])


def test_a_repeated_request_takes_effect_once_and_answers_alike(shard: Shard) -> None:
    request = shard.request(1, "insert", table_of({1: "a"}), shard.status.last)
    assert shard.send(request) == shard.send(request)
    assert len(shard.table.txns[TxnId(1)].rows) == 1
    assert shard.read(shard.commit(TxnId(1))) == [(1, "a")]


def test_rows_are_judged_at_the_transactions_snapshot(shard: Shard) -> None:
    """Not at that of the request: the second write sees what the first one saw."""
    before = shard.status.last
    shard.write(5, "insert", {1: "five"}, before)
    committed(shard, 6, "insert", {2: "six"})
    assert shard.write(5, "insert", {2: "five"}, shard.status.last).written == 1
    with pytest.raises(Conflict, match=r"air\.log\(2\) was changed by transaction 6"):
        shard.prepare(TxnId(5))


def test_a_commit_that_was_acknowledged_is_seen_though_it_is_not_finalised_here(shard: Shard) -> None:
    shard.write(1, "insert", {1: "one"}, shard.status.last)
    shard.prepare(TxnId(1))
    shard.decide(TxnId(1))
    assert list(shard.write(2, "insert", {1: "two"}, shard.status.last).refused) == [0]
    assert shard.write(2, "update", {1: "two"}, shard.status.last).written == 1
    assert shard.read(shard.commit(TxnId(2))) == [(1, "two")]


# ---- bad input


def bytes_of(rows: pa.Table) -> bytes:
    return row_format.to_ipc(rows)


IDS = pa.array([1, 2], pa.int64())
TWICE = pa.table({"id": pa.array([7, 7], pa.int64()), "v": ["a", "b"]})
BAD: list[tuple[str, bytes, str]] = [
    ("insert", b"", "no Arrow IPC stream"),
    ("insert", b"garbage", "no Arrow IPC stream"),
    ("insert", bytes_of(table_of({1: "a"}))[:-20], "no Arrow IPC stream"),
    ("insert", bytes_of(pa.table({"id": IDS})), "expected id int64, v string"),
    ("insert", bytes_of(pa.table({"id": ["1", "2"], "v": ["a", "b"]})), "expected id int64, v string"),
    ("insert", bytes_of(table_of({1: "a"}).append_column("w", pa.array([1]))), "expected id int64, v string"),
    ("delete", bytes_of(table_of({1: "a"})), "expected id int64"),
    ("insert", bytes_of(pa.table({"id": pa.array([1, None], pa.int64()), "v": ["a", "b"]})), "row 1: the key column"),
    (
        "insert",
        bytes_of(pa.table({"id": pa.array([7, 7], pa.int64()), "v": ["a", "b"]})),
        "the key 7 comes more than once",
    ),
    ("insert", bytes_of(table_of(dict.fromkeys(range(10_001), ""))), "10001 rows in one request: 10000"),
    ("insert", bytes_of(table_of({1: "x" * 500_000})), "400000 are possible"),
]


@pytest.mark.parametrize(("change", "rows", "message"), BAD)
def test_a_request_that_is_wrong_as_a_whole_changes_nothing(
    shard: Shard, change: str, rows: bytes, message: str
) -> None:
    request = shard.request(1, change, table_of({}), shard.status.last)
    request.rows = rows
    before = shard.shard.snapshot()
    with pytest.raises(InvalidArgument, match=message):
        shard.send(request)
    assert shard.shard.snapshot() == before


def test_a_request_without_a_kind_of_change_a_snapshot_or_a_write_id_is_refused(shard: Shard) -> None:
    for field, value, message in (
        ("change", 0, "no kind of row change 0"),
        ("change", 99, "no kind of row change 99"),
        ("snapshot", 1 << 60, "take a snapshot first"),
        ("write_id", "../x", "expected 8 to 64 letters and digits"),
    ):
        request = shard.request(1, "insert", table_of({1: "a"}), shard.status.last)
        setattr(request, field, value)
        with pytest.raises(InvalidArgument, match=message):
            shard.send(request)


def test_a_table_without_a_key_takes_no_rows(tmp_path: Path) -> None:
    schema = Schema((Column("id", "bigint"), Column("v", "string")))
    with Shard(tmp_path, schema) as shard, pytest.raises(InvalidArgument, match="has no primary key"):
        shard.write(1, "insert", {1: "a"}, shard.status.last)


def test_a_column_without_nulls_takes_none(tmp_path: Path) -> None:
    schema = Schema(
        (Column("id", "bigint", nullable=False), Column("v", "string", nullable=False)), primary_key=("id",)
    )
    rows = pa.table({"id": IDS, "v": ["a", None]}, schema=row_format.rows_schema(schema, deletes=False))
    with Shard(tmp_path, schema) as shard, pytest.raises(InvalidArgument, match=r"'v' of table .* takes no nulls"):
        shard.send(shard.request(1, "insert", rows, shard.status.last))


def test_rows_of_a_transaction_that_is_over_or_somebody_elses_are_refused(shard: Shard) -> None:
    shard.write(1, "insert", {1: "a"}, shard.status.last)
    request = shard.request(1, "insert", table_of({2: "a"}), shard.status.last)
    request.owner = "bob"
    with pytest.raises(NotAuthorized):
        shard.send(request)
    shard.prepare(TxnId(1))
    refused: list[type[TxnError]] = []
    for end in (lambda: None, lambda: shard.abort(TxnId(1))):
        end()
        with pytest.raises(TxnError) as error:
            shard.apply(cmd.WriteRows(TxnId(1), TABLE_ID, OWNER, Timestamp(1), 1, RowBatch("later001", False, b"", ())))
        refused.append(type(error.value))
    assert refused == [IllegalState, TxnAborted]


def test_rows_that_cannot_be_judged_now_may_be_sent_again(shard: Shard) -> None:
    arm("rows.before_judging=error")
    try:
        with pytest.raises(Unavailable, match=f"files of {TABLE} cannot be read"):
            shard.write(1, "insert", {1: "a"}, shard.status.last)
    finally:
        arm("")
    assert shard.write(1, "insert", {1: "a"}, shard.status.last).written == 1


def test_rows_that_were_judged_too_early_are_judged_again(shard: Shard) -> None:
    shard.write(1, "insert", {1: "a"}, shard.status.last)
    snapshot = shard.table.txns[TxnId(1)].snapshot
    for position, at in ((0, snapshot), (2, snapshot), (1, Timestamp(snapshot + 1))):
        stale = cmd.WriteRows(TxnId(1), TABLE_ID, OWNER, at, position, RowBatch("later001", False, b"", (b"1",)))
        with pytest.raises(Unavailable, match="meanwhile"):
            shard.apply(stale)


# ---- conflicts


def test_of_two_that_change_one_row_the_first_to_prepare_wins(shard: Shard) -> None:
    for finalises in (False, True):
        one, two = TxnId(10 + 2 * finalises), TxnId(11 + 2 * finalises)
        for txn_id in (one, two):
            shard.write(txn_id, "upsert", {1: str(txn_id), int(txn_id): ""}, shard.status.last)
        shard.prepare(one)
        if finalises:
            shard.decide(one)
            shard.finalize(one)
        with pytest.raises(Conflict) as error:
            shard.prepare(two)
        assert (error.value.winner, error.value.objects) == (one, ("air.log(1)",))
        shard.abort(two)
        if not finalises:
            shard.abort(one)


def test_a_conflict_names_ten_rows_at_most(shard: Shard) -> None:
    rows = dict.fromkeys(range(30), "")
    shard.write(1, "upsert", rows, shard.status.last)
    shard.write(2, "upsert", rows, shard.status.last)
    shard.commit(TxnId(1))
    with pytest.raises(Conflict, match=r"air\.log\(0\) and 29 more rows were changed by transaction 1") as error:
        shard.prepare(TxnId(2))
    assert len(error.value.objects) == 10


def test_other_rows_do_not_conflict_and_neither_do_refused_ones(shard: Shard) -> None:
    committed(shard, 1, "insert", {1: "", 2: ""})
    at = shard.status.last
    shard.write(2, "update", {1: "two"}, at)
    shard.write(3, "update", {2: "three"}, at)
    shard.write(3, "insert_ignore", {1: "three"}, at)
    shard.commit(TxnId(2))
    assert shard.read(shard.commit(TxnId(3))) == [(1, "two"), (2, "three")]


def test_a_flush_does_not_hide_a_conflict(shard: Shard) -> None:
    shard.write(2, "upsert", {1: "two"}, shard.status.last)
    committed(shard, 1, "upsert", {1: "one"})
    shard.flush()
    assert not shard.table.rows.unflushed
    with pytest.raises(Conflict, match="transaction 1"):
        shard.prepare(TxnId(2))


def test_a_transaction_older_than_the_keys_that_are_kept_is_to_run_again(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_keys, "KEPT_BYTES", 0)
    shard.write(2, "upsert", {2: "two"}, shard.status.last)
    committed(shard, 1, "upsert", {1: "one"})
    shard.flush()
    assert not list(shard.table.rows.keys)
    with pytest.raises(Conflict, match="too many rows"):
        shard.prepare(TxnId(2))


def test_keys_go_when_nobody_needs_them(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changed_keys, "KEPT_SPAN", 0)
    shard.write(2, "upsert", {2: "two"}, shard.status.last)
    committed(shard, 1, "upsert", {1: "one"})
    shard.flush()
    assert [commit.txn_id for commit in shard.table.rows.keys] == [1]
    shard.abort(TxnId(2))
    assert not list(shard.table.rows.keys)
    assert shard.read(shard.status.last) == [(1, "one")]


def test_an_overwrite_and_rows_that_were_changed_under_it_conflict(shard: Shard) -> None:
    shard.write_files(TxnId(1), {1: "overwritten"}, overwrite=WHOLE_TABLE)
    committed(shard, 2, "upsert", {1: "row"})
    with pytest.raises(Conflict, match=r"rows of air.log were changed by transaction 2"):
        shard.prepare(TxnId(1))
    shard.write(3, "upsert", {2: "row"}, shard.status.last)
    shard.write_files(TxnId(4), {9: "overwritten"}, overwrite=WHOLE_TABLE)
    shard.commit(TxnId(4))
    with pytest.raises(Conflict, match=r"air.log was overwritten by transaction 4"):
        shard.prepare(TxnId(3))


def test_an_overwrite_replaces_row_changes_also_flushed_ones_and_only_from_then_on(shard: Shard) -> None:
    rows_at = committed(shard, 1, "upsert", {1: "row"})
    shard.flush()
    committed(shard, 2, "upsert", {2: "row"})
    before = shard.status.last
    shard.write_files(TxnId(3), {3: "file"}, overwrite=WHOLE_TABLE)
    after = shard.commit(TxnId(3))
    for _ in range(2):
        assert [shard.read(ts) for ts in (rows_at, before, after)] == [
            [(1, "row")],
            [(1, "row"), (2, "row")],
            [(3, "file")],
        ]
        shard.flush()


def test_partitions_of_a_table_with_row_changes_are_not_overwritten_by_themselves(tmp_path: Path) -> None:
    """Nobody who replicates knows which partition a row is in."""
    schema = Schema((Column("id", "bigint"), Column("v", "string")), ("v",), ("id",))
    with Shard(tmp_path, schema) as shard:
        shard.write_files(TxnId(1), {1: "a"}, overwrite="v=a")
        shard.commit(TxnId(1))
        committed(shard, 2, "upsert", {2: "a"})
        with pytest.raises(IllegalState, match="cannot be overwritten by themselves"):
            shard.write_files(TxnId(3), {3: "a"}, overwrite="v=a")
        shard.write_files(TxnId(4), {4: "a"}, overwrite=WHOLE_TABLE)
        shard.commit(TxnId(4))
        shard.write(6, "upsert", {6: "b"}, shard.status.last)
        shard.write_files(TxnId(5), {5: "a"}, overwrite="v=a")
        shard.commit(TxnId(5))
        with pytest.raises(Conflict, match=r"air\.log/v=a was overwritten by transaction 5"):
            shard.prepare(TxnId(6))
        assert shard.read(shard.status.last) == [(5, "a")]


# ---- flushes


def test_a_flush_changes_no_answer_at_any_time_and_leaves_what_is_not_committed(shard: Shard) -> None:
    times = [committed(shard, 1, "insert", {1: "a", 2: "b"})]
    times.append(committed(shard, 2, "delete", {1: ""}))
    shard.write(3, "upsert", {2: "c"}, shard.status.last)
    shard.write(3, "upsert", {2: "d"}, shard.status.last)
    times.append(shard.commit(TxnId(3)))
    shard.write(4, "upsert", {5: "open"}, shard.status.last)
    before = [shard.read(ts) for ts in times]
    shard.flush()
    assert [shard.read(ts) for ts in times] == before == [[(1, "a"), (2, "b")], [(2, "b")], [(2, "d")]]
    assert shard.table.txns[TxnId(4)].rows
    (flush,) = shard.table.rows.flushes.values()
    assert flush.manifest.row_count == 4, "of two changes that one transaction made to a row, one is kept"
    shard.restart()
    assert [shard.read(ts) for ts in times] == before
    assert shard.read(shard.commit(TxnId(4))) == [(2, "d"), (5, "open")]


@pytest.mark.parametrize(
    "point",
    [
        "shard.before.OpenFlush",
        "shard.after.OpenFlush",
        "flush.before_write",
        "flush.after_write",
        "shard.before.FlushRows",
        "shard.after.FlushRows",
        "shard.before.DropFlush",
        "shard.after.DropFlush",
    ],
)
def test_a_flush_that_fails_anywhere_loses_nothing_and_leaves_nothing(shard: Shard, tmp_path: Path, point: str) -> None:
    commit_ts = committed(shard, 1, "upsert", {1: "a"})
    if "DropFlush" in point:
        arm("flush.after_write=error")
        shard.flush()
        arm("")
    arm(f"{point}=error")
    shard.flush()
    arm("")
    assert shard.read(commit_ts) == [(1, "a")]
    for _ in range(4):
        shard.flush()
        assert shard.read(commit_ts) == [(1, "a")]
    assert not shard.table.rows.flushing
    assert not shard.table.rows.given_up
    referenced = {Path(each.manifest.path).parent.name for each in shard.table.rows.flushes.values()}
    assert {path.name for path in (tmp_path / "log").glob("delta_rows*")} == referenced
    assert len(referenced) == 1


def test_a_former_leader_cannot_bring_back_a_flush_that_was_given_up(shard: Shard) -> None:
    """It wrote slowly, somebody else led meanwhile and removed the directory, and now it leads again."""
    commit_ts = committed(shard, 1, "upsert", {1: "a"})
    shard.apply(cmd.OpenFlush(TABLE_ID, "rowsslow"))
    shard.run(shard.service._flusher.run_once())
    refs = memrowset.Manifest("file:///gone", 1, 1, 1, 1, 1)
    with pytest.raises(IllegalState, match="overtaken"):
        shard.apply(cmd.FlushRows(TABLE_ID, "rowsslow", refs, (TxnId(1),)))
    with pytest.raises(IllegalState, match="over already"):
        shard.apply(cmd.OpenFlush(TABLE_ID, "rowsslow"))
    assert shard.read(commit_ts) == [(1, "a")]


def test_a_flush_is_due_by_size_by_number_and_when_memory_is_wanted(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flushed() -> int:
        shard.run(shard.service._flusher.run_once())
        return len(shard.table.rows.flushes)

    committed(shard, 1, "upsert", {1: "a"})
    assert flushed() == 0
    monkeypatch.setattr(flusher, "FLUSH_TXNS", 1)
    assert flushed() == 1
    monkeypatch.undo()
    committed(shard, 2, "upsert", {2: "x" * 5_000})
    monkeypatch.setattr(shard.service._flusher, "flush_bytes", 5_000)
    assert flushed() == 2
    monkeypatch.undo()
    committed(shard, 3, "upsert", {3: "a"})
    shard.service._rows.wants_room.set()
    assert flushed() == 3


def test_a_snapshot_whose_files_are_retired_is_too_old_to_write_by(shard: Shard) -> None:
    """What was there then is not known any more: to say that the row is not there would be wrong."""
    shard.write_files(TxnId(1), {1: "file"})
    seen = shard.commit(TxnId(1))
    shard.write(2, "update", {1: "in time"}, seen)
    shard.write_files(TxnId(3), {9: "other"}, overwrite=WHOLE_TABLE)
    replaced = shard.commit(TxnId(3))
    shard.apply(cmd.Retire(TABLE_ID, replaced))
    for txn, change in ((2, "update"), (4, "update"), (5, "insert_ignore")):
        with pytest.raises(SnapshotTooOld):
            shard.write(txn, change, {1: "late"}, seen)
    shard.write(6, "upsert", {1: "asks for nothing"}, seen)
    with pytest.raises(Conflict):
        shard.prepare(TxnId(6))
    assert shard.write(7, "insert_ignore", {1: "new"}, replaced).written == 1


def test_files_that_are_removed_while_a_write_reads_them_are_not_an_internal_error(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard.write_files(TxnId(1), {1: "file"})
    seen = shard.commit(TxnId(1))
    shard.write_files(TxnId(2), {9: "other"}, overwrite=WHOLE_TABLE)
    replaced = shard.commit(TxnId(2))

    def removed(*_: object) -> None:
        shard.apply(cmd.Retire(TABLE_ID, replaced))
        raise FileNotFoundError("the cleaner was here")

    monkeypatch.setattr(row_service, "_judged", removed)
    with pytest.raises(SnapshotTooOld):
        shard.write(3, "update", {1: "late"}, seen)


# ---- memory


def test_a_transaction_too_large_for_memory_is_told_so(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_service, "TXN_LIMIT_BYTES", 20_000)
    shard.write(1, "upsert", {1: "x" * 15_000}, shard.status.last)
    with pytest.raises(LimitReached, match=r"in memory: with .* more they would be over 20000"):
        shard.write(1, "upsert", {2: "x" * 15_000}, shard.status.last)
    assert shard.read(shard.commit(TxnId(1))) == [(1, "x" * 15_000)]


def test_writes_wait_for_memory_and_are_then_refused(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(row_service, "SOFT_LIMIT_BYTES", 20_000)
    monkeypatch.setattr(row_service, "HARD_LIMIT_BYTES", 35_000)
    shard.write(1, "upsert", {1: "x" * 15_000}, shard.status.last)
    shard.write(2, "upsert", {2: "x" * 15_000}, shard.status.last)
    with pytest.raises(Overloaded, match="in the memory of shard 0: 35000 are possible"):
        shard.write(3, "upsert", {3: "x" * 15_000}, shard.status.last)
    shard.commit(TxnId(1))
    assert shard.service._rows.wants_room.is_set()
    shard.run(shard.service._flusher.run_once())
    assert shard.write(3, "upsert", {3: "x" * 15_000}, shard.status.last).written == 1


def test_writes_do_not_wait_for_a_flush_that_could_make_no_room(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that is in memory is of transactions that are open: who of them waits keeps the others from their ends."""
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 600.0)
    monkeypatch.setattr(row_service, "SOFT_LIMIT_BYTES", 20_000)
    monkeypatch.setattr(row_service, "HARD_LIMIT_BYTES", 100_000)

    def write(txn: int) -> None:
        request = shard.request(txn, "upsert", table_of({txn: "x" * 15_000}), shard.status.last)
        shard.run(asyncio.wait_for(shard.service.write_rows(request), 30))

    for txn in (1, 2, 3):
        write(txn)
    shard.commit(TxnId(1))
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 0.05)
    shard.service._rows.wants_room.clear()
    write(4)
    assert shard.service._rows.wants_room.is_set(), "now there is something to flush"


def test_writes_at_the_same_time_do_not_share_the_room_that_is_left(
    shard: Shard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_service, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(row_service, "SOFT_LIMIT_BYTES", 35_000)
    monkeypatch.setattr(row_service, "HARD_LIMIT_BYTES", 35_000)
    data = table_of({1: "x" * 15_000})
    requests = [shard.request(txn, "upsert", data, shard.status.last) for txn in range(1, 6)]

    async def all_at_once() -> list[object]:
        return await asyncio.gather(*map(shard.service.write_rows, requests), return_exceptions=True)

    answers = shard.run(all_at_once())
    assert sum(isinstance(answer, Overloaded) for answer in answers) == 3
    assert sum(batch.cost for record in shard.table.unfinished.values() for batch in record.rows.values()) < 35_000


def test_what_a_row_costs_besides_its_bytes_counts_too(shard: Shard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_service, "TXN_LIMIT_BYTES", 20_000)
    with pytest.raises(LimitReached):
        shard.write(1, "upsert", dict.fromkeys(range(250), ""), shard.status.last)


# ---- keys

DAY = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("types", "one", "other"),
    [
        (("string", "string"), ("a,b", "c"), ("a", "b,c")),
        (("string", "string"), ("a\\", "b"), ("a", "\\b")),
        (("string", "string"), ("", ","), (",", "")),
        (("bigint", "string"), (1, "2"), (12, "")),
        (("binary", "binary"), (b"\xff", b"\x00"), (b"\xff\x00", b"")),
        (("decimal(10,2)", "boolean"), (Decimal(1), True), (Decimal(1), False)),
        (("date", "timestamp"), (DAY.date(), DAY), (DAY.date(), DAY.replace(hour=1))),
    ],
)
def test_keys_of_several_columns_are_told_apart(
    types: tuple[str, str], one: tuple[object, object], other: tuple[object, object]
) -> None:
    schema = Schema((Column("a", types[0]), Column("b", types[1])), primary_key=("a", "b"))
    kinds = row_format.rows_schema(schema, deletes=True)
    columns = [pa.array([one[at], other[at]], field.type) for at, field in enumerate(kinds)]
    keys = row_format.encode_keys(pa.Table.from_arrays(columns, schema=kinds), schema).to_pylist()
    assert keys[0] != keys[1]


def test_a_key_reads_as_its_values(shard: Shard) -> None:
    schema = Schema((Column("day", "date"), Column("id", "bigint")), primary_key=("day", "id"))
    rows = pa.table({"day": [DAY.date()], "id": [7]})
    assert row_format.encode_keys(rows, schema).to_pylist() == [b"2024-05-01,7"]


def test_every_answer_is_the_wire_forms_own(shard: Shard) -> None:
    """What is kept for a repeated request is what was answered."""
    shard.write(1, "insert", {1: "a"}, shard.status.last)
    (batch,) = shard.table.txns[TxnId(1)].rows.values()
    assert pb.WriteRowsResponse.FromString(batch.outcome) == pb.WriteRowsResponse(written=1)
    assert shard.table.name == TABLE
