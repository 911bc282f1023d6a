"""The serving side: a registry of handlers, and the gRPC handlers that lead to it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from txnstatus.errors import InternalError, InvalidArgument, TxnError, Unavailable
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.errors import DETAIL_KEY, grpc_status, summary, to_detail

log = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Message]]
MAX_MESSAGE_BYTES = 64 << 20
GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # a port in use is an error, not a second server
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
]


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

    async def call(self, method: str, payload: bytes) -> Message:
        """Raises TxnErrors only: anything else a handler raises is logged and becomes an InternalError."""
        entry = self._methods.get(method)
        if entry is None:
            raise _not_served(method)
        try:
            request = entry.request.FromString(payload)
        except DecodeError as error:
            raise InvalidArgument(f"{method}: {len(payload)} bytes that are no {entry.request.__name__}") from error
        try:
            return await entry.handler(request)
        except TxnError:
            raise
        except Exception as error:
            log.exception("%s failed", method)
            raise InternalError(f"{method} failed: {type(error).__name__}: {error}") from error

    def grpc_handlers(self) -> list[grpc.GenericRpcHandler]:
        handlers = []
        for service, names in self._services.items():
            methods = {name: _unary(self, f"{service}/{name}") for name in names}
            handlers.append(grpc.method_handlers_generic_handler(service, methods))
        mux = grpc.stream_stream_rpc_method_handler(
            MuxSession(self).serve,
            request_deserializer=pb.Frame.FromString,
            response_serializer=pb.Frame.SerializeToString,
        )
        handlers.append(grpc.method_handlers_generic_handler("txnstatus.Mux", {"Connect": mux}))
        return handlers


def _unary(registry: Registry, method: str) -> grpc.RpcMethodHandler[bytes, bytes]:
    async def serve(payload: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            return (await registry.call(method, payload)).SerializeToString()
        except TxnError as error:
            detail = to_detail(error).SerializeToString()
            await context.abort(grpc_status(error), summary(error), trailing_metadata=((DETAIL_KEY, detail),))
            raise AssertionError("abort raises") from error

    return grpc.unary_unary_rpc_method_handler(serve)  # bytes in, bytes out: the registry decodes


class MuxSession:
    """Serves `Mux.Connect`: every call of a frame runs on its own; replies leave together, once a loop turn."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def serve(
        self, frames: AsyncIterator[pb.Frame], _context: grpc.aio.ServicerContext[pb.Frame, pb.Frame]
    ) -> AsyncIterator[pb.Frame]:
        replies: list[pb.Reply] = []
        wake = asyncio.Event()
        running: set[asyncio.Task[None]] = set()

        async def answer(call: pb.Call) -> None:
            replies.append(await self._reply(call))
            wake.set()

        async def read() -> None:
            async for frame in frames:
                for call in frame.calls:
                    task = asyncio.create_task(answer(call))
                    running.add(task)
                    task.add_done_callback(running.discard)

        reader = asyncio.create_task(read())
        reader.add_done_callback(lambda _task: wake.set())
        try:
            while not reader.done():
                await wake.wait()
                wake.clear()
                if replies:
                    frame = pb.Frame(replies=replies)
                    replies.clear()
                    yield frame
        finally:
            reader.cancel()
            for task in running:
                task.cancel()

    async def _reply(self, call: pb.Call) -> pb.Reply:
        try:
            async with asyncio.timeout(call.timeout_millis / 1000):
                response = await self._registry.call(call.method, call.payload)
        except TimeoutError:
            error = Unavailable(f"{call.method} took longer than {call.timeout_millis} ms")
            return pb.Reply(id=call.id, error=to_detail(error))
        except TxnError as error:
            return pb.Reply(id=call.id, error=to_detail(error))
        return pb.Reply(id=call.id, payload=response.SerializeToString())


def _not_served(method: str) -> TxnError:
    """A method that there is may be served here soon: a node takes up services as the catalog tells it to."""
    service, _, name = method.partition("/")
    try:
        descriptor_pool.Default().FindMethodByName(f"{service}.{name}")
    except KeyError:
        return InvalidArgument(f"there is no method {method!r}")
    return Unavailable(f"this node does not serve {service} now")


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
