"""Savepoints of a transaction: its record on a table comes back as it was, whatever it has done since."""

from __future__ import annotations

import pytest

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import (
    ABORTED,
    CIP,
    COMMIT,
    COMMITTED,
    NAME,
    OTHER,
    OWNER,
    TABLE,
    TXN,
    abort,
    added,
    begun,
    committed,
    finalize,
    new_shard,
    ok,
    opened,
    prepare,
    record_of,
    refused,
    seen,
    shard_with_txn_in,
    table_of,
    to_clean,
    wrote,
)
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import txn_savepoints
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import IllegalState, LimitReached, NotAuthorized, NotFound, TxnAborted, Unavailable
from txnstatus.limits import MAX_TXN_SAVEPOINTS
from txnstatus.types import ParticipantState, Timestamp


def save(savepoint_id: str, *released: str) -> cmd.SetSavepoint:
    return cmd.SetSavepoint(TXN, TABLE, OWNER, savepoint_id, released)


def back(savepoint_id: str, rollback_id: str = "", *void: str, is_held: bool = True) -> cmd.RollbackTo:
    return cmd.RollbackTo(TXN, TABLE, OWNER, savepoint_id, rollback_id or f"to-{savepoint_id}", is_held, void)


def rows(shard: ParticipantShard, write_id: str, *keys: bytes) -> cmd.WriteRows:
    batch = RowBatch(write_id, False, b"rows of " + write_id.encode(), keys, b"answer")
    return cmd.WriteRows(TXN, TABLE, OWNER, Timestamp(0), record_of(shard).position, batch)


def started() -> ParticipantShard:
    shard = new_shard()
    committed(shard, 1, "before01", 50)
    begun(shard, TXN)
    return shard


def visible_after_commit(shard: ParticipantShard) -> list[str]:
    prepare(shard, TXN)
    finalize(shard, TXN)
    return seen(shard, COMMIT)


def test_what_was_written_since_is_gone_and_its_files_are_cleaned() -> None:
    shard = started()
    wrote(shard, TXN, "first001")
    ok(shard, save("aaaaaaaa"))
    wrote(shard, TXN, "second01")
    ok(shard, back("aaaaaaaa"))
    wrote(shard, TXN, "third001")
    assert visible_after_commit(shard) == ["before01", "first001", "third001"]
    assert to_clean(shard) == {TXN: ["second01"]}


def test_an_overwrite_that_is_taken_back_has_overwritten_nothing() -> None:
    shard = started()
    wrote(shard, TXN, "first001")
    ok(shard, rows(shard, "rows0001", b"7"))
    ok(shard, save("aaaaaaaa"))
    wrote(shard, TXN, "over0001", overwrite=True)
    assert list(record_of(shard).writes) == ["over0001"]
    assert not record_of(shard).row_keys
    assert table_of(shard).pending_row_bytes > 0, "rows that may come back are in memory"
    ok(shard, back("aaaaaaaa"))
    assert list(record_of(shard).writes) == ["first001"]
    assert record_of(shard).row_keys == (b"7",)
    assert visible_after_commit(shard) == ["before01", "first001"]
    assert table_of(shard).rows.unflushed[TXN].batches[0].rows == b"rows of rows0001"


def test_rows_that_came_since_are_gone_and_a_savepoint_serves_twice() -> None:
    shard = started()
    ok(shard, rows(shard, "rows0001", b"1"))
    ok(shard, save("aaaaaaaa"))
    for number in range(2):
        ok(shard, rows(shard, f"since00{number}", b"2"))
        ok(shard, back("aaaaaaaa", f"back000{number}"))
        assert record_of(shard).row_keys == (b"1",)
    assert visible_after_commit(shard) == ["before01"]


def test_a_rollback_ends_the_savepoints_after_it_and_keeps_those_before_it() -> None:
    shard = started()
    for write_id, savepoint_id in (("first001", "aaaaaaaa"), ("second01", "bbbbbbbb"), ("third001", "cccccccc")):
        wrote(shard, TXN, write_id)
        ok(shard, save(savepoint_id))
    ok(shard, back("bbbbbbbb"))
    assert isinstance(refused(shard, back("cccccccc")), NotFound)
    assert list(record_of(shard).writes) == ["first001", "second01"]
    ok(shard, back("aaaaaaaa"))
    assert list(record_of(shard).writes) == ["first001"]


def test_a_table_that_came_after_the_savepoint_has_nothing_left() -> None:
    shard = started()
    wrote(shard, TXN, "first001")
    ok(shard, save("bbbbbbbb"))
    ok(shard, back("aaaaaaaa", is_held=False))
    assert record_of(shard).is_empty
    assert not record_of(shard).savepoints
    assert visible_after_commit(shard) == ["before01"]


def test_what_comes_again_or_late_brings_nothing_back() -> None:
    shard = started()
    ok(shard, save("aaaaaaaa"))
    late = [added(write_id="second01"), rows(shard, "rows0001", b"1"), added(write_id="failed01")]
    ok(shard, opened(write_id="second01"), late[0])
    ok(shard, rows(shard, "rows0001", b"1"))
    ok(shard, back("aaaaaaaa", "back0001", "failed01"))
    for command in late:
        ok(shard, command)
    assert not record_of(shard).writes
    assert not record_of(shard).row_keys
    wrote(shard, TXN, "third001")
    ok(shard, back("aaaaaaaa", "back0001"), save("aaaaaaaa"))
    assert list(record_of(shard).writes) == ["third001"], "the same rollback once more, and the same savepoint"


def test_what_was_judged_by_what_is_gone_is_judged_again() -> None:
    shard = started()
    ok(shard, save("aaaaaaaa"))
    wrote(shard, TXN, "second01")
    judged = rows(shard, "rows0001", b"1")
    ok(shard, back("aaaaaaaa"))
    assert isinstance(refused(shard, judged), Unavailable)


def test_staged_files_that_were_taken_back_can_be_added_again() -> None:
    shard = started()
    ok(shard, save("aaaaaaaa"), opened(write_id="staged01"))
    for write_id in ("adding01", "adding02"):
        ok(shard, opened(write_id=write_id), added(write_id=write_id, from_writes=("staged01",)))
        ok(shard, back("aaaaaaaa", f"{write_id}x"))
    ok(shard, opened(write_id="adding03"), added(write_id="adding03", from_writes=("staged01",)))
    assert visible_after_commit(shard) == ["before01", "adding03"]


def test_locks_stay_held() -> None:
    shard = started()
    ok(shard, save("aaaaaaaa"))
    locks = (Lock(NAME, Mode.X),)
    assert ok(shard, cmd.AcquireLocks(TXN, TABLE, OWNER, locks, Otherwise.REFUSED, Timestamp(9))).granted
    ok(shard, back("aaaaaaaa"))
    assert table_of(shard).locks.holds(TXN, locks)


def test_a_snapshot_has_the_savepoints() -> None:
    shard = started()
    wrote(shard, TXN, "first001")
    ok(shard, rows(shard, "rows0001", b"1"), save("aaaaaaaa"))
    wrote(shard, TXN, "over0001", overwrite=True)
    ok(shard, save("bbbbbbbb"))
    wrote(shard, TXN, "third001")
    ok(shard, back("bbbbbbbb"))
    again = ParticipantShard(3)
    again.restore(shard.snapshot())
    again.check_invariants()
    assert again.snapshot() == shard.snapshot()
    ok(again, back("aaaaaaaa"))
    assert list(record_of(again).writes) == ["first001"]
    assert record_of(again).row_keys == (b"1",)


def test_there_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    shard = started()
    for number in range(MAX_TXN_SAVEPOINTS):
        ok(shard, save(f"save{number:04}"))
    assert isinstance(refused(shard, save("onemore1")), LimitReached)
    ok(shard, save("onemore1", "save0000", "save0001"))
    monkeypatch.setattr(txn_savepoints, "MAX_SAVED_WRITES", 0)
    wrote(shard, TXN, "first001")
    assert isinstance(refused(shard, save("another1", "save0002")), LimitReached)


def test_a_rollback_that_failed_and_comes_after_another_one_takes_nothing_back() -> None:
    """Its program has asked anew, and has written since."""
    shard = started()
    ok(shard, save("aaaaaaaa"), save("bbbbbbbb"))
    wrote(shard, TXN, "gone0001")
    ok(shard, back("aaaaaaaa", "again001", "lost0001"))
    wrote(shard, TXN, "stays001")
    ok(shard, back("aaaaaaaa", "lost0001"))
    assert list(record_of(shard).writes) == ["stays001"]


@pytest.mark.parametrize(
    ("state", "error"), [(CIP, IllegalState), (COMMITTED, IllegalState), (ABORTED, TxnAborted)], ids=str
)
def test_once_it_is_over_nothing_goes_back(state: ParticipantState, error: type[Exception]) -> None:
    shard = shard_with_txn_in(state)
    for command in (save("aaaaaaaa"), back("aaaaaaaa")):
        assert type(refused(shard, command)) is error


def test_nobody_else_sets_or_uses_them() -> None:
    shard = started()
    ok(shard, save("aaaaaaaa"))
    for command in (
        cmd.SetSavepoint(TXN, TABLE, OTHER, "bbbbbbbb"),
        cmd.RollbackTo(TXN, TABLE, OTHER, "aaaaaaaa", "back0001", True),
    ):
        assert isinstance(refused(shard, command), NotAuthorized)


def test_they_end_with_the_transaction() -> None:
    for end in (abort, lambda shard, txn_id: (prepare(shard, txn_id), finalize(shard, txn_id))):
        shard = started()
        ok(shard, rows(shard, "rows0001", b"1"), save("aaaaaaaa"))
        wrote(shard, TXN, "over0001", overwrite=True)
        end(shard, TXN)
        assert not record_of(shard).savepoints
        assert not table_of(shard).pending_row_bytes


def test_a_table_where_nothing_was_written_yet_has_a_record_from_then_on() -> None:
    shard = new_shard()
    ok(shard, cmd.SetSavepoint(TXN, TABLE, OWNER, "aaaaaaaa", begins=True))
    ok(shard, begin_txn(TXN, TABLE, OWNER))
    wrote(shard, TXN, "first001")
    ok(shard, back("aaaaaaaa"))
    assert record_of(shard).is_empty
