"""Workers and the sizes that they take: each compaction finds one, and none waits for a worker that is not there."""

from __future__ import annotations

import pytest

from txnparticipant.leader import seekers
from txnparticipant.leader.seekers import BUSY_SECONDS, SOON_SECONDS, Seekers
from txnstatus.sizes import Sizes

SMALL, LARGE = Sizes(below=100), Sizes(least=100)
PATIENCE = 600.0


@pytest.mark.parametrize(("sizes", "fitting"), [(Sizes(), {0, 99, 100}), (SMALL, {0, 99}), (LARGE, {100})])
def test_a_size_is_from_the_least_on_and_below_the_bound(sizes: Sizes, fitting: set[int]) -> None:
    assert {size for size in (0, 99, 100) if sizes.fit(size)} == fitting


def test_what_fits_is_given_at_once() -> None:
    listening = Seekers(since=0.0)
    assert listening.may_take(SMALL, "t", 99, 0.0, PATIENCE)
    assert listening.may_take(LARGE, "t", 100, 0.0, PATIENCE)


@pytest.mark.parametrize(("sizes", "others", "size"), [(SMALL, LARGE, 100), (LARGE, SMALL, 99)])
def test_what_does_not_fit_waits_for_whom_it_does(sizes: Sizes, others: Sizes, size: int) -> None:
    listening = Seekers(since=0.0)
    listening.asks("b", others, "", 50.0)
    assert not listening.may_take(sizes, "t", size, 50.0 + PATIENCE - 1, PATIENCE)
    assert listening.may_take(sizes, "t", size, 50.0 + PATIENCE, PATIENCE)
    listening.works("b", 700.0)
    assert not listening.may_take(sizes, "t", size, 1_000.0, PATIENCE), "it works, and comes back"


def test_a_worker_that_hangs_is_not_waited_for_for_ever() -> None:
    """It went on renewing what it had, and what others could have done waited as long as it lived."""
    listening = Seekers(since=0.0)
    listening.asks("b", LARGE, "", 50.0)
    until = 50.0 + BUSY_SECONDS
    for now in (500.0, until - 1, until, until + PATIENCE - 1):
        listening.works("b", now)
        assert not listening.may_take(SMALL, "t", 100, now, PATIENCE)
    listening.works("b", until + PATIENCE)
    assert listening.may_take(SMALL, "t", 100, until + PATIENCE, PATIENCE)
    listening.asks("b", LARGE, "", until + PATIENCE)
    assert not listening.may_take(SMALL, "t", 100, until + PATIENCE, PATIENCE), "it is back"


def test_a_new_leader_listens_first() -> None:
    assert not Seekers(since=1_000.0).may_take(SMALL, "t", 100, 1_000.0 + PATIENCE - 1, PATIENCE)
    assert Seekers(since=1_000.0).may_take(SMALL, "t", 100, 1_000.0 + PATIENCE, PATIENCE)


def test_where_nobody_takes_it_nothing_waits() -> None:
    listening = Seekers(since=0.0)
    listening.asks("a", SMALL, "", 5_000.0)
    assert listening.may_take(SMALL, "t", 100, 5_000.0, PATIENCE)


def test_a_worker_of_another_table_is_waited_for_by_none() -> None:
    listening = Seekers(since=0.0)
    listening.asks("b", LARGE, "other", 5_000.0)
    assert listening.may_take(SMALL, "t", 100, 5_000.0, PATIENCE)
    assert not listening.may_take(SMALL, "other", 100, 5_000.0, PATIENCE)


def test_why_nobody_works_at_it() -> None:
    listening, now = Seekers(since=0.0), 500.0
    assert listening.lack("t", 100, SOON_SECONDS - 1) == ""
    assert listening.lack("t", 100, now) == "no worker was heard of for 500 s"
    listening.asks("a", SMALL, "", now)
    assert listening.lack("t", 99, now) == ""
    assert listening.lack("t", 100, now) == "no worker that takes one of 100 bytes was heard of for 500 s"
    listening.asks("b", LARGE, "", now)
    assert listening.lack("t", 100, now) == ""


def test_workers_are_remembered_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seekers, "MAX_SEEKERS", 2)
    listening = Seekers(since=0.0)
    for number, worker in enumerate(("a", "b", "a", "c")):
        listening.asks(worker, Sizes(number, 0), "", 1.0)
    assert listening._known.keys() == {"a", "c"}, "the ones that were heard of last"
