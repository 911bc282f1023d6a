"""A transaction's record in the status table, and its wire forms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from txnstatus.errors import IllegalState, TxnError, aborted
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.status.transitions import Op
from txnstatus.types import (
    DECIDED_ABORT,
    DECIDED_COMMIT,
    NO_TIMESTAMP,
    AbortCause,
    AbortCode,
    Participant,
    ParticipantId,
    Timestamp,
    TxnId,
    TxnState,
)
from txnstatus.values import value
from txnstatus.wire import cause_from_wire, cause_to_wire

CHUNK_RECORDS = 250
"""Records in one chunk of a snapshot: a few milliseconds' work."""


@dataclass(slots=True)
class BeginRequest:
    """One call that began transactions; kept as long as one of their records is."""

    request_id: str
    first_txn_id: TxnId
    count: int
    kept: int

    def txn_ids(self) -> range:
        return range(self.first_txn_id, self.first_txn_id + self.count)


@value
class TxnRecord:
    """One transaction, as the status table keeps it. A change makes a new record, so a snapshot needs no copies."""

    txn_id: TxnId
    owner: str
    label: str
    keepalive_millis: int
    begin_micros: int
    last_transition_micros: int
    request: BeginRequest = field(repr=False, compare=False)
    state: TxnState = TxnState.OPEN
    commit_ts: Timestamp = NO_TIMESTAMP
    cause: AbortCause | None = None
    participants: Mapping[ParticipantId, Participant] = field(default_factory=lambda: NOBODY)

    def moved(self, state: TxnState, micros: int, commit_ts: Timestamp, cause: AbortCause | None) -> TxnRecord:
        """The same transaction in another state."""
        return self._with(state, micros, commit_ts, cause, self.participants)

    def joined_by(self, others: Iterable[Participant]) -> TxnRecord:
        """The same transaction with these participants as well; those that it has stay as they are."""
        new = by_id(other for other in others if other.participant_id not in self.participants)
        if not new:
            return self
        participants = {**self.participants, **new}
        return self._with(self.state, self.last_transition_micros, self.commit_ts, self.cause, participants)

    def _with(
        self,
        state: TxnState,
        micros: int,
        commit_ts: Timestamp,
        cause: AbortCause | None,
        participants: Mapping[ParticipantId, Participant],
    ) -> TxnRecord:
        """Several times as fast as `dataclasses.replace`."""
        return TxnRecord(
            self.txn_id,
            self.owner,
            self.label,
            self.keepalive_millis,
            self.begin_micros,
            micros,
            self.request,
            state,
            commit_ts,
            cause,
            participants,
        )


NOBODY: Mapping[ParticipantId, Participant] = MappingProxyType({})


def by_id(participants: Iterable[Participant]) -> Mapping[ParticipantId, Participant]:
    return {participant.participant_id: participant for participant in participants} or NOBODY


@value
class Step:
    """What a participant in the same log was asked in the same entry, and what it answered."""

    participant_id: ParticipantId
    command: object
    """One of the participant's own commands."""
    outcome: object
    timestamp: Timestamp = NO_TIMESTAMP
    """BEGIN_COMMIT: the prepare timestamp."""
    refused: TxnError | None = None


def illegal(record: TxnRecord, op: Op) -> TxnError:
    """The refusal of `op` in the record's state, named by what the caller does next."""
    if record.state in DECIDED_ABORT and op not in (Op.FINALIZE_COMMIT, Op.COMPLETE_COMMIT):
        return aborted(record.txn_id, record.cause)
    committed = op is Op.BEGIN_ABORT and record.state in DECIDED_COMMIT
    return IllegalState(
        f"{op} is not possible: transaction {record.txn_id} is {record.state}",
        txn_id=record.txn_id,
        hint="it has committed: what it wrote is visible, and stays" if committed else "",
    )


def refused(record: TxnRecord, participant_id: ParticipantId, error: TxnError) -> AbortCause:
    """The cause of an abort that a participant asked for: its own cause where it gave one."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, AbortCause) and cause.code is AbortCode.CONFLICT:
        return cause
    known = record.participants.get(participant_id)
    name = known.name if known else participant_id
    return AbortCause(AbortCode.REFUSED, f"{name} refused to prepare: {error.message}", name)


def to_wire(record: TxnRecord) -> common.TxnInfo:
    info = common.TxnInfo()
    _fill(info, record)
    return info


def _fill(info: common.TxnInfo, record: TxnRecord) -> None:
    """Field by field, which takes half the time: every transaction that ends comes here, on every replica."""
    info.txn_id = record.txn_id
    info.state = record.state  # type: ignore[assignment]
    info.owner = record.owner
    info.label = record.label
    info.keepalive_millis = record.keepalive_millis
    info.begin_micros = record.begin_micros
    info.last_transition_micros = record.last_transition_micros
    info.commit_timestamp = record.commit_ts
    if record.cause is not None:
        info.cause.CopyFrom(cause_to_wire(record.cause))
    info.participants.extend(map(participant_to_wire, record.participants.values()))


def from_wire(wire: common.TxnInfo, request: BeginRequest) -> TxnRecord:
    return TxnRecord(
        TxnId(wire.txn_id),
        wire.owner,
        wire.label,
        wire.keepalive_millis,
        wire.begin_micros,
        wire.last_transition_micros,
        request,
        TxnState(wire.state),
        Timestamp(wire.commit_timestamp),
        cause_from_wire(wire.cause) if wire.HasField("cause") else None,
        by_id(map(participant_from_wire, wire.participants)),
    )


def participant_from_wire(wire: common.ParticipantInfo) -> Participant:
    return Participant(ParticipantId(wire.participant_id), wire.name, wire.first_write)


def participant_to_wire(participant: Participant) -> common.ParticipantInfo:
    participant_id, name, first_write = participant
    return common.ParticipantInfo(participant_id=participant_id, name=name, first_write=first_write)


def to_saved(record: TxnRecord) -> pb.StatusSnapshot.Record:
    saved = pb.StatusSnapshot.Record(
        request_id=record.request.request_id,
        request_first_txn_id=record.request.first_txn_id,
        request_count=record.request.count,
    )
    _fill(saved.txn, record)
    return saved


def chunks(header: pb.StatusSnapshot, unfinished: Sequence[TxnRecord], finished: Sequence[bytes]) -> Iterator[bytes]:
    """A snapshot of a table."""
    yield header.SerializeToString(deterministic=True)
    for start in range(0, len(unfinished), CHUNK_RECORDS):
        part = pb.StatusSnapshot(unfinished=map(to_saved, unfinished[start : start + CHUNK_RECORDS]))
        yield part.SerializeToString(deterministic=True)
    for start in range(0, len(finished), CHUNK_RECORDS):
        part = pb.StatusSnapshot(finished=finished[start : start + CHUNK_RECORDS])
        yield part.SerializeToString(deterministic=True)
