"""TxnErrors on the wire: a status code that any gRPC client understands, with our detail beside it."""

from __future__ import annotations

from dataclasses import replace

import grpc
from google.protobuf.message import DecodeError

from txnstatus.commands import cause_from_wire, cause_to_wire
from txnstatus.errors import CLASS_BY_CODE, CLASS_BY_GRPC_STATUS, InternalError, InvalidArgument, TxnAborted, TxnError
from txnstatus.proto import common_pb2 as common
from txnstatus.types import TxnId

DETAIL_KEY = "txn-error-bin"


MAX_MESSAGE_BYTES = 1_500
MAX_HINT_BYTES = 500
MAX_CAUSE_BYTES = 1_000
MAX_OBJECTS = 10
MAX_OBJECT_BYTES = 100
"""gRPC refuses trailing metadata of more than 8 KB, whatever it is about: an error that repeated all it was given would
never arrive."""


def to_detail(error: TxnError) -> common.ErrorDetail:
    """Cut to what fits into trailing metadata."""
    cause = error.cause if isinstance(error, TxnAborted) else None
    if cause is not None:
        objects = tuple(_clip(name, MAX_OBJECT_BYTES) for name in cause.objects[:MAX_OBJECTS])
        cause = replace(
            cause, message=_clip(cause.message, MAX_CAUSE_BYTES), by=_clip(cause.by, MAX_HINT_BYTES), objects=objects
        )
    return common.ErrorDetail(
        code=error.code,
        message=_clip(error.message, MAX_MESSAGE_BYTES),
        txn_id=error.txn_id,
        hint=_clip(error.hint, MAX_HINT_BYTES),
        cause=cause_to_wire(cause) if cause else None,
    )


def summary(error: TxnError) -> str:
    """For gRPC's own status message, which clients of other languages show."""
    return _clip(error.message, MAX_HINT_BYTES)


def _clip(text: str, size: int) -> str:
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
    return kind(detail.message, txn_id=txn_id, hint=detail.hint)


def grpc_status(error: TxnError) -> grpc.StatusCode:
    return grpc.StatusCode[error.grpc_status]


def from_rpc_error(error: grpc.RpcError, address: str) -> TxnError:
    """What a failed gRPC call means: its detail where the peer sent one, else by its status."""
    detail = _detail(error)
    if detail is not None:
        return from_detail(detail)
    status = _status(error)
    said = error.details() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else str(error)
    if status is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in str(said):
        return InvalidArgument(f"{address}: {said}")
    return CLASS_BY_GRPC_STATUS.get(status.name, InternalError)(f"{address}: {said} ({status.name})")


def transport_status(error: grpc.RpcError) -> grpc.StatusCode | None:
    """The status of a failure that gRPC itself made; None: a handler of ours raised it."""
    return _status(error) if _detail(error) is None else None


def _status(error: grpc.RpcError) -> grpc.StatusCode:
    return error.code() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else grpc.StatusCode.UNKNOWN


def _detail(error: grpc.RpcError) -> common.ErrorDetail | None:
    metadata = error.trailing_metadata() if isinstance(error, grpc.Call | grpc.aio.AioRpcError) else None
    for key, value in metadata or ():
        if key == DETAIL_KEY and isinstance(value, bytes):
            try:
                return common.ErrorDetail.FromString(value)
            except DecodeError:
                return None
    return None
