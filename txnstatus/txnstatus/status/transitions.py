"""What may be asked of a transaction in which state: the literal table. Source: Kudu's TxnStatusManager."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping

from txnstatus.types import TxnState


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


def transitions_by_op() -> Iterable[tuple[Op, list[TxnState | Stay]]]:
    """The literal above, a row an operation and a column a state, for docs/protocol.md."""
    for op in Op:
        yield op, [TRANSITIONS[state, op] for state in TABLE_COLUMNS]


TABLE_COLUMNS = (_OPEN, _CIP, _FIP, _COMMITTED, _AIP, _ABORTED)
