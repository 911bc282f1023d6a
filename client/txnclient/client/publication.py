"""Publication: how far the log has come by which other engines read a table."""

from __future__ import annotations

from dataclasses import dataclass

from txnclient.session import Session
from txnclient.snapshot import Snapshot
from txnstatus.errors import InternalError, InvalidArgument, SnapshotTooOld
from txnstatus.table_properties import PUBLISH
from txnstatus.types import NO_TIMESTAMP, Timestamp, micros_of


@dataclass(frozen=True, slots=True)
class Publication:
    """A published table's log, by its last entry."""

    table: str
    version: int
    """The number of the entry; -1: there is none yet."""
    commit_timestamp: Timestamp
    """The commit of which it is; 0: none, or it is somebody else's."""
    is_current: bool
    """Whether readers of the log see what a snapshot of now shows."""
    lag_seconds: float
    """Seconds from that commit to the last one of the cluster; 0 where readers see what there is now."""
    is_foreign: bool
    """Whether somebody else has written the entry: then nothing is published any more."""


def look(session: Session, table: str) -> Publication:
    """Raises NotFound; InvalidArgument: it is not published; InternalError: its log does not read."""
    from txnstatus.lake import delta_actions, delta_log

    info = session.table(table)
    if not info.properties.get(PUBLISH):
        raise InvalidArgument(
            f"{table} is not published", hint=f"alter_table(..., properties={{'{PUBLISH}': 'delta'}})"
        )
    now = session.last_commit()
    try:
        version, first = delta_log.last_entry(info.location)
    except (OSError, ValueError) as error:
        raise InternalError(f"the log of {table} does not read: {error}") from error
    at = delta_actions.commit_of(first, info.table_id)
    is_current = at is not None and _alike(session, table, at, now)
    lag = 0.0 if is_current or at is None else (micros_of(now) - micros_of(at)) / 1e6
    return Publication(table, version, at or NO_TIMESTAMP, is_current, lag, version >= 0 and at is None)


def _alike(session: Session, table: str, one: Timestamp, other: Timestamp) -> bool:
    """Whether a reader sees the same files, and the same rows of them as deleted."""
    try:
        with Snapshot(session, one) as before, Snapshot(session, other) as after:
            found = [(list(each.manifests), list(each.dead)) for each in (before.scan(table), after.scan(table))]
    except SnapshotTooOld:
        return False
    return found[0] == found[1]
