"""Calls that a node answers itself, in the name of whoever asks it over HTTP: they are dispatched as everybody's."""

from __future__ import annotations

import asyncio
from concurrent.futures import TimeoutError as TookTooLong
from typing import TypeVar, cast

from google.protobuf.message import Message

from txnclient.calls.channel import ManagerChannel
from txnclient.calls.connections import Connections
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.server import Registry
from txnstatus.security.principals import Principal
from txnstatus.security.tls import Tls

ResponseT = TypeVar("ResponseT", bound=Message)

HERE = "this node"
"""What errors call this process: no connection is made to it."""


class Inside(ManagerChannel):
    """A channel to this process, for threads beside its loop; to other nodes, as this node."""

    def __init__(
        self, registry: Registry, caller: Principal | None, loop: asyncio.AbstractEventLoop, tls: Tls | None
    ) -> None:
        super().__init__([HERE], Connections(tls))
        self._registry, self._caller, self._loop = registry, caller, loop

    def _attempt(
        self, address: str, method: str, request: Message, response: type[ResponseT], timeout: float, trace: bytes
    ) -> tuple[ResponseT, str]:
        payload = request.SerializeToString()
        asked = self._registry.call(method, payload, seconds=timeout, caller=self._caller)
        future = asyncio.run_coroutine_threadsafe(asked, self._loop)
        try:
            return cast(ResponseT, future.result(timeout)), ""
        except TookTooLong:
            future.cancel()
            raise NoAnswer(f"{method}: no answer within {timeout:g} s") from None
