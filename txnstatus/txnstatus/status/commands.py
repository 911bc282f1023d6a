"""The status table's commands: what one Raft entry may ask of it, as values, with their wire form.

Time enters through the log: `now_micros` is the proposer's wall clock, for people; no decision rests on it.
"""

from __future__ import annotations

from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, AbortCause, ParticipantId, Timestamp, TxnId
from txnstatus.values import value
from txnstatus.wire import cause_from_wire, cause_to_wire


@value
class BeginTxns:
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
    """Refused where more would then be unfinished in the range; 0 = no limit."""


@value
class RegisterParticipants:
    txn_id: TxnId
    owner: str
    participants: tuple[tuple[ParticipantId, str], ...]
    """Each with the name that it has now."""


@value
class BeginCommit:
    txn_id: TxnId
    owner: str
    now_micros: int


@value
class FinalizeCommit:
    """All participants prepared; `commit_ts` is the highest of their prepare timestamps."""

    txn_id: TxnId
    commit_ts: Timestamp
    now_micros: int
    prepared: int = 0
    """How many these are. Refused if the record lists another number; 0 = not compared."""


@value
class CompleteCommit:
    txn_id: TxnId
    now_micros: int


@value
class BeginAbort:
    txn_id: TxnId
    owner: str | None
    """None: the system or an operator, not bound to the owner."""
    cause: AbortCause
    now_micros: int


@value
class Expire:
    """The staleness pass found the transaction silent. Unlike BeginAbort it touches nothing but OPEN."""

    txn_id: TxnId
    cause: AbortCause
    now_micros: int


@value
class FinalizeAbort:
    txn_id: TxnId
    now_micros: int


@value
class Forget:
    """Drops the records of transactions that finished before a time, the oldest first, some thousands at most."""

    finished_before_micros: int


@value
class RaiseFloor:
    """A snapshot was taken at `timestamp`: what commits here from now on is above it."""

    timestamp: Timestamp


TxnCommand = RegisterParticipants | BeginCommit | FinalizeCommit | CompleteCommit | BeginAbort | Expire | FinalizeAbort
Command = BeginTxns | TxnCommand | Forget | RaiseFloor


def encode(command: Command) -> bytes:
    wire = pb.StatusCommand()
    match command:
        case BeginTxns():
            begins = wire.begin_txns
            begins.request_id = command.request_id
            begins.count = command.count
            begins.owner = command.owner
            begins.label = command.label
            begins.keepalive_millis = command.keepalive_millis
            begins.now_micros = command.now_micros
            begins.floor = command.floor
            begins.max_unfinished = command.max_unfinished
        case RegisterParticipants():
            wire.register_participants.txn_id = command.txn_id
            wire.register_participants.owner = command.owner
            for participant_id, name in command.participants:
                wire.register_participants.participants.add(participant_id=participant_id, name=name)
        case BeginCommit():
            wire.begin_commit.txn_id = command.txn_id
            wire.begin_commit.owner = command.owner
            wire.begin_commit.now_micros = command.now_micros
        case FinalizeCommit():
            wire.finalize_commit.txn_id = command.txn_id
            wire.finalize_commit.commit_timestamp = command.commit_ts
            wire.finalize_commit.now_micros = command.now_micros
            wire.finalize_commit.prepared = command.prepared
        case CompleteCommit():
            wire.complete_commit.txn_id = command.txn_id
            wire.complete_commit.now_micros = command.now_micros
        case BeginAbort():
            wire.begin_abort.txn_id = command.txn_id
            if command.owner is not None:
                wire.begin_abort.owner = command.owner
            wire.begin_abort.cause.CopyFrom(cause_to_wire(command.cause))
            wire.begin_abort.now_micros = command.now_micros
        case Expire():
            wire.expire.txn_id = command.txn_id
            wire.expire.cause.CopyFrom(cause_to_wire(command.cause))
            wire.expire.now_micros = command.now_micros
        case FinalizeAbort():
            wire.finalize_abort.txn_id = command.txn_id
            wire.finalize_abort.now_micros = command.now_micros
        case Forget():
            wire.forget.finished_before_micros = command.finished_before_micros
        case RaiseFloor():
            wire.raise_floor.timestamp = command.timestamp
    return wire.SerializeToString()


def decode(data: bytes) -> Command:
    """Raises ValueError on bytes that are no command of this version."""
    wire = pb.StatusCommand.FromString(data)
    match wire.WhichOneof("command"):
        case "begin_txns":
            b = wire.begin_txns
            return BeginTxns(
                b.request_id,
                b.count,
                b.owner,
                b.label,
                b.keepalive_millis,
                b.now_micros,
                Timestamp(b.floor),
                b.max_unfinished,
            )
        case "register_participant":
            one = wire.register_participant
            listed = (ParticipantId(one.participant_id), one.name)
            return RegisterParticipants(TxnId(one.txn_id), one.owner, (listed,))
        case "register_participants":
            r = wire.register_participants
            participants = tuple((ParticipantId(p.participant_id), p.name) for p in r.participants)
            return RegisterParticipants(TxnId(r.txn_id), r.owner, participants)
        case "begin_commit":
            c = wire.begin_commit
            return BeginCommit(TxnId(c.txn_id), c.owner, c.now_micros)
        case "finalize_commit":
            f = wire.finalize_commit
            return FinalizeCommit(TxnId(f.txn_id), Timestamp(f.commit_timestamp), f.now_micros, f.prepared)
        case "complete_commit":
            d = wire.complete_commit
            return CompleteCommit(TxnId(d.txn_id), d.now_micros)
        case "begin_abort":
            a = wire.begin_abort
            owner = a.owner if a.HasField("owner") else None
            return BeginAbort(TxnId(a.txn_id), owner, cause_from_wire(a.cause), a.now_micros)
        case "expire":
            e = wire.expire
            return Expire(TxnId(e.txn_id), cause_from_wire(e.cause), e.now_micros)
        case "finalize_abort":
            return FinalizeAbort(TxnId(wire.finalize_abort.txn_id), wire.finalize_abort.now_micros)
        case "forget":
            return Forget(wire.forget.finished_before_micros)
        case "raise_floor":
            return RaiseFloor(Timestamp(wire.raise_floor.timestamp))
        case unknown:
            raise ValueError(f"no status command of this version: {unknown!r} in {len(data)} bytes")
