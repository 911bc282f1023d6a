"""Lines: connections that all calls of a loop share, one to each node. Calls of one turn of the loop go together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from txnclient.aio import stepping
from txnclient.calls.connections import Connections, check_length
from txnstatus.errors import TxnError, Unauthenticated
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.connection import Purpose
from txnstatus.rpc.line import Line
from txnstatus.security.showing import Shows


class Lines(Connections):
    """What runs in `stepping.run` goes by the lines of its loop; other threads, such as that of heartbeats, go by
    connections of their own."""

    def __init__(self, tls: Shows | None = None) -> None:
        super().__init__(tls)
        self._lines: dict[str, _Line] = {}

    def call(self, address: str, method: str, request: bytes, timeout: float, trace: bytes = b"") -> pb.Reply:
        if not stepping.may_wait():
            return super().call(address, method, request, timeout, trace)
        self.require_open()
        check_length(method, request)
        line = self._lines.get(address)
        if line is None or line.closed:
            line = self._lines[address] = _Line(
                address, lambda: self.cluster_id, lambda told: self.meet(address, told), self.tls
            )
        return stepping.wait_for(line.ask(method, request, timeout, trace))

    def hang_up(self) -> None:
        """Ends the lines: what is under way fails. To be called in their loop."""
        lines, self._lines = self._lines, {}
        for line in lines.values():
            line.close(NoAnswer(f"{line.address}: the client was closed"))


@dataclass(slots=True)
class _Pending:
    method: str
    timeout: float
    answer: asyncio.Future[pb.Reply]


class _Line(Line[_Pending]):
    """One life of a connection."""

    def __init__(
        self, address: str, cluster_id: Callable[[], str], meet: Callable[[str], None], tls: Shows | None
    ) -> None:
        """`meet` hears of which cluster the other side is; may refuse it."""
        super().__init__(address, Purpose.CALLS, cluster_id, tls)
        self._told = meet

    def ask(self, method: str, request: bytes, timeout: float, trace: bytes) -> asyncio.Future[pb.Reply]:
        answer: asyncio.Future[pb.Reply] = asyncio.get_running_loop().create_future()
        self._send(_Pending(method, timeout, answer), request, trace=trace)
        return answer

    def _hear(self, waiting: _Pending, reply: pb.Reply) -> None:
        if not waiting.answer.done():
            waiting.answer.set_result(reply)

    def _fail(self, waiting: _Pending, error: TxnError) -> None:
        if not waiting.answer.done():
            waiting.answer.set_exception(error)

    def _refused(self, why: Unauthenticated) -> TxnError:
        return why

    def _meet(self, told: str) -> None:
        self._told(told)
