"""Which transactions a list is to have."""

from __future__ import annotations

from collections.abc import Collection

from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.status.records import TxnRecord
from txnstatus.types import TxnState


def is_wanted(
    record: TxnRecord, request: pb.ListTransactionsRequest, states: Collection[TxnState], ids: Collection[int]
) -> bool:
    """Whether all that the request says is so; `states` and `ids` are those of the request."""
    return (
        (not states or record.state in states)
        and (not ids or record.txn_id in ids)
        and (not request.label or record.label == request.label)
        and (not request.begun_by or record.owner == request.begun_by)
        and (not request.begun_since_micros or record.begin_micros >= request.begun_since_micros)
        and (not request.begun_before_micros or record.begin_micros < request.begun_before_micros)
        and (not request.participant or request.participant in record.participants.values())
    )
