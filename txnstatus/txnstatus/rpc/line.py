"""Lines: one connection carries all calls that one process makes of another, for as long as it lives."""

from __future__ import annotations

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError

from txnstatus.errors import TxnError, Unauthenticated
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.connection import Connection, Outbox, Purpose, connect
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.security.showing import Shows

CONNECT_SECONDS = 3.0


class Waiting(Protocol):
    """A call that is under way."""

    method: str
    timeout: float


WaitingT = TypeVar("WaitingT", bound=Waiting)


class Line(ABC, Generic[WaitingT]):
    """One life of the connection. Calls of one loop turn leave in one frame."""

    def __init__(
        self,
        address: str,
        purpose: Purpose,
        cluster_id: Callable[[], str],
        tls: Shows | None = None,
        expected: str = "",
    ) -> None:
        """`cluster_id`: the cluster that is meant, once it is known; empty: whichever it is. `tls`, `expected`: as for
        `connect`."""
        self.address = address
        self.closed = False
        self._cluster_id = cluster_id
        self._ids = itertools.count(1)
        self._outgoing: Outbox[pb.Call] = Outbox(lambda calls: pb.Frame(calls=calls))
        self._waiting: dict[int, WaitingT] = {}
        self._deadlines = Deadlines(self._too_late)
        self._connection: Connection | None = None
        self._connecting = asyncio.get_running_loop().create_task(self._connect(purpose, tls, expected))

    @abstractmethod
    def _hear(self, waiting: WaitingT, reply: pb.Reply) -> None:
        """The other side has answered."""

    @abstractmethod
    def _fail(self, waiting: WaitingT, error: TxnError) -> None:
        """There will be no answer."""

    @abstractmethod
    def _meet(self, told: str) -> None:
        """The other side says of which cluster it is. Raises a TxnError where that is another one: the line ends."""

    def _send(self, waiting: WaitingT, payload: bytes, group: str = "", trace: bytes = b"") -> int:
        """`trace`: the context of what it is part of. Returns the number by which `_take` knows it."""
        number = next(self._ids)
        self._waiting[number] = waiting
        self._deadlines.add(number, waiting.timeout)
        millis = max(1, int(waiting.timeout * 1000))
        self._outgoing.add(
            pb.Call(id=number, method=waiting.method, payload=payload, timeout_millis=millis, group=group, trace=trace)
        )
        return number

    def _take(self, number: int) -> WaitingT | None:
        """The call that is under way by this number; it is no more. None: nobody waits for it."""
        self._deadlines.remove(number)
        return self._waiting.pop(number, None)

    @abstractmethod
    def _refused(self, why: Unauthenticated) -> TxnError:
        """What all calls hear where one side does not take the other for who it has to be."""

    async def _connect(self, purpose: Purpose, tls: Shows | None, expected: str) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await connect(self.address, purpose, tls, expected)
        except Unauthenticated as error:
            self.close(self._refused(error))
            return
        except OSError as error:
            self.close(NoAnswer(f"{self.address} cannot be reached: {error or 'no answer'}"))
            return
        if self.closed:
            connection.close()
            return
        self._connection = connection
        meant, shown = self._cluster_id(), tls.credential() if tls is not None else None
        if meant or shown is not None:
            connection.send(pb.Frame(hello=pb.Frame.Hello(cluster_id=meant, credential=shown)).SerializeToString())
        self._outgoing.open(connection)
        connection.take_up(self._deliver, self._ended)

    def _ended(self, why: str) -> None:
        told = f"{self.address}: {why}"
        refusal = self._connection.refusal if self._connection is not None else None
        self.close(self._refused(Unauthenticated(told, hint=refusal.hint)) if refusal else NoAnswer(told))

    def _deliver(self, data: bytes) -> None:
        try:
            frame = pb.Frame.FromString(data)
        except DecodeError as unread:
            self.close(NoAnswer(f"{self.address}: an answer that does not read: {unread}"))
            return
        try:
            if told := frame.hello.cluster_id:
                self._meet(told)
        except TxnError as stranger:
            self.close(stranger)
            return
        for reply in frame.replies:
            if reply.error.code == Unauthenticated.code:  # it is of the connection, whichever call hears it
                self.close(
                    self._refused(Unauthenticated(f"{self.address}: {reply.error.message}", hint=reply.error.hint))
                )
                return
            waiting = self._take(reply.id)
            if waiting is not None:
                self._hear(waiting, reply)

    def _too_late(self, number: int) -> None:
        waiting = self._take(number)
        if waiting is not None:
            error = f"{self.address} did not answer {waiting.method} within {waiting.timeout:.1f} s"
            self._fail(waiting, NoAnswer(error))

    def close(self, error: TxnError) -> None:
        """Ends it: what is under way hears why."""
        if self.closed:
            return
        self.closed = True
        self._connecting.cancel()
        self._deadlines.clear()
        if self._connection is not None:
            self._connection.close()
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            self._fail(each, error)
