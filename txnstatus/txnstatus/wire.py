"""Values that several messages carry, to and from their wire form."""

from __future__ import annotations

from txnstatus.codec import Codec
from txnstatus.errors import InvalidArgument, NotFound
from txnstatus.proto import common_pb2 as common
from txnstatus.types import AbortCause, Timestamp, TxnId

_CAUSE = Codec(AbortCause, common.AbortCause)
cause_to_wire, cause_from_wire = _CAUSE.to_wire, _CAUSE.from_wire


def checked_txn_id(value: int) -> TxnId:
    """Raises NotFound for an id that no range can hold, as Kudu does."""
    if value < 0:
        raise NotFound(f"transaction {value} cannot exist: ids start at 0", txn_id=TxnId(value))
    return TxnId(value)


def checked_timestamp(value: int) -> Timestamp:
    """Raises InvalidArgument for a number that no clock will show in a thousand years."""
    if value >= 1 << 63:
        raise InvalidArgument(f"{value} is no timestamp")
    return Timestamp(value)
