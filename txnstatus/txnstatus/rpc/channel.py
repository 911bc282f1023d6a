"""The calling side inside the cluster: one connection to a process carries all calls to it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.limits import MAX_REQUEST_BYTES
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.connection import Connection, Outbox, Purpose, connect
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.rpc.errors import from_detail

log = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=Message)

CONNECT_SECONDS = 3.0


class PeerChannel:
    """Calls to one address. A broken connection fails what was under way, and the next call makes a new one."""

    def __init__(self, address: str, cluster_id: Callable[[], str] = lambda: "") -> None:
        """`cluster_id`: the cluster that is meant, once it is known: no process of another one is asked anything."""
        self.address = address
        self._cluster_id = cluster_id
        self._session: _Session | None = None
        self._stranger = ""
        """What was last said of another cluster's process there."""

    async def call(
        self, method: str, request: Message, response: type[ResponseT], timeout: float, group: str = ""
    ) -> ResponseT:
        """Raises the TxnError the peer answered with, or Unavailable. `group`: whose replica there is to answer."""
        if self._session is None or self._session.closed:
            self._session = _Session(self.address, self._cluster_id, self._note)
        return response.FromString(await self._session.call(method, request.SerializeToString(), timeout, group))

    def _note(self, error: TxnError) -> None:
        """For the operator, once: calls may be repeated for ever."""
        if self._stranger != error.message:
            self._stranger = error.message
            log.error("%s", error.message)

    async def close(self) -> None:
        if self._session is not None:
            self._session.close(NoAnswer(f"{self.address}: the channel was closed"))
            self._session = None


@dataclass(slots=True)
class _Pending:
    method: str
    timeout: float
    answer: asyncio.Future[bytes]


class _Session:
    """One life of the connection. Calls of one loop turn leave in one frame."""

    def __init__(self, address: str, cluster_id: Callable[[], str], met_stranger: Callable[[TxnError], None]) -> None:
        """`met_stranger` hears where a process of another cluster answers."""
        self.closed = False
        self._met_stranger = met_stranger
        self._address = address
        self._cluster_id = cluster_id
        self._ids = itertools.count(1)
        self._outgoing: Outbox[pb.Call] = Outbox(lambda calls: pb.Frame(calls=calls))
        self._pending: dict[int, _Pending] = {}
        self._deadlines = Deadlines(self._too_late)
        self._connection: Connection | None = None
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def call(self, method: str, payload: bytes, timeout: float, group: str) -> bytes:
        if len(payload) > MAX_REQUEST_BYTES:
            raise InvalidArgument(f"a request of {len(payload)} bytes: {MAX_REQUEST_BYTES} are possible")
        call_id = next(self._ids)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._pending[call_id] = _Pending(method, timeout, future)
        self._deadlines.add(call_id, timeout)
        timeout_millis = max(1, int(timeout * 1000))
        self._outgoing.add(
            pb.Call(id=call_id, method=method, payload=payload, timeout_millis=timeout_millis, group=group)
        )
        try:
            return await future
        finally:
            self._pending.pop(call_id, None)
            self._deadlines.remove(call_id)

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await connect(self._address, Purpose.PEER_CALLS)
        except OSError as error:
            self.close(NoAnswer(f"{self._address} cannot be reached: {error or 'no answer'}"))
            return
        if self.closed:
            connection.close()
            return
        self._connection = connection
        if meant := self._cluster_id():
            connection.send(pb.Frame(hello=pb.Frame.Hello(cluster_id=meant)).SerializeToString())
        self._outgoing.open(connection)
        connection.take_up(self._deliver, lambda why: self.close(NoAnswer(f"{self._address}: {why}")))

    def _deliver(self, data: bytes) -> None:
        try:
            frame = pb.Frame.FromString(data)
        except DecodeError as unread:
            self.close(NoAnswer(f"{self._address}: an answer that does not read: {unread}"))
            return
        told = frame.hello.cluster_id
        if told and (meant := self._cluster_id()) and told != meant:
            # Not InvalidArgument: that would be the answer to whoever this process asks for, and others may have it.
            error = NoAnswer(f"{self._address} is of cluster {told!r}, not of {meant!r}")
            self._met_stranger(error)
            self.close(error)
            return
        for reply in frame.replies:
            pending = self._pending.get(reply.id)
            if pending is None or pending.answer.done():
                continue
            if reply.HasField("error"):
                pending.answer.set_exception(from_detail(reply.error))
            else:
                pending.answer.set_result(reply.payload)

    def _too_late(self, call_id: int) -> None:
        pending = self._pending[call_id]
        if not pending.answer.done():
            error = f"{self._address} did not answer {pending.method} within {pending.timeout:.1f} s"
            pending.answer.set_exception(NoAnswer(error))

    def close(self, error: TxnError) -> None:
        if self.closed:
            return
        self.closed = True
        self._connecting.cancel()
        self._deadlines.clear()
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(error)
        if self._connection is not None:
            self._connection.close()
