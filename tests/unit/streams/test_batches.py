"""Whether a batch of a query is run: over every mark that can be there, and what the run has seen before."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from txnclient.streams.batches import Batch, Last, is_next
from txnclient.streams.marks import Mark
from txnstatus.errors import IllegalState
from txnstatus.types import TxnId

ME, OTHER = "run-1", "run-2"
QUERY, SECOND = "query-1", "query-2"


def mark(position: Any) -> Mark:
    return Mark("orders", position, TxnId(7), "ada", datetime(2026, 1, 31, tzinfo=UTC))


def at(number: int, query: str = QUERY, run: str = OTHER) -> Mark:
    return mark(Batch(query, number, run).position)


def batch(number: int, query: str = QUERY) -> Batch:
    return Batch(query, number, ME)


def seen(found: Mark | None) -> Last:
    return Last(None if found is None else found.position)


def test_the_first_batch_of_all_runs_and_each_runs_after_the_one_before() -> None:
    assert is_next(None, batch(0), None)
    assert is_next(at(0), batch(1), None)
    assert is_next(at(4, run=ME), batch(5), seen(at(4, run=ME)))


def test_what_has_committed_is_not_run_again_by_whichever_run() -> None:
    assert not is_next(at(4), batch(4), None)
    assert not is_next(at(4, run=ME), batch(4), seen(at(4, run=ME)))


@pytest.mark.parametrize(
    ("found", "number", "why"),
    [
        (None, 3, "has no mark"),
        (at(3, SECOND), 4, "checkpoint was lost, or it is a second query"),
        (at(3, SECOND), 3, "checkpoint was lost, or it is a second query"),
        (at(3, SECOND), 0, "checkpoint was lost, or it is a second query"),
        (at(3), 5, "the batches between are missing"),
        (at(3), 2, "its checkpoint is an old one"),
        (at(3), 0, "its checkpoint is an old one"),
    ],
)
def test_a_query_that_does_not_go_on_from_its_mark_is_refused_until_it_is_told_to(
    found: Mark | None, number: int, why: str
) -> None:
    with pytest.raises(IllegalState, match=why) as caught:
        is_next(found, batch(number), None)
    name = "nothing" if found is None else f"{found.position['query']}@3"
    assert f"take_over='{name}'" in caught.value.hint
    assert is_next(found, batch(number), None, name)
    for another in ("", f"{QUERY}@4", "nothing at all"):
        with pytest.raises(IllegalState, match=why):
            is_next(found, batch(number), None, another)


def test_to_be_told_once_does_nothing_later() -> None:
    """A program keeps the argument: it must neither run a batch twice nor let a second copy in."""
    told = f"{QUERY}@3"
    assert not is_next(at(3), batch(3), None, told)
    with pytest.raises(IllegalState, match="another copy"):
        is_next(at(3), batch(2), seen(at(1, run=ME)), told)


@pytest.mark.parametrize("found", [at(4), at(5), at(5, SECOND), at(4, run="run-3")])
def test_a_run_whose_mark_others_have_moved_is_over(found: Mark) -> None:
    with pytest.raises(IllegalState, match="another copy of query query-1 writes from source 'orders': transaction 7"):
        is_next(found, batch(5), seen(at(4, run=ME)))


def test_a_run_whose_mark_was_removed_is_over() -> None:
    with pytest.raises(IllegalState, match="was removed while query query-1 ran"):
        is_next(None, batch(5), seen(at(4, run=ME)))


def test_two_that_begin_at_once_both_may_and_the_second_is_over_when_it_looks_again() -> None:
    """Which of them commits first, their transactions decide."""
    assert is_next(None, batch(0), None)
    with pytest.raises(IllegalState, match="another copy"):
        is_next(at(0), batch(0), seen(None))


@pytest.mark.parametrize("position", [17, "17", {"0": 17}, {"query": QUERY, "batch": "4", "run": ME}, [1]])
def test_a_mark_of_a_consumer_is_no_streams(position: Any) -> None:
    with pytest.raises(IllegalState, match="which no stream has written"):
        is_next(mark(position), batch(0), None)
