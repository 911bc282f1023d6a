"""A transaction's record in the status table, and its forms on the wire and in snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec.msgpack import Encoder
from msgspec.structs import replace

from txnstatus.errors import IllegalState, TxnError, aborted
from txnstatus.proto import common_pb2 as common
from txnstatus.replicated import Outcome, Stored, decoder
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
from txnstatus.undoes import undone_by
from txnstatus.wire import cause_to_wire


class BeginRequest(Stored):
    """One call that began transactions; kept as long as one of their records is."""

    request_id: str
    first_txn_id: TxnId
    count: int

    def txn_ids(self) -> range:
        return range(self.first_txn_id, self.first_txn_id + self.count)


class TxnRecord(Stored):
    """One transaction, as the status table keeps it. A change makes a new record, so a snapshot needs no copies."""

    txn_id: TxnId
    owner: str
    label: str
    keepalive_millis: int
    begin_micros: int
    last_transition_micros: int
    request: BeginRequest
    state: TxnState = TxnState.OPEN
    commit_ts: Timestamp = NO_TIMESTAMP
    cause: AbortCause | None = None
    participants: Mapping[ParticipantId, Participant] = {}

    def moved(self, state: TxnState, micros: int, commit_ts: Timestamp, cause: AbortCause | None) -> TxnRecord:
        """The same transaction in another state: several times as fast as `replace`."""
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
            self.participants,
        )

    def joined_by(self, others: Iterable[Participant]) -> TxnRecord:
        """The same transaction with these participants as well; those that it has stay as they are."""
        new = by_id(other for other in others if other.participant_id not in self.participants)
        if not new:
            return self
        return replace(self, participants={**self.participants, **new})


def by_id(participants: Iterable[Participant]) -> Mapping[ParticipantId, Participant]:
    return {participant.participant_id: participant for participant in participants}


class Step(Outcome):
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
    fill(info, record)
    return info


def fill(info: common.TxnInfo, record: TxnRecord) -> None:
    """Field by field, in place, which takes half the time."""
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
    for participant_id, name, first_write in record.participants.values():
        info.participants.add(participant_id=participant_id, name=name, first_write=first_write)
    if undone := undone_by(record.request.request_id):
        info.undoes = undone


def participant_from_wire(wire: common.ParticipantInfo) -> Participant:
    return Participant(ParticipantId(wire.participant_id), wire.name, wire.first_write)


def participant_to_wire(participant: Participant) -> common.ParticipantInfo:
    participant_id, name, first_write = participant
    return common.ParticipantInfo(participant_id=participant_id, name=name, first_write=first_write)


encode = Encoder().encode
decode: Callable[[bytes], TxnRecord] = decoder(TxnRecord)
"""What reads a record. Raises ValueError on bytes that are none of this version."""
