"""Which transactions a list is to have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from txnstatus.proto import txn_status_pb2 as pb
from txnstatus.status.records import TxnRecord
from txnstatus.types import TxnState


def asked_for(request: pb.ListTransactionsRequest) -> Sequence[int]:
    """The ids that a request names, the highest first; none: it names none, and all are to be looked through."""
    return sorted(set(request.txn_ids), reverse=True)


def is_wanted(record: TxnRecord, request: pb.ListTransactionsRequest, states: Collection[TxnState]) -> bool:
    """Whether all else that the request says is so; `states` are those of the request."""
    return (
        (not states or record.state in states)
        and (not request.below_txn_id or record.txn_id < request.below_txn_id)
        and (not request.label or record.label == request.label)
        and (not request.begun_by or record.owner == request.begun_by)
        and (not request.begun_since_micros or record.begin_micros >= request.begun_since_micros)
        and (not request.begun_before_micros or record.begin_micros < request.begun_before_micros)
        and (not request.participant or any(request.participant == each.name for each in record.participants.values()))
    )
