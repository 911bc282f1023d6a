"""Calls that came over a connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.calls import Call
from txnstatus.rpc.recording import Act


class Arrived(Call):
    __slots__ = ("_heard", "act", "came", "id", "method", "size")

    def __init__(
        self, call: pb.Call, request: Message, by: float, came: float, size: int, heard: Callable[[Arrived, Any], None]
    ) -> None:
        """`came`: the loop's time; `size`: bytes that it keeps of the process's memory; `heard` hears the Answer."""
        super().__init__(request, by)
        self.id = call.id
        self.method = call.method
        self.trace = call.trace
        self.came = came
        self.size = size
        self.act: Act | None = None
        """What is recorded of it."""
        self._heard = heard

    def _hear(self, answer: Any) -> None:
        self._heard(self, answer)
