"""Blocking connections to managers: one call at a time on each, and those that rest are used again."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from google.protobuf.message import DecodeError

from txnstatus.errors import IllegalState, InvalidArgument, Unauthenticated
from txnstatus.limits import MAX_REQUEST_BYTES
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.connection import (
    LENGTH,
    MAX_FRAME_BYTES,
    MAX_SHARED_FRAME_BYTES,
    Purpose,
    notice_death,
    split_address,
)
from txnstatus.rpc.identity import check_cluster
from txnstatus.security.principals import of_certificate
from txnstatus.security.showing import Shows
from txnstatus.security.tls import check_process, explain

READ_BYTES = 1 << 14
"""Bytes that are taken at once, if they are there."""
MAX_RESTING = 32
"""Most connections to one address that are kept; others are closed after their call."""


def check_length(method: str, request: bytes) -> None:
    """Raises InvalidArgument for a request that is too long."""
    if len(request) > MAX_REQUEST_BYTES:
        raise InvalidArgument(f"{method}: a request of {len(request)} bytes: {MAX_REQUEST_BYTES} are possible")


class Connections:
    """Safe to use from many threads. A forked child begins with none."""

    def __init__(self, tls: Shows | None = None, expected: str = "") -> None:
        """`tls`: what is shown; None: for nodes that take no TLS. `expected`: as for `check_process`."""
        self.tls, self._expected = tls, expected
        self.cluster_id = ""
        """The id of the cluster that is meant: the first that a node has told, or that `adopt` was given."""
        self._closed = False
        self._lock = threading.Lock()
        self._resting: defaultdict[str, list[_Connection]] = defaultdict(list)
        self._busy: set[_Connection] = set()

    def after_fork(self) -> None:
        """The sockets are shared with the parent, and what comes over them is the parent's."""
        self._lock = threading.Lock()
        self._resting.clear()
        self._busy.clear()
        if self.tls is not None:
            self.tls.after_fork()

    def call(self, address: str, method: str, request: bytes, timeout: float, trace: bytes = b"") -> pb.Reply:
        """The answer of one attempt. `trace`: the context of what it is part of.

        Raises NoAnswer; OtherCluster where a node of another one answers; Unauthenticated where one side does not take
        the other for who it has to be; InvalidArgument for a request that is too long.
        """
        check_length(method, request)
        deadline = time.monotonic() + timeout
        millis = max(1, int(timeout * 1000))
        call = pb.Call(id=1, method=method, payload=request, timeout_millis=millis, trace=trace)
        frame = pb.Frame(calls=[call]).SerializeToString()
        connection, rests = self._take(address, deadline), False
        try:
            reply = connection.ask(frame, deadline, self.cluster_id, lambda told: self.meet(address, told))
            rests = self._rest(connection)
        except TimeoutError:
            raise NoAnswer(f"{address} did not answer {method} within {timeout:.1f} s") from None
        except OSError as error:
            raise _meaning(address, error) from None
        finally:
            if not rests:
                self._drop(connection)
        return reply

    def adopt(self, cluster_id: str) -> None:
        """That one is meant from now on, unless another one is already."""
        with self._lock:
            self.cluster_id = self.cluster_id or cluster_id

    def meet(self, address: str, told: str) -> None:
        """A node there says of which cluster it is. Raises OtherCluster."""
        self.adopt(told)
        if told:
            check_cluster(self.cluster_id, told, address)

    def close(self) -> None:
        """What is under way fails; every later call is refused."""
        with self._lock:
            self._closed = True
            connections = [*self._busy, *(each for some in self._resting.values() for each in some)]
            self._resting.clear()
        for connection in connections:
            connection.shut()

    def _take(self, address: str, deadline: float) -> _Connection:
        with self._lock:
            self.require_open()
            resting = self._resting[address]
            while resting:
                connection = resting.pop()
                if connection.is_alive:
                    self._busy.add(connection)
                    return connection
                connection.shut()
        connection = _Connection(address, deadline, self.tls, self._expected)
        try:
            with self._lock:
                self.require_open()
                self._busy.add(connection)
        except IllegalState:
            connection.shut()
            raise
        return connection

    def require_open(self) -> None:
        """Raises IllegalState once it is closed."""
        if self._closed:
            raise IllegalState("the client is closed", hint="connect again")

    def _rest(self, connection: _Connection) -> bool:
        """Whether it is kept."""
        with self._lock:
            resting = self._resting[connection.address]
            if self._closed or len(resting) >= MAX_RESTING:
                return False
            self._busy.discard(connection)
            resting.append(connection)
            return True

    def _drop(self, connection: _Connection) -> None:
        with self._lock:
            self._busy.discard(connection)
        connection.shut()


class _Connection:
    def __init__(self, address: str, deadline: float, tls: Shows | None, expected: str) -> None:
        """Raises NoAnswer, Unauthenticated."""
        self.address = address
        try:
            self._socket = socket.create_connection(split_address(address), max(0.001, deadline - time.monotonic()))
        except OSError as error:
            raise NoAnswer(f"{address} cannot be reached: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        notice_death(self._socket)
        if tls is not None and tls.is_secure:
            self._secure(tls, deadline, expected)
        self._opening = Purpose.CALLS.opening
        self._credential = tls.credential() if tls is not None else None
        self._came = bytearray()
        """What has come and was not read yet: nearly always a whole answer comes at once."""

    def _secure(self, tls: Shows, deadline: float, expected: str) -> None:
        contexts, plain = tls.contexts(), self._socket
        try:
            self._wait_until(deadline)
            secured = contexts.client.wrap_socket(plain)
            self._socket = secured
            check_process(of_certificate(secured.getpeercert()), contexts.own, expected)
        except OSError as error:
            self._socket.close()
            raise _meaning(self.address, error) from None
        except Unauthenticated as error:
            self._socket.close()
            raise Unauthenticated(f"{self.address}: {error.message}", hint=error.hint) from None

    @property
    def is_alive(self) -> bool:
        """Whether, while it rested, the other side has not ended it, and said nothing that nobody asked."""
        if self._came:
            return False
        self._socket.settimeout(0)
        try:
            socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # below TLS, which has nothing to say meanwhile
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def ask(self, frame: bytes, deadline: float, cluster_id: str, meet: Callable[[str], None]) -> pb.Reply:
        """`cluster_id`: the cluster that is meant; `meet` hears which one the other side is of. Raises OSError."""
        self._wait_until(deadline)
        if self._opening and (cluster_id or self._credential is not None):
            hello = pb.Frame(
                hello=pb.Frame.Hello(cluster_id=cluster_id, credential=self._credential)
            ).SerializeToString()
            if self._credential is None and len(frame) < MAX_SHARED_FRAME_BYTES // 2:
                frame = hello + frame  # one message: for want of room only what is in the first frame is answered
            else:
                self._opening += LENGTH.pack(len(hello)) + hello
        self._socket.sendall(self._opening + LENGTH.pack(len(frame)) + frame)
        self._opening = b""
        while True:
            answer = self._read_frame(deadline)
            if answer.HasField("hello"):
                meet(answer.hello.cluster_id)
            elif len(answer.replies) == 1:
                return answer.replies[0]
            else:
                raise OSError("an answer that does not read")

    def _read_frame(self, deadline: float) -> pb.Frame:
        header = self._read(LENGTH.size, deadline)
        (length,) = LENGTH.unpack(header)
        if length > MAX_FRAME_BYTES:
            raise OSError(f"no node of a cluster answers like this: {header!r}")
        try:
            return pb.Frame.FromString(self._read(length, deadline))
        except DecodeError:
            raise OSError("an answer that does not read") from None

    def _read(self, size: int, deadline: float) -> bytes:
        came = self._came
        while len(came) < size:
            self._wait_until(deadline)
            part = self._socket.recv(max(READ_BYTES, size - len(came)))
            if not part:
                raise OSError("the connection was closed")
            came += part
        data = bytes(came[:size])
        del came[:size]
        return data

    def _wait_until(self, deadline: float) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(left)

    def shut(self) -> None:
        """Ends it, also while another thread waits on it."""
        with contextlib.suppress(OSError):  # it is shut already
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _meaning(address: str, error: OSError) -> NoAnswer | Unauthenticated:
    """What has become of a connection, in the words of whoever called."""
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLSyscallError):
        meant = explain(error)
        return Unauthenticated(f"{address}: {meant.message}", hint=meant.hint)
    return NoAnswer(f"{address}: {error or 'it did not answer in time'}")
