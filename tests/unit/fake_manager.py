"""A manager that tests play: real gRPC on loopback, and answers as the test says."""

from __future__ import annotations

import itertools
import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import grpc
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from txnstatus.errors import TxnError
from txnstatus.proto import admin_pb2, common_pb2, table_pb2, txn_manager_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.errors import DETAIL_KEY, grpc_status, to_detail

SERVICES = [
    *txn_manager_pb2.DESCRIPTOR.services_by_name.values(),
    *table_pb2.DESCRIPTOR.services_by_name.values(),
    *admin_pb2.DESCRIPTOR.services_by_name.values(),
]
KEEPALIVE_MS = 60_000

Answer = Callable[[Any], Message]


class FakeManager:
    """Begins whatever is asked for, and keeps everybody alive, unless `answers` has something else for a method."""

    _ids = itertools.count(1)

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self.requests: defaultdict[str, list[Any]] = defaultdict(list)
        self.answers: dict[str, Answer] = {
            "BeginTransaction": self._begin,
            "KeepTransactionAlive": lambda request: keep_alive(request),
            "CommitTransaction": lambda request: committed(request.txn_id),
            "AbortTransaction": lambda _request: pb.AbortTransactionResponse(),
            "GetCluster": lambda _request: admin_pb2.GetClusterResponse(cluster_id="fake"),
        }
        self.keepalive_millis = KEEPALIVE_MS
        self._release = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(16), options=[("grpc.so_reuseport", 0)])
        for service in SERVICES:
            methods = {method.name: self._handler(method) for method in service.methods}
            handler = grpc.method_handlers_generic_handler(service.full_name, methods)
            self._server.add_generic_rpc_handlers([handler])
        self.address = f"127.0.0.1:{self._server.add_insecure_port(address)}"
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Every call under way fails, and later ones are refused."""
        self._release.set()
        self._server.stop(None).wait()

    def hang(self, _request: object) -> Message:
        """An answer that never comes, while the manager runs."""
        self._release.wait()
        raise StatusCode(grpc.StatusCode.UNAVAILABLE)

    def count(self, method: str) -> int:
        return len(self.requests[method])

    def _begin(self, request: pb.BeginTransactionRequest) -> Message:
        return pb.BeginTransactionResponse(
            txn_ids=itertools.islice(self._ids, request.count or 1),
            keepalive_millis=request.keepalive_millis or self.keepalive_millis,
            cluster_id="fake",
        )

    def _handler(self, method: Any) -> grpc.RpcMethodHandler[Any, Any]:
        def serve(request: Message, context: grpc.ServicerContext) -> Message:
            copy = type(request)()
            copy.CopyFrom(request)
            self.requests[method.name].append(copy)
            try:
                return self.answers[method.name](request)
            except TxnError as error:
                detail = to_detail(error).SerializeToString()
                context.set_trailing_metadata(((DETAIL_KEY, detail),))
                context.abort(grpc_status(error), error.message)
                raise AssertionError from error
            except StatusCode as error:
                context.abort(error.code, "made by gRPC")
                raise AssertionError from error

        return grpc.unary_unary_rpc_method_handler(
            serve,
            request_deserializer=GetMessageClass(method.input_type).FromString,
            response_serializer=lambda response: response.SerializeToString(),
        )


class StatusCode(Exception):
    """A failure without our detail, as gRPC itself makes it."""

    def __init__(self, code: grpc.StatusCode) -> None:
        super().__init__(code)
        self.code = code


def raises(error: Exception) -> Answer:
    def answer(_request: object) -> Message:
        raise error

    return answer


def in_turn(*answers: Answer) -> Answer:
    """One after the other; the last again and again."""
    left = list(answers)

    def answer(request: object) -> Message:
        return (left.pop(0) if len(left) > 1 else left[0])(request)

    return answer


def keep_alive(request: pb.KeepTransactionAliveRequest, **errors: TxnError) -> pb.KeepTransactionAliveResponse:
    """Alive, all of them, but for `txn_ID=error`."""
    response = pb.KeepTransactionAliveResponse()
    for txn_id in request.txn_ids:
        error = errors.get(f"txn_{txn_id}")
        response.results.add(txn_id=txn_id, error=to_detail(error) if error else None)
    return response


def committed(txn_id: int) -> pb.CommitTransactionResponse:
    return pb.CommitTransactionResponse(
        txn=common_pb2.TxnInfo(
            txn_id=txn_id,
            state="COMMITTED",
            commit_timestamp=4096,
            participants=[common_pb2.ParticipantInfo(participant_id="0.0", name="air.flights")],
        )
    )
