"""A transaction on one participant: the literal (state, operation) table.

Source: Kudu's TxnParticipant. Its BEGIN_TXN comes with the first write; this and BEGIN_COMMIT without a record are told
of in docs/protocol.md.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from txnstatus.types import ParticipantState


class Op(enum.StrEnum):
    FIRST_WRITE = "first write"
    WRITE = "write"
    BEGIN_COMMIT = "BEGIN_COMMIT"
    FINALIZE_COMMIT = "FINALIZE_COMMIT"
    ABORT_TXN = "ABORT_TXN"


class Stay(enum.StrEnum):
    """Outcomes that leave the state as it is."""

    OK = "ok"
    ALREADY = "already applied"
    ILLEGAL = "illegal"


_NONE = None
_OPEN = ParticipantState.OPEN
_CIP = ParticipantState.COMMIT_IN_PROGRESS
_COMMITTED = ParticipantState.COMMITTED
_ABORTED = ParticipantState.ABORTED
_OK, _ALREADY, _ILLEGAL = Stay.OK, Stay.ALREADY, Stay.ILLEGAL

TABLE_COLUMNS = (_NONE, _OPEN, _CIP, _COMMITTED, _ABORTED)

TRANSITIONS: Mapping[tuple[ParticipantState | None, Op], ParticipantState | Stay] = {
    (_NONE, Op.FIRST_WRITE): _OPEN,
    (_OPEN, Op.FIRST_WRITE): _OK,  # another one was first
    (_CIP, Op.FIRST_WRITE): _ILLEGAL,
    (_COMMITTED, Op.FIRST_WRITE): _ILLEGAL,
    (_ABORTED, Op.FIRST_WRITE): _ILLEGAL,
    (_NONE, Op.WRITE): _ILLEGAL,
    (_OPEN, Op.WRITE): _OK,
    (_CIP, Op.WRITE): _ILLEGAL,
    (_COMMITTED, Op.WRITE): _ILLEGAL,
    (_ABORTED, Op.WRITE): _ILLEGAL,
    (
        _NONE,
        Op.BEGIN_COMMIT,
    ): _CIP,  # registered, never begun: nothing was written, so there is nothing to refuse
    (_OPEN, Op.BEGIN_COMMIT): _CIP,
    (_CIP, Op.BEGIN_COMMIT): _ALREADY,
    (_COMMITTED, Op.BEGIN_COMMIT): _ALREADY,
    (_ABORTED, Op.BEGIN_COMMIT): _ILLEGAL,
    (_NONE, Op.FINALIZE_COMMIT): _ILLEGAL,
    (_OPEN, Op.FINALIZE_COMMIT): _ILLEGAL,
    (_CIP, Op.FINALIZE_COMMIT): _COMMITTED,
    (_COMMITTED, Op.FINALIZE_COMMIT): _ALREADY,
    (_ABORTED, Op.FINALIZE_COMMIT): _ILLEGAL,
    (_NONE, Op.ABORT_TXN): _ABORTED,  # a tombstone: a late first write is refused
    (_OPEN, Op.ABORT_TXN): _ABORTED,
    (_CIP, Op.ABORT_TXN): _ABORTED,
    (_COMMITTED, Op.ABORT_TXN): _ILLEGAL,
    (_ABORTED, Op.ABORT_TXN): _ALREADY,
}
