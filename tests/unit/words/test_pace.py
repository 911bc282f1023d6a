"""Pace: what is within the rate at once, what comes a little early in its turn, and refusals late."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txnstatus.pace import LATE_SECONDS, MOST_LATE, WAIT_SECONDS, Pace

PATIENCE = 27.0


@given(
    rate=st.integers(1, 20),
    asked=st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(1, 5)), min_size=1, max_size=60),
)
def test_begins_are_bounded_over_every_time_and_whoever_is_slow_never_waits(
    rate: int, asked: list[tuple[float, int]]
) -> None:
    pace, now, begun = Pace(), 0.0, list[tuple[float, int]]()
    for number, (pause, count) in enumerate(asked):
        now, count = now + pause, min(count, rate)
        turn = pace.turn(count, rate, now, PATIENCE)
        if not turn.is_refused:
            assert turn.seconds <= WAIT_SECONDS
            begun.append((now + turn.seconds, count))
        assert number or turn.seconds == 0.0, "whoever comes first begins at once"
        assert not turn.is_refused or pause < 1.0 + WAIT_SECONDS, "after a while as many begin as one likes"
    assert begun == sorted(begun, key=lambda each: each[0]), "in the order in which they came"
    for first, (since, _) in enumerate(begun):
        for last in range(first, len(begun)):
            until, total = begun[last][0], sum(count for _, count in begun[first : last + 1])
            assert total <= rate + (until - since) * rate + 1e-3


def test_who_begins_more_at_once_than_a_second_has_waits_for_as_many_seconds() -> None:
    pace = Pace()
    assert pace.turn(35, 10, 0.0, PATIENCE).seconds == 0.0
    assert [pace.turn(1, 10, now, PATIENCE).is_refused for now in (0.0, 1.5)] == [True, True]
    assert pace.turn(1, 10, 1.7, PATIENCE).seconds == pytest.approx(0.9)
    assert pace.turn(1, 10, 2.7, PATIENCE).seconds == 0.0


def test_a_begin_waits_for_no_longer_than_whoever_waits_for_it() -> None:
    pace = Pace()
    pace.turn(10, 10, 0.0, PATIENCE)
    assert pace.turn(5, 10, 0.0, 0.4).is_refused
    assert pace.turn(4, 10, 0.0, 0.4).seconds == pytest.approx(0.4)


def test_refusals_come_at_the_rate_too_and_in_time_for_whoever_waits() -> None:
    pace, rate = Pace(), 10
    pace.turn(rate, rate, 0.0, PATIENCE)
    waiting = [pace.turn(1, rate, 0.0, PATIENCE).seconds for _ in range(rate)]
    assert waiting == pytest.approx([each / rate for each in range(1, rate + 1)])
    late = [pace.refusal(rate, 0.0, 5.0) for _ in range(100)]
    assert [each.seconds for each in late if each] == pytest.approx([min(5.0, each / rate) for each in range(100)])
    assert pace.late == 100
    assert pace.refusal(rate, 0.0, 1e9).seconds <= LATE_SECONDS  # type: ignore[union-attr]


def test_beyond_so_many_refusals_more_are_told_at_once_and_not_counted() -> None:
    pace = Pace()
    pace.turn(3, 1, 0.0, PATIENCE)
    turns = [pace.turn(1, 1, 0.0, PATIENCE) for _ in range(MOST_LATE + 5)]
    assert all(turn.is_refused for turn in turns)
    assert [turn.is_late for turn in turns[-6:]] == [True] + [False] * 5
    assert all(turn.seconds == 0.0 for turn in turns if not turn.is_late)
    assert pace.late == MOST_LATE


def test_nothing_is_refused_unread_while_something_may_begin() -> None:
    pace = Pace()
    assert pace.refusal(5, 0.0, PATIENCE) is None
    for _ in range(10):
        assert pace.refusal(5, 0.0, PATIENCE) is None
        assert not pace.turn(1, 5, 0.0, PATIENCE).is_refused
    assert pace.refusal(5, 0.0, PATIENCE) is not None
    assert pace.late == 1
    assert pace.refusal(5, 0.3, PATIENCE) is None


def test_whoever_is_refused_is_told_when_it_helps_to_ask_again() -> None:
    pace = Pace()
    pace.turn(40, 10, 0.0, PATIENCE)
    assert pace.turn(1, 10, 0.0, PATIENCE).is_refused
    again = pace.again(1, 10, 0.0)
    assert again == pytest.approx(3.1 - WAIT_SECONDS)
    assert not pace.turn(1, 10, again + 1e-9, PATIENCE).is_refused
    assert pace.again(1, 10, 100.0) == pytest.approx(0.1), "never at once"


def test_what_is_over_is_forgotten_once_nobody_waits() -> None:
    pace = Pace()
    assert pace.is_over(5, 0.0)
    pace.turn(10, 5, 0.0, PATIENCE)
    pace.turn(1, 5, 0.0, PATIENCE)
    assert not pace.is_over(5, 10.0), "a refusal waits"
    pace.late = 0
    assert pace.is_over(0, 0.0), "there is no limit any more"
    assert not pace.is_over(5, 1.9)
    assert pace.is_over(5, 2.0)
