"""The story of a transaction: what happened when, as far as its record and its participants tell. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from txnclient import LockInfo, ParticipantSummary, Past, TxnState, TxnSummary
from txnstatus.types import TERMINAL, micros_of, time_of


@dataclass(frozen=True, slots=True)
class Event:
    at: datetime
    """The time by the clock of whoever tells it: several nodes do, so one may be before the one that it follows."""
    what: str
    who: str
    """The name of whoever does it, or with whom it happens: the owner, a participant, the transaction itself."""


def of_known(txn: TxnSummary, participants: Sequence[ParticipantSummary], locks: Sequence[LockInfo]) -> list[Event]:
    """The story of one whose record is there, in the order in which it must have been."""
    before = [*_locking(locks), *_preparing(participants)]
    return [
        Event(time_of(txn.begin_micros), "begins it", txn.owner),
        *sorted(before, key=lambda event: event.at),
        *_ending(txn),
    ]


def of_past(txn: Past) -> list[Event]:
    """The story of one that is over and whose record is forgotten."""
    itself = f"transaction {txn.txn_id}"
    end = f"aborts it: {txn.abort_reason}" if txn.aborted_by else f"is {txn.state.lower()}"
    return [
        Event(txn.began, "begins it", txn.owner),
        *(Event(txn.ended, "is changed", change.table) for change in txn.tables),
        Event(txn.ended, end, txn.aborted_by or itself),
    ]


def _locking(locks: Sequence[LockInfo]) -> Iterator[Event]:
    for lock in locks:
        doing = "has asked for the lock" if lock.acquired else "waits for the lock"
        yield Event(time_of(micros_of(lock.since)), f"{doing} ({lock.mode})", lock.object)


def _preparing(participants: Sequence[ParticipantSummary]) -> Iterator[Event]:
    for each in participants:
        if each.prepare_timestamp:
            yield Event(time_of(micros_of(each.prepare_timestamp)), "is prepared", each.name)


def _ending(txn: TxnSummary) -> Iterator[Event]:
    itself = f"transaction {txn.txn_id}"
    if txn.commit_timestamp:
        yield Event(time_of(micros_of(txn.commit_timestamp)), "is decided: it commits", itself)
    last = time_of(txn.last_transition_micros)
    if txn.cause is not None:
        yield Event(last, f"aborts it: {txn.cause.message}", txn.cause.by)
    elif txn.state in TERMINAL:
        yield Event(last, "is published by all", itself)
    elif txn.state is not TxnState.OPEN:
        yield Event(last, f"is in {txn.state.name}", itself)
