"""Values that several messages carry, to and from their wire form."""

from __future__ import annotations

from txnstatus.errors import InvalidArgument
from txnstatus.proto import common_pb2 as common
from txnstatus.types import AbortCause, AbortCode, Timestamp, TxnId


def cause_to_wire(cause: AbortCause) -> common.AbortCause:
    return common.AbortCause(
        code=cause.code,
        message=cause.message,
        by=cause.by,
        winner=cause.winner,
        objects=cause.objects,
    )


def cause_from_wire(wire: common.AbortCause) -> AbortCause:
    """Raises ValueError for a code that this release does not know."""
    winner = TxnId(wire.winner) if wire.HasField("winner") else None
    return AbortCause(AbortCode(wire.code), wire.message, wire.by, winner, tuple(wire.objects))


def checked_timestamp(value: int) -> Timestamp:
    """Raises InvalidArgument for a number that no clock will show in a thousand years."""
    if value >= 1 << 63:
        raise InvalidArgument(f"{value} is no timestamp")
    return Timestamp(value)
