"""gRPC for everybody else, on a port of its own: tools, other languages. The handlers as unary methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import partial

import grpc

from txnstatus.errors import TxnError, Unauthenticated
from txnstatus.limits import MAX_REQUEST_BYTES
from txnstatus.revocation import is_revoked
from txnstatus.rpc.connection import MAX_MESSAGE_BYTES
from txnstatus.rpc.deadlines import ANSWER_SHARE
from txnstatus.rpc.errors import MAX_HINT_BYTES, clip, to_detail
from txnstatus.rpc.identity import check_cluster
from txnstatus.rpc.methods import is_method
from txnstatus.rpc.server import Registry
from txnstatus.security.principals import Principal, of_names
from txnstatus.security.tls import Tls, check_cluster_of
from txnstatus.tracing.spans import from_traceparent

GRPC_OPTIONS = [
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),  # its port is nobody else's
    ("grpc.max_concurrent_streams", 100),
    ("grpc.server_handshake_timeout_ms", 5_000),
    ("grpc.max_connection_idle_ms", 300_000),  # a client makes another one, and notices nothing
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 5_000),
]
MAX_CALLS = 1_000
"""Calls under way at one time, over all connections: more are RESOURCE_EXHAUSTED."""
STOP_SECONDS = 0.2
"""How long calls that are under way may go on."""
GROUP_KEY = "txn-group"
"""Metadata of a call that names the group whose replica is to answer."""
CLUSTER_KEY = "txn-cluster"
"""Metadata of a call that names the cluster that is meant, by its id; any other one refuses it."""
TRACE_KEY = "traceparent"
"""Metadata of a call that says of which span it is part, as OpenTelemetry's own clients send it."""
NAMES = "x509_subject_alternative_name"
"""Key of a call's context with the names of the caller's certificate."""
CERTIFICATE = "x509_pem_cert"
"""Key of a call's context with the caller's certificate."""
DETAIL_KEY = "txn-error-bin"
"""Trailing metadata in which an ErrorDetail comes, beside a status that any client understands."""


class GrpcServer:
    """`bind`, then `start`; serves until `stop`."""

    def __init__(
        self, registry: Registry, tls: Tls | None = None, revoked: Callable[[], Collection[str]] = frozenset
    ) -> None:
        """`tls` None: whoever reaches the port may do all. `revoked`: as of a Listener."""
        self._server = grpc.aio.server(options=GRPC_OPTIONS, maximum_concurrent_rpcs=MAX_CALLS)
        self._server.add_generic_rpc_handlers((_Handlers(registry, tls, revoked),))
        self._tls = tls

    def bind(self, address: str) -> None:
        """Raises OSError where the port is in use, or the address not this host's."""
        try:
            if self._tls is None:
                self._server.add_insecure_port(address)
            else:
                shows = partial(_shows, self._tls)  # at each handshake, in a thread of gRPC's
                self._server.add_secure_port(address, grpc.dynamic_ssl_server_credentials(shows(), shows, True))
        except RuntimeError as error:
            raise OSError(str(error)) from error

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(STOP_SECONDS)


class _Handlers(grpc.GenericRpcHandler):
    """Whatever the registry has at the time of the call."""

    def __init__(self, registry: Registry, tls: Tls | None, revoked: Callable[[], Collection[str]]) -> None:
        self._registry, self._tls, self._revoked = registry, tls, revoked

    def _caller(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> Principal | None:
        """Whom the certificate names; None: there is no TLS. Raises Unauthenticated."""
        if self._tls is None:
            return None
        names = (name.decode(errors="replace") for name in context.auth_context().get(NAMES, ()))
        caller = of_names(name for name in names if "://" in name)
        check_cluster_of(caller, self._tls.own)
        revoked = self._revoked()
        if revoked and is_revoked(caller.kind, caller.name, _serial(context), revoked):
            raise Unauthenticated(f"{caller} is revoked")
        return caller

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """None, which is UNIMPLEMENTED, for a method that there is not."""
        method = details.method.removeprefix("/")
        if not is_method(method):
            return None
        said = dict(details.invocation_metadata)
        group, meant = str(said.get(GROUP_KEY, "")), str(said.get(CLUSTER_KEY, ""))
        registry, trace = self._registry, from_traceparent(str(said.get(TRACE_KEY, "")))

        async def serve(payload: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            left = context.time_remaining()
            try:
                check_cluster(meant, registry.cluster_id())
                seconds = math.inf if left is None else left * ANSWER_SHARE
                answer = await registry.call(method, payload, group, seconds, self._caller(context), trace)
                return answer.SerializeToString()
            except TxnError as error:
                detail = to_detail(error).SerializeToString()
                status, summary = grpc.StatusCode[error.grpc_status], clip(error.message, MAX_HINT_BYTES)
                await context.abort(status, summary, trailing_metadata=((DETAIL_KEY, detail),))
                raise AssertionError("abort raises") from error

        return grpc.unary_unary_rpc_method_handler(serve)  # bytes in, bytes out: the registry decodes


def _serial(context: grpc.aio.ServicerContext[bytes, bytes]) -> int:
    """The number of the caller's certificate."""
    from cryptography.x509 import load_pem_x509_certificate  # only where something is revoked

    (shown,) = context.auth_context()[CERTIFICATE]
    return load_pem_x509_certificate(shown).serial_number


def _shows(tls: Tls) -> grpc.ServerCertificateConfiguration:
    found = tls.contexts()
    return grpc.ssl_server_certificate_configuration([(found.key, found.certificate)], found.authority)
