"""Frames of calls: how they are read, and answered where none of the calls is taken up."""

from __future__ import annotations

import logging

from google.protobuf.message import DecodeError

from txnstatus.errors import TxnError
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc import bulk
from txnstatus.rpc.connection import MAX_SHARED_FRAME_BYTES, Connection
from txnstatus.rpc.errors import to_detail

log = logging.getLogger(__name__)

MOST_REFUSED = 256
"""Calls of a frame that are answered where none is taken up: what fits into one turn of the loop."""


def refuse(connection: Connection, frame: bytes, error: TxnError) -> None:
    """Answers the calls in the frame with the error: MOST_REFUSED at most. Processes say who they mean in a frame of
    its own before the first call: that one hears it."""
    asked, detail = read(frame) or pb.Frame(), to_detail(error)
    if not asked.calls:
        refuse_first(connection, error)
        return
    replies = [pb.Reply(id=call.id, error=detail) for call in asked.calls[:MOST_REFUSED]]
    connection.send(pb.Frame(replies=replies).SerializeToString())


def refuse_first(connection: Connection, error: TxnError) -> None:
    """Answers a call that is not read: those who call count from 1."""
    connection.send(pb.Frame(replies=[pb.Reply(id=1, error=to_detail(error))]).SerializeToString())


def read(frame: bytes) -> pb.Frame | None:
    """What a frame of calls holds; None: it does not read, or not in a moment."""
    if len(frame) > MAX_SHARED_FRAME_BYTES and not bulk.is_one_call(frame):
        log.warning("a frame of %d bytes that is not one call: %d are possible", len(frame), MAX_SHARED_FRAME_BYTES)
        return None
    try:
        return pb.Frame.FromString(frame)
    except DecodeError as error:
        log.warning("a frame that does not read: %s", error)
        return None
