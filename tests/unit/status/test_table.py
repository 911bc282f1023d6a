"""The transaction status table: every pair of state and operation, and what must hold whatever is asked of it."""

from __future__ import annotations

from collections.abc import Sized

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from tests.unit.harness.restoring import restore
from txnstatus.errors import (
    Forgotten,
    IllegalState,
    InvalidArgument,
    LimitReached,
    NotAuthorized,
    NotFound,
    TxnAborted,
    TxnError,
)
from txnstatus.limits import MAX_BEGIN_COUNT
from txnstatus.replicated import Rejected
from txnstatus.status import chunks
from txnstatus.status import commands as cmd
from txnstatus.status.chunks import CHUNK_RECORDS
from txnstatus.status.events import LeadershipGained
from txnstatus.status.manager import TxnStatusManager
from txnstatus.status.records import TxnRecord
from txnstatus.status.table import MAX_FORGET_COUNT, StatusApplied, TxnStatusTable
from txnstatus.status.transitions import TABLE_COLUMNS, TRANSITIONS, Op, Stay, transitions_by_op
from txnstatus.types import (
    NO_TIMESTAMP,
    TERMINAL,
    AbortCause,
    AbortCode,
    Participant,
    ParticipantId,
    Timestamp,
    TxnId,
    TxnState,
)

OWNER = "ada"
OTHER = "bob"
TXN = TxnId(0)
PARTICIPANT = ParticipantId("0.0")
CAUSE = AbortCause(AbortCode.REQUESTED, "the program said so", OWNER)
STALE = AbortCause(AbortCode.EXPIRED, "no heartbeat", "staleness tracker")

OPEN, CIP, FIP = TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS, TxnState.FINALIZE_IN_PROGRESS
COMMITTED, AIP, ABORTED = TxnState.COMMITTED, TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED
STATES = (OPEN, CIP, FIP, COMMITTED, AIP, ABORTED)

# What each operation does in each of STATES, written down a second time, from Kudu's behaviour and not from the code.
# ok: nothing changes.  illegal: IllegalState.  aborted: TxnAborted with its cause.
OK, ILLEGAL, WAS_ABORTED = "ok", "illegal", "aborted"
EXPECTED: dict[Op, tuple[TxnState | str, ...]] = {
    Op.REGISTER_PARTICIPANT: (OK, ILLEGAL, ILLEGAL, ILLEGAL, WAS_ABORTED, WAS_ABORTED),
    Op.KEEP_ALIVE: (OK, ILLEGAL, ILLEGAL, ILLEGAL, WAS_ABORTED, WAS_ABORTED),
    Op.BEGIN_COMMIT: (CIP, OK, OK, OK, WAS_ABORTED, WAS_ABORTED),
    Op.FINALIZE_COMMIT: (ILLEGAL, FIP, OK, OK, ILLEGAL, ILLEGAL),
    Op.COMPLETE_COMMIT: (ILLEGAL, ILLEGAL, COMMITTED, OK, ILLEGAL, ILLEGAL),
    Op.BEGIN_ABORT: (AIP, AIP, ILLEGAL, ILLEGAL, OK, OK),
    Op.EXPIRE: (AIP, ILLEGAL, ILLEGAL, ILLEGAL, OK, OK),
    Op.FINALIZE_ABORT: (ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL, ABORTED, OK),
}
PAIRS = [(state, op, row[i]) for op, row in EXPECTED.items() for i, state in enumerate(STATES)]


def new_table(first: int = 0, end: int = 10_000) -> TxnStatusTable:
    return TxnStatusTable(first, end)


def state_of(table: TxnStatusTable) -> list[bytes]:
    """All that a table holds, as bytes."""
    return list(table.snapshot())


def ok(table: TxnStatusTable, command: cmd.Command) -> StatusApplied:
    outcome = table.apply(command)
    table.check_invariants()
    assert isinstance(outcome, StatusApplied), outcome
    return outcome


def refused(table: TxnStatusTable, command: cmd.Command) -> TxnError:
    """The refusal; it must not have changed a byte."""
    before = state_of(table)
    outcome = table.apply(command)
    assert isinstance(outcome, Rejected), outcome
    assert state_of(table) == before
    return outcome.error


def begin(request_id: str = "request-0", count: int = 1, owner: str = OWNER) -> cmd.BeginTxns:
    return cmd.BeginTxns(request_id, count, owner, "nightly", 3000, now_micros=100)


def register(
    txn_id: TxnId = TXN, participant: str = PARTICIPANT, name: str = "air.flights"
) -> cmd.RegisterParticipants:
    return cmd.RegisterParticipants(txn_id, OWNER, (Participant(ParticipantId(participant), name),))


def command_for(op: Op, txn_id: TxnId = TXN) -> cmd.TxnCommand:
    return {
        Op.REGISTER_PARTICIPANT: register(txn_id, "0.1", "air.weather"),
        Op.BEGIN_COMMIT: cmd.BeginCommit(txn_id, OWNER, 900),
        Op.FINALIZE_COMMIT: cmd.FinalizeCommit(txn_id, Timestamp(7777), 900, 1),
        Op.COMPLETE_COMMIT: cmd.CompleteCommit(txn_id, 900),
        Op.BEGIN_ABORT: cmd.BeginAbort(txn_id, OWNER, CAUSE, 900),
        Op.EXPIRE: cmd.Expire(txn_id, STALE, 900),
        Op.FINALIZE_ABORT: cmd.FinalizeAbort(txn_id, 900),
    }[op]


_PATHS: dict[TxnState, list[cmd.TxnCommand]] = {
    OPEN: [],
    CIP: [cmd.BeginCommit(TXN, OWNER, 200)],
    FIP: [cmd.BeginCommit(TXN, OWNER, 200), cmd.FinalizeCommit(TXN, Timestamp(5000), 300, 1)],
    COMMITTED: [
        cmd.BeginCommit(TXN, OWNER, 200),
        cmd.FinalizeCommit(TXN, Timestamp(5000), 300, 1),
        cmd.CompleteCommit(TXN, 400),
    ],
    AIP: [cmd.BeginAbort(TXN, OWNER, CAUSE, 200)],
    ABORTED: [cmd.BeginAbort(TXN, OWNER, CAUSE, 200), cmd.FinalizeAbort(TXN, 300)],
}


def table_with_txn_in(state: TxnState) -> TxnStatusTable:
    """A table whose transaction 0, with one participant, was brought into the state by real commands."""
    table = new_table()
    ok(table, begin())
    ok(table, register())
    for command in _PATHS[state]:
        ok(table, command)
    assert table.get(TXN).state is state
    return table


# ---- the table


def test_the_literal_covers_every_state_and_operation() -> None:
    assert set(TRANSITIONS) == {(state, op) for state in TxnState for op in Op}
    assert set(EXPECTED) == set(Op)
    assert set(STATES) == set(TxnState) == set(TABLE_COLUMNS)


def test_the_rows_for_the_documentation_are_the_literal() -> None:
    rows = dict(transitions_by_op())
    assert {(state, op): rows[op][i] for op in Op for i, state in enumerate(TABLE_COLUMNS)} == dict(TRANSITIONS)


@pytest.mark.parametrize(("state", "op", "expected"), PAIRS, ids=lambda value: str(getattr(value, "name", value)))
def test_every_pair_of_state_and_operation(state: TxnState, op: Op, expected: TxnState | str) -> None:
    literal = TRANSITIONS[state, op]
    if isinstance(expected, TxnState):
        assert literal is expected
    else:
        assert literal is (Stay.OK if expected == OK else Stay.ILLEGAL)
    if op is Op.KEEP_ALIVE:
        _check_keep_alive(table_with_txn_in(state), expected)
        return
    table, command = table_with_txn_in(state), command_for(op)
    before, record = state_of(table), table.get(TXN)
    if expected == ILLEGAL:
        error = refused(table, command)
        assert type(error) is IllegalState
        assert op in error.message
        assert state.name in error.message
        assert error.txn_id == TXN
    elif expected == WAS_ABORTED:
        error = refused(table, command)
        assert type(error) is TxnAborted
        assert error.cause == CAUSE
        assert CAUSE.message in error.message
    elif op is Op.REGISTER_PARTICIPANT:
        names = {"0.0": "air.flights", "0.1": "air.weather"}
        registered = {each: Participant(ParticipantId(each), name) for each, name in names.items()}
        assert ok(table, command) == StatusApplied((structs.replace(record, participants=registered),), changed=True)
    elif expected == OK:
        assert ok(table, command) == StatusApplied((record,), changed=False)
        assert state_of(table) == before
    else:
        assert isinstance(expected, TxnState)
        moved = structs.replace(
            record,
            state=expected,
            last_transition_micros=900,
            commit_ts=Timestamp(7777) if op is Op.FINALIZE_COMMIT else record.commit_ts,
            cause={Op.BEGIN_ABORT: CAUSE, Op.EXPIRE: STALE}.get(op, record.cause),
        )
        assert ok(table, command) == StatusApplied((moved,), changed=True)
        assert table.get(TXN) == moved


def _check_keep_alive(table: TxnStatusTable, expected: TxnState | str) -> None:
    """KeepAlive is no command: the leader answers it from its memory."""
    before = state_of(table)
    manager = TxnStatusManager(table)
    manager.handle(LeadershipGained(), 0.0, 0)
    error = manager.keep_alive([TXN], OWNER).get(TXN)
    if expected == OK:
        assert error is None
    else:
        assert type(error) is {ILLEGAL: IllegalState, WAS_ABORTED: TxnAborted}[str(expected)]
    assert state_of(table) == before


# ---- who and what


@pytest.mark.parametrize("op", [op for op in Op if op is not Op.KEEP_ALIVE])
@pytest.mark.parametrize("txn_id", [TxnId(1), TxnId(2**62), TxnId(-1), TxnId(-(2**63))])
def test_an_unknown_id_is_not_found(op: Op, txn_id: TxnId) -> None:
    error = refused(table_with_txn_in(OPEN), command_for(op, txn_id))
    assert type(error) is NotFound
    assert error.txn_id == txn_id
    assert str(txn_id) in error.message


def test_the_refusal_of_an_unknown_id_names_the_highest_one() -> None:
    table = new_table()
    ok(table, begin(count=3))
    assert "highest id given out is 2" in refused(table, command_for(Op.BEGIN_COMMIT, TxnId(3))).message
    with pytest.raises(NotFound):
        table.get(TxnId(3))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "command",
    [
        cmd.RegisterParticipants(TXN, OTHER, (Participant(ParticipantId("0.1"), "air.weather"),)),
        cmd.BeginCommit(TXN, OTHER, 900),
        cmd.BeginAbort(TXN, OTHER, CAUSE, 900),
    ],
)
def test_only_the_owner_may_ask_whatever_the_state(state: TxnState, command: cmd.TxnCommand) -> None:
    error = refused(table_with_txn_in(state), command)
    assert type(error) is NotAuthorized
    assert OTHER in error.message


def test_existence_is_checked_before_ownership() -> None:
    error = refused(table_with_txn_in(OPEN), cmd.BeginCommit(TxnId(99), OTHER, 900))
    assert type(error) is NotFound


def test_the_system_may_abort_without_being_the_owner() -> None:
    table = table_with_txn_in(OPEN)
    operator = AbortCause(AbortCode.OPERATOR, "stuck", "operator eve")
    assert ok(table, cmd.BeginAbort(TXN, None, operator, 900)).changed
    assert table.get(TXN).cause == operator


def test_the_first_cause_of_an_abort_stays() -> None:
    table = table_with_txn_in(AIP)
    ok(table, cmd.Expire(TXN, STALE, 900))
    ok(table, cmd.BeginAbort(TXN, None, STALE, 950))
    assert table.get(TXN).cause == CAUSE


# ---- nobody takes part


def test_an_empty_commit_is_committed_at_once_and_has_no_timestamp() -> None:
    table = new_table()
    ok(table, begin())
    assert ok(table, cmd.BeginCommit(TXN, OWNER, 200)).changed
    assert table.get(TXN).state is COMMITTED
    assert table.get(TXN).commit_ts == NO_TIMESTAMP
    assert table.last_commit_ts == NO_TIMESTAMP


@pytest.mark.parametrize("command", [cmd.BeginAbort(TXN, OWNER, CAUSE, 200), cmd.Expire(TXN, CAUSE, 200)])
def test_an_empty_abort_is_aborted_at_once_and_keeps_its_cause(command: cmd.TxnCommand) -> None:
    table = new_table()
    ok(table, begin())
    ok(table, command)
    assert table.get(TXN).state is ABORTED
    assert table.get(TXN).cause == CAUSE


# ---- begin and register


def test_a_begin_gives_out_consecutive_ids_that_are_never_reused() -> None:
    table = new_table()
    assert ok(table, begin("request-a", count=3)).txn_ids == (0, 1, 2)
    ok(table, cmd.BeginCommit(TxnId(2), OWNER, 200))
    assert ok(table, begin("request-b", count=2)).txn_ids == (3, 4)
    assert table.next_txn_id == 5


def test_a_begin_keeps_what_it_was_asked_with() -> None:
    table = new_table()
    ok(table, begin())
    record = table.get(TXN)
    assert (record.owner, record.label, record.keepalive_millis, record.begin_micros) == (OWNER, "nightly", 3000, 100)


def test_a_begin_sent_again_answers_the_same_ids_and_begins_nothing() -> None:
    table = new_table()
    first = ok(table, begin("request-a", count=2))
    ok(table, begin("request-b"))
    ok(table, cmd.BeginCommit(TXN, OWNER, 200))
    before = state_of(table)
    again = ok(table, begin("request-a", count=2))
    assert (again.txn_ids, again.changed) == (first.txn_ids, False)
    assert again.records[0].state is COMMITTED, "as they are now"
    assert state_of(table) == before


@pytest.mark.parametrize("count", [0, MAX_BEGIN_COUNT + 1, 2**32 - 1])
def test_a_begin_of_too_few_or_too_many_is_refused(count: int) -> None:
    error = refused(new_table(), begin(count=count))
    assert type(error) is InvalidArgument
    assert str(count) in error.message


@pytest.mark.parametrize("count", [1, MAX_BEGIN_COUNT])
def test_a_begin_within_its_limits(count: int) -> None:
    assert len(ok(new_table(), begin(count=count)).txn_ids) == count


def test_a_participant_registers_once_and_keeps_its_first_name() -> None:
    table = table_with_txn_in(OPEN)
    before = state_of(table)
    assert not ok(table, register(name="renamed.since")).changed
    assert state_of(table) == before


# ---- commit timestamps


def prepared(table: TxnStatusTable, request_id: str) -> TxnId:
    """A new transaction with one participant, in COMMIT_IN_PROGRESS."""
    (txn_id,) = ok(table, begin(request_id)).txn_ids
    ok(table, register(txn_id))
    ok(table, cmd.BeginCommit(txn_id, OWNER, 200))
    return txn_id


def test_commit_timestamps_rise_in_the_order_of_decisions_even_when_prepares_do_not() -> None:
    table = new_table()
    decided = []
    for number, prepare_ts in enumerate([500, 100, 100, 501, 2000, 1]):
        txn_id = prepared(table, f"request-{number}")
        ok(table, cmd.FinalizeCommit(txn_id, Timestamp(prepare_ts), 300, 1))
        commit_ts = table.get(txn_id).commit_ts
        assert commit_ts >= prepare_ts
        assert table.last_commit_ts == commit_ts
        decided.append(commit_ts)
    assert decided == [500, 501, 502, 503, 2000, 2001]


def test_a_decision_sent_again_does_not_move_the_commit_timestamp() -> None:
    table = new_table()
    txn_id = prepared(table, "request-a")
    ok(table, cmd.FinalizeCommit(txn_id, Timestamp(500), 300, 1))
    ok(table, cmd.FinalizeCommit(txn_id, Timestamp(9000), 400, 1))
    assert table.get(txn_id).commit_ts == table.last_commit_ts == 500


def test_a_decision_is_refused_for_fewer_than_all_participants() -> None:
    table = new_table()
    txn_id = prepared(table, "request-a")
    for count in (2, 3):
        outcome = table.apply(cmd.FinalizeCommit(txn_id, Timestamp(500), 300, count))
        assert isinstance(outcome, Rejected)
        assert outcome.error.message == f"{count} of 1 participants are prepared"
    assert table.get(txn_id).state is CIP
    assert table.last_commit_ts == NO_TIMESTAMP
    ok(table, cmd.FinalizeCommit(txn_id, Timestamp(500), 300, 1))


def test_commit_ts_at_answers_only_what_is_committed_at_or_below_the_snapshot() -> None:
    table = new_table()
    first, second, undecided = (prepared(table, f"request-{i}") for i in range(3))
    aborted = prepared(table, "request-aborted")
    ok(table, cmd.BeginAbort(aborted, OWNER, CAUSE, 300))
    ok(table, cmd.FinalizeCommit(first, Timestamp(500), 300, 1))
    ok(table, cmd.FinalizeCommit(second, Timestamp(700), 300, 1))
    ok(table, cmd.CompleteCommit(second, 400))
    assert table.commit_ts_at(first, Timestamp(700)) == 500
    assert table.commit_ts_at(first, Timestamp(500)) == 500
    assert table.commit_ts_at(first, Timestamp(499)) == NO_TIMESTAMP
    assert table.commit_ts_at(second, Timestamp(699)) == NO_TIMESTAMP
    assert table.commit_ts_at(second, Timestamp(700)) == 700
    for txn_id in (undecided, aborted, TxnId(99)):
        assert table.commit_ts_at(txn_id, Timestamp(700)) == NO_TIMESTAMP


def test_what_commit_ts_at_said_of_an_undecided_transaction_stays_true() -> None:
    table = new_table()
    first, late = prepared(table, "request-a"), prepared(table, "request-b")
    ok(table, cmd.FinalizeCommit(first, Timestamp(500), 300, 1))
    snapshot_ts = table.last_commit_ts
    assert table.commit_ts_at(late, snapshot_ts) == NO_TIMESTAMP
    ok(table, cmd.FinalizeCommit(late, Timestamp(3), 300, 1))
    assert table.commit_ts_at(late, snapshot_ts) == NO_TIMESTAMP


def test_commit_ts_at_refuses_a_timestamp_from_the_future() -> None:
    table = table_with_txn_in(COMMITTED)
    with pytest.raises(InvalidArgument, match="ahead of the last commit"):
        table.commit_ts_at(TXN, Timestamp(table.last_commit_ts + 1))


# ---- snapshots


def busy_table() -> TxnStatusTable:
    """A table with a transaction in every state."""
    table = new_table()
    for number, (state, path) in enumerate(_PATHS.items()):
        (txn_id,) = ok(table, begin(f"request-{number}")).txn_ids
        ok(table, register(txn_id))
        for command in path:
            ok(table, command_for(Op(type(command).__name__), txn_id))
        assert table.get(txn_id).state is state
    return table


def test_a_restored_table_is_the_same_and_goes_on_the_same() -> None:
    table, restored = busy_table(), new_table()
    restore(restored, table.snapshot())
    restored.check_invariants()
    assert state_of(restored) == state_of(table)
    assert list(restored.records()) == list(table.records())
    for command in (begin("request-0"), begin("request-new"), cmd.BeginCommit(TXN, OWNER, 950)):
        assert restored.apply(command) == table.apply(command)
        assert state_of(restored) == state_of(table)


def test_restore_replaces_all_that_was_there() -> None:
    table = busy_table()
    restore(table, new_table().snapshot())
    assert list(table.records()) == []
    assert state_of(table) == state_of(new_table())


def test_a_snapshot_of_another_version_is_refused() -> None:
    header = next(new_table().snapshot())
    later = structs.replace(chunks.decode(header), version=chunks.VERSION + 1)
    with pytest.raises(ValueError, match=f"version {chunks.VERSION + 1}"):
        restore(new_table(), [msgspec.msgpack.encode(later)])


# ---- a range of ids


def test_a_range_gives_out_its_own_ids_and_no_others() -> None:
    table = new_table(20, 23)
    assert ok(table, begin("request-a", count=2)).txn_ids == (20, 21)
    assert not table.full
    assert ok(table, begin("request-b")).txn_ids == (22,)
    assert table.full, "the last id is given out"
    assert ok(table, begin("request-c")) == StatusApplied((), changed=False)
    assert table.next_txn_id == table.end_txn_id == 23


def test_a_begin_that_does_not_fit_burns_the_ids_that_are_left() -> None:
    table = new_table(20, 30)
    ok(table, begin("request-a", count=8))
    assert ok(table, begin("request-b", count=3)) == StatusApplied((), changed=True)
    assert table.full
    assert table.begun_by("request-b") is None
    before = state_of(table)
    for small in (begin("request-c"), begin("request-b", count=3)):
        assert ok(table, small) == StatusApplied((), changed=False), "not even one that would have fitted"
    assert state_of(table) == before
    assert table.next_txn_id == 28


def test_a_full_range_still_answers_what_it_began() -> None:
    table = new_table(20, 22)
    first = ok(table, begin("request-a", count=2))
    assert table.full
    assert ok(table, begin("request-a", count=2)) == StatusApplied(first.records, changed=False)
    assert table.begun_by("request-a") == first.records


@pytest.mark.parametrize("count", [4, MAX_BEGIN_COUNT])
def test_a_begin_that_no_range_could_hold_is_refused_and_makes_nothing_full(count: int) -> None:
    """Else it would go on from range to range, and leave them full, for ever."""
    table = new_table(20, 23)
    error = refused(table, begin(count=count))
    assert type(error) is InvalidArgument
    assert "1 to 3" in error.message
    assert not table.full


@pytest.mark.parametrize(("given_out", "nearly_full"), [(0, False), (7, False), (8, True), (10, True)])
def test_a_range_is_nearly_full_from_four_fifths_on(given_out: int, nearly_full: bool) -> None:
    table = new_table(20, 30)
    for number in range(given_out):
        ok(table, begin(f"request-{number}"))
    assert table.nearly_full is nearly_full


def test_one_that_is_full_before_its_ids_are_gone_is_nearly_full_too() -> None:
    table = new_table(20, 30)
    ok(table, begin("request-a"))
    ok(table, begin("request-b", count=10))
    assert table.nearly_full


def test_settled_and_spent() -> None:
    """Settled: full and nothing unfinished. Spent: and everything forgotten."""
    table = new_table(0, 2)
    assert (table.settled, table.spent) == (False, False)
    ok(table, begin("request-a"))
    ok(table, cmd.BeginCommit(TXN, OWNER, 200))
    assert not table.settled, "nothing is unfinished, and something may begin"
    ok(table, begin("request-b"))
    assert (table.full, table.settled) == (True, False)
    ok(table, cmd.BeginCommit(TxnId(1), OWNER, 200))
    assert (table.settled, table.spent) == (True, False)
    ok(table, cmd.Forget(201))
    assert (table.settled, table.spent) == (True, True)


# ---- how many may be unfinished


def limited(request_id: str, count: int, limit: int) -> cmd.BeginTxns:
    return structs.replace(begin(request_id, count), max_unfinished=limit, floor=Timestamp(900))


def test_a_begin_above_the_limit_is_refused_and_changes_nothing() -> None:
    table = new_table()
    ok(table, begin("request-a", count=3))
    error = refused(table, limited("request-b", 2, limit=4))
    assert type(error) is LimitReached
    assert not error.retriable
    assert "3 transactions" in error.message
    assert "max_open_transactions" in error.hint
    assert table.last_commit_ts == NO_TIMESTAMP, "not even the floor"
    assert ok(table, limited("request-b", 1, limit=4)).txn_ids == (3,)
    refused(table, limited("request-c", 1, limit=4))
    ok(table, cmd.BeginCommit(TXN, OWNER, 200))
    assert ok(table, limited("request-c", 1, limit=4)).txn_ids == (4,), "one has finished"


def of_owner(request_id: str, owner: str, count: int, limit: int) -> cmd.BeginTxns:
    return structs.replace(begin(request_id, count), owner=owner, max_of_owner=limit)


def test_a_begin_above_the_limit_of_its_owner_is_refused_and_no_one_elses() -> None:
    table = new_table()
    ok(table, of_owner("request-a", OWNER, 3, limit=0))
    error = refused(table, of_owner("request-b", OWNER, 2, limit=4))
    assert type(error) is LimitReached
    assert f"{OWNER} has 3 unfinished transactions" in error.message
    assert "user_open_transactions = 4" in error.message
    ok(table, of_owner("request-c", "eve", 4, limit=4))
    assert ok(table, of_owner("request-a", OWNER, 3, limit=1)).txn_ids == (0, 1, 2), "it has begun before"
    restored = new_table()
    for chunk in table.snapshot():
        restored.add_chunk(chunk)
    for each in (table, restored):
        each.check_invariants()
        ok(each, of_owner("request-b", OWNER, 1, limit=4))
        refused(each, of_owner("request-d", OWNER, 1, limit=4))
        ok(each, cmd.BeginCommit(TXN, OWNER, 200))
        ok(each, of_owner("request-d", OWNER, 1, limit=4))
        refused(each, of_owner("request-e", "eve", 1, limit=4))
        each.check_invariants()


def test_the_limit_counts_what_is_unfinished_in_whatever_state() -> None:
    table = new_table()
    for number, path in enumerate(_PATHS.values()):
        (txn_id,) = ok(table, begin(f"request-{number}")).txn_ids
        ok(table, register(txn_id))
        for command in path:
            ok(table, command_for(Op(type(command).__name__), txn_id))
    assert len(table.unfinished) == 4
    refused(table, limited("request-x", 1, limit=4))
    ok(table, limited("request-x", 1, limit=5))


def test_the_limit_keeps_nobody_from_asking_again() -> None:
    table = new_table()
    first = ok(table, begin("request-a", count=3))
    assert ok(table, limited("request-a", 3, limit=1)) == StatusApplied(first.records, changed=False)


def test_a_full_range_is_full_whatever_the_limit() -> None:
    """The next range has a limit of its own: to refuse here would hold up what could begin there."""
    table = new_table(0, 2)
    ok(table, begin("request-a", count=2))
    assert ok(table, limited("request-b", 1, limit=1)) == StatusApplied((), changed=False)


# ---- floors


def test_a_floor_lifts_what_commits_later_and_never_falls() -> None:
    table = new_table()
    first, second = prepared(table, "request-a"), prepared(table, "request-b")
    assert ok(table, cmd.RaiseFloor(Timestamp(600))) == StatusApplied((), changed=True)
    for lower in (600, 599, 0):
        assert ok(table, cmd.RaiseFloor(Timestamp(lower))) == StatusApplied((), changed=False)
    assert table.last_commit_ts == 600
    ok(table, cmd.FinalizeCommit(first, Timestamp(100), 300, 1))
    assert table.get(first).commit_ts == 601
    ok(table, cmd.RaiseFloor(Timestamp(600)))
    ok(table, cmd.FinalizeCommit(second, Timestamp(600), 300, 1))
    assert table.get(second).commit_ts == 602


def test_the_floor_of_a_begin_counts_for_all_that_commits_later() -> None:
    table = new_table()
    old = prepared(table, "request-a")
    ok(table, structs.replace(begin("request-b"), floor=Timestamp(600)))
    ok(table, structs.replace(begin("request-c"), floor=Timestamp(500)))
    assert table.last_commit_ts == 600
    ok(table, cmd.FinalizeCommit(old, Timestamp(100), 300, 1))
    assert table.get(old).commit_ts == 601


def test_a_begin_that_begins_nothing_raises_no_floor() -> None:
    table = new_table(0, 1)
    ok(table, begin("request-a"))
    for request_id in ("request-a", "request-b"):
        ok(table, structs.replace(begin(request_id), floor=Timestamp(600)))
    assert table.last_commit_ts == NO_TIMESTAMP


def test_commit_ts_at_follows_the_floor() -> None:
    table = new_table()
    ok(table, cmd.RaiseFloor(Timestamp(600)))
    txn_id = prepared(table, "request-a")
    assert table.commit_ts_at(txn_id, Timestamp(600)) == NO_TIMESTAMP
    with pytest.raises(InvalidArgument, match="ahead of the last commit"):
        table.commit_ts_at(txn_id, Timestamp(601))


def test_a_settled_range_answers_for_every_snapshot() -> None:
    """Snapshots do not raise the floor of a range in which nothing will commit any more."""
    table = new_table(0, 2)
    first, second = prepared(table, "request-a"), prepared(table, "request-b")
    ok(table, cmd.FinalizeCommit(first, Timestamp(500), 300, 1))
    ok(table, cmd.CompleteCommit(first, 300))
    ok(table, cmd.BeginAbort(second, OWNER, CAUSE, 300))
    with pytest.raises(InvalidArgument):
        table.commit_ts_at(first, Timestamp(9000))
    ok(table, cmd.FinalizeAbort(second, 300))
    assert table.settled
    assert table.commit_ts_at(first, Timestamp(9000)) == 500
    assert table.commit_ts_at(second, Timestamp(9000)) == NO_TIMESTAMP


# ---- forgetting


def finished_at(table: TxnStatusTable, request_id: str, micros: int) -> TxnId:
    """A transaction that is over since then."""
    (txn_id,) = ok(table, begin(request_id)).txn_ids
    ok(table, cmd.BeginCommit(txn_id, OWNER, micros))
    return txn_id


def kept(table: TxnStatusTable) -> list[TxnId]:
    return [record.txn_id for record in table.records()]


def test_what_finished_before_the_time_is_forgotten_and_nothing_else() -> None:
    table = new_table()
    old, at, new = (finished_at(table, f"request-{micros}", micros) for micros in (199, 200, 201))
    still_open = ok(table, begin("request-open")).txn_ids[0]
    assert table.finished_before(200)
    assert ok(table, cmd.Forget(200)) == StatusApplied((), changed=True)
    assert kept(table) == [still_open, new, at]
    assert not table.finished_before(200)
    assert ok(table, cmd.Forget(200)) == StatusApplied((), changed=False)
    assert table.find(old) is None


@pytest.mark.parametrize("state", [state for state in STATES if state not in TERMINAL])
def test_nothing_unfinished_is_forgotten_however_old(state: TxnState) -> None:
    table = table_with_txn_in(state)
    assert not table.finished_before(2**62)
    before = state_of(table)
    assert ok(table, cmd.Forget(2**62)) == StatusApplied((), changed=False)
    assert state_of(table) == before


def test_they_are_forgotten_in_the_order_in_which_they_finished() -> None:
    table = new_table()
    for number in range(3):
        ok(table, begin(f"request-{number}"))
    for micros, number in ((300, 2), (400, 0), (500, 1)):
        ok(table, cmd.BeginCommit(TxnId(number), OWNER, micros))
    ok(table, cmd.Forget(401))
    assert kept(table) == [1]


def test_one_with_a_clock_ahead_holds_up_those_that_finished_after_it() -> None:
    """The order is that of the log; the times are some leader's wall clock, and only say how long it has been."""
    table = new_table()
    for micros in (9000, 100, 200):
        finished_at(table, f"request-{micros}", micros)
    assert ok(table, cmd.Forget(500)) == StatusApplied((), changed=False)
    ok(table, cmd.Forget(9001))
    assert kept(table) == []


def test_one_forget_drops_so_many_and_no_more() -> None:
    table = new_table()
    for start in range(0, MAX_FORGET_COUNT + 1, MAX_BEGIN_COUNT):
        for txn_id in ok(table, begin(f"request-{start}", count=MAX_BEGIN_COUNT)).txn_ids:
            table.apply(cmd.BeginCommit(txn_id, OWNER, 200))
    ok(table, cmd.Forget(201))
    assert max(map(int, kept(table))) - min(map(int, kept(table))) == MAX_BEGIN_COUNT - 1
    assert min(kept(table)) == MAX_FORGET_COUNT
    assert table.finished_before(201), "the rest comes next"
    ok(table, cmd.Forget(201))
    assert kept(table) == []


def test_a_begin_is_known_as_long_as_one_of_its_transactions_is() -> None:
    table = new_table()
    ok(table, begin("request-a", count=2))
    for txn_id, micros in ((1, 200), (0, 300)):
        ok(table, cmd.BeginCommit(TxnId(txn_id), OWNER, micros))
    ok(table, cmd.Forget(201))
    again = ok(table, begin("request-a", count=2))
    assert (again.txn_ids, again.changed) == ((0,), False), "without the one that is forgotten"
    ok(table, cmd.Forget(301))
    assert table.begun_by("request-a") is None
    assert ok(table, begin("request-a", count=2)).txn_ids == (2, 3), "and then it is a new one"


def test_forgotten_unknown_and_elsewhere_are_told_apart() -> None:
    table = new_table(20, 30)
    for number in range(3):
        finished_at(table, f"request-{number}", 200 + number)
    ok(table, cmd.Forget(202))
    for txn_id, kind, says in (
        (20, Forgotten, "forgotten"),
        (21, Forgotten, "forgotten"),
        (23, NotFound, "highest id given out is 22"),
        (29, NotFound, "highest id given out is 22"),
        (19, NotFound, "not of this range, 20 to 29"),
        (30, NotFound, "not of this range, 20 to 29"),
        (-1, NotFound, "not of this range, 20 to 29"),
    ):
        error = refused(table, command_for(Op.BEGIN_COMMIT, TxnId(txn_id)))
        assert type(error) is kind
        assert says in error.message
        with pytest.raises(NotFound) as raised:
            table.get(TxnId(txn_id))
        assert type(raised.value) is kind


def test_a_burnt_id_is_unknown_not_forgotten() -> None:
    """It was never anybody's."""
    table = new_table(20, 30)
    ok(table, begin("request-a"))
    ok(table, begin("request-b", count=10))
    assert type(refused(table, command_for(Op.BEGIN_COMMIT, TxnId(25)))) is NotFound


def test_a_forgotten_transaction_is_committed_at_no_snapshot() -> None:
    table = new_table()
    txn_id = prepared(table, "request-a")
    ok(table, cmd.FinalizeCommit(txn_id, Timestamp(500), 300, 1))
    ok(table, cmd.CompleteCommit(txn_id, 300))
    ok(table, cmd.Forget(301))
    assert table.last_commit_ts == 500
    assert table.commit_ts_at(txn_id, Timestamp(500)) == NO_TIMESTAMP


def test_when_all_is_forgotten_the_table_holds_what_an_empty_one_holds() -> None:
    """What it keeps is two numbers: the next id, and the last commit."""
    table, empty = new_table(), new_table()
    for number in range(300):
        ended = prepared(table, f"request-{number}")
        for command in (cmd.FinalizeCommit(ended, Timestamp(number), 300, 1), cmd.CompleteCommit(ended, 300)):
            ok(table, command)
    assert sum(map(len, state_of(table))) > 10_000
    ok(table, cmd.Forget(301))
    for name, held in vars(table).items():
        if isinstance(held, Sized):
            assert len(held) == len(getattr(empty, name)) == 0, name
    assert sum(map(len, state_of(table))) < 50


# ---- chunks


def test_a_snapshot_comes_in_chunks_of_bounded_size_and_restores_to_the_same() -> None:
    table, restored = new_table(), new_table()
    for number in range(3):
        ok(table, begin(f"request-{number}", count=CHUNK_RECORDS))
    for number in range(0, 3 * CHUNK_RECORDS, 2):
        ok(table, cmd.BeginCommit(TxnId(number), OWNER, 200 + number % 7))
    header, *parts = map(chunks.decode, table.snapshot())
    assert isinstance(header, chunks.Header)
    assert [type(part) for part in parts] == [chunks.Unfinished] * 2 + [chunks.Finished] * 2
    assert all(len(part.records) <= CHUNK_RECORDS for part in parts if not isinstance(part, chunks.Header))
    restore(restored, table.snapshot())
    restored.check_invariants()
    assert state_of(restored) == state_of(table)


def test_a_snapshot_is_of_its_moment_however_late_it_is_written() -> None:
    """It is written in slices, between which commands apply."""
    table = busy_table()
    ok(table, begin("request-many", count=2 * CHUNK_RECORDS))
    before = state_of(table)
    slices = table.snapshot()
    written = [next(slices)]
    for txn_id in range(6 + 2 * CHUNK_RECORDS):
        table.apply(cmd.RegisterParticipants(TxnId(txn_id), OWNER, (Participant(ParticipantId("9.9"), "late.one"),)))
        table.apply(cmd.BeginAbort(TxnId(txn_id), None, STALE, 900))
        table.apply(cmd.FinalizeAbort(TxnId(txn_id), 901))
        if txn_id % 100 == 0:
            written.append(next(slices, b""))
        table.apply(cmd.Forget(10_000))
    ok(table, begin("request-more", count=5))
    ok(table, cmd.RaiseFloor(Timestamp(10**6)))
    written += slices
    assert [chunk for chunk in written if chunk] == before
    assert state_of(table) != before


def test_a_snapshot_of_another_range_is_refused() -> None:
    with pytest.raises(ValueError, match="of the range 20 to 29"):
        restore(new_table(30, 40), new_table(20, 30).snapshot())


def test_a_full_range_is_full_when_restored() -> None:
    table, restored = new_table(20, 30), new_table(20, 30)
    ok(table, begin("request-a", count=9))
    ok(table, begin("request-b", count=2))
    restore(restored, table.snapshot())
    assert restored.full
    assert not restored.settled


# ---- whatever comes

SPAN = 6
ids = st.integers(-1, SPAN + 1).map(TxnId)
owners = st.sampled_from([OWNER, OWNER, OWNER, OTHER])
causes = st.sampled_from([CAUSE, STALE])
micros = st.integers(0, 1000)
floors = st.integers(0, 50).map(Timestamp)
participants = st.lists(
    st.builds(
        Participant, st.sampled_from(["0.0", "1.0"]).map(ParticipantId), st.just("t.u"), st.sampled_from(["", "w"])
    )
).map(tuple)
any_command = st.one_of(
    st.builds(
        cmd.BeginTxns,
        st.sampled_from("abcde"),
        st.integers(0, 3),
        owners,
        st.just(""),
        st.just(1000),
        micros,
        floors,
        st.integers(0, 4),
        participants,
    ),
    st.builds(cmd.RegisterParticipants, ids, owners, participants),
    st.builds(cmd.BeginCommit, ids, owners, micros),
    st.builds(cmd.FinalizeCommit, ids, st.integers(1, 50).map(Timestamp), micros),
    st.builds(cmd.CompleteCommit, ids, micros),
    st.builds(cmd.BeginAbort, ids, st.one_of(st.none(), owners), causes, micros),
    st.builds(cmd.Expire, ids, causes, micros),
    st.builds(cmd.FinalizeAbort, ids, micros),
    st.builds(cmd.Forget, micros),
    st.builds(cmd.RaiseFloor, floors),
)


@settings(deadline=None, max_examples=250)
@given(st.lists(st.tuples(any_command, st.booleans()), max_size=60))
def test_replicas_agree_and_terminal_states_last_whatever_is_asked(steps: list[tuple[cmd.Command, bool]]) -> None:
    """The second replica is now and then replaced by one restored from the first one's snapshot."""
    one, two = new_table(0, SPAN), new_table(0, SPAN)
    ended: dict[TxnId, TxnRecord] = {}
    given_out: list[TxnId] = []
    last_commit_ts, was_full = NO_TIMESTAMP, False
    for command, replaced in steps:
        before = state_of(one)
        outcome = one.apply(command)
        assert str(outcome) == str(two.apply(command))
        one.check_invariants()
        after = state_of(one)
        assert after == state_of(two)
        changed = isinstance(outcome, StatusApplied) and outcome.changed
        assert changed == (after != before), outcome
        if replaced:
            two = new_table(0, SPAN)
            restore(two, one.snapshot())
            assert state_of(two) == after
        for txn_id, end in list(ended.items()):
            if one.find(txn_id) is None:
                assert isinstance(command, cmd.Forget), f"{command} forgot {txn_id}"
                del ended[txn_id]
            else:
                assert one.get(txn_id) == end
        ended |= {record.txn_id: record for record in one.records() if record.state in TERMINAL}
        assert one.last_commit_ts >= last_commit_ts
        assert one.full >= was_full
        last_commit_ts, was_full = one.last_commit_ts, one.full
        if isinstance(command, cmd.BeginTxns) and changed:
            assert isinstance(outcome, StatusApplied)
            given_out += outcome.txn_ids
    assert given_out == list(range(one.next_txn_id)), "each id once, in order"


@settings(deadline=None, max_examples=150)
@given(st.lists(any_command, max_size=40), st.lists(any_command, max_size=20), st.integers(1, 3))
def test_a_snapshot_written_late_restores_to_its_moment(
    before: list[cmd.Command], after: list[cmd.Command], chunk_records: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("txnstatus.status.chunks.CHUNK_RECORDS", chunk_records)
        table, then = new_table(0, SPAN), new_table(0, SPAN)
        for command in before:
            table.apply(command)
            then.apply(command)
        slices = table.snapshot()
        for command in after:
            table.apply(command)
        restored = new_table(0, SPAN)
        restore(restored, slices)
        restored.check_invariants()
        assert state_of(restored) == state_of(then)
        for command in after:
            assert str(restored.apply(command)) == str(then.apply(command)), "and it goes on from there the same"
        assert state_of(restored) == state_of(table)


@pytest.mark.parametrize("state", [FIP, COMMITTED])
def test_an_abort_of_what_has_committed_is_told_so(state: TxnState) -> None:
    refusal = refused(table_with_txn_in(state), cmd.BeginAbort(TXN, OWNER, CAUSE, 900))
    assert f"transaction 0 is {state.name}" in refusal.message
    assert refusal.hint == "it has committed: what it wrote is visible, and stays"
