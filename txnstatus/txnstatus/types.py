"""The words of the system as types: ids, states, hybrid time.

States and their numbers are Kudu's (`TxnStatePB`); what each state promises stands in `proto/common.proto`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, NewType

TxnId = NewType("TxnId", int)
"""Id that the status table gives out and never reuses; valid iff >= 0."""

ParticipantId = NewType("ParticipantId", str)
"""The id of a table that takes part in a transaction."""


class Participant(NamedTuple):
    participant_id: ParticipantId
    name: str
    """The one that it had when it registered."""
    first_write: str = ""
    """The write there whose directory was claimed when the transaction began; empty: none was."""


Timestamp = NewType("Timestamp", int)
"""Hybrid time, 64 bits: microseconds since 1970 << 12 | logical counter. 0 = none."""

LOGICAL_BITS = 12
MAX_LEAD_MICROS = 24 * 3600 * 1_000_000
NO_TIMESTAMP = Timestamp(0)


class _Named(enum.IntEnum):
    """A number on the wire, a name for people."""

    def __str__(self) -> str:
        return self.name


class TxnState(_Named):
    OPEN = 1
    ABORTED = 2
    COMMIT_IN_PROGRESS = 3
    COMMITTED = 4
    ABORT_IN_PROGRESS = 5
    FINALIZE_IN_PROGRESS = 6


TERMINAL = frozenset({TxnState.COMMITTED, TxnState.ABORTED})
DECIDED_COMMIT = frozenset({TxnState.FINALIZE_IN_PROGRESS, TxnState.COMMITTED})
DECIDED_ABORT = frozenset({TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED})
DECIDED = DECIDED_COMMIT | DECIDED_ABORT


class ParticipantState(_Named):
    OPEN = 1
    COMMIT_IN_PROGRESS = 2
    COMMITTED = 3
    ABORTED = 4


class ParticipantOpType(enum.IntEnum):
    """What the status leader asks of a participant; numbers are Kudu's."""

    BEGIN_TXN = 1
    BEGIN_COMMIT = 2
    FINALIZE_COMMIT = 3
    ABORT_TXN = 4


class ConflictStrategy(enum.StrEnum):
    """How a table has writes to the same part settled."""

    FIRST_COMMITTER_WINS = "first-committer-wins"
    """Whoever overwrites it and commits second is told Conflict, at its commit. Appends are in nobody's way."""
    WAIT = "wait"
    """A write locks what it writes to; whoever comes second waits its turn, first in, first out."""
    WAIT_DIE = "wait-die"
    """Locks; an older transaction waits for a younger one, and a younger one is aborted."""
    WOUND_WAIT = "wound-wait"
    """Locks; a younger transaction waits for an older one, and an older one aborts what is in its way."""
    NO_WAIT = "no-wait"
    """Locks; whoever comes second is told Locked."""


class Statement(enum.StrEnum):
    """What locks a table or a partition; which locks it takes is a table in txnparticipant/locks/statements.py."""

    SELECT = "select"
    INSERT = "insert into"
    RENAME = "alter table rename"
    ADD_COLUMNS = "alter table add cols"
    REPLACE_COLUMNS = "alter table replace cols"
    CHANGE_COLUMNS = "alter table change cols"
    ADD_PARTITION = "alter table add partition"
    DROP_PARTITION = "alter table drop partition"
    TOUCH_PARTITION = "alter table touch partition"
    SET_SERDE_PROPERTIES = "alter table set serdeproperties"
    SET_SERIALIZER = "alter table set serializer"
    SET_FILE_FORMAT = "alter table set file format"
    SET_TABLE_PROPERTIES = "alter table set tblproperties"
    DROP_TABLE = "drop table"
    INSERT_OVERWRITE = "insert overwrite"
    TRUNCATE = "truncate table"
    MERGE = "merge"
    UPDATE = "update"
    DELETE = "delete"


class AbortCode(enum.StrEnum):
    REQUESTED = "requested"
    EXPIRED = "expired"
    CONFLICT = "conflict"
    REFUSED = "refused"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class AbortCause:
    """Why a transaction was aborted and by whom; kept in its record for ever."""

    code: AbortCode
    message: str
    by: str
    winner: TxnId | None = None
    """A CONFLICT's: the transaction that was first."""
    objects: tuple[str, ...] = ()
    """A CONFLICT's: what both changed."""


def timestamp(micros: int, logical: int = 0) -> Timestamp:
    return Timestamp(micros << LOGICAL_BITS | logical)


def micros_of(ts: Timestamp) -> int:
    """The wall-clock part of a hybrid timestamp."""
    return ts >> LOGICAL_BITS


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def time_of(micros: int) -> datetime:
    """The time, in UTC, so many microseconds after 1970 began."""
    return EPOCH + timedelta(microseconds=micros)


def micros_at(time: datetime) -> int:
    """Microseconds from the beginning of 1970 to a time with a zone."""
    return (time - EPOCH) // timedelta(microseconds=1)


def utc_of(ts: Timestamp) -> str:
    """The wall-clock part for people, to the second; all replicas word it alike."""
    return f"{datetime.fromtimestamp(micros_of(ts) // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"


class HybridClock:
    """A hybrid logical clock: never goes back, and follows what it is shown, up to a day ahead of the wall clock.

    Source: Kulkarni et al., "Logical Physical Clocks", in Kudu's 64-bit layout.
    """

    def __init__(self, wall_micros: Callable[[], int]) -> None:
        self._wall_micros = wall_micros
        self._last = NO_TIMESTAMP

    def now(self) -> Timestamp:
        """A timestamp above every one returned or shown before."""
        self._last = max(Timestamp(self._last + 1), timestamp(self._wall_micros()))
        return self._last

    def update(self, seen: Timestamp) -> None:
        """Takes note of another clock's timestamp, unless it is further ahead than any clock that somebody looks after.

        One wrong message must not use up the time that is left in 64 bits. What is not followed harms nobody: commit
        timestamps rise by the status table's own rule, whatever the clocks say.
        """
        if self._last < seen <= timestamp(self._wall_micros() + MAX_LEAD_MICROS):
            self._last = seen
