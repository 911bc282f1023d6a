"""The status table's commands: what one Raft entry may ask of it, as values, with their form in the log.

Time enters through the log: `now_micros` is the proposer's wall clock, for people; no decision rests on it.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.msgpack import Encoder

from txnstatus.replicated import Stored, decoder
from txnstatus.types import NO_TIMESTAMP, AbortCause, Participant, ParticipantId, Timestamp, TxnId


class BeginTxns(Stored, tag=1):
    """`count` new transactions with consecutive ids. A request id seen before answers the first ids again.

    One that does not fit makes the range full, and begins nothing.
    """

    request_id: str
    count: int
    owner: str
    label: str
    keepalive_millis: int
    now_micros: int
    floor: Timestamp = NO_TIMESTAMP
    """The last commit of the ranges before this one: all commits here are above it."""
    max_unfinished: int = 0
    """Unfinished transactions that the range may have; a begin beyond is refused. 0 = no limit."""
    participants: tuple[Participant, ...] = ()
    """Participants of each of them, from its begin on."""
    max_of_owner: int = 0
    """Unfinished transactions that the owner may have in the range, likewise."""


class RegisterParticipants(Stored, tag=10):
    txn_id: TxnId
    owner: str
    participants: tuple[Participant, ...]


class LastWrite(Stored):
    """A write on a participant that is in the same log."""

    participant_id: ParticipantId
    command: bytes
    """One of the participant's own, as it has them in the log."""


class BeginCommit(Stored, tag=2):
    txn_id: TxnId
    owner: str
    now_micros: int
    prepare_ts: Timestamp = NO_TIMESTAMP
    """The prepare timestamp of participants that are in the same log, unless something there is above it."""
    writes: tuple[LastWrite, ...] = ()
    """Writes that come first, while the transaction is OPEN. If one is refused, the commit is, too."""


class FinalizeCommit(Stored, tag=3):
    """All participants prepared; `commit_ts` is the highest of their prepare timestamps."""

    txn_id: TxnId
    commit_ts: Timestamp
    now_micros: int
    prepared: int
    """Participants elsewhere that have. Refused if the record lists another number of them."""


class CompleteCommit(Stored, tag=4):
    txn_id: TxnId
    now_micros: int


class BeginAbort(Stored, tag=5):
    txn_id: TxnId
    owner: str | None
    """The caller; None: the system or an operator, not bound to the owner."""
    cause: AbortCause
    now_micros: int


class Expire(Stored, tag=7):
    """The staleness pass found the transaction silent. Unlike BeginAbort it touches nothing but OPEN."""

    txn_id: TxnId
    cause: AbortCause
    now_micros: int


class FinalizeAbort(Stored, tag=6):
    txn_id: TxnId
    now_micros: int


class Forget(Stored, tag=8):
    """Drops the records of transactions that finished before a time, the oldest first, some thousands at most."""

    finished_before_micros: int


class RaiseFloor(Stored, tag=9):
    """A snapshot was taken at `timestamp`: what commits here from now on is above it."""

    timestamp: Timestamp
    fills: bool = False
    """Whether nothing begins here any more."""


TxnCommand = RegisterParticipants | BeginCommit | FinalizeCommit | CompleteCommit | BeginAbort | Expire | FinalizeAbort
Command = BeginTxns | TxnCommand | Forget | RaiseFloor

encode = Encoder().encode
decode: Callable[[bytes], Command] = decoder(Command)
"""What reads a command. Raises ValueError on bytes that are none of this version."""
