"""The calling side inside the cluster: one connection to a process carries all calls to it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from txnstatus.errors import InvalidArgument, TxnError
from txnstatus.limits import MAX_REQUEST_BYTES
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.calls import Call, asked
from txnstatus.rpc.connection import Connection, Outbox, Purpose, connect
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.rpc.errors import from_detail

log = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=Message)

CONNECT_SECONDS = 3.0


class Channel(Protocol):
    """Calls to one process; `PeerChannel` is the real one."""

    def ask(self, method: str, call: Call, response: type[Message], timeout: float, group: str = "") -> None: ...
    async def close(self) -> None: ...


async def call_over(
    channel: Channel, method: str, request: Message, response: type[ResponseT], timeout: float, group: str = ""
) -> ResponseT:
    """One call, for a task that waits for its answer. Raises what it hears."""

    def ask(calls: Sequence[Call]) -> None:
        for call in calls:
            channel.ask(method, call, response, timeout, group)

    answer: ResponseT = await asked(request, timeout, ask)
    return answer


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
        return await call_over(self, method, request, response, timeout, group)

    def ask(self, method: str, call: Call, response: type[Message], timeout: float, group: str = "") -> None:
        """Sends the call, which hears what the peer answers, or Unavailable. Calls of one loop turn go together."""
        if self._session is None or self._session.closed:
            self._session = _Session(self.address, self._cluster_id, self._note)
        self._session.ask(method, call, response, timeout, group)

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
    call: Call
    response: type[Message]


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

    def ask(self, method: str, call: Call, response: type[Message], timeout: float, group: str) -> None:
        payload = call.request.SerializeToString()
        if len(payload) > MAX_REQUEST_BYTES:
            call.tell(InvalidArgument(f"a request of {len(payload)} bytes: {MAX_REQUEST_BYTES} are possible"))
            return
        number = next(self._ids)
        self._pending[number] = _Pending(method, timeout, call, response)
        self._deadlines.add(number, timeout)
        call.on_end = partial(self._take, number)
        timeout_millis = max(1, int(timeout * 1000))
        self._outgoing.add(
            pb.Call(id=number, method=method, payload=payload, timeout_millis=timeout_millis, group=group)
        )

    def _take(self, number: int) -> _Pending | None:
        """The call that is under way by this number; it is no more. None: nobody waits for it."""
        self._deadlines.remove(number)
        return self._pending.pop(number, None)

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
            pending = self._take(reply.id)
            if pending is None:
                continue
            if reply.HasField("error"):
                pending.call.tell(from_detail(reply.error))
                continue
            try:
                answer = pending.response.FromString(reply.payload)
            except DecodeError as unread:
                pending.call.tell(NoAnswer(f"{self._address}: an answer that does not read: {unread}"))
            else:
                pending.call.tell(answer)

    def _too_late(self, number: int) -> None:
        pending = self._take(number)
        if pending is not None:
            error = f"{self._address} did not answer {pending.method} within {pending.timeout:.1f} s"
            pending.call.tell(NoAnswer(error))

    def close(self, error: TxnError) -> None:
        if self.closed:
            return
        self.closed = True
        self._connecting.cancel()
        self._deadlines.clear()
        if self._connection is not None:
            self._connection.close()
        pending, self._pending = self._pending, {}
        for each in pending.values():
            each.call.tell(error)
