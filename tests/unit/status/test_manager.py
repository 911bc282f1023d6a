"""The status leader's volatile half in every state, for many transactions, and over any history.

Stories of one or two transactions are in the folder `scenarios`.
"""

from __future__ import annotations

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
from txnstatus.errors import IllegalState, NotFound, TxnAborted, TxnError
from txnstatus.status import commands as cmd
from txnstatus.status.events import (
    CommitRequested,
    LeadershipGained,
    LeadershipLost,
    Propose,
    Tick,
)
from txnstatus.types import (
    ParticipantOpType,
    TxnId,
    TxnState,
)


@pytest.mark.parametrize("state", [s for s in TxnState if s is not TxnState.OPEN])
def test_only_an_open_transaction_is_prepared_early(state: TxnState) -> None:
    assert leader_with_txn_in(state).handle(CommitRequested(TXN, OWNER)) == []


@pytest.mark.parametrize("state", [s for s in TxnState if s is not TxnState.OPEN])
def test_only_open_transactions_expire(state: TxnState) -> None:
    assert expiries(leader_with_txn_in(state).live(10 * KEEPALIVE_SECONDS)) == []


@pytest.mark.parametrize("state", list(TxnState))
def test_losing_leadership_forgets_everything(state: TxnState) -> None:
    leader = leader_with_txn_in(state)
    assert leader.handle(LeadershipLost()) == []
    assert leader.manager.task_of(TXN) is None
    assert leader.live(100.0) == []
    assert leader.answer(A, BEGIN_COMMIT, 100) == []


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
        ceiling = min(SETTINGS.retries.most_seconds, SETTINGS.retries.first_seconds * 2**number)
        assert ceiling / 2 - CLOSE <= pause <= ceiling + 0.01 + CLOSE
    assert len(leader.answer(B, op, 100)) == 1, "and then it goes on"


@pytest.mark.parametrize(
    ("state", "op"),
    [
        (TxnState.COMMIT_IN_PROGRESS, BEGIN_COMMIT),
        (TxnState.FINALIZE_IN_PROGRESS, FINALIZE),
        (TxnState.ABORT_IN_PROGRESS, ABORT),
    ],
)
def test_a_participant_that_goes_to_another_log_is_asked_there(state: TxnState, op: ParticipantOpType) -> None:
    leader = leader_with_txn_in(state)
    ts = leader.table.get(TXN).commit_ts
    leader.handle(LeadershipLost())
    leader.manager.is_here = lambda _txn_id, participant: participant == B
    assert leader.handle(LeadershipGained()) == send(op, A, ts=ts)
    leader.manager.is_here = lambda _txn_id, _participant: False
    assert leader.answer(A, op, 100) == send(op, B, ts=ts)
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


def test_a_failed_begin_concerns_no_task() -> None:
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    leader.manager.proposal_failed(cmd.BeginTxns("request-x", 1, OWNER, "", 0, 1), leader.now)
    assert leader.tick(0.1) == []


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


def test_a_new_leader_takes_many_over_in_several_ticks_and_whoever_beats_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("txnstatus.status.manager.MAX_TAKEN_OVER", 300)
    leader = Leader()
    leader.apply(cmd.BeginTxns("request-0", 1000, OWNER, "", int(KEEPALIVE_SECONDS * 1000), 1))
    leader.register(TxnId(0), A)
    leader.manager.handle(LeadershipLost(), leader.now, 1)
    leader.table.apply(cmd.BeginCommit(TxnId(0), OWNER, 1))
    leader.manager.handle(LeadershipGained(), leader.now, 1)
    watched = leader.manager._keep_alives
    assert len(watched) == 300, "before anybody is answered"
    assert 999 in watched, "the newest come first"
    assert leader.manager.keep_alive([1, 2, 999], OWNER) == {}
    assert isinstance(leader.manager.keep_alive([3], "bob")[TxnId(3)], TxnError)
    assert isinstance(leader.manager.keep_alive([0], OWNER)[TxnId(0)], IllegalState)
    for _ in range(3):
        assert leader.manager.is_taking_over
        leader.tick(0.01)
        leader.manager.check_invariants()
    assert not leader.manager.is_taking_over
    assert len(watched) == 999
    assert leader.manager.task_of(TxnId(0)) is not None, "the commit goes on"
    leader.live(KEEPALIVE_SECONDS - 1.0)
    assert leader.manager.keep_alive(range(1, 999), OWNER) == {}
    found = [each.txn_id for _ in range(2) for each in expiries(leader.live(1.0))]
    assert found == [999]


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


def test_one_forget_at_a_time_until_all_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.status.table.MAX_FORGET_COUNT", 2)
    leader = Leader(settings=replace(SETTINGS, retention_seconds=10.0))
    for number in range(5):
        leader.commit(leader.begin(request_id=f"request-{number}"))
    leader.wall_micros = 20_000_000
    for left in (3, 1, 0):
        (effect,) = leader.tick(0.1)
        assert effect == Propose(cmd.Forget(10_000_000), awaited=False)
        assert leader.live(1.0) == [], "one is under way"
        leader.apply_all([effect])
        assert len(list(leader.table.records())) == left
    assert leader.live(1.0) == []


def test_what_is_on_its_way_is_not_forgotten_as_it_ends() -> None:
    """Pins: its end says when it was proposed. Where it took longer than the retention, it ended old, and was gone at
    once, before anybody had written it down."""
    leader = Leader(settings=replace(SETTINGS, retention_seconds=1.0))
    first, late = (leader.begin(request_id=f"request-{number}") for number in (1, 2))
    leader.apply(cmd.BeginCommit(first, OWNER, 1_000_000))
    on_its_way, proposed_at = cmd.BeginCommit(late, OWNER, 10_000_000), leader.now
    assert leader.live(2.0) == []
    leader.wall_micros = 12_000_000
    (effect,) = leader.handle(Tick(leader.now - proposed_at))
    assert effect == Propose(cmd.Forget(10_000_000), awaited=False)
    leader.apply(on_its_way)
    leader.apply_all([effect])
    assert [each.txn_id for each in leader.table.records()] == [late]


def test_nothing_is_forgotten_that_is_to_be_kept_for_another_reason() -> None:
    """Nor what ended after it, however old it is."""
    leader = Leader(settings=replace(SETTINGS, retention_seconds=10.0))
    for ended in (2, 3, 4):
        leader.apply(cmd.BeginCommit(leader.begin(request_id=f"request-{ended}"), OWNER, ended))
    leader.wall_micros = 20_000_000
    leader.manager.kept_from = lambda _table: 2
    assert leader.live(1.0) == []
    leader.manager.kept_from = lambda _table: 3
    (effect,) = leader.tick(0.1)
    assert effect == Propose(cmd.Forget(3), awaited=False)
    leader.apply_all([effect])
    assert [each.txn_id for each in leader.table.records()] == [2, 1]
    assert leader.live(1.0) == []
