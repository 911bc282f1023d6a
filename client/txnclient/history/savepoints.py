"""Savepoints: what a `Client` does with timestamps that have names, at which tables stay readable."""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from txnclient.calls.requests import build, names_of
from txnclient.read import instants
from txnclient.session import Session
from txnclient.showing import Shown
from txnstatus.errors import InvalidArgument, NotFound
from txnstatus.proto import savepoint_pb2 as pb
from txnstatus.savepoints import check_name
from txnstatus.types import NO_TIMESTAMP, Timestamp, timestamp

Keep = str | float | timedelta | None
"""A time such as "90s", "30m", "12h" or "30d", seconds, or a timedelta; None: until it is released."""
MAX_KEEP_SECONDS = 100 * 366 * 86_400
"""A hundred years: what is to be kept for longer is kept until it is released."""
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_KEEP = re.compile(r"(\d{1,10})([smhd])")


@dataclass(frozen=True, slots=True)
class Savepoint:
    """A timestamp with a name, at which tables stay readable."""

    name: str
    timestamp: Timestamp
    owner: str
    tables: tuple[str, ...]
    """Names; none: all tables that there were at the timestamp."""
    created: datetime
    expires: datetime | None
    """None: when it is released."""
    held_bytes: int
    """Bytes of data files that are kept for readers of the past alone, since it was made: about."""
    unfinished: bool
    """Whether it is being made; or its maker has died over that: then it may be released."""


class Savepoints:
    """What a `Client` does with savepoints."""

    session: Session

    def savepoint(
        self,
        name: str,
        tables: Iterable[str] | None = None,
        *,
        keep: Keep = "30d",
        at: int | datetime | None = None,
    ) -> Savepoint:
        """Gives a name to a timestamp, and keeps tables as they are there: `snapshot(at=name)` reads them, until the
        savepoint is released, or `keep` is over.

        `tables` None: all that there are. `at`: a timestamp, or a datetime with a time zone; by default now, with every
        commit that was acknowledged before this call. What is overwritten in these tables from then on stays on disk
        meanwhile: `savepoints()` tells how much that is.

        Raises AlreadyExists for a name that is taken; NotFound, SnapshotTooOld, naming the table; InvalidArgument;
        LimitReached where there are 1,000.
        """
        named = None if tables is None else names_of(tables)
        if named == []:
            raise InvalidArgument("a savepoint of no tables: name some, or none of them for all")
        request = build(
            pb.CreateSavepointRequest,
            savepoint_id=uuid.uuid4().hex,
            name=check_name(name) if isinstance(name, str) else name,
            owner=self.session.owner,
            timestamp=instants.resolve(at, self.session.last_commit()),
            tables=named or (),
            expires=_expiry(keep),
        )
        answer = self.session.call("txnstatus.Savepoints/CreateSavepoint", request, pb.CreateSavepointResponse)
        return _savepoint(answer.savepoint)

    def savepoints(self) -> list[Savepoint]:
        """All that there are, by name."""
        columns = "name timestamp tables created expires held_bytes"
        return Shown("Savepoints", columns, map(_savepoint, _listed(self.session)))

    def release_savepoint(self, name: str, *, as_operator: bool = False) -> None:
        """Takes the name back: what only it has kept is removed.

        `as_operator`: whosever it is. Raises NotFound; NotAuthorized for somebody else's.
        """
        there = [each for each in _listed(self.session) if each.name == name]
        if not there:
            raise _not_found(name, self.savepoints())
        for each in [each for each in there if not each.unfinished] or there:
            request = build(
                pb.ReleaseSavepointRequest, name=name, savepoint_id=each.savepoint_id, as_operator=as_operator
            )
            self.session.call("txnstatus.Savepoints/ReleaseSavepoint", request, pb.ReleaseSavepointResponse)


def named(session: Session, name: str) -> Savepoint:
    """The savepoint of this name. Raises NotFound, naming those that there are."""
    all_there = list(map(_savepoint, _listed(session)))
    for savepoint in all_there:
        if savepoint.name == name and not savepoint.unfinished:
            return savepoint
    raise _not_found(name, all_there)


def instant(session: Session, at: int | str | datetime | None) -> Timestamp:
    """The timestamp of a point in time, or of the savepoint of a name. Raises InvalidArgument, NotFound."""
    return named(session, at).timestamp if isinstance(at, str) else instants.resolve(at, session.last_commit())


def _listed(session: Session) -> Sequence[pb.SavepointInfo]:
    request = pb.ListSavepointsRequest()
    return session.call("txnstatus.Savepoints/ListSavepoints", request, pb.ListSavepointsResponse).savepoints


def _not_found(name: str, there: Sequence[Savepoint]) -> NotFound:
    names = ", ".join(repr(each.name) for each in there[:10] if not each.unfinished)
    return NotFound(f"there is no savepoint {name!r:.200}; there are: {names or 'none'}")


def _expiry(keep: Keep) -> Timestamp:
    """The time at which it is over, by this program's clock; 0: when it is released. Raises InvalidArgument."""
    seconds: float | None = None
    if keep is None:
        return NO_TIMESTAMP
    if isinstance(keep, str):
        matched = _KEEP.fullmatch(keep)
        seconds = int(matched[1]) * _UNITS[matched[2]] if matched else None
    elif isinstance(keep, timedelta):
        seconds = keep.total_seconds()
    elif isinstance(keep, int | float) and not isinstance(keep, bool):
        seconds = keep
    if seconds is None or not 1 <= seconds <= MAX_KEEP_SECONDS:
        raise InvalidArgument(
            f"keep = {keep!r:.100}: 90s, 30m, 12h, 30d, seconds or a timedelta are possible, from a second to a "
            "hundred years; or None, until it is released"
        )
    return timestamp(time.time_ns() // 1_000 + int(seconds * 1e6))


def _savepoint(wire: pb.SavepointInfo) -> Savepoint:
    return Savepoint(
        wire.name,
        Timestamp(wire.timestamp),
        wire.owner,
        tuple(wire.tables),
        instants.to_datetime(Timestamp(wire.created)),
        instants.to_datetime(Timestamp(wire.expires)) if wire.expires else None,
        wire.held_bytes,
        wire.unfinished,
    )
