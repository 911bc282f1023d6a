"""Dropping a table, in a transaction of its own: it locks the table and waits for whoever is prepared there."""

from __future__ import annotations

import time

from txnclient.calls.requests import build
from txnclient.handle import Handle
from txnclient.write.locks import Locks
from txnstatus.errors import Locked
from txnstatus.proto import table_pb2 as pb
from txnstatus.types import ConflictStrategy, Statement

TURN_SECONDS = 2.0
"""Longest turn in which a drop waits on the server."""


def drop(handle: Handle, table: str, timeout: float) -> None:
    """The table goes when the transaction commits. Raises NotFound, Locked."""
    deadline = time.monotonic() + timeout
    turn = min(TURN_SECONDS, handle.session.turn_seconds())
    wait = ConflictStrategy.WAIT
    Locks(handle).acquire(table, None, wait, iter([timeout]), turn, statement=Statement.DROP_TABLE)
    request = build(pb.DropTableRequest, txn_id=handle.id, owner=handle.owner, table=table)
    while True:
        left = max(0.0, deadline - time.monotonic())
        request.wait_millis = int(min(left, turn) * 1000)
        waits_for = handle.ask("txnstatus.Table/DropTable", request, pb.DropTableResponse).waits_for
        if not waits_for:
            return
        if not left:
            named = ", ".join(map(str, waits_for[:10])) + (", ..." if len(waits_for) > 10 else "")
            raise Locked(
                f"table {table} cannot be dropped: prepared on it, and not decided within {timeout:g} s, are "
                f"transactions {named}",
                txn_id=handle.id,
                hint=f"drop it again when they have ended: txnctl txn show {waits_for[0]}",
            )
