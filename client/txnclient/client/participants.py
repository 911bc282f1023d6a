"""What a transaction has come to in each participant."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from txnclient.calls.requests import build
from txnclient.session import Session
from txnstatus.errors import NotFound
from txnstatus.foreign import foreign_name
from txnstatus.proto import audit_pb2 as pb
from txnstatus.proto import common_pb2 as common
from txnstatus.types import ParticipantState, Timestamp, TxnState

_ENDED = {TxnState.COMMITTED: ParticipantState.COMMITTED, TxnState.ABORTED: ParticipantState.ABORTED}


@dataclass(frozen=True, slots=True)
class ParticipantSummary:
    """One participant's part in a transaction."""

    participant_id: str
    name: str
    """The table's when it registered, or the database's; or @NAME, of a foreign participant."""
    state: ParticipantState | None
    """None: it does not tell, as foreign ones do not before the transaction has ended."""
    prepare_timestamp: Timestamp
    """When it became able to commit; 0: it did not, or has no record of it any more."""
    commit_timestamp: Timestamp
    """0: it has not committed."""
    locks: tuple[str, ...]
    """Objects that the transaction has locked there, or waits for."""


def look(session: Session, txn: common.TxnInfo, participant: common.ParticipantInfo) -> ParticipantSummary:
    """What a participant says itself; where it has no record, how the transaction has ended."""
    told = pb.AuditTransactionResponse()
    if foreign_name(participant.participant_id) is None:
        request = build(pb.AuditTransactionRequest, table_id=participant.participant_id, txn_id=txn.txn_id)
        with contextlib.suppress(NotFound):  # a table that is dropped, and gone
            told = session.call("txnstatus.Audit/AuditTransaction", request, pb.AuditTransactionResponse)
    state = ParticipantState(told.state) if told.state else _ENDED.get(TxnState(txn.state))
    committed = told.commit_timestamp
    if not told.state and state is ParticipantState.COMMITTED:
        committed = txn.commit_timestamp
    return ParticipantSummary(
        participant.participant_id,
        participant.name,
        state,
        Timestamp(told.prepare_timestamp),
        Timestamp(committed),
        tuple(told.locks),
    )
