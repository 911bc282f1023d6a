"""gRPC for everybody else: tools, health checks, other languages. The handlers as unary methods."""

from __future__ import annotations

from collections.abc import Sequence

import grpc

from txnstatus.errors import TxnError
from txnstatus.rpc.connection import MAX_MESSAGE_BYTES
from txnstatus.rpc.errors import MAX_HINT_BYTES, clip, to_detail
from txnstatus.rpc.server import Registry

GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # its port is nobody else's
]
DETAIL_KEY = "txn-error-bin"
"""Of the trailing metadata in which an ErrorDetail comes, beside a status that any client understands."""


def grpc_handlers(registry: Registry) -> Sequence[grpc.GenericRpcHandler]:
    handlers = []
    for service, names in registry.services.items():
        methods = {name: _unary(registry, f"{service}/{name}") for name in names}
        handlers.append(grpc.method_handlers_generic_handler(service, methods))
    return handlers


def _unary(registry: Registry, method: str) -> grpc.RpcMethodHandler[bytes, bytes]:
    async def serve(payload: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        try:
            return (await registry.call(method, payload)).SerializeToString()
        except TxnError as error:
            detail = to_detail(error).SerializeToString()
            status, summary = grpc.StatusCode[error.grpc_status], clip(error.message, MAX_HINT_BYTES)
            await context.abort(status, summary, trailing_metadata=((DETAIL_KEY, detail),))
            raise AssertionError("abort raises") from error

    return grpc.unary_unary_rpc_method_handler(serve)  # bytes in, bytes out: the registry decodes
