"""A manager that tests play: real connections on loopback, and answers as the test says."""

from __future__ import annotations

import contextlib
import itertools
import socket
import socketserver
import struct
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Self

from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from txnstatus.errors import TxnError
from txnstatus.proto import admin_pb2, catalog_pb2, common_pb2, compaction_pb2, rpc_pb2, table_pb2, txn_manager_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.connection import OPENING_BYTES
from txnstatus.rpc.errors import to_detail

SERVICES = [
    *txn_manager_pb2.DESCRIPTOR.services_by_name.values(),
    *table_pb2.DESCRIPTOR.services_by_name.values(),
    *admin_pb2.DESCRIPTOR.services_by_name.values(),
    *compaction_pb2.DESCRIPTOR.services_by_name.values(),
]
REQUESTS = {method.name: GetMessageClass(method.input_type) for service in SERVICES for method in service.methods}
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
            "GetCluster": lambda _request: admin_pb2.GetClusterResponse(
                catalog=catalog_pb2.CatalogState(cluster_id="fake")
            ),
        }
        self.keepalive_millis = KEEPALIVE_MS
        self.cluster_id = ""
        """The id of the cluster that it says to be of, on connections from now on; empty: it does not say."""
        self.meant: list[str] = []
        """The ids of the clusters that were meant, of each connection that said one."""
        self.led_at = ""
        """Where it says that it had to ask."""
        self._release = threading.Event()
        self._open: set[socket.socket] = set()
        host, _, port = address.rpartition(":")
        manager = self

        class Serve(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                manager._serve(self)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            block_on_close = False

        self._server = Server((host, int(port)), Serve)
        self.address = f"{host}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Every call under way fails, and later ones are refused."""
        if self._release.is_set():
            return
        self._release.set()
        self._server.shutdown()
        self._server.server_close()
        for connection in list(self._open):
            with contextlib.suppress(OSError):  # its client was first
                connection.shutdown(socket.SHUT_RDWR)

    def hang(self, _request: object) -> Message:
        """An answer that never comes, while the manager runs."""
        self._release.wait()
        raise ConnectionAbortedError

    def count(self, method: str) -> int:
        return len(self.requests[method])

    def _begin(self, request: pb.BeginTransactionRequest) -> Message:
        return pb.BeginTransactionResponse(
            txn_ids=itertools.islice(self._ids, request.count or 1),
            keepalive_millis=request.keepalive_millis or self.keepalive_millis,
            cluster_id="fake",
        )

    def _serve(self, connection: socketserver.StreamRequestHandler) -> None:
        self._open.add(connection.request)
        try:
            connection.rfile.read(OPENING_BYTES)
            introduced = False
            while not self._release.is_set() and (length := connection.rfile.read(4)):
                frame = rpc_pb2.Frame.FromString(connection.rfile.read(*struct.unpack(">I", length)))
                if frame.HasField("hello"):
                    self.meant.append(frame.hello.cluster_id)
                if not frame.calls:
                    continue
                if self.cluster_id and not introduced:
                    introduced = True
                    hello = rpc_pb2.Frame(hello=rpc_pb2.Frame.Hello(cluster_id=self.cluster_id)).SerializeToString()
                    connection.wfile.write(struct.pack(">I", len(hello)) + hello)
                reply = rpc_pb2.Frame(replies=map(self._answer, frame.calls)).SerializeToString()
                connection.wfile.write(struct.pack(">I", len(reply)) + reply)
        except OSError:
            return  # the client has gone, or the test wants it to
        finally:
            self._open.discard(connection.request)

    def _answer(self, call: rpc_pb2.Call) -> rpc_pb2.Reply:
        name = call.method.rpartition("/")[2]
        request = REQUESTS[name].FromString(call.payload)
        self.requests[name].append(request)
        try:
            payload = self.answers[name](request).SerializeToString()
            return rpc_pb2.Reply(id=call.id, payload=payload, led_at=self.led_at)
        except TxnError as error:
            return rpc_pb2.Reply(id=call.id, error=to_detail(error))


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
        if error := errors.get(f"txn_{txn_id}"):
            response.refused.add(txn_id=txn_id, error=to_detail(error))
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
