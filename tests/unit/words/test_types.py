"""Hybrid time, and the addresses that clients are given."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from txnclient.calls.channel import parse_addresses
from txnstatus.errors import InvalidArgument
from txnstatus.types import MAX_LEAD_MICROS, HybridClock, ParticipantState, Timestamp, TxnState, micros_of, timestamp


def test_a_timestamp_has_microseconds_above_a_counter() -> None:
    assert timestamp(3, 5) == 3 * 4096 + 5
    assert micros_of(timestamp(3, 5)) == 3


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.integers(0, 100), st.none() | st.integers(0, 500_000).map(Timestamp)), max_size=30))
def test_a_clock_never_goes_back_and_is_never_behind_what_it_saw(steps: list[tuple[int, Timestamp | None]]) -> None:
    wall, highest = 0, Timestamp(-1)
    clock = HybridClock(lambda: wall)
    for next_wall, seen in steps:
        wall = next_wall
        if seen is not None:
            clock.update(seen)
            highest = max(highest, seen)
        now = clock.now()
        assert now > highest
        assert micros_of(now) >= wall
        highest = now


def test_a_clock_follows_the_wall() -> None:
    clock = HybridClock(lambda: 1_000_000)
    assert clock.now() == timestamp(1_000_000)
    assert clock.now() == timestamp(1_000_000, 1)


@pytest.mark.parametrize(
    ("given_addresses", "parsed"),
    [
        ("h:1", ("h:1",)),
        (" a:1 , b:2,", ("a:1", "b:2")),
        (["a:1", "b:65535"], ("a:1", "b:65535")),
        ("[::1]:7051", ("[::1]:7051",)),
    ],
)
def test_addresses(given_addresses: str | list[str], parsed: tuple[str, ...]) -> None:
    assert parse_addresses(given_addresses) == parsed


@pytest.mark.parametrize("wrong", ["", ",", "h", "h:", ":1", "h:0", "h:65536", "h:-1", "h:x", "a:1,b", []])
def test_what_is_no_address_is_refused(wrong: str | list[str]) -> None:
    with pytest.raises(InvalidArgument, match="host:port"):
        parse_addresses(wrong)


def test_a_clock_follows_others_by_a_day_at_most() -> None:
    """One wrong message must not use up the time that is left; hours apart is no reason to fall behind."""
    clock = HybridClock(lambda: 10**15)
    clock.update(timestamp(10**15 + MAX_LEAD_MICROS))
    ahead = clock.now()
    assert ahead > timestamp(10**15 + MAX_LEAD_MICROS)
    for nonsense in (timestamp(10**15 + MAX_LEAD_MICROS + 1), Timestamp(2**64 - 1)):
        clock.update(nonsense)
        assert clock.now() < nonsense
    assert clock.now() > ahead


def test_a_state_is_shown_by_its_name() -> None:
    """`print(txn.state())` showed the number that it has on the wire."""
    assert f"{TxnState.COMMITTED} {TxnState.OPEN!s} {ParticipantState.ABORTED}" == "COMMITTED OPEN ABORTED"
