"""The story of a transaction, in the order in which things happened."""

from __future__ import annotations

from datetime import UTC, datetime

from txnclient import LockInfo, ParticipantState, ParticipantSummary, Past, TableChange, TxnState, TxnSummary
from txndeploy.console import story
from txnstatus.types import AbortCause, AbortCode, Timestamp, TxnId, timestamp

SECOND = 1_000_000
BEGAN = 1_800_000_000 * SECOND


def at(seconds: int) -> Timestamp:
    return timestamp(BEGAN + seconds * SECOND)


def summary(state: TxnState, commit: int = 0, cause: AbortCause | None = None) -> TxnSummary:
    last = BEGAN + 9 * SECOND
    return TxnSummary(
        TxnId(17), state, "ada", "nightly", 30_000, BEGAN, last, Timestamp(commit), ("air.flights",), cause
    )


def part(name: str, prepared: Timestamp) -> ParticipantSummary:
    return ParticipantSummary("1", name, ParticipantState.COMMITTED, prepared, Timestamp(0), ())


def told(events: list[story.Event]) -> list[tuple[float, str, str]]:
    begun = events[0].at
    return [((each.at - begun).total_seconds(), each.what, each.who) for each in events]


def test_a_commit_goes_from_begin_over_participants_to_the_end() -> None:
    taking_part = [part("air.weather", at(3)), part("air.flights", at(2))]
    assert told(story.of_known(summary(TxnState.COMMITTED, at(4)), taking_part, ())) == [
        (0.0, "begins it", "ada"),
        (2.0, "is prepared", "air.flights"),
        (3.0, "is prepared", "air.weather"),
        (4.0, "is decided: it commits", "transaction 17"),
        (9.0, "is published by all", "transaction 17"),
    ]


def test_an_abort_says_by_whom_and_why() -> None:
    cause = AbortCause(AbortCode.OPERATOR, "in the way", "operator grace")
    assert told(story.of_known(summary(TxnState.ABORTED, cause=cause), (), ()))[-1] == (
        9.0,
        "aborts it: in the way",
        "operator grace",
    )


def test_an_open_one_tells_its_locks_and_no_end() -> None:
    waiting = LockInfo("air.flights", "X", False, TxnId(17), "ada", at(1), (TxnId(3),))
    assert told(story.of_known(summary(TxnState.OPEN), (), [waiting])) == [
        (0.0, "begins it", "ada"),
        (1.0, "waits for the lock (X)", "air.flights"),
    ]


def test_what_is_being_committed_says_since_when() -> None:
    assert told(story.of_known(summary(TxnState.COMMIT_IN_PROGRESS), (), ()))[-1] == (
        9.0,
        "is in COMMIT_IN_PROGRESS",
        "transaction 17",
    )


def test_one_whose_record_is_forgotten_has_a_short_story() -> None:
    began, ended = datetime(2026, 1, 31, 12, tzinfo=UTC), datetime(2026, 1, 31, 12, 1, tzinfo=UTC)
    past = Past(
        17, "COMMITTED", "ada", "", began, ended, 5, (TableChange("air.flights", 1, 1, 0, 0),), "", "", "", None, ()
    )
    assert told(story.of_past(past)) == [
        (0.0, "begins it", "ada"),
        (60.0, "is changed", "air.flights"),
        (60.0, "is committed", "transaction 17"),
    ]
