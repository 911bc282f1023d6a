"""Heartbeats: the schedule without a clock, and its shell against a manager on loopback."""

from __future__ import annotations

import gc
import logging
import random
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

import txnclient
from tests.support import wait_until
from tests.unit.harness.fake_manager import FakeManager, in_turn, keep_alive, raises
from txnclient import Client, InternalError, NotAuthorized, NotFound, Transaction, TxnAborted, TxnError, Unavailable
from txnclient.alive.heartbeat_schedule import Call, HeartbeatSchedule
from txnclient.handle import Handle
from txnstatus.errors import Forgotten
from txnstatus.limits import MAX_KEEP_ALIVE_IDS
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import AbortCause, AbortCode, TxnId

KEEPALIVE = 4.0

# ---- the schedule


def test_kudus_rhythm_a_beat_every_half_interval_given_up_after_a_quarter() -> None:
    schedule = HeartbeatSchedule()
    schedule.add(1, KEEPALIVE, heard=100.0)
    assert schedule.next_due() == 102.0
    assert schedule.due(101.9) is None
    assert schedule.due(102.0) == Call((1,), timeout=1.0)
    assert schedule.next_due() is None, "one call at a time"
    schedule.answered([1], sent=102.0, now=102.3)
    assert schedule.next_due() == 104.0


def test_a_begin_that_took_long_is_followed_by_a_beat_at_once() -> None:
    schedule = HeartbeatSchedule()
    schedule.add(1, KEEPALIVE, heard=100.0)
    assert schedule.due(109.0) == Call((1,), timeout=1.0)


def test_after_a_failure_the_next_attempt_comes_sooner() -> None:
    schedule = HeartbeatSchedule()
    schedule.add(1, KEEPALIVE, heard=0.0)
    assert schedule.due(2.0)
    assert schedule.failed([1], sent=2.0, now=2.1) == []
    assert schedule.next_due() == 2.5
    assert schedule.due(2.5)
    assert schedule.failed([1], sent=2.5, now=3.5) == []
    assert schedule.due(3.5), "a hung call, and time for another one before the interval is over"


def test_silence_is_told_once_until_somebody_answers() -> None:
    schedule = HeartbeatSchedule()
    schedule.add(1, KEEPALIVE, heard=0.0)
    told = []
    for now in (2.0, 3.0, 4.0, 4.5, 6.0, 9.0):
        assert schedule.due(now)
        told += schedule.failed([1], now, now)
    assert told == [(1, 4.5)]
    assert schedule.due(20.0), "it goes on: a service that was down expires nobody for that"
    schedule.answered([1], sent=20.0, now=20.1)
    for now in (23.0, 24.5):
        assert schedule.due(now)
        told += schedule.failed([1], now, now)
    assert told == [(1, 4.5), (1, 4.5)]


def test_whoever_is_due_soon_goes_along() -> None:
    schedule = HeartbeatSchedule()
    for key in range(10):
        schedule.add(key, KEEPALIVE, heard=key * 0.01)
    schedule.add(10, KEEPALIVE, heard=1.01)
    assert schedule.due(2.0) == Call(tuple(range(10)), 1.0)
    schedule.answered(range(10), sent=2.0, now=2.0)
    assert schedule.due(3.0) is None
    assert schedule.due(3.01) == Call((10, *range(10)), 1.0)


@pytest.mark.parametrize("apart", [0.1, 0.5, 0.99, 1.0, 1.5, 1.99])
def test_two_groups_of_an_interval_become_one_within_two_calls(apart: float) -> None:
    """However far apart they began, and whichever way their periods differ by chance."""
    factors = random.Random(apart)
    schedule = HeartbeatSchedule(lambda: factors.uniform(0.9, 1.0))
    for key in range(10):
        schedule.add(key, KEEPALIVE, heard=0.0 if key < 5 else apart)
    sizes = []
    while (now := schedule.next_due() or 0.0) < 20.0:
        call = schedule.due(now)
        assert call
        sizes.append(len(call.keys))
        schedule.answered(call.keys, now, now)
    assert set(sizes[2:]) == {10}, sizes


def test_an_interval_of_its_own_has_a_period_of_its_own() -> None:
    schedule = HeartbeatSchedule()
    schedule.add(1, 1.0, heard=0.0)
    schedule.add(2, 60.0, heard=0.0)
    beats = {1: 0, 2: 0}
    for tick in range(6001):
        now = tick / 100
        if call := schedule.due(now):
            assert call.timeout == (0.25 if 1 in call.keys else 15.0)
            for key in call.keys:
                beats[key] += 1
            schedule.answered(call.keys, now, now)
    assert beats == {1: 120, 2: 2}


@pytest.mark.parametrize("count", [1, MAX_KEEP_ALIVE_IDS, MAX_KEEP_ALIVE_IDS + 1, 10 * MAX_KEEP_ALIVE_IDS])
def test_many_handles_share_a_call_up_to_a_limit(count: int) -> None:
    schedule = HeartbeatSchedule()
    for key in range(count):
        schedule.add(key, KEEPALIVE, heard=0.0)
    sizes = []
    while call := schedule.due(2.0):
        sizes.append(len(call.keys))
        schedule.answered(call.keys, 2.0, 2.0)
    assert sum(sizes) == count
    assert len(sizes) == -(-count // MAX_KEEP_ALIVE_IDS)


def test_what_is_removed_while_its_call_is_under_way_stays_removed() -> None:
    schedule = HeartbeatSchedule()
    schedule.add(1, KEEPALIVE, heard=0.0)
    assert schedule.due(2.0)
    schedule.remove(1)
    schedule.answered([1], 2.0, 2.0)
    assert schedule.failed([1], 2.0, 99.0) == []
    assert schedule.next_due() is None
    assert not schedule


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "remove", "answer", "fail"]),
            st.integers(0, 5),
            st.sampled_from([0.5, 1.0, 4.0, 60.0]),
            st.floats(0.0, 3.0),
        ),
        max_size=60,
    )
)
def test_every_handle_beats_again_whatever_happens(steps: list[tuple[str, int, float, float]]) -> None:
    schedule = HeartbeatSchedule()
    now = 0.0
    for step, key, keepalive, seconds in steps:
        now += seconds
        if step == "add":
            schedule.add(key, keepalive, now)
        elif step == "remove":
            schedule.remove(key)
        elif call := schedule.due(now):
            schedule.check_invariants()
            assert len(set(call.keys)) == len(call.keys)
            schedule.answered(call.keys, now, now) if step == "answer" else schedule.failed(call.keys, now, now)
        schedule.check_invariants()
        assert (schedule.next_due() is None) == (len(schedule) == 0), "nothing is under way here"


@given(st.lists(st.floats(0.5, 10.0), min_size=1, max_size=8), st.floats(0.0, 0.2))
def test_a_service_that_answers_never_hears_a_silence_as_long_as_the_interval(
    keepalives: list[float], latency: float
) -> None:
    """With answers that take up to a quarter of the shortest interval, and the most unlucky order of calls."""
    schedule = HeartbeatSchedule()
    for key, keepalive in enumerate(keepalives):
        schedule.add(key, keepalive, 0.0)
    heard = dict.fromkeys(range(len(keepalives)), 0.0)
    now = 0.0
    while now < 30.0:
        now = max(now, schedule.next_due() or now)
        call = schedule.due(now)
        assert call
        took = latency * call.timeout
        for key in call.keys:
            assert now + took - heard[key] <= keepalives[key]
            heard[key] = now
        schedule.answered(call.keys, now, now + took)
        now += took


# ---- the thread


FAST = 200
"""Milliseconds: a beat every 100."""


def beats(manager: FakeManager) -> list[list[int]]:
    return [list(request.txn_ids) for request in manager.requests["KeepTransactionAlive"]]


def test_one_call_for_all_handles_of_a_client(manager: FakeManager, client: Client) -> None:
    handles = client.begin_many(50, keepalive_millis=FAST)
    ids: list[int] = [txn.id for txn in handles]
    wait_until(lambda: beats(manager)[-3:] == [ids] * 3, "some heartbeats of all")
    # Some may come while handles are still being made: on a busy machine that takes longer than a beat, and those made
    # since then are due before those that beat already.
    assert all(beat == [each for each in ids if each in beat] for beat in beats(manager))
    wait_until(lambda: all(txn.alive for txn in handles), "an answer that came late is forgiven")
    wait_until(lambda: all(txn.last_heartbeat_age < 5 for txn in handles), "they were heard")


def test_a_handle_of_another_interval_does_not_hurry_the_others(manager: FakeManager, client: Client) -> None:
    slow, fast = client.begin(), client.begin(keepalive_millis=FAST)
    wait_until(lambda: len(beats(manager)) >= 3, "some heartbeats")
    assert beats(manager)[:3] == [[fast.id]] * 3
    assert slow.alive


@pytest.mark.parametrize("end", ["commit", "abort", "close", "garbage"])
def test_what_has_ended_beats_no_more(manager: FakeManager, client: Client, end: str) -> None:
    ended, other = client.begin_many(2, keepalive_millis=FAST)
    ended_id = ended.id
    if end == "commit":
        ended.commit()
    elif end == "abort":
        ended.abort()
    elif end == "close":
        client.close()
    else:
        wait_until(lambda: beats(manager), "a heartbeat")
        gone = weakref.ref(ended.handle)
        del ended
        gc.collect()
        wait_until(lambda: gone() is None, "nothing holds the handle")
    if end == "close":
        wait_until(lambda: client.session.heartbeats._thread is None, "the thread ends")
        return
    before = len(beats(manager))
    wait_until(lambda: len(beats(manager)) >= before + 3, "more heartbeats")
    assert beats(manager)[before + 1 :] == [[other.id]] * len(beats(manager)[before + 1 :])
    assert ended_id != other.id


REFUSALS: list[TxnError] = [
    NotFound("unknown"),
    Forgotten("forgotten"),
    NotAuthorized("belongs to somebody else"),
    TxnAborted("aborted", cause=AbortCause(AbortCode.OPERATOR, "it held things up", "operator root")),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: error.code)
def test_kudu_fault_13_heartbeats_stop_at_a_final_refusal(
    manager: FakeManager, client: Client, refusal: TxnError
) -> None:
    lost, other = client.begin_many(2, keepalive_millis=FAST)
    news: list[TxnError] = []
    told_on: list[str] = []
    lost.on_lost(lambda error: (news.append(error), told_on.append(threading.current_thread().name)))
    manager.answers["KeepTransactionAlive"] = lambda request: keep_alive(request, **{f"txn_{lost.id}": refusal})
    wait_until(lambda: told_on, "the news")
    assert [type(error) for error in news] == [type(refusal)]
    assert told_on == ["txn-heartbeats"]
    assert not lost.alive
    assert other.alive
    before = len(beats(manager))
    wait_until(lambda: len(beats(manager)) >= before + 2, "more heartbeats")
    assert all(ids == [other.id] for ids in beats(manager)[before:])
    asked = dict(manager.requests)
    with pytest.raises(type(refusal)) as caught:
        lost.write(None, "air.flights")
    assert "OpenWrite" not in asked, "a write on a lost handle makes no call"
    if isinstance(caught.value, TxnAborted):
        assert (caught.value.by, caught.value.reason) == ("operator root", "it held things up")


def test_a_failed_call_costs_nobody_the_transaction(manager: FakeManager, client: Client) -> None:
    """Neither what can be tried again, nor a fault of the service."""

    def per_id(request: pb.KeepTransactionAliveRequest) -> pb.KeepTransactionAliveResponse:
        return keep_alive(request, **{f"txn_{txn_id}": Unavailable("no leader") for txn_id in request.txn_ids})

    manager.answers["KeepTransactionAlive"] = in_turn(
        raises(Unavailable("no leader")), raises(InternalError("a fault")), per_id, keep_alive
    )
    txn = client.begin(keepalive_millis=2_000)
    wait_until(lambda: len(beats(manager)) >= 5, "all of it, and beats after it")
    assert txn.alive


def test_silence_is_told_and_forgiven(manager: FakeManager, client: Client) -> None:
    txn = client.begin(keepalive_millis=FAST)
    news: list[TxnError] = []
    txn.on_lost(news.append)
    manager.answers["KeepTransactionAlive"] = raises(Unavailable("no leader"))
    wait_until(lambda: news, "the silence is told")
    (error,) = news
    assert isinstance(error, Unavailable)
    assert error.txn_id == txn.id
    assert "0.2 s" in error.message
    assert "not known" in error.message
    assert "no leader" in error.message
    assert not txn.alive
    with pytest.raises(Unavailable, match="no heartbeat"):
        txn.lock("air.flights", "S")
    assert "Lock" not in manager.requests
    manager.answers["KeepTransactionAlive"] = keep_alive
    wait_until(lambda: txn.alive, "an answered heartbeat says more than the silence did")
    assert txn.commit().tables == ("air.flights",)
    assert len(news) == 1


def test_a_hanging_manager_leaves_time_for_another(manager: FakeManager) -> None:
    with FakeManager() as hanging:
        hanging.answers["KeepTransactionAlive"] = hanging.hang
        with txnclient.connect([hanging.address, manager.address]) as client:
            txn = client.begin(keepalive_millis=1_000)
            wait_until(lambda: len(beats(manager)) >= 2, "the other one is asked")
            assert txn.alive


def test_a_bad_callback_harms_nobody(manager: FakeManager, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    first, second, third = client.begin_many(3, keepalive_millis=FAST)
    news: list[int] = []

    def bad(error: TxnError) -> None:
        raise ZeroDivisionError("of the program")

    first.on_lost(bad)
    first.on_lost(lambda _error: news.append(1))
    second.on_lost(lambda _error: news.append(2))
    gone = {f"txn_{txn.id}": NotFound("gone") for txn in (first, second)}
    with caplog.at_level(logging.ERROR):
        manager.answers["KeepTransactionAlive"] = lambda request: keep_alive(request, **gone)
        wait_until(lambda: sorted(news) == [1, 2], "the others are told")
    assert "of the program" in caplog.text
    before = len(beats(manager))
    wait_until(lambda: len(beats(manager)) > before, "the thread goes on")
    assert third.alive


def test_a_callback_that_comes_late_is_called_at_once(manager: FakeManager, client: Client) -> None:
    txn = client.begin(keepalive_millis=FAST)
    manager.answers["KeepTransactionAlive"] = raises(NotFound("gone"))
    wait_until(lambda: not txn.alive, "the loss")
    news: list[TxnError] = []
    txn.on_lost(news.append)
    assert [error.message for error in news] == ["gone"]


def test_a_callback_may_use_the_handle_and_the_client(manager: FakeManager, client: Client) -> None:
    txn = client.begin(keepalive_millis=FAST)
    seen: list[object] = []
    txn.on_lost(lambda _error: seen.append((txn.alive, client.begin().alive)))
    manager.answers["KeepTransactionAlive"] = raises(NotFound("gone"))
    wait_until(lambda: seen, "the callback ran")
    assert seen == [(False, True)]


def test_the_loss_does_not_keep_the_handle(manager: FakeManager, client: Client) -> None:
    manager.answers["KeepTransactionAlive"] = raises(NotFound("gone"))

    def lose() -> weakref.ref[Handle]:
        txn = client.begin(keepalive_millis=FAST)
        wait_until(lambda: not txn.alive, "the loss")
        try:
            txn.write(None, "air.flights")
        except NotFound:
            return weakref.ref(txn.handle)
        raise AssertionError("a write on a lost handle")

    gc.disable()
    try:
        gone = lose()
        wait_until(lambda: gone() is None, "it goes without the garbage collector's help")
    finally:
        gc.enable()


def test_no_thread_without_handles(manager: FakeManager, client: Client) -> None:
    assert client.session.heartbeats._thread is None
    joined = Transaction(client.session, TxnId(7), 1000, heartbeat=False)
    assert joined.alive
    assert client.session.heartbeats._thread is None
    begun = client.begin()
    assert client.session.heartbeats._thread is not None
    assert begun.alive


# ---- forks

FORK = """
    import os, sys, threading, time
    import txnclient
    from txnclient.alive.liveness import _LOCK

    client = txnclient.connect(sys.argv[1], timeout=1.0)
    txn = client.begin(keepalive_millis=200)
    held = threading.Event()

    def hold():  # as another thread does, at the worst moment
        channel = client.session.channel
        with client.session.heartbeats._condition, channel._lock, channel.connections._lock, _LOCK.held:
            held.set()
            time.sleep(3600)

    if sys.argv[2] == "locked":
        threading.Thread(target=hold, daemon=True).start()
        held.wait()
    child = os.fork()
    if child == 0:
        assert client.session.heartbeats._thread is None, "the thread is the parent's"
        assert len(client.session.heartbeats._schedule) == 0, "and so are its handles"
        txn.on_lost(print)
        assert txn.alive
        assert client.begin().id != txn.id
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if sys.argv[2] == "free":
        assert client.begin().id > txn.id, "the parent's connections are as they were"
    sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize("locks", ["free", "locked"])
def test_a_forked_child_neither_beats_for_its_parent_nor_hangs(manager: FakeManager, locks: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORK), manager.address, locks],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_the_clock_of_the_handle_starts_with_the_begin(manager: FakeManager, client: Client) -> None:
    before = time.monotonic()
    txn = client.begin()
    assert 0 <= txn.last_heartbeat_age <= time.monotonic() - before
