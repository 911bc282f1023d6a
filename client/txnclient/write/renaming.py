"""Renaming a table: it waits for whoever is at work on it."""

from __future__ import annotations

import time
import uuid

from txnclient.calls.requests import build
from txnclient.info import TableInfo, placed_info
from txnclient.session import Session
from txnclient.write.drop import TURN_SECONDS
from txnstatus.errors import Locked
from txnstatus.proto import table_pb2 as pb


def rename(session: Session, table: str, new_name: str, timeout: float) -> TableInfo:
    """Raises NotFound, AlreadyExists, InvalidArgument, Locked, IllegalState."""
    deadline = time.monotonic() + timeout
    turn = min(TURN_SECONDS, session.turn_seconds())
    request = build(pb.RenameTableRequest, table=table, new_name=new_name, request_id=uuid.uuid4().hex)
    while True:
        left = max(0.0, deadline - time.monotonic())
        request.wait_millis = int(min(left, turn) * 1000)
        answer = session.call("txnstatus.Table/RenameTable", request, pb.RenameTableResponse)
        if not answer.waits_for:
            return placed_info(answer)
        if not left:
            named = ", ".join(map(str, answer.waits_for[:10])) + (", ..." if len(answer.waits_for) > 10 else "")
            raise Locked(
                f"table {table} cannot be renamed: at work on it, and not ended within {timeout:g} s, are "
                f"transactions {named}",
                hint=f"rename it again when they have ended: txnctl txn show {answer.waits_for[0]}",
            )
