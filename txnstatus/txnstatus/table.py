"""The transaction status table of one range partition: the replicated state machine.

`TxnStatusTable.apply` is total and deterministic: every command gets `Applied` or `Rejected`, on every replica the
same, and nothing else changes the table. States and answers follow Kudu's TxnStatusManager; where they differ,
docs/protocol.md says why.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from txnstatus import commands as cmd
from txnstatus.errors import IllegalState, InvalidArgument, NotAuthorized, NotFound, TxnError, aborted
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.types import (
    DECIDED_ABORT,
    DECIDED_COMMIT,
    NO_TIMESTAMP,
    TERMINAL,
    AbortCause,
    ParticipantId,
    Timestamp,
    TxnId,
    TxnState,
)

SNAPSHOT_VERSION = 1
MAX_BEGIN_COUNT = 1_000


class Op(enum.StrEnum):
    """What can be asked of a transaction, as rows of the table below."""

    REGISTER_PARTICIPANT = "RegisterParticipant"
    KEEP_ALIVE = "KeepAlive"
    BEGIN_COMMIT = "BeginCommit"
    FINALIZE_COMMIT = "FinalizeCommit"
    COMPLETE_COMMIT = "CompleteCommit"
    BEGIN_ABORT = "BeginAbort"
    EXPIRE = "Expire"
    FINALIZE_ABORT = "FinalizeAbort"


class Stay(enum.StrEnum):
    """Outcomes that leave the state as it is."""

    OK = "ok"
    ILLEGAL = "illegal"


_OPEN = TxnState.OPEN
_CIP = TxnState.COMMIT_IN_PROGRESS
_FIP = TxnState.FINALIZE_IN_PROGRESS
_COMMITTED = TxnState.COMMITTED
_AIP = TxnState.ABORT_IN_PROGRESS
_ABORTED = TxnState.ABORTED
_OK = Stay.OK
_ILLEGAL = Stay.ILLEGAL

TRANSITIONS: Mapping[tuple[TxnState, Op], TxnState | Stay] = {
    (_OPEN, Op.REGISTER_PARTICIPANT): _OK,
    (_CIP, Op.REGISTER_PARTICIPANT): _ILLEGAL,
    (_FIP, Op.REGISTER_PARTICIPANT): _ILLEGAL,
    (_COMMITTED, Op.REGISTER_PARTICIPANT): _ILLEGAL,
    (_AIP, Op.REGISTER_PARTICIPANT): _ILLEGAL,
    (_ABORTED, Op.REGISTER_PARTICIPANT): _ILLEGAL,
    (_OPEN, Op.KEEP_ALIVE): _OK,
    (_CIP, Op.KEEP_ALIVE): _ILLEGAL,
    (_FIP, Op.KEEP_ALIVE): _ILLEGAL,
    (_COMMITTED, Op.KEEP_ALIVE): _ILLEGAL,
    (_AIP, Op.KEEP_ALIVE): _ILLEGAL,
    (_ABORTED, Op.KEEP_ALIVE): _ILLEGAL,
    (_OPEN, Op.BEGIN_COMMIT): _CIP,  # straight to COMMITTED when nobody takes part
    (_CIP, Op.BEGIN_COMMIT): _OK,
    (_FIP, Op.BEGIN_COMMIT): _OK,
    (_COMMITTED, Op.BEGIN_COMMIT): _OK,
    (_AIP, Op.BEGIN_COMMIT): _ILLEGAL,
    (_ABORTED, Op.BEGIN_COMMIT): _ILLEGAL,
    (_OPEN, Op.FINALIZE_COMMIT): _ILLEGAL,
    (_CIP, Op.FINALIZE_COMMIT): _FIP,
    (_FIP, Op.FINALIZE_COMMIT): _OK,
    (_COMMITTED, Op.FINALIZE_COMMIT): _OK,
    (_AIP, Op.FINALIZE_COMMIT): _ILLEGAL,
    (_ABORTED, Op.FINALIZE_COMMIT): _ILLEGAL,
    (_OPEN, Op.COMPLETE_COMMIT): _ILLEGAL,
    (_CIP, Op.COMPLETE_COMMIT): _ILLEGAL,
    (_FIP, Op.COMPLETE_COMMIT): _COMMITTED,
    (_COMMITTED, Op.COMPLETE_COMMIT): _OK,
    (_AIP, Op.COMPLETE_COMMIT): _ILLEGAL,
    (_ABORTED, Op.COMPLETE_COMMIT): _ILLEGAL,
    (_OPEN, Op.BEGIN_ABORT): _AIP,  # straight to ABORTED when nobody takes part
    (_CIP, Op.BEGIN_ABORT): _AIP,
    (_FIP, Op.BEGIN_ABORT): _ILLEGAL,
    (_COMMITTED, Op.BEGIN_ABORT): _ILLEGAL,
    (_AIP, Op.BEGIN_ABORT): _OK,
    (_ABORTED, Op.BEGIN_ABORT): _OK,
    (_OPEN, Op.EXPIRE): _AIP,  # straight to ABORTED when nobody takes part
    (_CIP, Op.EXPIRE): _ILLEGAL,
    (_FIP, Op.EXPIRE): _ILLEGAL,
    (_COMMITTED, Op.EXPIRE): _ILLEGAL,
    (_AIP, Op.EXPIRE): _OK,
    (_ABORTED, Op.EXPIRE): _OK,
    (_OPEN, Op.FINALIZE_ABORT): _ILLEGAL,
    (_CIP, Op.FINALIZE_ABORT): _ILLEGAL,
    (_FIP, Op.FINALIZE_ABORT): _ILLEGAL,
    (_COMMITTED, Op.FINALIZE_ABORT): _ILLEGAL,
    (_AIP, Op.FINALIZE_ABORT): _ABORTED,
    (_ABORTED, Op.FINALIZE_ABORT): _OK,
}

_OP_OF_COMMAND: Mapping[type[cmd.TxnCommand], Op] = {
    cmd.RegisterParticipant: Op.REGISTER_PARTICIPANT,
    cmd.BeginCommit: Op.BEGIN_COMMIT,
    cmd.FinalizeCommit: Op.FINALIZE_COMMIT,
    cmd.CompleteCommit: Op.COMPLETE_COMMIT,
    cmd.BeginAbort: Op.BEGIN_ABORT,
    cmd.Expire: Op.EXPIRE,
    cmd.FinalizeAbort: Op.FINALIZE_ABORT,
}


@dataclass(slots=True)
class TxnRecord:
    """One transaction, as the status table keeps it."""

    txn_id: TxnId
    owner: str
    label: str
    keepalive_millis: int
    begin_micros: int
    last_transition_micros: int
    state: TxnState = TxnState.OPEN
    commit_ts: Timestamp = NO_TIMESTAMP
    cause: AbortCause | None = None
    participants: dict[ParticipantId, str] = field(default_factory=dict)
    """Participant id to the table's name when it registered."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The command took effect, now or (`changed` False) before."""

    txn_ids: tuple[TxnId, ...]
    changed: bool


@dataclass(frozen=True, slots=True)
class Rejected:
    """The command is refused on every replica alike, and changed nothing."""

    error: TxnError


@dataclass(frozen=True, slots=True)
class _BeginRequest:
    first_txn_id: TxnId
    count: int


class TxnStatusTable:
    """The state of one status partition. Only `apply` and `restore` change it."""

    def __init__(self) -> None:
        self._txns: dict[TxnId, TxnRecord] = {}
        self._begin_requests: dict[str, _BeginRequest] = {}
        self._next_txn_id = TxnId(0)
        self._last_commit_ts = NO_TIMESTAMP

    # ---- commands

    def apply(self, command: cmd.Command) -> Applied | Rejected:
        if isinstance(command, cmd.BeginTxns):
            return self._begin(command)
        record = self._txns.get(command.txn_id)
        if record is None:
            return Rejected(self._unknown(command.txn_id))
        refusal = self.check_owner(record, getattr(command, "owner", None))
        if refusal:
            return Rejected(refusal)
        op = _OP_OF_COMMAND[type(command)]
        outcome = TRANSITIONS[record.state, op]
        if outcome is Stay.ILLEGAL:
            return Rejected(illegal(record, op))
        changed = self._change(record, command, outcome)
        return Applied((record.txn_id,), changed)

    def _begin(self, command: cmd.BeginTxns) -> Applied | Rejected:
        if not 1 <= command.count <= MAX_BEGIN_COUNT:
            return Rejected(
                InvalidArgument(
                    f"cannot begin {command.count} transactions in one call: 1 to {MAX_BEGIN_COUNT} may be begun"
                )
            )
        seen = self._begin_requests.get(command.request_id)
        if seen:
            return Applied(_ids(seen), changed=False)
        request = _BeginRequest(self._next_txn_id, command.count)
        self._begin_requests[command.request_id] = request
        self._next_txn_id = TxnId(self._next_txn_id + command.count)
        for txn_id in _ids(request):
            self._txns[txn_id] = TxnRecord(
                txn_id,
                command.owner,
                command.label,
                command.keepalive_millis,
                begin_micros=command.now_micros,
                last_transition_micros=command.now_micros,
            )
        return Applied(_ids(request), changed=True)

    def _change(self, record: TxnRecord, command: cmd.TxnCommand, outcome: TxnState | Stay) -> bool:
        if isinstance(command, cmd.RegisterParticipant):
            known = command.participant_id in record.participants
            record.participants.setdefault(command.participant_id, command.name)
            return not known
        if not isinstance(outcome, TxnState):
            return False
        if not record.participants:
            # Nobody is left to hear of it: one entry, one durable round.
            outcome = {_CIP: _COMMITTED, _AIP: _ABORTED}.get(outcome, outcome)
        if isinstance(command, cmd.FinalizeCommit):
            # Commit timestamps rise in the order of the decisions. So a snapshot at the last one never has to wait
            # for a transaction that is still undecided: that one will be above it.
            record.commit_ts = max(command.commit_ts, Timestamp(self._last_commit_ts + 1))
            self._last_commit_ts = record.commit_ts
        elif isinstance(command, cmd.BeginAbort | cmd.Expire):
            record.cause = command.cause
        record.state = outcome
        record.last_transition_micros = command.now_micros
        return True

    # ---- questions

    @property
    def last_commit_ts(self) -> Timestamp:
        """The highest commit timestamp decided so far: what a new snapshot reads at."""
        return self._last_commit_ts

    @property
    def next_txn_id(self) -> TxnId:
        return self._next_txn_id

    def get(self, txn_id: TxnId) -> TxnRecord:
        """Raises NotFound."""
        record = self._txns.get(txn_id)
        if record is None:
            raise self._unknown(txn_id)
        return record

    def records(self) -> Iterator[TxnRecord]:
        return iter(self._txns.values())

    def check_owner(self, record: TxnRecord, owner: str | None) -> NotAuthorized | None:
        """Existence is checked before ownership, as in Kudu. None as owner is the system itself."""
        if owner is None or owner == record.owner:
            return None
        return NotAuthorized(
            f"transaction {record.txn_id} belongs to {record.owner!r}, not to {owner!r}", txn_id=record.txn_id
        )

    def commit_ts_at(self, txn_id: TxnId, snapshot_ts: Timestamp) -> Timestamp:
        """The transaction's commit timestamp if it is committed at or below `snapshot_ts`, else NO_TIMESTAMP.

        Final: what is undecided now will get a timestamp above `last_commit_ts`, and so above every snapshot.
        Raises InvalidArgument for a timestamp that no snapshot of this table can have.
        """
        if snapshot_ts > self._last_commit_ts:
            raise InvalidArgument(
                f"timestamp {snapshot_ts} is ahead of the last commit's, {self._last_commit_ts}: take a snapshot first"
            )
        record = self._txns.get(txn_id)
        if record is None or record.state not in DECIDED_COMMIT or record.commit_ts > snapshot_ts:
            return NO_TIMESTAMP
        return record.commit_ts

    def _unknown(self, txn_id: TxnId) -> NotFound:
        if txn_id < 0:
            return NotFound(f"transaction {txn_id} cannot exist: ids start at 0", txn_id=txn_id)
        return NotFound(
            f"transaction {txn_id} is unknown: the highest id given out is {self._next_txn_id - 1}",
            txn_id=txn_id,
        )

    # ---- snapshots

    def snapshot(self) -> bytes:
        wire = pb.StatusSnapshot(
            version=SNAPSHOT_VERSION,
            next_txn_id=self._next_txn_id,
            last_commit_timestamp=self._last_commit_ts,
            txns=[to_wire(self._txns[txn_id]) for txn_id in sorted(self._txns)],
            begin_requests=[
                pb.StatusSnapshot.RequestRecord(request_id=rid, first_txn_id=r.first_txn_id, count=r.count)
                for rid, r in sorted(self._begin_requests.items(), key=lambda item: item[1].first_txn_id)
            ],
        )
        return wire.SerializeToString(deterministic=True)

    def restore(self, data: bytes) -> None:
        """Raises ValueError for a snapshot of another version."""
        wire = pb.StatusSnapshot.FromString(data)
        if wire.version != SNAPSHOT_VERSION:
            raise ValueError(f"status snapshot of version {wire.version}; this release reads {SNAPSHOT_VERSION}")
        self._next_txn_id = TxnId(wire.next_txn_id)
        self._last_commit_ts = Timestamp(wire.last_commit_timestamp)
        self._txns = {TxnId(txn.txn_id): from_wire(txn) for txn in wire.txns}
        self._begin_requests = {
            r.request_id: _BeginRequest(TxnId(r.first_txn_id), r.count) for r in wire.begin_requests
        }

    def check_invariants(self) -> None:
        """Raises AssertionError; called after every step in tests and in the simulator."""
        for txn_id, record in self._txns.items():
            assert txn_id == record.txn_id < self._next_txn_id, f"{txn_id} was never given out"
            decided = record.state in DECIDED_COMMIT and bool(record.participants)
            assert decided == (record.commit_ts != NO_TIMESTAMP), f"commit timestamp of {record}"
            assert record.commit_ts <= self._last_commit_ts, f"{record} is above the last commit"
            assert (record.state in DECIDED_ABORT) == (record.cause is not None), f"cause of {record}"
            assert record.participants or record.state in TERMINAL | {_OPEN}, f"nobody to tell: {record}"
        commits = [r.commit_ts for r in self._txns.values() if r.commit_ts]
        assert len(set(commits)) == len(commits), "two transactions share a commit timestamp"
        for request in self._begin_requests.values():
            assert request.first_txn_id + request.count <= self._next_txn_id, f"{request} was never given out"


def illegal(record: TxnRecord, op: Op) -> TxnError:
    """The refusal of `op` in the record's state, named by what the caller does next."""
    if record.state in DECIDED_ABORT and op not in (Op.FINALIZE_COMMIT, Op.COMPLETE_COMMIT):
        return aborted(record.txn_id, record.cause)
    return IllegalState(
        f"{op} is not possible: transaction {record.txn_id} is {record.state.name}", txn_id=record.txn_id
    )


def to_wire(record: TxnRecord) -> common.TxnInfo:
    return common.TxnInfo(
        txn_id=record.txn_id,
        state=record.state.name,
        owner=record.owner,
        label=record.label,
        keepalive_millis=record.keepalive_millis,
        begin_micros=record.begin_micros,
        last_transition_micros=record.last_transition_micros,
        commit_timestamp=record.commit_ts,
        cause=cmd.cause_to_wire(record.cause) if record.cause else None,
        participants=[
            common.ParticipantInfo(participant_id=pid, name=name) for pid, name in record.participants.items()
        ],
    )


def from_wire(wire: common.TxnInfo) -> TxnRecord:
    return TxnRecord(
        TxnId(wire.txn_id),
        wire.owner,
        wire.label,
        wire.keepalive_millis,
        wire.begin_micros,
        wire.last_transition_micros,
        TxnState(wire.state),
        Timestamp(wire.commit_timestamp),
        cmd.cause_from_wire(wire.cause) if wire.HasField("cause") else None,
        {ParticipantId(p.participant_id): p.name for p in wire.participants},
    )


def _ids(request: _BeginRequest) -> tuple[TxnId, ...]:
    return tuple(TxnId(i) for i in range(request.first_txn_id, request.first_txn_id + request.count))


def transitions_by_op() -> Iterable[tuple[Op, list[TxnState | Stay]]]:
    """The literal above, a row an operation and a column a state, for docs/protocol.md."""
    for op in Op:
        yield op, [TRANSITIONS[state, op] for state in TABLE_COLUMNS]


TABLE_COLUMNS = (_OPEN, _CIP, _FIP, _COMMITTED, _AIP, _ABORTED)
