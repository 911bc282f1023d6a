"""Dropping a table, in a transaction of its own: it locks the table and waits for whoever is prepared there."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from txnclient.calls.requests import build
from txnclient.write import locks
from txnstatus.errors import Locked
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import ConflictStrategy, Statement

if TYPE_CHECKING:
    from txnclient.client import Client
    from txnclient.transaction import Transaction

TURN_SECONDS = 2.0
"""A drop waits on the server in turns."""


def drop(client: Client, txn: Transaction, table: str, timeout: float) -> None:
    """The table goes when the transaction commits. Raises NotFound, Locked."""
    deadline = time.monotonic() + timeout
    turn = min(TURN_SECONDS, client.attempt_seconds(client.timeout) / 2)
    lock = locks.request_of(txn.id, client.owner, table, None, ConflictStrategy.WAIT, statement=Statement.DROP_TABLE)
    locks.acquire(lock, client.call, iter([timeout]), turn)
    request = build(pb.DropTableRequest, txn_id=txn.id, owner=client.owner, table=table)
    while True:
        left = max(0.0, deadline - time.monotonic())
        request.wait_millis = int(min(left, turn) * 1000)
        waits_for = client.call("txnstatus.Table/DropTable", request, pb.DropTableResponse).waits_for
        if not waits_for:
            return
        if not left:
            named = ", ".join(map(str, waits_for[:10])) + (", ..." if len(waits_for) > 10 else "")
            raise Locked(
                f"table {table} cannot be dropped: prepared on it, and not decided within {timeout:g} s, are "
                f"transactions {named}",
                txn_id=txn.id,
                hint=f"drop it again when they have ended: txnctl txn show {waits_for[0]}",
            )
