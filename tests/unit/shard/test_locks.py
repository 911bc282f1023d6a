"""Locks in a shard: they are in the transaction's record, and go in the entry that ends it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shards import (
    ABORTED,
    CIP,
    COMMITTED,
    NAME,
    OPEN,
    OTHER,
    OWNER,
    TABLE,
    TXN,
    abort,
    begun,
    finalize,
    new_shard,
    ok,
    prepare,
    refused,
    shard_with_txn_in,
)
from txnparticipant.locks.locks import Lock, Mode, Otherwise
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.errors import IllegalState, InvalidArgument, Locked, NotAuthorized, NotFound, TxnAborted
from txnstatus.id_sets import below
from txnstatus.types import ParticipantState, Timestamp, TxnId

S, X = Mode.S, Mode.X
DAY = f"{NAME}/day=1"
DATABASE = "3.air"
FIRST, SECOND, THIRD = TxnId(1), TxnId(2), TxnId(3)


def lock(
    txn_id: TxnId,
    *locks: tuple[str, Mode],
    otherwise: Otherwise = Otherwise.WAITS,
    table_id: str = TABLE,
    owner: str = OWNER,
) -> cmd.AcquireLocks:
    return cmd.AcquireLocks(txn_id, table_id, owner, tuple(Lock(*each) for each in locks), otherwise, Timestamp(9))


def claims(shard: ParticipantShard) -> list[tuple[int, str, bool]]:
    return [(c.txn_id, str(c.lock), c.granted) for table in shard.tables() for c, _ in table.locks.explained()]


def contended() -> ParticipantShard:
    """The first holds, the second and the third wait."""
    shard = new_shard()
    for txn_id in (FIRST, SECOND, THIRD):
        begun(shard, txn_id)
    assert ok(shard, lock(FIRST, (NAME, X))).granted
    assert not ok(shard, lock(SECOND, (NAME, X))).granted
    assert not ok(shard, lock(THIRD, (NAME, S))).granted
    return shard


def test_a_partitions_table_is_locked_in_s_and_its_database_is_not_this_participants() -> None:
    shard = new_shard()
    begun(shard, FIRST)
    assert ok(shard, lock(FIRST, (DAY, X))).granted
    assert claims(shard) == [(1, f"S on {NAME}", True), (1, f"X on {DAY}", True)]


def test_the_entry_that_commits_frees_the_locks_and_lets_the_next_in() -> None:
    shard = contended()
    prepare(shard, FIRST)
    assert claims(shard)[0] == (1, f"X on {NAME}", True), "prepared: it may yet abort, so it keeps its locks"
    assert ok(shard, cmd.FinalizeCommit(FIRST, TABLE, Timestamp(150))).let_in == (SECOND,)
    assert claims(shard) == [(2, f"X on {NAME}", True), (3, f"S on {NAME}", False)]


@pytest.mark.parametrize("prepared", [False, True])
def test_the_entry_that_aborts_frees_the_locks_and_lets_the_next_in(prepared: bool) -> None:
    shard = contended()
    if prepared:
        prepare(shard, FIRST)
    assert ok(shard, cmd.AbortTxn(FIRST, TABLE)).let_in == (SECOND,)


def test_whoever_prepares_waits_no_more() -> None:
    shard = contended()
    prepare(shard, SECOND)
    assert claims(shard) == [(1, f"X on {NAME}", True), (3, f"S on {NAME}", False)]
    abort(shard, FIRST)
    assert claims(shard) == [(3, f"S on {NAME}", True)]


@pytest.mark.parametrize(
    ("state", "error"),
    [(None, NotFound), (CIP, IllegalState), (COMMITTED, IllegalState), (ABORTED, TxnAborted)],
)
def test_only_an_open_transaction_gets_locks(state: ParticipantState | None, error: type[Exception]) -> None:
    assert ok(shard_with_txn_in(OPEN), lock(TXN, (NAME, X))).granted
    assert isinstance(refused(shard_with_txn_in(state), lock(TXN, (NAME, X))), error)


def test_somebody_elses_transaction_gets_none() -> None:
    assert isinstance(refused(shard_with_txn_in(OPEN), lock(TXN, (NAME, X), owner=OTHER)), NotAuthorized)


@pytest.mark.parametrize("name", ["air", "air.other", f"{NAME}2", "", f"{NAME}.day"])
def test_what_is_no_part_of_the_table_is_not_locked_there(name: str) -> None:
    assert isinstance(refused(shard_with_txn_in(OPEN), lock(TXN, (name, X))), InvalidArgument)


def test_a_circle_is_refused_and_the_transaction_goes_on() -> None:
    shard = new_shard()
    for txn_id in (FIRST, SECOND):
        begun(shard, txn_id)
        ok(shard, lock(txn_id, (NAME, S)))
    ok(shard, lock(FIRST, (NAME, X)))
    error = refused(shard, lock(SECOND, (NAME, X)))
    assert isinstance(error, Locked)
    assert "transaction 1's S on air.flights" in error.message
    assert "deadlock" in error.message
    prepare(shard, SECOND)
    finalize(shard, SECOND)
    assert claims(shard) == [(1, f"X on {NAME}", True)]


def test_a_snapshot_keeps_locks_and_the_order_of_the_queue() -> None:
    shard = contended()
    ok(shard, lock(FIRST, (DAY, X)))
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    restored.check_invariants()
    assert restored.snapshot() == shard.snapshot()
    for each in (shard, restored):
        begun(each, 0)
        assert not ok(each, lock(TxnId(0), (NAME, X))).granted
        assert ok(each, cmd.AbortTxn(FIRST, TABLE)).let_in == (SECOND,)
    assert restored.snapshot() == shard.snapshot()


# ---- databases


def test_a_database_is_a_participant_while_it_is_in_a_transactions_record() -> None:
    shard = new_shard()
    for txn_id in (FIRST, SECOND):
        ok(shard, begin_txn(txn_id, DATABASE, OWNER))
        assert ok(shard, lock(txn_id, ("air", S), table_id=DATABASE)).granted
    begun(shard, THIRD)
    assert isinstance(refused(shard, lock(FIRST, (NAME, X), table_id=DATABASE)), InvalidArgument)
    ok(shard, cmd.BeginCommit(FIRST, DATABASE, Timestamp(100)))
    ok(shard, cmd.FinalizeCommit(FIRST, DATABASE, Timestamp(150)))
    ok(shard, cmd.AbortTxn(SECOND, DATABASE))
    assert claims(shard) == []
    assert len(list(shard.tables())) == 2
    ok(shard, cmd.ForgetTxns(below(THIRD)))
    assert [table.name for table in shard.tables()] == [NAME]


def test_a_database_is_no_table() -> None:
    shard = new_shard()
    ok(shard, begin_txn(FIRST, DATABASE, OWNER))
    restored = ParticipantShard(3)
    restored.restore(shard.snapshot())
    for each in (shard, restored):
        assert each.participant("air").table_id == DATABASE
        with pytest.raises(NotFound):
            each.table("air")


def test_an_abort_before_the_begin_finds_the_database() -> None:
    """It was registered, and its first write got lost: the coordinator repeats the abort until somebody does it."""
    shard = new_shard()
    abort_it = cmd.AbortTxn(FIRST, DATABASE)
    ok(shard, abort_it)
    assert isinstance(refused(shard, begin_txn(FIRST, DATABASE, OWNER)), TxnAborted)


@pytest.mark.parametrize("table_id", ["4.air", "3.", "3.a/b", "air", "3.9", "3.air.flights"])
def test_what_is_no_database_of_this_shard_is_not_found(table_id: str) -> None:
    assert isinstance(refused(new_shard(), begin_txn(FIRST, table_id, OWNER)), NotFound)


# ---- whatever is asked

txns = st.integers(1, 4).map(TxnId)
locks = st.lists(
    st.tuples(st.sampled_from([NAME, DAY, f"{NAME}/day=2"]), st.sampled_from(Mode)), min_size=1, max_size=2
)
steps = st.lists(
    st.one_of(
        st.builds(lambda txn, asked, how: lock(txn, *asked, otherwise=how), txns, locks, st.sampled_from(Otherwise)),
        st.builds(lambda txn, asked, how: lock(txn, *asked, otherwise=how), txns, locks, st.sampled_from(Otherwise)),
        st.builds(lambda txn: begin_txn(txn, TABLE, OWNER), txns),
        st.builds(lambda txn: cmd.BeginCommit(txn, TABLE, Timestamp(100)), txns),
        st.builds(lambda txn: cmd.FinalizeCommit(txn, TABLE, Timestamp(150)), txns),
        st.builds(lambda txn: cmd.AbortTxn(txn, TABLE), txns),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=300)
@given(steps)
def test_locks_belong_to_live_transactions_and_a_replica_from_a_snapshot_goes_on_alike(
    commands: list[cmd.TxnCommand],
) -> None:
    shard, replica = new_shard(), ParticipantShard(3)
    for txn in range(1, 5):
        begun(shard, txn)
    for command in commands:
        replica.restore(shard.snapshot())
        outcome = shard.apply(command)
        shard.check_invariants()
        assert isinstance(outcome, ShardApplied) == isinstance(replica.apply(command), ShardApplied)
        assert replica.snapshot() == shard.snapshot()
