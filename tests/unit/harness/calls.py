"""Calls of handlers by tests, which wait for one answer at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from txnstatus.rpc.calls import Call, Handler, asked, one_by_one

SECONDS = 60.0


async def answered(handler: Handler, request: Message) -> Any:
    """The answer of a handler to one request. Raises what the call hears."""
    return await asked(request, SECONDS, handler)


class AsyncChannel:
    """A channel whose subclass has `call`, a coroutine that answers or raises."""

    call: Callable[..., Any]

    def ask(self, method: str, call: Call, response: type[Message], timeout: float, group: str = "") -> None:
        async def answer(request: Message) -> Message:
            found: Message = await self.call(method, request, response, timeout, group)
            return found

        one_by_one(method, answer)([call])

    async def close(self) -> None: ...
