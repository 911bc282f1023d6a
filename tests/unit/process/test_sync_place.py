"""Where a journal is synced, by how long the syncs before it took."""

from __future__ import annotations

import itertools

from txnstatus.process.sync_place import LAST, MAX_BYTES, RETRY_SECONDS, SyncPlace

FAST, SLOW = 0.0002, 0.0012
SMALL = 600


def run(place: SyncPlace, start: float, seconds: float, *takes: float) -> list[bool]:
    """Syncs one after the other that take these times, in turn; whether each was on the loop."""
    now, were = start, list[bool]()
    for each in itertools.cycle(takes):
        if now >= start + seconds:
            return were
        were.append(place.is_loop(SMALL, now))
        now += each
        place.took(each, now, on_loop=were[-1])
    raise AssertionError


def test_a_disk_that_is_fast_is_synced_on_the_loop() -> None:
    assert all(run(SyncPlace(), 0, 10, FAST))


def test_a_slow_one_is_synced_in_the_thread_after_a_few() -> None:
    were = run(SyncPlace(), 0, 100, SLOW)
    assert were.index(False) <= LAST
    assert not any(were[were.index(False) :])


def test_one_sync_that_takes_very_long_leaves_it_with_another() -> None:
    place, were = SyncPlace(), list[bool]()
    run(place, 0, 10, FAST)
    for _ in range(2):
        place.took(0.1, 10.0, on_loop=True)
        were.append(place.is_loop(SMALL, 10.0))
    assert were == [True, False]


def test_a_few_that_take_longer_are_not() -> None:
    assert all(run(SyncPlace(), 0, 10, *[FAST] * 9, 0.0015))


def test_a_disk_that_became_fast_is_synced_on_the_loop_again() -> None:
    place = SyncPlace()
    run(place, 0, 10, SLOW)
    assert all(run(place, 10, 2 * RETRY_SECONDS, FAST)[-10:])


def test_a_thread_that_waits_for_the_interpreter_does_not_make_a_disk_slow() -> None:
    place = SyncPlace()
    run(place, 0, 10, SLOW)
    for _ in range(20):
        place.took(SLOW, 11.0, on_loop=False)
    place.took(FAST, 11.0, on_loop=False)
    assert all(run(place, 12, RETRY_SECONDS, FAST))


def test_a_disk_that_is_slow_now_and_then_holds_up_the_loop_once_in_a_while() -> None:
    were = run(SyncPlace(), 0, 60, *[FAST] * 3, 0.02)
    assert 1 <= sum(were) <= 60 / RETRY_SECONDS * 2 * 4


def test_what_is_long_is_written_in_the_thread() -> None:
    place = SyncPlace()
    assert not place.is_loop(MAX_BYTES + 1, 0.0)
    assert place.is_loop(SMALL, 0.0)


def test_no_sync_in_the_thread_says_nothing_of_the_disk() -> None:
    place = SyncPlace()
    run(place, 0, 10, SLOW)
    assert not place.is_loop(SMALL, 1_000.0)
