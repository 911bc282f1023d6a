"""TxnErrors on the wire."""

from __future__ import annotations

import math
from dataclasses import replace

from txnstatus.errors import CLASS_BY_CODE, InternalError, LimitReached, TxnAborted, TxnError
from txnstatus.proto import common_pb2 as common
from txnstatus.types import TxnId
from txnstatus.wire import cause_from_wire, cause_to_wire

NOT_SERVED = "give the addresses of nodes that have the role"
"""The hint of an answer that another node may give."""
GONE = "nobody is called so any more: it was removed, or another one has its place, so end it"
"""The hint of a refusal of a process that is none of the cluster's."""
MAX_MESSAGE_BYTES = 1_500
MAX_HINT_BYTES = 500
MAX_CAUSE_BYTES = 1_000
MAX_OBJECTS = 10
MAX_AGAIN_MILLIS = 3_600_000
MAX_OBJECT_BYTES = 100
"""gRPC refuses trailing metadata of more than 8 KB, whatever it is about: an error that repeated all it was given would
never arrive."""


def to_detail(error: TxnError) -> common.ErrorDetail:
    """Cut to what fits into trailing metadata."""
    cause = error.cause if isinstance(error, TxnAborted) else None
    if cause is not None:
        objects = tuple(clip(name, MAX_OBJECT_BYTES) for name in cause.objects[:MAX_OBJECTS])
        cause = replace(
            cause, message=clip(cause.message, MAX_CAUSE_BYTES), by=clip(cause.by, MAX_HINT_BYTES), objects=objects
        )
    again = error.again_seconds if isinstance(error, LimitReached) else 0.0
    return common.ErrorDetail(
        code=error.code,
        message=clip(error.message, MAX_MESSAGE_BYTES),
        txn_id=error.txn_id,
        hint=clip(error.hint, MAX_HINT_BYTES),
        cause=cause_to_wire(cause) if cause else None,
        again_millis=min(math.ceil(again * 1000), MAX_AGAIN_MILLIS),
    )


def clip(text: str, size: int) -> str:
    """At most so many bytes."""
    data = text.encode(errors="replace")
    return data.decode() if len(data) <= size else data[:size].decode(errors="ignore") + "..."


def from_detail(detail: common.ErrorDetail) -> TxnError:
    """The error as it was raised; one of a newer release becomes an InternalError that names its code."""
    kind = CLASS_BY_CODE.get(detail.code)
    txn_id = TxnId(detail.txn_id) if detail.HasField("txn_id") else None
    if kind is None:
        return InternalError(f"{detail.code}: {detail.message}", txn_id=txn_id, hint=detail.hint)
    if issubclass(kind, TxnAborted):
        try:
            cause = cause_from_wire(detail.cause) if detail.HasField("cause") else None
        except ValueError:
            cause = None  # of a kind that a newer release knows; the message tells of it
        return kind(detail.message, txn_id=txn_id, hint=detail.hint, cause=cause)
    error = kind(detail.message, txn_id=txn_id, hint=detail.hint)
    if isinstance(error, LimitReached) and detail.again_millis:
        error.again_seconds = detail.again_millis / 1000
    return error
