"""Lines: connections that all calls of a loop share, one to each node. Calls of one turn of the loop go together."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

from google.protobuf.message import DecodeError

from txnclient.aio import stepping
from txnclient.calls.connections import Connections, as_call
from txnstatus.errors import TxnError
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.connection import Connection, Outbox, Purpose, connect
from txnstatus.rpc.deadlines import Deadlines

CONNECT_SECONDS = 3.0


class Lines(Connections):
    """What runs in `stepping.run` goes by the lines of its loop; other threads, such as that of heartbeats, go by
    connections of their own."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: dict[str, _Line] = {}

    def call(self, address: str, method: str, request: bytes, timeout: float) -> pb.Reply:
        if not stepping.may_wait():
            return super().call(address, method, request, timeout)
        self.require_open()
        call = as_call(method, request, timeout)
        line = self._lines.get(address)
        if line is None or line.closed:
            line = self._lines[address] = _Line(address, lambda: self.cluster_id, lambda told: self.meet(address, told))
        return stepping.wait_for(line.ask(call, timeout))

    def hang_up(self) -> None:
        """Ends the lines: what is under way fails. To be called in their loop."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.close(NoAnswer(f"{line.address}: the client was closed"))


class _Line:
    """One life of a connection."""

    def __init__(self, address: str, cluster_id: Callable[[], str], meet: Callable[[str], None]) -> None:
        """`cluster_id`: the cluster that is meant, once it is known. `meet` hears which one answers; may refuse it."""
        self.address = address
        self.closed = False
        self._cluster_id, self._meet = cluster_id, meet
        self._ids = itertools.count(1)
        self._outgoing: Outbox[pb.Call] = Outbox(lambda calls: pb.Frame(calls=calls))
        self._pending: dict[int, tuple[asyncio.Future[pb.Reply], pb.Call]] = {}
        self._deadlines = Deadlines(self._too_late)
        self._connection: Connection | None = None
        self._loop = asyncio.get_running_loop()
        self._connecting = self._loop.create_task(self._connect())

    def ask(self, call: pb.Call, timeout: float) -> asyncio.Future[pb.Reply]:
        call.id = next(self._ids)
        answer: asyncio.Future[pb.Reply] = self._loop.create_future()
        self._pending[call.id] = answer, call
        self._deadlines.add(call.id, timeout)
        self._outgoing.add(call)
        return answer

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                connection = await connect(self.address, Purpose.CALLS)
        except OSError as error:
            self.close(NoAnswer(f"{self.address} cannot be reached: {error or 'no answer'}"))
            return
        if self.closed:
            connection.close()
            return
        self._connection = connection
        if meant := self._cluster_id():
            connection.send(pb.Frame(hello=pb.Frame.Hello(cluster_id=meant)).SerializeToString())
        self._outgoing.open(connection)
        connection.take_up(self._deliver, lambda why: self.close(NoAnswer(f"{self.address}: {why}")))

    def _deliver(self, data: bytes) -> None:
        try:
            frame = pb.Frame.FromString(data)
            if frame.HasField("hello"):
                self._meet(frame.hello.cluster_id)
        except DecodeError:
            self.close(NoAnswer(f"{self.address}: an answer that does not read"))
            return
        except TxnError as stranger:
            self.close(stranger)
            return
        for reply in frame.replies:
            self._deadlines.remove(reply.id)
            answer, _ = self._pending.pop(reply.id, (None, None))
            if answer is not None and not answer.done():
                answer.set_result(reply)

    def _too_late(self, number: int) -> None:
        answer, call = self._pending.pop(number, (None, None))
        if answer is not None and call is not None and not answer.done():
            answer.set_exception(
                NoAnswer(f"{self.address} did not answer {call.method} within {call.timeout_millis / 1000:.1f} s")
            )

    def close(self, error: TxnError) -> None:
        if self.closed:
            return
        self.closed = True
        self._connecting.cancel()
        self._deadlines.clear()
        if self._connection is not None:
            self._connection.close()
        pending, self._pending = self._pending, {}
        for answer, _ in pending.values():
            if not answer.done():
                answer.set_exception(error)
