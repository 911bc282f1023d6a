"""A participant shard: every pair of state and operation, files and conflicts, and what must hold whatever is asked."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import (
    ABORTED,
    CIP,
    COMMIT,
    COMMITTED,
    NAME,
    OPEN,
    OTHER,
    OWNER,
    PREPARE,
    STATES,
    TABLE,
    TXN,
    WRITE,
    abort,
    added,
    begun,
    claim_of,
    committed,
    create,
    finalize,
    first,
    manifest,
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
from txnparticipant.rows.memrowset import RowBatch
from txnparticipant.shard import commands as cmd
from txnparticipant.shard import views
from txnparticipant.shard.shard import ParticipantShard
from txnparticipant.shard.transitions import TABLE_COLUMNS, TRANSITIONS, Op, Stay
from txnparticipant.versions.mvcc import KeyClaim, undecided_at, visible
from txnstatus.errors import (
    AlreadyExists,
    Conflict,
    IllegalState,
    InvalidArgument,
    NotAuthorized,
    NotFound,
    TxnAborted,
    TxnError,
)
from txnstatus.key_ranges import KeyRange
from txnstatus.schema import Column, Schema
from txnstatus.types import AbortCode, ParticipantState, Timestamp, TxnId

# What each operation does in each of STATES, written down a second time, from Kudu's behaviour and not from the code.
# unknown: NotFound.  illegal: IllegalState.  aborted: TxnAborted.
OK, ALREADY, UNKNOWN, ILLEGAL, WAS_ABORTED = "ok", "already", "unknown", "illegal", "aborted"
EXPECTED: dict[Op, tuple[ParticipantState | str, ...]] = {
    Op.FIRST_WRITE: (OPEN, OK, ILLEGAL, ILLEGAL, WAS_ABORTED),
    Op.WRITE: (UNKNOWN, OK, ILLEGAL, ILLEGAL, WAS_ABORTED),
    Op.BEGIN_COMMIT: (CIP, CIP, ALREADY, ALREADY, WAS_ABORTED),
    Op.FINALIZE_COMMIT: (UNKNOWN, ILLEGAL, COMMITTED, ALREADY, WAS_ABORTED),
    Op.ABORT_TXN: (ABORTED, ABORTED, ABORTED, ILLEGAL, ALREADY),
}
ERRORS: dict[str, type[TxnError]] = {UNKNOWN: NotFound, ILLEGAL: IllegalState, WAS_ABORTED: TxnAborted}
STAYS = {OK: Stay.OK, ALREADY: Stay.ALREADY, UNKNOWN: Stay.ILLEGAL, ILLEGAL: Stay.ILLEGAL, WAS_ABORTED: Stay.ILLEGAL}


COMMANDS: list[tuple[Op, cmd.TxnCommand]] = [
    (Op.FIRST_WRITE, first()),
    (Op.WRITE, opened(write_id="write0002")),
    (Op.WRITE, added()),
    (Op.BEGIN_COMMIT, cmd.BeginCommit(TXN, TABLE, Timestamp(999))),
    (Op.FINALIZE_COMMIT, cmd.FinalizeCommit(TXN, TABLE, Timestamp(999))),
    (Op.ABORT_TXN, cmd.AbortTxn(TXN, TABLE)),
]
PAIRS = [
    pytest.param(state, op, command, EXPECTED[op][i], id=f"{state.name if state else None}-{type(command).__name__}")
    for op, command in COMMANDS
    for i, state in enumerate(STATES)
]


# ---- the table


def test_the_literal_covers_every_state_and_operation() -> None:
    assert set(TRANSITIONS) == {(state, op) for state in STATES for op in Op}
    assert set(STATES) == {None, *ParticipantState} == set(TABLE_COLUMNS)
    assert set(EXPECTED) == set(Op)


@pytest.mark.parametrize(("state", "op", "command", "expected"), PAIRS)
def test_every_pair_of_state_and_operation(
    state: ParticipantState | None, op: Op, command: cmd.TxnCommand, expected: ParticipantState | str
) -> None:
    if isinstance(expected, ParticipantState):
        assert TRANSITIONS[state, op] is expected
    else:
        assert TRANSITIONS[state, op] is STAYS[expected]
    shard = shard_with_txn_in(state)
    before = shard.snapshot()
    if isinstance(expected, ParticipantState):
        ok(shard, command)
        assert record_of(shard).state is expected
        assert shard.snapshot() != before
    elif expected in ERRORS:
        error = refused(shard, command)
        assert type(error) is ERRORS[expected]
        assert error.txn_id == TXN
    elif expected == ALREADY:
        answer = ok(shard, command)
        assert shard.snapshot() == before
        assert answer.timestamp == {OPEN: 0, CIP: PREPARE, COMMITTED: COMMIT, ABORTED: 0}[record_of(shard).state]
    else:
        ok(shard, command)
        assert record_of(shard).state is state


def test_prepare_answers_its_timestamp_and_a_repeated_one_the_first() -> None:
    shard = shard_with_txn_in(OPEN)
    assert ok(shard, cmd.BeginCommit(TXN, TABLE, Timestamp(100))).timestamp == 100
    assert ok(shard, cmd.BeginCommit(TXN, TABLE, Timestamp(200))).timestamp == 100
    finalize(shard, TXN, 150)
    assert ok(shard, cmd.BeginCommit(TXN, TABLE, Timestamp(300))).timestamp == 150


def test_a_first_write_begins_and_is_done_in_one_entry() -> None:
    shard = new_shard()
    ok(shard, first())
    assert (record_of(shard).owner, record_of(shard).claimed) == (OWNER, [WRITE])
    ok(shard, added())


def test_two_first_writes_are_both_done() -> None:
    """Both waited for the registration, so both carry BEGIN_TXN."""
    shard = new_shard()
    ok(shard, first())
    ok(shard, first(write_id="write0002"))
    ok(shard, first())
    assert record_of(shard).claimed == [WRITE, "write0002"]
    other = cmd.OpenWrite(TXN, TABLE, OTHER, WRITE, begins=True)
    assert type(refused(shard, other)) is NotAuthorized


def test_a_first_write_that_is_refused_begins_nothing() -> None:
    shard = ParticipantShard(3)
    ok(shard, cmd.CreateTable(NAME, Schema((Column("id", "bigint"),)), "file:///lake/air/flights", "request-1"))
    batch = RowBatch("rows0001", deletes=False, rows=b"rows", keys=(b"1",))
    write = cmd.WriteRows(TXN, TABLE, OWNER, Timestamp(0), 0, batch, begins=True)
    assert type(refused(shard, write)) is InvalidArgument, "no primary key"
    assert not table_of(shard).txns
    prepare(shard, TXN)


def test_an_abort_that_comes_first_leaves_a_tombstone() -> None:
    """The late first write of a registration that was under way must not open anything."""
    shard = new_shard()
    abort(shard, TXN)
    assert type(refused(shard, first())) is TxnAborted
    assert type(refused(shard, opened())) is TxnAborted
    assert to_clean(shard) == {}


def test_a_commit_without_a_record_commits_nothing_and_shuts_the_door() -> None:
    shard = new_shard()
    prepare(shard, TXN)
    assert type(refused(shard, first())) is IllegalState
    assert type(refused(shard, opened())) is IllegalState
    finalize(shard, TXN)
    assert seen(shard, 10_000) == []


@pytest.mark.parametrize(("op", "command"), COMMANDS, ids=[type(c).__name__ for _, c in COMMANDS])
def test_a_table_that_does_not_exist_is_not_found(op: Op, command: cmd.TxnCommand) -> None:
    error = refused(ParticipantShard(3), command)
    assert type(error) is NotFound
    assert TABLE in error.message


# ---- tables


def test_tables_of_a_shard_get_ids_of_their_own() -> None:
    shard = new_shard()
    assert ok(shard, create("air.weather", location="file:///lake/w")).table_id == "3.1"
    assert [table.name for table in shard.tables()] == [NAME, "air.weather"]
    assert shard.table("air.weather").info().location == "file:///lake/w"


def test_a_table_is_created_once() -> None:
    shard = new_shard()
    error = refused(shard, create(NAME, "request-2", "file:///elsewhere"))
    assert type(error) is AlreadyExists
    assert NAME in error.message


def test_a_create_sent_again_answers_the_table_that_it_made() -> None:
    shard = new_shard()
    before = shard.snapshot()
    assert ok(shard, create(NAME)).table_id == TABLE
    assert shard.snapshot() == before


def test_an_unknown_table_name_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"air\.nothing"):
        new_shard().table("air.nothing")


# ---- writes


@pytest.mark.parametrize("command", [opened(owner=OTHER), cmd.AddFiles(TXN, TABLE, OTHER, WRITE, manifest(WRITE))])
def test_only_the_owner_writes(command: cmd.TxnCommand) -> None:
    error = refused(shard_with_txn_in(OPEN), command)
    assert type(error) is NotAuthorized
    assert OTHER in error.message


def test_a_write_is_opened_once() -> None:
    shard = shard_with_txn_in(OPEN)
    before = shard.snapshot()
    ok(shard, opened())
    assert shard.snapshot() == before
    assert record_of(shard).claimed == [WRITE]


def test_files_added_again_change_nothing() -> None:
    shard = shard_with_txn_in(OPEN)
    before = shard.snapshot()
    ok(shard, added())
    assert shard.snapshot() == before


def test_a_write_id_does_not_take_other_files_than_its_first() -> None:
    error = refused(shard_with_txn_in(OPEN), added(rows=11))
    assert type(error) is IllegalState
    assert WRITE in error.message


def test_files_claim_their_own_directory_and_those_in_others_that_were_not_claimed_are_refused() -> None:
    shard = shard_with_txn_in(OPEN)
    error = refused(shard, added(write_id="write0002", from_writes=("staged01",)))
    assert type(error) is IllegalState
    assert "staged01" in error.message
    ok(shard, added(write_id="write0002"))
    assert "write0002" in table_of(shard).txns[TXN].claimed


def test_staged_files_are_added_once() -> None:
    """A second addition, as by a driver that tries again, was taken: every row of the files was there twice."""
    shard = shard_with_txn_in(OPEN)
    for write_id in ("staged01", "staged02", "driver01", "driver02"):
        ok(shard, opened(write_id=write_id))
    first = added(write_id="driver01", from_writes=("staged01",))
    ok(shard, first, first)
    for again in (("staged02", "staged01"), ("driver01",)):
        error = refused(shard, added(write_id="driver02", from_writes=again))
        assert type(error) is InvalidArgument
        assert f"write {again[-1]} were added to air.flights by transaction {TXN} before" in error.message
    ok(shard, added(write_id="driver02", from_writes=("staged02",)))


def test_those_that_the_transaction_has_overwritten_since_may_come_again() -> None:
    shard = shard_with_txn_in(OPEN)
    for write_id in ("staged01", "driver01", "driver02"):
        ok(shard, opened(write_id=write_id))
    ok(shard, added(write_id="driver01", from_writes=("staged01",)))
    wrote(shard, TXN, "overwr01", overwrite=True)
    ok(shard, added(write_id="driver02", from_writes=("staged01",)))


def test_a_directory_claimed_by_another_transaction_cannot_be_used() -> None:
    shard = shard_with_txn_in(OPEN)
    other = begun(shard, 8)
    ok(shard, opened(other, "theirs01"))
    assert type(refused(shard, added(TXN, "write0002", from_writes=("theirs01",)))) is IllegalState


def test_a_transaction_sees_nothing_of_another_before_it_commits() -> None:
    shard = shard_with_txn_in(OPEN)
    assert seen(shard, 10_000) == []
    prepare(shard, TXN, 100)
    assert undecided_at(views.prepared(table_of(shard)), Timestamp(99)) == []
    assert undecided_at(views.prepared(table_of(shard)), Timestamp(100)) == [TXN]
    assert seen(shard, 10_000) == []
    finalize(shard, TXN, 150)
    assert seen(shard, 149) == []
    assert seen(shard, 150) == [WRITE]


def test_all_writes_of_a_transaction_appear_together() -> None:
    shard = shard_with_txn_in(OPEN)
    wrote(shard, TXN, "write0002")
    prepare(shard, TXN)
    finalize(shard, TXN)
    assert seen(shard, COMMIT) == [WRITE, "write0002"]


def test_an_aborted_transaction_is_never_seen() -> None:
    for state in (OPEN, CIP):
        shard = shard_with_txn_in(state)
        abort(shard, TXN)
        assert seen(shard, 10_000) == []
        assert views.prepared(table_of(shard)) == []


# ---- overwrite


def test_an_overwrite_replaces_what_was_committed_when_it_was_added() -> None:
    shard = new_shard()
    committed(shard, 1, "first001", 100)
    committed(shard, 2, "second01", 110)
    committed(shard, 3, "overwr01", 120, overwrite=True)
    assert seen(shard, 119) == ["first001", "second01"]
    assert seen(shard, 120) == ["overwr01"]


def test_an_overwrite_replaces_the_transactions_own_earlier_writes() -> None:
    shard = shard_with_txn_in(OPEN)
    wrote(shard, TXN, "overwr01", overwrite=True)
    wrote(shard, TXN, "later001")
    prepare(shard, TXN)
    finalize(shard, TXN)
    assert seen(shard, COMMIT) == ["overwr01", "later001"]


def test_a_late_repetition_of_files_that_were_overwritten_does_not_bring_them_back() -> None:
    """A request is retried by its write id, and an attempt may arrive long after its twin was answered.

    The transaction appended, then overwrote; the append's first attempt comes out of some queue only now.
    """
    shard = shard_with_txn_in(OPEN)
    wrote(shard, TXN, "overwr01", overwrite=True)
    shard.apply(added())
    prepare(shard, TXN)
    finalize(shard, TXN)
    assert seen(shard, COMMIT) == ["overwr01"]


def test_rows_appended_meanwhile_survive_an_overwrite() -> None:
    shard = new_shard()
    committed(shard, 1, "before01", 100)
    overwriter = begun(shard, 2)
    wrote(shard, overwriter, "overwr01", overwrite=True)
    committed(shard, 3, "during01", 110)
    prepare(shard, overwriter, 120)
    finalize(shard, overwriter, 120)
    assert seen(shard, 119) == ["before01", "during01"]
    assert seen(shard, 120) == ["during01", "overwr01"]


def test_a_write_id_of_another_transaction_takes_nothing_away() -> None:
    """Write ids come from clients: one that is used twice must not replace files that are committed."""
    shard = new_shard()
    committed(shard, 1, "samename", 100)
    other = begun(shard, 2)
    for command in (opened(other, "samename"), added(other, "samename", rows=99)):
        shard.apply(command)
    prepare(shard, other, 110)
    finalize(shard, other, 110)
    rows = [m.row_count for m in visible(table_of(shard).file_sets.values(), [], {}, Timestamp(200))]
    assert 10 in rows, "the files of the first transaction are gone"


# ---- conflicts


def two_overwriters(shard: ParticipantShard) -> tuple[TxnId, TxnId]:
    committed(shard, 1, "base0001", 100)
    first, second = begun(shard, 2), begun(shard, 3)
    wrote(shard, first, "firstovr", overwrite=True)
    wrote(shard, second, "secndovr", overwrite=True)
    return first, second


@pytest.mark.parametrize("winner_is_final", [False, True])
def test_the_first_to_prepare_wins(winner_is_final: bool) -> None:
    shard = new_shard()
    first, second = two_overwriters(shard)
    prepare(shard, second, 110)
    if winner_is_final:
        finalize(shard, second, 110)
    error = refused(shard, cmd.BeginCommit(first, TABLE, Timestamp(120)))
    assert type(error) is Conflict
    assert error.winner == second
    assert error.objects == (NAME,)
    assert error.txn_id == first
    assert error.cause is not None
    assert error.cause.code is AbortCode.CONFLICT
    abort(shard, first)
    if not winner_is_final:
        finalize(shard, second, 110)
    assert seen(shard, 200) == ["secndovr"]


def test_a_winner_that_aborts_after_all_frees_what_it_held() -> None:
    shard = new_shard()
    first, second = two_overwriters(shard)
    prepare(shard, first, 110)
    abort(shard, first)
    prepare(shard, second, 120)
    finalize(shard, second, 120)
    assert seen(shard, 119) == ["base0001"]
    assert seen(shard, 120) == ["secndovr"]


def test_the_abort_of_a_loser_leaves_the_winners_hold() -> None:
    shard = new_shard()
    first, second = two_overwriters(shard)
    prepare(shard, first, 110)
    abort(shard, second)
    third = begun(shard, 4)
    wrote(shard, third, "thirdovr", overwrite=True)
    assert type(refused(shard, cmd.BeginCommit(third, TABLE, Timestamp(120)))) is Conflict
    finalize(shard, first, 130)
    assert seen(shard, 130) == ["firstovr"]


def test_an_overwrite_after_the_other_one_committed_does_not_conflict() -> None:
    shard = new_shard()
    committed(shard, 1, "base0001", 100)
    committed(shard, 2, "firstovr", 110, overwrite=True)
    committed(shard, 3, "secndovr", 120, overwrite=True)
    assert [seen(shard, ts) for ts in (100, 110, 120)] == [["base0001"], ["firstovr"], ["secndovr"]]


def test_appends_never_conflict() -> None:
    shard = new_shard()
    txns = [begun(shard, txn) for txn in range(5)]
    for txn_id in txns:
        wrote(shard, txn_id, f"append0{txn_id}")
        prepare(shard, txn_id, 100 + txn_id)
    for txn_id in reversed(txns):
        finalize(shard, txn_id, 200 + txn_id)
    assert sorted(seen(shard, 300)) == [f"append0{txn_id}" for txn_id in txns]


# ---- cleaning


def test_an_aborted_transaction_is_cleaned_wholly_and_then_forgotten_by_the_cleaner() -> None:
    shard = shard_with_txn_in(OPEN)
    ok(shard, opened(write_id="unused01"))
    abort(shard, TXN)
    assert to_clean(shard) == {TXN: [WRITE, "unused01"]}
    ok(shard, cmd.MarkCleaned(TXN, TABLE, (WRITE,)))
    assert to_clean(shard) == {TXN: ["unused01"]}
    ok(shard, cmd.MarkCleaned(TXN, TABLE, ("unused01",)))
    assert to_clean(shard) == {}
    ok(shard, cmd.MarkCleaned(TXN, TABLE, ("unused01",)))


def test_a_committed_transaction_keeps_what_its_manifests_use() -> None:
    shard = new_shard()
    begun(shard, TXN)
    for write_id in ("driver01", "task0001", "task0002", "loser001"):
        ok(shard, opened(write_id=write_id))
    ok(shard, added(write_id="driver01", from_writes=("task0001", "task0002")))
    assert to_clean(shard) == {}
    prepare(shard, TXN)
    finalize(shard, TXN)
    assert to_clean(shard) == {TXN: ["loser001"]}


def test_writes_that_the_transaction_overwrote_itself_are_cleaned() -> None:
    shard = shard_with_txn_in(OPEN)
    wrote(shard, TXN, "overwr01", overwrite=True)
    prepare(shard, TXN)
    finalize(shard, TXN)
    assert to_clean(shard) == {TXN: [WRITE]}


@pytest.mark.parametrize("state", [None, OPEN, CIP])
def test_a_live_or_unknown_transaction_cannot_be_marked_cleaned(state: ParticipantState | None) -> None:
    error = refused(shard_with_txn_in(state), cmd.MarkCleaned(TXN, TABLE, (WRITE,)))
    assert type(error) is IllegalState


def test_a_writes_directory_is_its_own() -> None:
    shard = new_shard()
    table = table_of(shard)
    assert table.directory(TxnId(1), "aaaaaaaa") == "file:///lake/air/flights/delta_1_aaaaaaaa"
    assert table.directory(TxnId(1), "aaaaaaaa") != table.directory(TxnId(2), "aaaaaaaa")


# ---- snapshots


def busy_shard() -> ParticipantShard:
    """Every state, overwrites prepared, committed and of the transaction's own, claims to be cleaned, a tombstone."""
    shard = new_shard()
    committed(shard, 1, "base0001", 100)
    committed(shard, 2, "overwr01", 110, overwrite=True)
    for txn in (7, 8, 9):
        batch = RowBatch("rows0001", deletes=False, rows=b"rows", keys=(b"%d" % txn,), outcome=b"answer")
        ok(shard, cmd.WriteRows(begun(shard, txn), TABLE, OWNER, Timestamp(110), 0, batch))
    for txn in (7, 8):
        prepare(shard, TxnId(txn), 111)
        finalize(shard, TxnId(txn), 105 + txn)
    for flush_id in ("flush001", "flush002", "flush003"):
        ok(shard, cmd.OpenFlush(TABLE, flush_id))
    ok(shard, cmd.FlushRows(TABLE, "flush001", manifest("flush001"), (TxnId(7),)))
    ok(shard, cmd.DropFlush(TABLE, "flush002", gone=False))
    for txn, state in ((10, COMMITTED), (11, CIP), (12, OPEN)):
        both, first, second = begun(shard, txn), f"both{txn}aa", f"both{txn}bb"
        ranged = KeyClaim(Timestamp(118), range=KeyRange(b"%d000" % txn, b"%d999" % txn))
        ok(shard, opened(both, first), added(both, first, claim=claim_of(f"{txn}000000")))
        ok(shard, opened(both, second), added(both, second, claim=ranged))
        if state is not CIP:
            batch = RowBatch("rows0001", deletes=False, rows=b"rows", keys=(b"%d" % txn,), outcome=b"answer")
            ok(shard, cmd.WriteRows(both, TABLE, OWNER, Timestamp(118), 2, batch))
        if state is not OPEN:
            prepare(shard, both, 119)
        if state is COMMITTED:
            finalize(shard, both, 119)
    overwriting, writing, aborted = begun(shard, 3), begun(shard, 4), begun(shard, 5)
    wrote(shard, overwriting, "overwr02", overwrite=True)
    prepare(shard, overwriting, 120)
    ok(shard, opened(writing, "staged01"))
    ok(shard, opened(writing, "driver01"))
    ok(shard, added(writing, "driver01", from_writes=("staged01",)))
    overwritten = begun(shard, 6)
    wrote(shard, overwritten, "superse1")
    wrote(shard, overwritten, "overwr03", overwrite=True)
    wrote(shard, aborted, "aborted1")
    abort(shard, aborted)
    abort(shard, TxnId(99))
    return shard


def test_a_restored_shard_is_the_same_and_goes_on_the_same() -> None:
    shard, restored = busy_shard(), ParticipantShard(3)
    restored.restore(shard.snapshot())
    restored.check_invariants()
    assert restored.snapshot() == shard.snapshot()
    assert to_clean(restored) == to_clean(shard)
    steps: list[cmd.Command] = [
        create(NAME),
        create("air.weather", "request-2"),
        added(TxnId(6), "superse1"),
        cmd.FinalizeCommit(TxnId(3), TABLE, Timestamp(130)),
        cmd.BeginCommit(TxnId(4), TABLE, Timestamp(140)),
        cmd.FinalizeCommit(TxnId(4), TABLE, Timestamp(140)),
    ]
    for command in steps:
        assert ok(restored, command) == ok(shard, command)
        assert restored.snapshot() == shard.snapshot()
        assert seen(restored, 500) == seen(shard, 500)


def test_restore_replaces_all_that_was_there() -> None:
    shard = busy_shard()
    shard.restore(ParticipantShard(3).snapshot())
    assert list(shard.tables()) == []
    assert shard.snapshot() == ParticipantShard(3).snapshot()


def test_a_snapshot_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="version 9"):
        ParticipantShard(3).restore(b"\x08\x09")


# ---- whatever comes

txn_ids = st.integers(0, 4).map(TxnId)
owners = st.sampled_from([OWNER, OWNER, OWNER, OTHER])


@st.composite
def write_of(draw: st.DrawFn) -> tuple[TxnId, str]:
    """A write id that belongs to one transaction, as the ones that clients draw do."""
    txn_id = draw(txn_ids)
    return txn_id, f"txn{txn_id}w{draw(st.integers(0, 2))}xxx"


keys = st.sampled_from([b"1", b"2", b"3", b"10"])
bounds = st.none() | keys
claims = st.builds(
    lambda at, keys, bounds, own: KeyClaim(at, tuple(keys), KeyRange(*bounds) if bounds else None, own),
    st.integers(1000, 1060).map(Timestamp),
    st.lists(keys, unique=True, max_size=2),
    st.none() | st.tuples(bounds, bounds),
    st.none() | st.integers(0, 3),
)
open_writes = st.builds(lambda w, owner: cmd.OpenWrite(w[0], TABLE, owner, w[1]), write_of(), owners)
add_files = st.builds(
    lambda w, overwrite, base, used, claim: cmd.AddFiles(
        w[0], TABLE, OWNER, w[1], manifest(w[1]), ("",) if overwrite else (), Timestamp(base), used, claim
    ),
    write_of(),
    st.sampled_from([(), ("",)]),
    st.integers(1000, 1060).map(Timestamp),
    st.one_of(st.just(()), write_of().map(lambda w: (w[1],))),
    claims,
)
row_batches = st.builds(
    lambda write_id, deletes, keys: RowBatch(write_id, deletes, b"rows", tuple(keys), b"answer"),
    st.sampled_from(["rows0001", "rows0002"]),
    st.booleans(),
    st.lists(keys, unique=True),
)
write_rows = st.builds(
    cmd.WriteRows,
    txn_ids,
    st.just(TABLE),
    owners,
    st.integers(1000, 1060).map(Timestamp),
    st.integers(0, 3),
    row_batches,
)
flush_ids = st.sampled_from(["flush001", "flush002", "flush003"])
flushes = st.one_of(
    st.builds(cmd.OpenFlush, st.just(TABLE), flush_ids),
    st.builds(
        cmd.FlushRows,
        st.just(TABLE),
        flush_ids,
        st.just(manifest("flush")),
        st.lists(txn_ids, max_size=2, unique=True).map(tuple),
    ),
    st.builds(cmd.DropFlush, st.just(TABLE), flush_ids, st.booleans()),
)
any_command = st.one_of(
    write_rows,
    write_rows,
    flushes,
    st.builds(begin_txn, txn_ids, st.sampled_from([TABLE, TABLE, TABLE, "3.9"]), owners),
    open_writes,
    add_files,
    st.builds(cmd.BeginCommit, txn_ids, st.just(TABLE), st.just(Timestamp(0))),
    st.builds(cmd.FinalizeCommit, txn_ids, st.just(TABLE), st.just(Timestamp(0))),
    st.builds(cmd.AbortTxn, txn_ids, st.just(TABLE)),
    st.builds(lambda w: cmd.MarkCleaned(w[0], TABLE, (w[1],)), write_of()),
)


def stamped(command: cmd.Command, number: int) -> cmd.Command:
    """With a rising timestamp, as the clock of a leader gives it."""
    if isinstance(command, cmd.BeginCommit):
        return cmd.BeginCommit(command.txn_id, command.table_id, Timestamp(1000 + number))
    if isinstance(command, cmd.FinalizeCommit):
        return cmd.FinalizeCommit(command.txn_id, command.table_id, Timestamp(1000 + number))
    return command


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(any_command, st.booleans()), max_size=60))
def test_replicas_agree_and_ends_are_final_whatever_is_asked(steps: list[tuple[cmd.Command, bool]]) -> None:
    """The second replica is now and then replaced by one restored from the first one's snapshot."""
    one, two = new_shard(), new_shard()
    ended: dict[TxnId, tuple[ParticipantState, Timestamp]] = {}
    for number, (plain, restore) in enumerate(steps):
        command = stamped(plain, number)
        outcome = one.apply(command)
        assert str(outcome) == str(two.apply(command))
        one.check_invariants()
        assert one.snapshot() == two.snapshot()
        if restore:
            two = ParticipantShard(3)
            two.restore(one.snapshot())
        table = table_of(one)
        for txn_id, end in ended.items():
            assert (table.txns[txn_id].state, table.txns[txn_id].commit_ts) == end
        for record in table.txns.values():
            if record.state in (COMMITTED, ABORTED):
                ended[record.txn_id] = (record.state, record.commit_ts)
        overwritten = [fs.replaced_by for fs in table.file_sets.values() if fs.replaced_by is not None]
        for txn_id in overwritten:
            assert table.txns[txn_id].state in (CIP, COMMITTED), "an aborted transaction still holds files"
        assert {fs.txn_id for fs in table.file_sets.values()} <= {
            t for t, (state, _) in ended.items() if state is COMMITTED
        }
