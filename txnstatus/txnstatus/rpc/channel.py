"""The calling side inside the cluster: one connection to a process carries all calls to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from txnstatus.errors import InvalidArgument, TxnError, Unauthenticated
from txnstatus.limits import MAX_REQUEST_BYTES
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.calls import Call, asked
from txnstatus.rpc.connection import Purpose
from txnstatus.rpc.errors import from_detail
from txnstatus.rpc.line import Line
from txnstatus.security.tls import Tls
from txnstatus.tracing.served import context_for

log = logging.getLogger(__name__)

ResponseT = TypeVar("ResponseT", bound=Message)


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

    def __init__(
        self,
        address: str,
        cluster_id: Callable[[], str] = lambda: "",
        tls: Tls | None = None,
        expected: str = "",
        purpose: Purpose = Purpose.PEER_CALLS,
    ) -> None:
        """`cluster_id`: the cluster that is meant, once it is known: no process of another one is asked anything.
        `tls`, `expected`: as for `connect`. `purpose`: CALLS for whoever is no process of the cluster."""
        self.address, self._purpose = address, purpose
        self._tls, self._expected = tls, expected
        self._cluster_id = cluster_id
        self._session: _Session | None = None
        self._stranger = ""
        """What was last said of a process there that is not the right one."""

    async def call(
        self, method: str, request: Message, response: type[ResponseT], timeout: float, group: str = ""
    ) -> ResponseT:
        """Raises the TxnError the peer answered with, or Unavailable. `group`: whose replica there is to answer."""
        return await call_over(self, method, request, response, timeout, group)

    def ask(self, method: str, call: Call, response: type[Message], timeout: float, group: str = "") -> None:
        """Sends the call, which hears what the peer answers, or Unavailable. Calls of one loop turn go together."""
        if self._session is None or self._session.closed:
            self._session = _Session(
                self.address, self._cluster_id, self._note, self._tls, self._expected, self._purpose
            )
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


class _Session(Line[_Pending]):
    """One life of the connection."""

    def __init__(
        self,
        address: str,
        cluster_id: Callable[[], str],
        met_stranger: Callable[[TxnError], None],
        tls: Tls | None,
        expected: str,
        purpose: Purpose,
    ) -> None:
        """`met_stranger` hears where a process of another cluster answers, or one that is not who it has to be."""
        super().__init__(address, purpose, cluster_id, tls, expected)
        self._met_stranger = met_stranger

    def ask(self, method: str, call: Call, response: type[Message], timeout: float, group: str) -> None:
        payload = call.request.SerializeToString()
        if len(payload) > MAX_REQUEST_BYTES:
            call.tell(InvalidArgument(f"a request of {len(payload)} bytes: {MAX_REQUEST_BYTES} are possible"))
            return
        number = self._send(_Pending(method, timeout, call, response), payload, group, context_for(method, call.trace))
        call.on_end = partial(self._take, number)

    def _hear(self, waiting: _Pending, reply: pb.Reply) -> None:
        if reply.HasField("error"):
            waiting.call.tell(from_detail(reply.error))
            return
        try:
            answer = waiting.response.FromString(reply.payload)
        except DecodeError as unread:
            waiting.call.tell(NoAnswer(f"{self.address}: an answer that does not read: {unread}"))
        else:
            waiting.call.tell(answer)

    def _fail(self, waiting: _Pending, error: TxnError) -> None:
        waiting.call.tell(error)

    def _refused(self, why: Unauthenticated) -> TxnError:
        """Not Unauthenticated: whoever this process asks for has shown who it is, and other nodes may answer."""
        told = why.message if why.message.startswith(self.address) else f"{self.address}: {why.message}"
        error = NoAnswer(told, hint=why.hint)
        self._met_stranger(error)
        return error

    def _meet(self, told: str) -> None:
        meant = self._cluster_id()
        if meant and told != meant:
            # Not InvalidArgument: that would be the answer to whoever this process asks for, and others may have it.
            error = NoAnswer(f"{self.address} is of cluster {told!r}, not of {meant!r}")
            self._met_stranger(error)
            raise error
