"""The leader's volatile half: commit tasks, expiry and leadership, driven by events with a clock that tests set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.unit.harness.status_leader import (
    ABORT,
    BEGIN_COMMIT,
    CLOSE,
    FINALIZE,
    GONE,
    KEEPALIVE_SECONDS,
    NAMES,
    OTHER,
    OWNER,
    REQUESTED,
    SETTINGS,
    TXN,
    A,
    B,
    Leader,
    expiries,
    leader_with_txn_in,
    send,
)
from txnstatus.errors import Conflict, IllegalState, NotAuthorized, NotFound, TxnAborted, TxnError
from txnstatus.status import commands as cmd
from txnstatus.status.events import (
    CommandApplied,
    CommitRequested,
    Decided,
    Effect,
    Event,
    LeadershipGained,
    LeadershipLost,
    ParticipantAnswered,
    Propose,
    Tick,
)
from txnstatus.status.manager import STALENESS_TRACKER
from txnstatus.status.table import Applied, Rejected
from txnstatus.types import (
    AbortCause,
    AbortCode,
    ParticipantId,
    ParticipantOpType,
    Timestamp,
    TxnId,
    TxnState,
)

# ---- commit


def test_a_commit_from_beginning_to_end() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert leader.commit() == send(BEGIN_COMMIT, A, B)
    assert leader.answer(A, BEGIN_COMMIT, 120) == []
    proposed = leader.answer(B, BEGIN_COMMIT, 100)
    assert proposed == [Propose(cmd.FinalizeCommit(TXN, Timestamp(120), 42, 2))]
    assert leader.apply_all(proposed) == [Decided(TXN), *send(FINALIZE, A, B, ts=120)]
    assert leader.answer(B, FINALIZE) == []
    proposed = leader.answer(A, FINALIZE)
    assert proposed == [Propose(cmd.CompleteCommit(TXN, 42), awaited=False)]
    assert leader.apply_all(proposed) == [Decided(TXN)]
    assert leader.state is TxnState.COMMITTED
    assert leader.manager.task_of(TXN) is None
    assert leader.live(20) == []


def test_the_final_timestamp_is_the_one_that_the_table_decided() -> None:
    """It may be above all prepare timestamps: participants must get the record's, not the task's."""
    leader = Leader()
    first = leader.begin(A, request_id="request-a")
    second = leader.begin(A, request_id="request-b")
    for txn_id, ts in ((first, 500), (second, 300)):
        leader.commit(txn_id)
        effects = leader.apply_all(leader.answer(A, BEGIN_COMMIT, ts, txn_id=txn_id))
    assert effects == [Decided(second), *send(FINALIZE, A, ts=501, txn_id=second)]


def test_an_empty_commit_is_decided_by_its_own_entry() -> None:
    leader = Leader()
    leader.begin()
    assert leader.handle(CommitRequested(TXN, OWNER)) == []
    assert leader.commit() == [Decided(TXN)]
    assert leader.state is TxnState.COMMITTED
    assert leader.live(20) == []


def test_participants_prepare_while_the_commit_replicates() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert leader.handle(CommitRequested(TXN, OWNER)) == send(BEGIN_COMMIT, A, B)
    assert leader.handle(CommitRequested(TXN, OWNER)) == [], "they are asked once"
    assert leader.commit() == [], "they have been asked already"
    assert leader.answer(A, BEGIN_COMMIT, 100) == []
    assert leader.answer(B, BEGIN_COMMIT, 120) == [Propose(cmd.FinalizeCommit(TXN, Timestamp(120), 42, 2))]


def test_the_decision_follows_the_begin_of_the_commit_through_the_log() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    leader.handle(CommitRequested(TXN, OWNER))
    assert leader.answer(A, BEGIN_COMMIT, 100) == []
    decision = [Propose(cmd.FinalizeCommit(TXN, Timestamp(120), 42, 2))]
    assert leader.answer(B, BEGIN_COMMIT, 120) == decision
    assert leader.tick(0.1) == [], "once"
    assert leader.commit() == []
    assert leader.apply_all(decision) == [Decided(TXN), *send(FINALIZE, A, B, ts=120)]


def test_a_decision_without_a_commit_is_refused_and_taken_when_there_is_one() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    leader.handle(CommitRequested(TXN, OWNER))
    leader.answer(A, BEGIN_COMMIT, 100)
    decision = leader.answer(B, BEGIN_COMMIT, 120)
    assert leader.apply_all(decision) == []
    assert leader.state is TxnState.OPEN
    assert leader.commit() == decision


def test_a_participant_that_registers_after_the_early_prepare_is_asked_too() -> None:
    leader = Leader()
    leader.begin(A)
    assert leader.handle(CommitRequested(TXN, OWNER)) == send(BEGIN_COMMIT, A)
    too_early = leader.answer(A, BEGIN_COMMIT, 100)
    assert too_early == [Propose(cmd.FinalizeCommit(TXN, Timestamp(100), 42, 1))]
    leader.register(TXN, B)
    assert leader.commit() == send(BEGIN_COMMIT, B)
    assert leader.apply_all(too_early) == []
    assert leader.state is TxnState.COMMIT_IN_PROGRESS
    assert leader.answer(B, BEGIN_COMMIT, 90) == [Propose(cmd.FinalizeCommit(TXN, Timestamp(100), 42, 2))]


def test_a_decision_that_is_refused_is_taken_for_all_who_have_answered_meanwhile() -> None:
    leader = Leader()
    leader.begin(A)
    leader.handle(CommitRequested(TXN, OWNER))
    too_early = leader.answer(A, BEGIN_COMMIT, 100)
    leader.register(TXN, B)
    leader.commit()
    assert leader.answer(B, BEGIN_COMMIT, 120) == [], "the first is on its way"
    assert leader.apply_all(too_early) == [Propose(cmd.FinalizeCommit(TXN, Timestamp(120), 42, 2))]


@pytest.mark.parametrize("event", [ParticipantAnswered(TXN, A, BEGIN_COMMIT, Timestamp(100), None), Tick()])
def test_nothing_is_decided_without_one_that_registered_after_the_early_prepare(event: Event) -> None:
    leader = Leader()
    leader.begin(A)
    assert leader.handle(CommitRequested(TXN, OWNER)) == send(BEGIN_COMMIT, A)
    too_early = leader.answer(A, BEGIN_COMMIT, 100) if isinstance(event, Tick) else []
    for command in (cmd.RegisterParticipants(TXN, OWNER, ((B, NAMES[B]),)), cmd.BeginCommit(TXN, OWNER, 2)):
        assert isinstance(leader.table.apply(command), Applied)
    # Both have applied, and the manager has not heard of them yet.
    effects = leader.manager.handle(event, leader.now, 42)
    assert not [effect for effect in effects if isinstance(effect, Propose)]
    assert leader.commit() == send(BEGIN_COMMIT, B)
    assert leader.apply_all(too_early) == []
    assert leader.answer(B, BEGIN_COMMIT, 90) == [Propose(cmd.FinalizeCommit(TXN, Timestamp(100), 42, 2))]


@pytest.mark.parametrize("state", [s for s in TxnState if s is not TxnState.OPEN])
def test_only_an_open_transaction_is_prepared_early(state: TxnState) -> None:
    assert leader_with_txn_in(state).handle(CommitRequested(TXN, OWNER)) == []


def test_nothing_is_prepared_early_for_somebody_else() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert leader.handle(CommitRequested(TXN, OTHER)) == []
    assert leader.manager.task_of(TXN) is None


def test_a_commit_asked_for_again_starts_nothing_twice() -> None:
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    assert leader.commit() == []
    leader.answer(A, BEGIN_COMMIT, 100)
    leader.answer(B, BEGIN_COMMIT, 100)
    assert leader.commit() == [], "the decision is on its way already"


def test_answers_of_another_phase_count_for_nothing() -> None:
    leader = leader_with_txn_in(TxnState.FINALIZE_IN_PROGRESS)
    for participant in (A, B):
        assert leader.answer(participant, BEGIN_COMMIT, 500) == []
    task = leader.manager.task_of(TXN)
    assert task is not None
    assert task.waiting_for == [A, B]


def test_answers_of_strangers_count_for_nothing() -> None:
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    assert leader.answer(ParticipantId("9.9"), BEGIN_COMMIT, 100) == []
    assert leader.answer(A, BEGIN_COMMIT, 100, txn_id=TxnId(77)) == []


# ---- refusals and aborts


def test_a_refusal_to_prepare_aborts_at_once_and_names_who_refused() -> None:
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    effects = leader.answer(B, BEGIN_COMMIT, error=IllegalState("the table was dropped"))
    cause = AbortCause(AbortCode.REFUSED, "air.weather refused to prepare: the table was dropped", "air.weather")
    assert effects == [Propose(cmd.BeginAbort(TXN, None, cause, 42))]
    assert leader.apply_all(effects) == [Decided(TXN), *send(ABORT, A, B)]
    assert leader.table.get(TXN).cause == cause


def test_the_cause_of_a_conflict_is_passed_on_as_it_is() -> None:
    cause = AbortCause(AbortCode.CONFLICT, "air.flights was overwritten", "air.flights", TxnId(5), ("air.flights",))
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    effects = leader.answer(A, BEGIN_COMMIT, error=Conflict("overwritten", cause=cause))
    assert effects == [Propose(cmd.BeginAbort(TXN, None, cause, 42))]


def test_the_first_refusal_is_the_cause() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    leader.handle(CommitRequested(TXN, OWNER))
    (effect,) = leader.answer(A, BEGIN_COMMIT, error=TxnAborted("was aborted"))
    assert leader.answer(B, BEGIN_COMMIT, error=IllegalState("late")) == []
    assert isinstance(effect, Propose)
    assert isinstance(effect.command, cmd.BeginAbort)
    assert effect.command.cause.by == "air.flights"


def test_an_abort_during_a_commit_goes_at_once_to_all_though_one_is_silent() -> None:
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    leader.answer(A, BEGIN_COMMIT, 100)
    assert leader.abort() == [Decided(TXN), *send(ABORT, A, B)]
    assert leader.answer(A, ABORT) == []
    assert leader.answer(B, BEGIN_COMMIT, 120) == [], "its answer to the commit comes too late"
    assert leader.answer(B, ABORT) == [Propose(cmd.FinalizeAbort(TXN, 42), awaited=False)]


def test_an_abort_is_finished_when_all_have_heard() -> None:
    leader = leader_with_txn_in(TxnState.ABORT_IN_PROGRESS)
    leader.answer(A, ABORT)
    assert leader.apply_all(leader.answer(B, ABORT)) == [Decided(TXN)]
    assert leader.state is TxnState.ABORTED
    assert leader.manager.task_of(TXN) is None


def test_an_abort_that_races_the_decision_loses_to_it() -> None:
    leader = leader_with_txn_in(TxnState.FINALIZE_IN_PROGRESS)
    command = cmd.BeginAbort(TXN, OWNER, REQUESTED, 2)
    outcome = leader.table.apply(command)
    assert isinstance(outcome, Rejected)
    assert leader.handle(CommandApplied(command, outcome)) == []
    assert leader.state is TxnState.FINALIZE_IN_PROGRESS


# ---- retries


@pytest.mark.parametrize(
    ("state", "op"),
    [
        (TxnState.COMMIT_IN_PROGRESS, BEGIN_COMMIT),
        (TxnState.FINALIZE_IN_PROGRESS, FINALIZE),
        (TxnState.ABORT_IN_PROGRESS, ABORT),
    ],
)
def test_a_participant_that_did_not_answer_is_asked_again_later_and_later(
    state: TxnState, op: ParticipantOpType
) -> None:
    leader = leader_with_txn_in(state)
    leader.answer(A, op, 100)
    assert leader.tick(0.5) == [], "B is still being asked"
    pauses = []
    for _ in range(8):
        assert leader.answer(B, op, error=GONE) == []
        asked_at = leader.now
        while not (effects := leader.tick(0.01)):
            assert leader.now < asked_at + 5
        assert effects == send(op, B, ts=leader.table.get(TXN).commit_ts)
        pauses.append(leader.now - asked_at)
    for number, pause in enumerate(pauses):
        ceiling = min(SETTINGS.retry_max_seconds, SETTINGS.retry_min_seconds * 2**number)
        assert ceiling / 2 - CLOSE <= pause <= ceiling + 0.01 + CLOSE
    assert len(leader.answer(B, op, 100)) == 1, "and then it goes on"


@pytest.mark.parametrize("error", [GONE, NotFound("no such table"), IllegalState("what?"), TxnAborted("aborted here")])
@pytest.mark.parametrize(
    ("state", "op"), [(TxnState.FINALIZE_IN_PROGRESS, FINALIZE), (TxnState.ABORT_IN_PROGRESS, ABORT)]
)
def test_no_error_counts_as_done_after_the_decision(state: TxnState, op: ParticipantOpType, error: TxnError) -> None:
    leader = leader_with_txn_in(state)
    leader.answer(A, op)
    for _ in range(5):
        assert leader.answer(B, op, error=error) == []
        assert leader.state is state
        assert send(op, B, ts=leader.table.get(TXN).commit_ts)[0] in leader.live(1.5)


def test_a_proposal_that_failed_is_made_again_at_the_next_tick() -> None:
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    leader.answer(A, BEGIN_COMMIT, 100)
    (proposed,) = leader.answer(B, BEGIN_COMMIT, 100)
    assert isinstance(proposed, Propose)
    assert leader.tick(0.1) == []
    leader.manager.proposal_failed(proposed.command, leader.now)
    assert leader.tick(0.1) == [proposed]
    assert leader.tick(0.1) == [], "once"


def test_a_failed_begin_concerns_no_task() -> None:
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    leader.manager.proposal_failed(cmd.BeginTxns("request-x", 1, OWNER, "", 0, 1), leader.now)
    assert leader.tick(0.1) == []


# ---- expiry


def test_a_silent_open_transaction_expires_after_its_interval_and_not_before() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert leader.live(KEEPALIVE_SECONDS) == []
    (expire,) = expiries(leader.live(KEEPALIVE_SECONDS))
    assert expire.txn_id == TXN
    assert (expire.cause.code, expire.cause.by) == (AbortCode.EXPIRED, STALENESS_TRACKER)
    assert "3000 ms" in expire.cause.message
    assert leader.apply(expire) == [Decided(TXN), *send(ABORT, A, B)]


def test_one_that_beats_never_expires() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    for _ in range(20):
        assert leader.beat() is None
        assert leader.live(KEEPALIVE_SECONDS) == []


@pytest.mark.parametrize("state", [s for s in TxnState if s is not TxnState.OPEN])
def test_only_open_transactions_expire(state: TxnState) -> None:
    assert expiries(leader_with_txn_in(state).live(10 * KEEPALIVE_SECONDS)) == []


def test_a_time_in_which_the_leader_was_not_well_hardly_counts() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert leader.tick(1000.0) == []
    assert leader.tick(1000.0) == []
    assert leader.tick(1000.0) == []
    assert len(expiries(leader.tick(0.5) + leader.tick(0.5))) == 1, "three gaps of at most 1 s, and half a second"


def test_with_the_check_off_nothing_expires() -> None:
    leader = leader_with_txn_in(TxnState.OPEN, replace(SETTINGS, staleness_check_seconds=0))
    assert leader.live(100 * KEEPALIVE_SECONDS) == []


def test_an_expiry_is_proposed_once() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert len(expiries(leader.live(10 * KEEPALIVE_SECONDS))) == 1


def test_a_failed_expiry_is_proposed_again() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    (expire,) = expiries(leader.live(2 * KEEPALIVE_SECONDS))
    leader.manager.proposal_failed(expire, leader.now)
    assert [e.txn_id for e in expiries(leader.live(1.0))] == [TXN]


def test_a_keep_alive_is_refused_while_the_expiry_is_on_its_way_and_welcome_when_it_failed() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    (expire,) = expiries(leader.live(2 * KEEPALIVE_SECONDS))
    assert isinstance(leader.beat(), IllegalState)
    leader.manager.proposal_failed(expire, leader.now)
    assert leader.beat() is None
    assert expiries(leader.live(KEEPALIVE_SECONDS)) == []


def test_a_commit_that_overtakes_an_expiry_wins() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    (expire,) = expiries(leader.live(2 * KEEPALIVE_SECONDS))
    assert leader.commit() == send(BEGIN_COMMIT, A, B)
    outcome = leader.table.apply(expire)
    assert isinstance(outcome, Rejected)
    assert leader.handle(CommandApplied(expire, outcome)) == []
    assert leader.state is TxnState.COMMIT_IN_PROGRESS


def test_the_time_before_a_heartbeat_does_not_count_against_it() -> None:
    """A leader was busy and did not tick; the beat that came meanwhile starts a whole interval all the same."""
    leader = Leader()
    leader.now += 0.9
    leader.begin(A, keepalive=0.95)
    assert leader.tick(0.1) == []
    for _ in range(3):
        leader.now += 0.9
        leader.manager.advance_time(leader.now)
        assert leader.beat() is None
        assert leader.tick(0.1) == []


def test_keep_alive_checks_existence_then_ownership() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert type(leader.beat(TxnId(99), OTHER)) is NotFound
    assert type(leader.beat(TXN, OTHER)) is NotAuthorized


def test_the_clock_of_a_transaction_starts_when_it_begins() -> None:
    leader = Leader()
    leader.live(100.0)
    leader.begin(A)
    assert leader.live(KEEPALIVE_SECONDS) == []


def test_a_new_limit_of_the_lifetime_holds_for_what_is_open_already() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    leader.live(2.0)
    leader.manager.configure(replace(SETTINGS, max_lifetime_seconds=1.0))
    (expire,) = expiries(leader.live(1.0))
    assert "the maximum lifetime is 1.0 s" in expire.cause.message


def test_one_that_beats_expires_at_the_end_of_its_lifetime() -> None:
    leader = leader_with_txn_in(TxnState.OPEN, replace(SETTINGS, max_lifetime_seconds=10.0))
    for _ in range(20):
        assert leader.beat() is None
        assert leader.live(0.5) == []
    assert len(expiries(leader.live(1.5))) == 1


@pytest.mark.parametrize("wall_micros", [0, 8_000_001, 10**15])
def test_the_lifetime_begins_anew_under_a_new_leader(wall_micros: int) -> None:
    """All it could go by are two nodes' wall clocks; one that is hours ahead would abort all that is alive and well."""
    former = Leader()
    former.begin(A, keepalive=100.0)  # at 1 microsecond
    leader = Leader(former.table, replace(SETTINGS, max_lifetime_seconds=10.0), leads=False)
    leader.wall_micros = wall_micros
    leader.handle(LeadershipGained())
    assert leader.live(10.0) == []
    assert len(expiries(leader.live(2.0))) == 1


def test_a_longer_interval_of_the_cluster_concerns_new_transactions_only() -> None:
    """The interval stands in the record: options decide what a begin gets, not what it keeps."""
    leader = Leader()
    leader.begin(A, request_id="short", keepalive=2.0)
    leader.begin(A, request_id="long", keepalive=6.0)
    assert [e.txn_id for e in expiries(leader.live(4.0))] == [0]


def test_switching_the_check_off_and_on_again() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    leader.manager.configure(replace(SETTINGS, staleness_check_seconds=0))
    assert leader.live(100.0) == []
    leader.manager.configure(SETTINGS)
    assert len(expiries(leader.live(2.0))) == 1


def test_one_pass_expires_so_many_and_the_others_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.status.manager.MAX_EXPIRIES", 10)
    leader = Leader()
    for number in range(35):
        leader.begin(request_id=f"request-{number}")
    assert leader.live(KEEPALIVE_SECONDS) == []
    passes = [[e.txn_id for e in expiries(leader.live(1.0))] for _ in range(5)]
    assert list(map(len, passes)) == [10, 10, 10, 5, 0]
    assert sorted(txn_id for each in passes for txn_id in each) == list(range(35))


def test_one_silent_among_many_that_beat_expires_in_time() -> None:
    """A pass that looked at no more than it may expire was behind by minutes with a hundred thousand open."""
    leader = Leader()
    many = 30_000
    for number in range(many // 1000):
        leader.apply(cmd.BeginTxns(f"request-{number}", 1000, OWNER, "", int(KEEPALIVE_SECONDS * 1000), 1))
    expired: list[TxnId] = []
    for _ in range(round((KEEPALIVE_SECONDS + 1.5) / 0.1)):
        leader.now += 0.1
        leader.manager.advance_time(leader.now)
        assert not leader.manager.keep_alive(range(many - 1), OWNER)
        expired += [e.txn_id for e in expiries(leader.manager.handle(Tick(), leader.now, 1))]
    assert expired == [many - 1]


def test_nothing_is_kept_of_transactions_that_have_ended() -> None:
    """Also where the check is off, and where intervals are long: nothing may grow with history."""
    for settings in (SETTINGS, replace(SETTINGS, staleness_check_seconds=0)):
        leader = Leader(settings=settings)
        for number in range(3000):
            txn_id = leader.begin(request_id=f"request-{number}", keepalive=3600.0)
            leader.commit(txn_id)
        assert len(leader.manager._keep_alives) == len(leader.manager._tasks) == 0
        assert not any(vars(leader.manager._keep_alives).values())
        assert len(leader.manager._retries) == 0


class Watched:
    """What a transaction's life depends on, as the rule says it: no bucket, no shortcut."""

    def __init__(self, keepalive: float, heard: float, born: float) -> None:
        self.keepalive, self.heard, self.born = keepalive, heard, born
        self.expiring = False

    def stale(self, now: float, lifetime: float) -> bool:
        return now - self.heard > self.keepalive or bool(lifetime and now - self.born > lifetime)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("begin"), st.sampled_from([1.0, 2.0, 5.0])),
            st.tuples(st.just("beat"), st.integers(0, 9)),
            st.tuples(st.just("tick"), st.sampled_from([0.25, 0.5, 1.0, 7.0])),
            st.tuples(st.just("tick"), st.sampled_from([0.25, 0.5, 1.0])),
            st.tuples(st.just("commit"), st.integers(0, 9)),
            st.tuples(st.just("fail"), st.integers(0, 9)),
            st.tuples(st.just("lifetime"), st.sampled_from([0.0, 3.0, 10.0])),
            st.tuples(st.just("check"), st.sampled_from([0.0, 0.5, 1.0])),
            st.tuples(st.just("failover"), st.just(0)),
        ),
        max_size=80,
    )
)
@hypothesis_settings(max_examples=400)
def test_who_expires_is_what_the_plain_rule_says(steps: list[tuple[str, Any]]) -> None:
    """Quarters and halves of seconds are exact as floats, so the model and the buckets compare the same numbers."""
    leader = Leader()
    now, next_check, config = 0.0, 1.0, SETTINGS
    watched: dict[TxnId, Watched] = {}
    for number, (what, value) in enumerate(steps):
        chosen = TxnId(value) if isinstance(value, int) else TxnId(-1)
        match what:
            case "begin":
                txn_id = leader.begin(request_id=f"request-{number}", keepalive=value)
                watched[txn_id] = Watched(value, now, now)
            case "beat" if chosen in watched:
                alive = leader.beat(chosen) is None
                assert alive == (not watched[chosen].expiring)
                if alive:
                    watched[chosen].heard = max(watched[chosen].heard, now)
            case "commit" if chosen in watched:
                leader.commit(chosen)
                del watched[chosen]
            case "fail" if chosen in watched and watched[chosen].expiring:
                leader.manager.proposal_failed(cmd.Expire(chosen, REQUESTED, 1), leader.now)
                watched[chosen].expiring = False
            case "lifetime":
                config = replace(config, max_lifetime_seconds=value)
                leader.manager.configure(config)
            case "check":
                config = replace(config, staleness_check_seconds=value)
                leader.manager.configure(config)
            case "failover":
                leader.wall_micros = int(now * 1e6)
                leader.handle(LeadershipLost())
                leader.handle(LeadershipGained())
                next_check = leader.now - 1000.0 + config.staleness_check_seconds
                for each in watched.values():
                    each.heard = now + max(0.0, config.failover_grace_seconds - each.keepalive)
                    each.born = now
                    each.expiring = False
            case "tick":
                effects = leader.tick(value)
                now += min(value, config.max_tick_gap_seconds)
                expected = set()
                if config.staleness_check_seconds and leader.now - 1000.0 >= next_check:
                    next_check = leader.now - 1000.0 + config.staleness_check_seconds
                    for txn_id, each in watched.items():
                        if each.stale(now, config.max_lifetime_seconds) and not each.expiring:
                            each.expiring = True
                            expected.add(txn_id)
                found = [e.txn_id for e in expiries(effects)]
                assert sorted(found) == sorted(expected)
        leader.manager.check_invariants()


# ---- forgetting


def forgets(effects: Iterable[Effect]) -> list[cmd.Forget]:
    return [e.command for e in effects if isinstance(e, Propose) and isinstance(e.command, cmd.Forget)]


def leader_with_finished(count: int, retention: float = 10.0) -> Leader:
    """Whose transactions have all finished at 2 microseconds, long ago."""
    leader = Leader(settings=replace(SETTINGS, retention_seconds=retention))
    for number in range(count):
        leader.commit(leader.begin(request_id=f"request-{number}"))
    return leader


def test_what_is_over_for_long_enough_is_forgotten() -> None:
    leader = leader_with_finished(3)
    leader.wall_micros = 10_000_002
    assert leader.tick(0.1) == []
    leader.wall_micros += 1
    effects = leader.tick(0.1)
    assert effects == [Propose(cmd.Forget(3), awaited=False)]
    assert leader.apply_all(effects) == []
    assert list(leader.table.records()) == []
    assert leader.live(5.0) == []


def test_one_forget_at_a_time_until_all_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.status.table.MAX_FORGET_COUNT", 2)
    leader = leader_with_finished(5)
    leader.wall_micros = 20_000_000
    for left in (3, 1, 0):
        (forget,) = forgets(leader.tick(0.1))
        assert leader.live(1.0) == [], "one is under way"
        leader.apply(forget)
        assert len(list(leader.table.records())) == left
    assert leader.live(1.0) == []


def test_a_forget_that_failed_is_proposed_again() -> None:
    leader = leader_with_finished(1)
    leader.wall_micros = 20_000_000
    (forget,) = forgets(leader.tick(0.1))
    leader.manager.proposal_failed(forget, leader.now)
    assert forgets(leader.tick(0.1)) == [forget]


def test_a_new_leadership_forgets_that_a_forget_was_under_way() -> None:
    leader = leader_with_finished(1)
    leader.wall_micros = 20_000_000
    assert len(forgets(leader.tick(0.1))) == 1
    leader.handle(LeadershipLost())
    leader.handle(LeadershipGained())
    assert len(forgets(leader.tick(0.1))) == 1


def test_a_shorter_retention_holds_at_once() -> None:
    leader = leader_with_finished(1, retention=1e6)
    leader.wall_micros = 20_000_000
    assert leader.tick(0.1) == []
    leader.manager.configure(replace(SETTINGS, retention_seconds=0.0))
    assert len(forgets(leader.tick(0.1))) == 1


@pytest.mark.parametrize(("retention", "grace", "after"), [(10.0, 3.0, 3.0), (2.0, 3.0, 2.0), (0.0, 3.0, 0.0)])
def test_a_new_leader_forgets_nothing_for_a_while(retention: float, grace: float, after: float) -> None:
    """Its wall clock may be hours ahead of the one that the records were stamped by: what ended a moment ago seems old,
    and its client may still be asking how its commit ended."""
    former = leader_with_finished(1)
    settings = replace(SETTINGS, retention_seconds=retention, forget_grace_seconds=grace)
    leader = Leader(former.table, settings, leads=False)
    leader.wall_micros = 10**15
    leader.handle(LeadershipGained())
    assert forgets(leader.live(after - 0.5)) == []
    assert len(forgets(leader.live(1.0))) == 1


# ---- between apply and handle: the table is ahead of what the manager has heard


def test_a_record_that_has_moved_on_is_taken_as_it_is_now() -> None:
    leader = Leader()
    begun = cmd.BeginTxns("request-0", 1, OWNER, "", 3000, 1)
    first = leader.table.apply(begun)
    later: list[cmd.Command] = [
        cmd.RegisterParticipants(TXN, OWNER, ((A, NAMES[A]),)),
        cmd.BeginCommit(TXN, OWNER, 2),
    ]
    outcomes = [leader.table.apply(command) for command in later]
    assert leader.manager.handle(CommandApplied(begun, first), leader.now, 42) == send(BEGIN_COMMIT, A)
    for command, outcome in zip(later, outcomes, strict=True):
        assert leader.handle(CommandApplied(command, outcome)) == []
    assert not len(leader.manager._keep_alives)


def test_a_record_that_is_forgotten_by_now_leaves_nothing_behind() -> None:
    leader = Leader()
    begun = cmd.BeginTxns("request-0", 1, OWNER, "", 3000, 1)
    commit = cmd.BeginCommit(TXN, OWNER, 2)
    outcomes = [leader.table.apply(command) for command in (begun, commit, cmd.Forget(3))]
    assert leader.handle(CommandApplied(begun, outcomes[0])) == [Decided(TXN)], "whoever waits is told"
    assert leader.handle(CommandApplied(commit, outcomes[1])) == [Decided(TXN)]
    assert not len(leader.manager._keep_alives)
    assert leader.manager._tasks == {}
    leader.manager.configure(SETTINGS)
    assert leader.live(10.0) == []


def test_options_may_change_while_a_record_is_being_forgotten() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    leader.table.apply(cmd.BeginAbort(TXN, None, REQUESTED, 2))
    leader.table.apply(cmd.FinalizeAbort(TXN, 2))
    leader.table.apply(cmd.Forget(3))
    leader.manager.configure(SETTINGS)


# ---- leadership


def test_a_follower_does_nothing() -> None:
    leader = Leader(leads=False)
    leader.begin(A)
    assert leader.handle(CommitRequested(TXN, OWNER)) == []
    assert leader.commit() == []
    assert leader.answer(A, BEGIN_COMMIT, 100) == []
    assert leader.live(100.0) == []


@pytest.mark.parametrize("state", list(TxnState))
def test_losing_leadership_forgets_everything(state: TxnState) -> None:
    leader = leader_with_txn_in(state)
    assert leader.handle(LeadershipLost()) == []
    assert leader.manager.task_of(TXN) is None
    assert leader.live(100.0) == []
    assert leader.answer(A, BEGIN_COMMIT, 100) == []


@pytest.mark.parametrize(
    ("state", "op", "ts"),
    [
        (TxnState.COMMIT_IN_PROGRESS, BEGIN_COMMIT, 0),
        (TxnState.FINALIZE_IN_PROGRESS, FINALIZE, 120),
        (TxnState.ABORT_IN_PROGRESS, ABORT, 0),
    ],
)
def test_a_new_leader_takes_up_what_is_unfinished(state: TxnState, op: ParticipantOpType, ts: int) -> None:
    former = leader_with_txn_in(state)
    former.answer(A, op, 100)
    leader = Leader(former.table, leads=False)
    assert leader.handle(LeadershipGained()) == send(op, A, B, ts=ts), "what the former one knew died with it"
    leader.answer(A, op, 130)
    assert len(leader.answer(B, op, 130)) == 1


@pytest.mark.parametrize("state", [TxnState.OPEN, TxnState.COMMITTED, TxnState.ABORTED])
def test_a_new_leader_sends_nothing_for_what_is_open_or_over(state: TxnState) -> None:
    leader = Leader(leader_with_txn_in(state).table, leads=False)
    assert leader.handle(LeadershipGained()) == []
    assert leader.manager.task_of(TXN) is None


def test_a_new_leader_gives_each_open_transaction_one_whole_interval() -> None:
    former = leader_with_txn_in(TxnState.OPEN)
    former.live(KEEPALIVE_SECONDS)
    leader = Leader(former.table)
    assert leader.live(KEEPALIVE_SECONDS) == []
    assert len(expiries(leader.live(KEEPALIVE_SECONDS))) == 1, "one grace, once"


def test_clients_get_time_to_find_a_new_leader_however_short_their_interval() -> None:
    former = Leader()
    former.begin(A, keepalive=0.5)
    leader = Leader(former.table)
    assert leader.live(SETTINGS.failover_grace_seconds) == []
    assert len(expiries(leader.live(2.0))) == 1, "one grace, once"


def test_a_beat_does_not_cut_the_grace_short() -> None:
    """A new leader expires nobody before the grace is over, and from then on it goes by the interval."""
    former = Leader()
    former.begin(A, keepalive=0.5)
    leader = Leader(former.table)
    assert leader.beat() is None
    assert leader.live(SETTINGS.failover_grace_seconds) == []
    assert leader.beat() is None
    assert leader.live(0.5) == []
    assert len(expiries(leader.live(1.5))) == 1


def test_leading_again_gives_the_grace_anew_and_forgets_an_expiry_that_was_under_way() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    assert len(expiries(leader.live(2 * KEEPALIVE_SECONDS))) == 1
    leader.handle(LeadershipLost())
    leader.now += 50.0
    assert leader.handle(LeadershipGained()) == []
    assert leader.beat() is None
    assert leader.live(KEEPALIVE_SECONDS) == []
    assert len(expiries(leader.live(KEEPALIVE_SECONDS))) == 1


def test_the_pause_between_two_leaderships_does_not_count_as_silence() -> None:
    leader = leader_with_txn_in(TxnState.OPEN)
    leader.handle(LeadershipLost())
    leader.now += 1000.0
    leader.handle(LeadershipGained())
    assert leader.live(KEEPALIVE_SECONDS) == []


def test_two_leaders_at_once_do_no_harm() -> None:
    """The former leader does not know yet. Both ask, both are answered; what both propose applies to both tables."""
    one, two = Leader(), Leader(leads=False)

    def replicate(command: cmd.Command) -> None:
        for leader in (one, two):
            leader.apply(command)
        assert list(one.table.snapshot()) == list(two.table.snapshot())

    replicate(cmd.BeginTxns("request-0", 1, OWNER, "", 3000, 1))
    replicate(cmd.RegisterParticipants(TXN, OWNER, ((A, NAMES[A]),)))
    replicate(cmd.BeginCommit(TXN, OWNER, 2))
    assert two.handle(LeadershipGained()) == send(BEGIN_COMMIT, A)
    for op in (BEGIN_COMMIT, FINALIZE):
        # The participant answers each of them, the second as "already applied", with the same timestamp.
        proposals = [e for leader in (one, two) for e in leader.answer(A, op, 100)]
        assert len(proposals) == 2
        for proposal in proposals:
            assert isinstance(proposal, Propose)
            replicate(proposal.command)
    assert one.state is two.state is TxnState.COMMITTED
    assert one.table.get(TXN).commit_ts == 100
    assert one.manager.task_of(TXN) is two.manager.task_of(TXN) is None


def test_two_leaders_of_different_minds_end_alike() -> None:
    """One heard that all prepared, the other that one refused: the log decides, once, and both follow it."""
    for commits_first in (True, False):
        one, two = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS), leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
        one.answer(A, BEGIN_COMMIT, 100)
        (finalize,) = one.answer(B, BEGIN_COMMIT, 100)
        (abort,) = two.answer(B, BEGIN_COMMIT, error=IllegalState("late"))
        for effect in (finalize, abort) if commits_first else (abort, finalize):
            assert isinstance(effect, Propose)
            for leader in (one, two):
                leader.apply(effect.command)
        assert list(one.table.snapshot()) == list(two.table.snapshot())
        assert one.state is (TxnState.FINALIZE_IN_PROGRESS if commits_first else TxnState.ABORT_IN_PROGRESS)
        expected = FINALIZE if commits_first else ABORT
        for leader in (one, two):
            task = leader.manager.task_of(TXN)
            assert task is not None
            assert task.op is expected
