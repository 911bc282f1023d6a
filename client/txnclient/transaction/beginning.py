"""The call that begins transactions."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable

from txnclient.calls import traces
from txnclient.calls.requests import build, names_of
from txnclient.calls.traces import TxnTrace
from txnclient.session import Session
from txnclient.transaction.transaction import Transaction
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.types import TxnId


def begin(
    session: Session,
    count: int,
    label: str,
    keepalive_millis: int,
    request_id: str,
    *,
    is_retry: bool = False,
    alone: bool = False,
    tables: Iterable[str] = (),
    near: str | None = None,
) -> tuple[list[Transaction], bool]:
    """The transactions, and whether an earlier request, or attempt at this one, has begun them.

    `tables`: those to which the one transaction is going to write. `near`: a table in whose group it begins; None: the
    first of `tables`. All requests with the same id say the same.

    Raises InvalidArgument; NotFound for a table that does not exist; Overloaded.
    """
    write_ids = {table: uuid.uuid4().hex for table in names_of(tables)}
    request = build(
        pb.BeginTransactionRequest,
        request_id=request_id,
        owner=session.owner,
        label=label,
        keepalive_millis=keepalive_millis,
        count=count,
        is_retry=is_retry,
        first_writes=[{"table": table, "write_id": write_id} for table, write_id in write_ids.items()],
        near=next(iter(write_ids), "") if near is None else near,
    )
    sent_at = time.monotonic()

    def on_repeat() -> None:
        request.is_retry = True

    method = "txnstatus.TxnManager/BeginTransaction"
    with traces.beginning(label, session.owner, count) as traced:
        response = session.call(method, request, pb.BeginTransactionResponse, on_repeat=on_repeat)
    session.channel.adopt(response.cluster_id)
    txns = [
        Transaction(session, TxnId(each), response.keepalive_millis, heartbeat=True, heard_at=sent_at, alone=alone)
        for each in response.txn_ids
    ]
    for txn, span in zip(txns, traced, strict=False):
        if span is not None:
            span.note({"txn.id": txn.id})
            txn.handle.trace = TxnTrace(session.channel.traces, txn.id, span.context, span)
    for opened in response.first_writes:
        name = opened.table.name
        txns[0].handle.first_writes[name] = write_ids[name], opened
    return txns, response.begun_before
