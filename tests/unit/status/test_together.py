"""Transactions with participants in the log of their record: what one entry does, and where it stops."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.harness.one_log import AWAY, ONE, OWNER, TWO, OneLog, commit, first_write
from tests.unit.harness.shards import added
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnstatus.errors import NotAuthorized, NotFound, TxnAborted
from txnstatus.replicated import Rejected
from txnstatus.status import commands as cmd
from txnstatus.types import (
    AbortCause,
    AbortCode,
    Participant,
    ParticipantId,
    ParticipantState,
    Timestamp,
    TxnId,
    TxnState,
)

CAUSE = AbortCause(AbortCode.REQUESTED, "enough", OWNER)
STATES = ParticipantState
DATABASE = ParticipantId("3.air")


@pytest.fixture
def log() -> OneLog:
    return OneLog()


def states(log: OneLog, txn_id: TxnId) -> list[ParticipantState | None]:
    """On both tables."""
    return [record.state if (record := log.on(each, txn_id)) else None for each in (ONE, TWO)]


def overwritten(log: OneLog, txn_id: TxnId) -> None:
    """The transaction overwrites the whole first table: of two that do, one commits."""
    log.write(first_write(txn_id, ONE))
    assert isinstance(log.write(added(txn_id, overwrite=True)), ShardApplied)


# ---- first writes


def test_a_first_write_makes_its_table_a_participant_in_one_entry(log: OneLog) -> None:
    txn_id = log.begin()
    assert isinstance(log.write(first_write(txn_id, ONE)), ShardApplied)
    assert log.record(txn_id).participants == {ONE: Participant(ONE, "air.flights")}
    assert states(log, txn_id) == [STATES.OPEN, None]


@pytest.mark.parametrize(
    ("number", "owner", "error"), [(0, "bob", NotAuthorized), (7, OWNER, NotFound), (700, OWNER, NotFound)]
)
def test_a_first_write_that_cannot_register_writes_nothing(
    log: OneLog, number: int, owner: str, error: type[Exception]
) -> None:
    log.begin()
    outcome = log.write(first_write(TxnId(number), ONE, owner))
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.error, error)
    assert log.on(ONE, TxnId(number)) is None
    assert not log.record(TxnId(0)).participants


def test_a_first_write_after_the_end_is_refused_with_the_reason(log: OneLog) -> None:
    txn_id = log.begun(TWO)
    log.applied(cmd.BeginAbort(txn_id, OWNER, CAUSE, 3))
    outcome = log.write(first_write(txn_id, ONE))
    assert isinstance(outcome, Rejected)
    assert isinstance(outcome.error, TxnAborted)
    assert "enough" in outcome.error.message
    assert states(log, txn_id) == [None, STATES.ABORTED]


def test_a_database_registers_by_its_name_with_its_first_lock(log: OneLog) -> None:
    txn_id = log.begin()
    command = shard_cmd.AcquireLocks(
        txn_id, "3.air", OWNER, (), shard_cmd.Otherwise.REFUSED, Timestamp(1), begins=True, registers=True
    )
    assert isinstance(log.write(command), ShardApplied)
    assert log.record(txn_id).participants == {DATABASE: Participant(DATABASE, "air")}


def test_a_directory_that_the_begin_has_claimed_is_the_tables_from_the_end_on(log: OneLog) -> None:
    """The table hears of it with the commit, or with the abort, and cleans it."""
    txn_ids = []
    for number in range(2):
        carried = (Participant(ONE, "air.flights", f"carried{number}"),)
        begin = cmd.BeginTxns(f"carrying {number}", 1, OWNER, "", 1_000, 1, participants=carried)
        txn_ids.append(log.applied(begin).records[0].txn_id)
    log.applied(commit(txn_ids[0]))
    log.applied(cmd.BeginAbort(txn_ids[1], OWNER, CAUSE, 3))
    claimed = [record.claimed for txn_id in txn_ids if (record := log.on(ONE, txn_id))]
    assert claimed == [["carried0"], ["carried1"]]


# ---- commits


def test_where_all_are_here_a_commit_is_one_entry(log: OneLog) -> None:
    txn_id = log.begun(ONE, TWO)
    applied = log.applied(commit(txn_id, at=100))
    assert [record.state for record in applied.records] == [TxnState.COMMITTED]
    assert states(log, txn_id) == [STATES.COMMITTED, STATES.COMMITTED]
    assert log.record(txn_id).commit_ts == 100
    assert [type(step.command) for step in applied.steps] == [
        *[shard_cmd.BeginCommit] * 2,
        *[shard_cmd.FinalizeCommit] * 2,
    ]


def test_commits_rise_in_the_order_of_their_entries_whatever_their_clocks_say(log: OneLog) -> None:
    one, two = log.begun(ONE), log.begun(ONE)
    log.applied(commit(one, at=100))
    log.applied(commit(two, at=40))
    assert (log.record(one).commit_ts, log.record(two).commit_ts) == (100, 101)


def test_a_commit_asked_for_again_answers_with_the_outcome_and_does_nothing(log: OneLog) -> None:
    txn_id = log.begun(ONE, TWO)
    log.applied(commit(txn_id))
    before = list(log.parts.snapshot())
    again = log.applied(commit(txn_id, at=500))
    assert (again.changed, again.records[0].state, again.steps) == (False, TxnState.COMMITTED, ())
    assert list(log.parts.snapshot()) == before


def test_one_refusal_aborts_all_of_it_in_the_same_entry(log: OneLog) -> None:
    """The loser has prepared on the other table by then; nobody ever sees that."""
    winner, loser = log.begin(), log.begun(TWO)
    overwritten(log, winner)
    overwritten(log, loser)
    log.applied(commit(winner))
    applied = log.applied(commit(loser))
    record = log.record(loser)
    assert (record.state, record.cause and record.cause.code) == (TxnState.ABORTED, AbortCode.CONFLICT)
    assert record.cause is not None
    assert record.cause.winner == winner
    assert states(log, loser) == [STATES.ABORTED, STATES.ABORTED]
    assert applied.changed


def test_a_commit_of_another_owner_is_refused_and_asks_nobody(log: OneLog) -> None:
    txn_id = log.begun(ONE)
    assert isinstance(log.refused(commit(txn_id, owner="bob")), NotAuthorized)


@pytest.mark.parametrize("command", [cmd.BeginAbort, cmd.Expire])
def test_where_all_are_here_an_abort_is_one_entry(log: OneLog, command: type[cmd.BeginAbort | cmd.Expire]) -> None:
    txn_id = log.begun(ONE, TWO)
    if command is cmd.BeginAbort:
        log.applied(cmd.BeginAbort(txn_id, OWNER, CAUSE, 3))
    else:
        log.applied(cmd.Expire(txn_id, CAUSE, 3))
    assert log.record(txn_id).state is TxnState.ABORTED
    assert states(log, txn_id) == [STATES.ABORTED, STATES.ABORTED]


# ---- writes that a commit carries


def last(txn_id: TxnId, table_id: ParticipantId = ONE, **options: Any) -> cmd.LastWrite:
    """As a shard's leader judges it."""
    command = replace(added(txn_id, **options), table_id=table_id, begins=True, registers=True)
    return cmd.LastWrite(table_id, shard_cmd.encode(command))


def test_what_a_commit_carries_is_written_registered_and_committed_in_its_entry(log: OneLog) -> None:
    txn_id = log.begin()
    applied = log.applied(replace(commit(txn_id), writes=(last(txn_id), last(txn_id, TWO))))
    assert applied.records[0].state is TxnState.COMMITTED
    assert log.record(txn_id).participants.keys() == {ONE, TWO}
    assert states(log, txn_id) == [STATES.COMMITTED, STATES.COMMITTED]
    assert [log.files(each) for each in (ONE, TWO)] == [[txn_id], [txn_id]]
    before = list(log.parts.snapshot())
    again = log.applied(replace(commit(txn_id, at=500), writes=(last(txn_id), last(txn_id, TWO))))
    assert (again.changed, list(log.parts.snapshot())) == (False, before)


def test_one_that_is_refused_leaves_the_transaction_open_with_those_before_it(log: OneLog) -> None:
    txn_id = log.begun(TWO)
    log.write(replace(added(txn_id), table_id=TWO))
    outcome = log.ask(replace(commit(txn_id), writes=(last(txn_id), last(txn_id, TWO, rows=11), last(txn_id))))
    assert isinstance(outcome, Rejected)
    assert "with other files" in outcome.error.message
    assert log.record(txn_id).state is TxnState.OPEN
    assert states(log, txn_id) == [STATES.OPEN, STATES.OPEN]
    log.applied(cmd.BeginAbort(txn_id, OWNER, CAUSE, 3))
    assert log.files(ONE) == log.files(TWO) == []


def test_they_are_checked_for_conflicts_as_others_are(log: OneLog) -> None:
    winner, loser = log.begin(), log.begun(TWO)
    overwritten(log, winner)
    log.applied(commit(winner))
    log.applied(replace(commit(loser), writes=(last(loser, overwrite=True),)))
    assert log.record(loser).state is TxnState.ABORTED
    assert log.files(ONE) == [winner]


def test_another_owner_writes_and_commits_nothing(log: OneLog) -> None:
    txn_id = log.begin()
    write = replace(added(txn_id), owner="bob", begins=True, registers=True)
    carried = (cmd.LastWrite(ONE, shard_cmd.encode(write)),)
    assert isinstance(log.refused(replace(commit(txn_id, owner="bob"), writes=carried)), NotAuthorized)


def test_what_has_ended_takes_no_more(log: OneLog) -> None:
    txn_id = log.begun(TWO)
    log.applied(cmd.BeginAbort(txn_id, OWNER, CAUSE, 3))
    assert isinstance(log.refused(replace(commit(txn_id), writes=(last(txn_id),))), TxnAborted)


def test_with_others_what_is_carried_prepares_and_waits_for_the_decision(log: OneLog) -> None:
    txn_id = log.begun(AWAY)
    log.applied(replace(commit(txn_id), writes=(last(txn_id),)))
    assert states(log, txn_id) == [STATES.COMMIT_IN_PROGRESS, None]
    log.applied(cmd.FinalizeCommit(txn_id, Timestamp(70), 6, prepared=1))
    assert log.files(ONE) == [txn_id]


# ---- others take part, too


def test_with_others_those_that_are_here_prepare_and_wait(log: OneLog) -> None:
    txn_id = log.begun(ONE, AWAY)
    applied = log.applied(commit(txn_id, at=100))
    assert applied.records[0].state is TxnState.COMMIT_IN_PROGRESS
    assert states(log, txn_id) == [STATES.COMMIT_IN_PROGRESS, None]
    log.applied(cmd.FinalizeCommit(txn_id, Timestamp(70), 6, prepared=1))
    assert (log.record(txn_id).state, log.record(txn_id).commit_ts) == (TxnState.FINALIZE_IN_PROGRESS, 100)
    assert states(log, txn_id) == [STATES.COMMITTED, None], "published with the decision"
    log.applied(cmd.CompleteCommit(txn_id, 7))
    assert log.record(txn_id).state is TxnState.COMMITTED


def test_the_others_prepare_timestamp_counts_as_well(log: OneLog) -> None:
    txn_id = log.begun(ONE, AWAY)
    log.applied(commit(txn_id, at=100))
    log.applied(cmd.FinalizeCommit(txn_id, Timestamp(900), 6, prepared=1))
    assert log.record(txn_id).commit_ts == 900


def test_a_decision_needs_all_of_the_others(log: OneLog) -> None:
    txn_id = log.begun(ONE, AWAY)
    log.applied(commit(txn_id))
    log.refused(cmd.FinalizeCommit(txn_id, Timestamp(70), 6, prepared=0))


def test_with_others_a_refusal_here_begins_the_abort_and_the_others_are_told(log: OneLog) -> None:
    winner, loser = log.begin(), log.begun(AWAY)
    overwritten(log, winner)
    overwritten(log, loser)
    log.applied(commit(winner))
    log.applied(commit(loser))
    assert log.record(loser).state is TxnState.ABORT_IN_PROGRESS
    assert states(log, loser) == [STATES.ABORTED, None]
    log.applied(cmd.FinalizeAbort(loser, 7))


def test_an_abort_by_the_others_reaches_those_that_are_here_with_its_entry(log: OneLog) -> None:
    txn_id = log.begun(ONE, AWAY)
    log.applied(commit(txn_id))
    log.applied(cmd.BeginAbort(txn_id, None, CAUSE, 6))
    assert log.record(txn_id).state is TxnState.ABORT_IN_PROGRESS
    assert states(log, txn_id) == [STATES.ABORTED, None]


def test_a_decision_before_the_commit_begins_prepares_nobody(log: OneLog) -> None:
    txn_id = log.begun(ONE, AWAY)
    log.refused(cmd.FinalizeCommit(txn_id, Timestamp(70), 6, prepared=1))
