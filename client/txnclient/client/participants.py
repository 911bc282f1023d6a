"""What a transaction has come to in each participant."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from txnclient.calls.requests import build
from txnclient.session import Session
from txnstatus.errors import NotFound, TxnError
from txnstatus.foreign import foreign_name
from txnstatus.proto import audit_pb2 as pb
from txnstatus.proto import common_pb2 as common
from txnstatus.types import ParticipantState, Timestamp, TxnState

LEAST_SECONDS = 1.0
"""Time that a participant has at least: one that answers does so soon."""
_ENDED = {TxnState.COMMITTED: ParticipantState.COMMITTED, TxnState.ABORTED: ParticipantState.ABORTED}


@dataclass(frozen=True, slots=True)
class ParticipantSummary:
    """One participant's part in a transaction."""

    participant_id: str
    name: str
    """The table's when it registered, or the database's; or @NAME, of a foreign participant."""
    state: ParticipantState | None
    """None: it does not tell, as foreign ones do not before the transaction has ended, or does not answer."""
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


Beside = Callable[[Session, common.ParticipantInfo], None]


def look_at_all(
    session: Session, txn: common.TxnInfo, beside: Beside = lambda _session, _participant: None
) -> tuple[list[ParticipantSummary], dict[str, str]]:
    """What each participant says; and who does not answer, by name, and why. `beside` asks each for more.

    All have the time of one call, each its share of what is left; a shard that has not answered is asked no more.
    """
    found, silent, without = list[ParticipantSummary](), dict[str, str](), dict[str, str]()
    deadline = monotonic() + session.timeout
    for number, each in enumerate(txn.participants):
        shard = "" if foreign_name(each.participant_id) is not None else each.participant_id.partition(".")[0]
        share = (deadline - monotonic()) / (len(txn.participants) - number)
        hurried = session.within(max(LEAST_SECONDS, share))
        if shard not in without:
            try:
                told = look(hurried, txn, each)
                beside(hurried, each)
            except TxnError as error:
                without[shard] = error.message
            else:
                found.append(told)
                continue
        silent[each.name] = without[shard]
        none = Timestamp(0)
        found.append(ParticipantSummary(each.participant_id, each.name, None, none, none, ()))
    return found, silent
