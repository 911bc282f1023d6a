"""The serving side: a registry of handlers, and the ways that lead to it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from txnstatus.errors import InternalError, InvalidArgument, TxnError, Unavailable
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.connection import MAX_MESSAGE_BYTES, Connection, Outbox
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.rpc.errors import to_detail

log = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Message]]
NOT_SERVED = "give the addresses of nodes that have the role"
"""The hint of an answer that another node may give."""


@dataclass(frozen=True, slots=True)
class _Method:
    request: type[Message]
    response: type[Message]
    handler: Handler


class Registry:
    """The methods that this process answers, by full name (`txnstatus.TxnManager/BeginTransaction`)."""

    def __init__(self) -> None:
        self._methods: dict[str, _Method] = {}
        self._services: dict[str, list[str]] = {}

    def add(self, service: ServiceDescriptor, implementation: object) -> None:
        """Each rpc of the service is a method of `implementation`, its name in snake case."""
        names = []
        for method in service.methods:
            handler = getattr(implementation, _snake(method.name))
            full_name = f"{service.full_name}/{method.name}"
            self._methods[full_name] = _Method(
                GetMessageClass(method.input_type), GetMessageClass(method.output_type), handler
            )
            names.append(method.name)
        self._services[service.full_name] = names

    def call(self, method: str, payload: bytes) -> Awaitable[Message]:
        """Raises TxnErrors only: anything else a handler raises is logged and becomes an InternalError."""
        entry = self._methods.get(method)
        if entry is None:
            raise _not_served(method)
        try:
            request = entry.request.FromString(payload)
        except DecodeError as error:
            raise InvalidArgument(f"{method}: {len(payload)} bytes that are no {entry.request.__name__}") from error
        return self.run(method, entry.handler, request)

    def ask(self, method: str, request: Message) -> Awaitable[Message]:
        """As `call`, within the process: the message is handed over as it is, and not to be changed by either."""
        entry = self._methods.get(method)
        if entry is None:
            raise _not_served(method)
        return self.run(method, entry.handler, request)

    async def run(self, method: str, handler: Handler, request: Message) -> Message:
        try:
            return await handler(request)
        except TxnError:
            raise
        except Exception as error:
            log.exception("%s failed", method)
            raise InternalError(f"{method} failed: {type(error).__name__}: {error}") from error

    def serve(self, connection: Connection) -> None:
        """Answers the calls that come over it, until it ends."""
        ServedCalls(self, connection)

    @property
    def services(self) -> Mapping[str, Sequence[str]]:
        """The names of the methods, by service."""
        return self._services


class ServedCalls:
    """The calls that come over one connection: each runs on its own; the answers of one loop turn leave together."""

    def __init__(self, registry: Registry, connection: Connection) -> None:
        self._registry = registry
        self._connection = connection
        self._replies: Outbox[pb.Reply] = Outbox(lambda replies: pb.Frame(replies=replies))
        self._replies.open(connection)
        self._running: set[asyncio.Task[None]] = set()
        self._deadlines: Deadlines[asyncio.Task[None]] = Deadlines(lambda task: task.cancel())
        """Whoever called has given up by then, and needs no answer."""
        connection.take_up(self._take, self._end)

    def _take(self, data: bytes) -> None:
        try:
            frame = pb.Frame.FromString(data)
        except DecodeError as error:
            log.warning("a frame that does not read: %s", error)
            self._connection.abort()
            return
        loop = asyncio.get_running_loop()
        for call in frame.calls:
            task = loop.create_task(self._answer(call))
            self._running.add(task)
            task.add_done_callback(self._ended)
            self._deadlines.add(task, call.timeout_millis / 1000)

    async def _answer(self, call: pb.Call) -> None:
        try:
            response = (await self._registry.call(call.method, call.payload)).SerializeToString()
            if len(response) > MAX_MESSAGE_BYTES:
                raise InvalidArgument(
                    f"{call.method}: an answer of {len(response)} bytes: {MAX_MESSAGE_BYTES} are possible"
                )
            reply = pb.Reply(id=call.id, payload=response)
        except TxnError as error:
            reply = pb.Reply(id=call.id, error=to_detail(error))
        self._replies.add(reply)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._deadlines.remove(task)

    def _end(self, _why: str) -> None:
        self._deadlines.clear()
        for task in list(self._running):
            task.cancel()


def _not_served(method: str) -> TxnError:
    """A method that there is may be served here soon: a node takes up services as the catalog tells it to."""
    service, _, name = method.partition("/")
    try:
        descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except KeyError:
        return InvalidArgument(f"there is no method {method!r}")
    return Unavailable(f"this node does not serve {service} now", hint=NOT_SERVED)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
