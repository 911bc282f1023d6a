"""The one error table: code, class, gRPC status, and what the caller does next.

Errors are named by the caller's next act. `UNKNOWN` outcomes are their own error: never success, never failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from txnstatus.types import AbortCause, AbortCode, TxnId


class TxnError(Exception):
    """Base of everything this package raises on purpose."""

    code: ClassVar[str] = "INTERNAL"
    grpc_status: ClassVar[str] = "INTERNAL"
    retriable: ClassVar[bool] = False
    """Whether the same request may simply be sent again."""

    def __init__(self, message: str, *, txn_id: TxnId | None = None, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.txn_id = txn_id
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  what to do: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, dict(self.__dict__))


def _rebuild(kind: type[TxnError], message: str, fields: dict[str, object]) -> TxnError:
    """Errors cross process borders inside Spark, so they pickle with all they carry."""
    error = kind.__new__(kind)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


class InternalError(TxnError):
    """A fault in the service itself; its log has the story."""


class DataDamaged(InternalError):
    """A file is not what was written: restore it or overwrite what it holds. It is never read as if it were whole."""

    code = "DATA_DAMAGED"
    grpc_status = "DATA_LOSS"

    def of_table(self, table: str) -> DataDamaged:
        """Tells, too, of which table the file is."""
        told = f"table {table}: "
        return self if self.message.startswith(told) else DataDamaged(f"{told}{self.message}", hint=self.hint)


class InvalidArgument(TxnError):
    """Fix the program: the message names the value and the rule."""

    code = "INVALID_ARGUMENT"
    grpc_status = "INVALID_ARGUMENT"


class NotFound(TxnError):
    """Fix the program: no such transaction or table."""

    code = "NOT_FOUND"
    grpc_status = "NOT_FOUND"


class Forgotten(NotFound):
    """The transaction finished long ago, and its record is gone: how it ended is not known any more."""

    code = "FORGOTTEN"


class SnapshotTooOld(TxnError):
    """What was visible at the timestamp is removed: read at a newer one. The message says from when on."""

    code = "SNAPSHOT_TOO_OLD"
    grpc_status = "OUT_OF_RANGE"


class AlreadyExists(TxnError):
    """Fix the program: the name is taken, or the keys of a write's rows are; nothing of it is written."""

    code = "ALREADY_EXISTS"
    grpc_status = "ALREADY_EXISTS"

    keys: Sequence[str] = ()
    """Keys that are taken, ten at most."""


class IllegalState(TxnError):
    """Fix the program: the transaction's state does not allow the operation."""

    code = "ILLEGAL_STATE"
    grpc_status = "FAILED_PRECONDITION"


class Locked(TxnError):
    """Another transaction holds the lock; this one is still open: ask again later, or end it."""

    code = "LOCKED"
    grpc_status = "FAILED_PRECONDITION"


class RowsRefused(TxnError):
    """Rows whose keys are there already, or are not: the other rows are written, and the transaction is open."""

    code = "ROWS_REFUSED"
    grpc_status = "FAILED_PRECONDITION"

    rows: Sequence[int] = ()
    """Numbers of the call's rows that were refused."""
    keys: Sequence[str] = ()
    """The keys of those rows."""
    written: int = 0
    """Rows of the call that were written."""


class NotAuthorized(TxnError):
    """Fix the program: the transaction belongs to somebody else. Or have the role granted that the error names."""

    code = "NOT_AUTHORIZED"
    grpc_status = "PERMISSION_DENIED"


class Unauthenticated(TxnError):
    """One side of a connection is not who it has to be: give the right credentials, or have them issued anew."""

    code = "UNAUTHENTICATED"
    grpc_status = "UNAUTHENTICATED"


class TxnAborted(TxnError):
    """The transaction is over and none of it is visible: run it again from the beginning."""

    code = "TXN_ABORTED"
    grpc_status = "ABORTED"

    def __init__(
        self,
        message: str,
        *,
        txn_id: TxnId | None = None,
        hint: str = "",
        cause: AbortCause | None = None,
    ) -> None:
        super().__init__(message, txn_id=txn_id, hint=hint)
        self.cause = cause

    @property
    def reason(self) -> str:
        return self.cause.message if self.cause else ""

    @property
    def by(self) -> str:
        return self.cause.by if self.cause else ""


class Conflict(TxnAborted):
    """Another transaction changed the same files or rows first: run it again from the beginning."""

    code = "CONFLICT"

    @property
    def winner(self) -> TxnId | None:
        return self.cause.winner if self.cause else None

    @property
    def objects(self) -> Sequence[str]:
        return self.cause.objects if self.cause else ()


def aborted(txn_id: TxnId, cause: AbortCause | None) -> TxnAborted:
    """The error that tells of an abort: Conflict where that was the cause."""
    kind = Conflict if cause and cause.code is AbortCode.CONFLICT else TxnAborted
    why = f" by {cause.by}: {cause.message}" if cause else ""
    return kind(
        f"transaction {txn_id} was aborted{why}",
        txn_id=txn_id,
        hint="none of it is visible; run it again from the beginning",
        cause=cause,
    )


def forgotten(txn_id: TxnId) -> Forgotten:
    return Forgotten(
        f"transaction {txn_id} is finished and forgotten: records are kept for a time only",
        txn_id=txn_id,
        hint="look at the tables for what it did; keep records longer with txnctl config set retention_ms",
    )


class CommitUnknown(TxnError):
    """The commit was asked for and its outcome did not arrive: call commit again on the same handle."""

    code = "COMMIT_UNKNOWN"
    grpc_status = "UNKNOWN"


class Unavailable(TxnError):
    """Nobody could answer in time, though all was retried until the deadline: try later or elsewhere."""

    code = "UNAVAILABLE"
    grpc_status = "UNAVAILABLE"
    retriable = True


class NotTheLeader(Unavailable):
    """The replica asked is not the leader, or cannot prove it; `leader` says who may be."""

    code = "NOT_THE_LEADER"

    @property
    def leader(self) -> str:
        return self.hint


class OutcomeUnknown(Unavailable):
    """A proposal left this replica and its fate is not known here: the same request, sent again, finds out."""

    code = "OUTCOME_UNKNOWN"


class PlacedElsewhere(TxnError):
    """Another shard keeps the table of this name; `shard` says which. Managers ask there: no program sees this."""

    code = "PLACED_ELSEWHERE"
    grpc_status = "FAILED_PRECONDITION"

    @property
    def shard(self) -> int:
        return int(self.hint)


class Overloaded(Unavailable):
    """A limit of the server was reached; the same request may succeed a little later."""

    code = "OVERLOADED"
    grpc_status = "RESOURCE_EXHAUSTED"


class LimitReached(TxnError):
    """The service is told not to take on more: end something first, or raise the limit."""

    code = "LIMIT_REACHED"
    grpc_status = "RESOURCE_EXHAUSTED"

    again_seconds: float = 0.0
    """Seconds after which the same request may succeed, as it goes by a rate; 0: something has to end first."""


ERROR_CLASSES: tuple[type[TxnError], ...] = (
    InternalError,
    DataDamaged,
    InvalidArgument,
    NotFound,
    Forgotten,
    SnapshotTooOld,
    AlreadyExists,
    IllegalState,
    Locked,
    RowsRefused,
    NotAuthorized,
    Unauthenticated,
    TxnAborted,
    Conflict,
    CommitUnknown,
    Unavailable,
    NotTheLeader,
    OutcomeUnknown,
    PlacedElsewhere,
    Overloaded,
    LimitReached,
)

CLASS_BY_CODE: dict[str, type[TxnError]] = {kind.code: kind for kind in ERROR_CLASSES}
