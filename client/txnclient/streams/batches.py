"""Batches: whether the next batch of a query is to be run, by the mark that the batches before it have left.

The mark holds the query, the last batch that has committed, and the run that has written it: one start of the query.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from txnclient.streams.marks import Mark
from txnstatus.errors import IllegalState

NOTHING = "nothing"
"""How an error calls a mark that is not there."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a query, in one run of it."""

    query: str
    number: int
    """The number that Spark gives it, from 0."""
    run: str

    @property
    def position(self) -> dict[str, Any]:
        """What the mark holds of it."""
        return {"query": self.query, "batch": self.number, "run": self.run}


@dataclass(frozen=True, slots=True)
class Last:
    """What a run has seen of its mark the last time that it looked, or has written since."""

    position: Any


def is_next(mark: Mark | None, batch: Batch, last: Last | None, take_over: str = "") -> bool:
    """Whether the batch is to be run, as the one after that of the mark; else that is this one, and has committed.

    A query that starts again plans the last batch that it had planned before, and no older one: that would be another
    batch by the same number. `last` None: the run has not looked yet. `take_over`: what the mark may be, and the query
    goes on all the same; as the error has called it. Raises IllegalState for a query that must not go on.
    """
    position = None if mark is None else mark.position
    if last is not None and last.position != position:
        raise _fenced(mark, batch)
    found = None if mark is None else _read(mark)
    if mark is not None and found is None:
        raise IllegalState(
            f"the mark of source {mark.source!r} is at {mark.position!r:.100}, which no stream has written",
            hint="give the stream a source of its own, or remove the mark with client.remove_mark",
        )
    if found is not None and (found.query, found.number) == (batch.query, batch.number):
        return False
    follows = batch.number == 0 if found is None else (found.query, found.number + 1) == (batch.query, batch.number)
    if not follows and take_over != _called(found):
        raise _out_of_order(found, mark, batch)
    return True


def _read(mark: Mark) -> Batch | None:
    match mark.position:
        case {"query": str() as query, "batch": int() as number, "run": str() as run}:
            return Batch(query, number, run)
        case _:
            return None


def _called(found: Batch | None) -> str:
    return NOTHING if found is None else f"{found.query}@{found.number}"


def _fenced(mark: Mark | None, batch: Batch) -> IllegalState:
    if mark is None:
        return IllegalState(
            f"the mark of this stream was removed while query {batch.query} ran: batch {batch.number} is not written",
            hint="start the query again, and let it take over from nothing if it is the one that is to go on",
        )
    return IllegalState(
        f"another copy of query {batch.query} writes from source {mark.source!r}: transaction {mark.txn_id} of "
        f"{mark.owner} has moved the mark to {mark.position!r:.200}; batch {batch.number} of this one is not written",
        hint="this copy has ended, and the other one goes on: see that the query is started once",
    )


def _out_of_order(found: Batch | None, mark: Mark | None, batch: Batch) -> IllegalState:
    this = f"this is batch {batch.number} of query {batch.query}"
    if found is None or mark is None:
        why = f"{this}, and its source has no mark: the query had another source before, or the mark was removed"
    else:
        taken = f"by {mark.owner} at {mark.written.isoformat(timespec='seconds')}"
        why = f"source {mark.source!r} was taken up to batch {found.number} of query {found.query}, {taken}; {this}: "
        if found.query != batch.query:
            why += "the query's checkpoint was lost, or it is a second query"
        elif batch.number < found.number:
            why += "its checkpoint is an old one, and what it now calls so may be other rows"
        else:
            why += "the batches between are missing, as after a restore of the tables"
    return IllegalState(
        f"{why}; nothing is written",
        hint=f"stream(..., take_over={_called(found)!r}) goes on from here all the same: what the query reads anew is "
        "written anew, and what it does not read is missing",
    )
