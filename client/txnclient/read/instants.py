"""Points in time as programs give them: a snapshot's or a commit's timestamp, or a datetime with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime

from txnstatus.errors import InvalidArgument
from txnstatus.types import EPOCH, LOGICAL_BITS, Timestamp, micros_at, micros_of, time_of, timestamp


def to_datetime(at: Timestamp) -> datetime:
    """The time in UTC, by the clocks of the nodes that the commits took part on."""
    return time_of(micros_of(at))


def resolve(at: int | datetime | None, last_commit: Timestamp) -> Timestamp:
    """The timestamp at which to read. None: now, which is the last commit.

    A datetime after the last commit means the last commit, too: nothing has happened since. Raises InvalidArgument for
    what is in the future, has no time zone, or is no point in time.
    """
    if at is None:
        return last_commit
    if isinstance(at, datetime):
        return min(_from_datetime(at), last_commit)
    if isinstance(at, bool) or not isinstance(at, int) or at < 0:
        raise InvalidArgument(
            f"{at!r} is no point in time: a timestamp of a snapshot or a commit, an aware datetime, or None"
        )
    if at > last_commit:
        raise InvalidArgument(
            f"timestamp {_readable(at)} is in the future: the last commit is at {_readable(last_commit)}",
            hint="give a timestamp that a snapshot or a commit had, or None for now",
        )
    return Timestamp(at)


def micros(at: datetime) -> int:
    """Microseconds since 1970. Raises InvalidArgument for a time without a zone, or before that."""
    if not isinstance(at, datetime):
        raise InvalidArgument(f"{at!r:.100} is no datetime: give one with a time zone, such as datetime.now(UTC)")
    if at.tzinfo is None or at.utcoffset() is None:
        raise InvalidArgument(f"{at!r} has no time zone: give one that has, such as datetime.now(UTC)")
    if at < EPOCH:
        raise InvalidArgument(f"{at.isoformat()} is before 1970, when timestamps begin")
    return micros_at(at)


def _from_datetime(at: datetime) -> Timestamp:
    """The timestamp at the end of its microsecond: what committed in it is seen."""
    since_epoch = micros(at)
    if at > (now := datetime.now(UTC)):
        raise InvalidArgument(f"{at.isoformat()} is in the future: it is {now.isoformat()}")
    return timestamp(since_epoch, (1 << LOGICAL_BITS) - 1)


def _readable(at: int) -> str:
    return f"{at} ({to_datetime(Timestamp(at)).isoformat()})" if micros_of(Timestamp(at)) < _YEAR_9999 else str(at)


_YEAR_9999 = micros_at(datetime(9999, 1, 1, tzinfo=UTC))
