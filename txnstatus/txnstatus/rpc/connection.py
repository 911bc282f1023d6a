"""Connections between the processes of a cluster: whole frames over TCP, each after its length.

The side that connects says first what the connection is for. Nothing here has a task or a timer: a frame that arrives
is handed on in the same turn of the loop. See docs/decisions/0014-frames-over-tcp.md for why this is not gRPC. With
TLS the same bytes go through a TlsStream.
"""

from __future__ import annotations

import asyncio
import enum
import ipaddress
import socket
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar, cast

from google.protobuf.message import Message

from txnstatus.errors import Unauthenticated
from txnstatus.security.principals import Principal
from txnstatus.security.showing import Shows
from txnstatus.security.stream import TlsStream

ItemT = TypeVar("ItemT")

MAX_MESSAGE_BYTES = 64 << 20
MAX_FRAME_BYTES = MAX_MESSAGE_BYTES + (1 << 20)
"""Bytes of a frame: one message of the greatest size, and what is around it."""
MAX_SHARED_FRAME_BYTES = 1 << 20
"""Bytes of a frame that holds several messages: it is decoded in one go."""
LENGTH = struct.Struct(">I")
"""The length of a frame, before it."""
OPENING = b"TXN1"
"""No HTTP/2 client begins like this."""
OPENING_BYTES = len(OPENING) + 1
DEAD_SECONDS = 5
"""Silence after which a peer is gone; an idle connection is tried as often."""


class Purpose(enum.Enum):
    CALLS = b"C"
    """Calls of clients."""
    PEER_CALLS = b"P"
    """Calls of another process of the cluster."""
    RAFT = b"R"

    @property
    def opening(self) -> bytes:
        """What the side that connects says first."""
        return OPENING + self.value


class Connection(asyncio.Protocol):
    """One end. Frames arrive whole and in order, or the connection ends."""

    def __init__(self, opening: bytes = b"", tls: TlsStream | None = None) -> None:
        """`opening`: what is said first."""
        self.tls = tls
        """None: all goes as it is."""
        self.refusal: Unauthenticated | None = None
        """Why it ended, where that is because one side does not take the other for who it has to be."""
        self.max_frame_bytes = MAX_FRAME_BYTES
        """Length of a frame beyond which the connection ends."""
        self.frames = 0
        """How many have come."""
        self._on_frame: Callable[[bytes], None] = lambda _frame: None
        self._on_end: Callable[[str], None] | None = None
        self._ended: str | None = None
        """Why, once it has."""
        self.on_room: Callable[[], None] = lambda: None
        """Runs when it is no longer `full`."""
        self.full = False
        """More is under way than the peer takes in: what can wait should."""
        self._opening = opening
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    # ---- what its owner does

    def take_up(self, on_frame: Callable[[bytes], None], on_end: Callable[[str], None]) -> None:
        """`on_end` hears once why it ended; now, if it has: a peer that dies may be faster than who has dialled it."""
        self._on_frame, self._on_end = on_frame, on_end
        if self._ended is not None:
            on_end(self._ended)

    def send(self, frame: bytes) -> None:
        """Raises ValueError for a frame that is too long."""
        if len(frame) > MAX_FRAME_BYTES:
            raise ValueError(f"a frame of {len(frame)} bytes: {MAX_FRAME_BYTES} are possible")
        self._write(LENGTH.pack(len(frame)) + frame)

    def send_all(self, frame: Callable[[Sequence[ItemT]], Message], items: Sequence[ItemT]) -> None:
        """In one frame, or in several where one would be too long. `frame` makes one of some of the items."""
        data = frame(items).SerializeToString()
        if len(data) > MAX_SHARED_FRAME_BYTES and len(items) > 1:
            half = len(items) // 2
            self.send_all(frame, items[:half])
            self.send_all(frame, items[half:])
        else:
            self.send(data)

    @property
    def unfinished(self) -> int:
        """How many bytes of a frame are here that is not whole."""
        return len(self._buffer)

    @property
    def is_ending(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    @property
    def pending(self) -> bool:
        """Whether something that was sent has not been handed to the kernel."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def close(self) -> None:
        """What was sent still goes out."""
        if self._transport is not None:
            self._say_last()
            self._transport.close()

    def end_writing(self) -> None:
        """What was sent goes out, and nothing after it; the other side may still talk."""
        if self._transport is not None:
            self._say_last()
            self._transport.write_eof()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def hold_up(self) -> None:
        """Takes nothing in until `go_on`; what came in this turn still arrives."""
        if self._transport is not None:
            self._transport.pause_reading()

    def go_on(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def hand_on(self, frame: bytes) -> None:
        """Gives its owner a frame that somebody else has taken from it."""
        self._on_frame(frame)

    @property
    def principal(self) -> Principal | None:
        """Whom the other side's certificate names; None: there is no TLS. Raises Unauthenticated."""
        return None if self.tls is None else self.tls.principal

    def secured(self) -> None:
        """Hears that the handshake is done; or, without TLS, that there is none."""
        self._write(self._opening)

    # ---- what the loop does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(0)  # else what is sent leaves at the end of the loop's turn
        if self.tls is None:
            self.secured()
        else:
            self._transport.write(self.tls.outgoing())

    def data_received(self, data: bytes) -> None:
        if self.tls is None:
            self.bytes_received(data)
        else:
            self._unseal(self.tls, data)

    def _unseal(self, tls: TlsStream, data: bytes) -> None:
        was_ready, came = tls.is_ready, b""
        try:
            came = tls.take(data)
        except Unauthenticated as error:
            self.refusal = error
        if self._transport is not None and (told := tls.outgoing()):
            self._transport.write(told)
        if self.refusal is not None:
            self.refused()
            return
        if tls.is_ready and not was_ready:
            self.secured()
        if came and not self.is_ending:
            self.bytes_received(came)
        if tls.is_over:
            self.close()

    def refused(self) -> None:
        """Hears that nothing comes of it: see `refusal`."""
        self.abort()

    def bytes_received(self, data: bytes) -> None:
        buffer = self._buffer
        if not buffer and len(data) - LENGTH.size == _length(data) <= self.max_frame_bytes:
            self.frames += 1
            self._on_frame(data[LENGTH.size :])  # nearly always: one frame, and all of it
            return
        buffer += data
        start = 0
        while len(buffer) - start >= LENGTH.size:
            (length,) = LENGTH.unpack_from(buffer, start)
            if length > self.max_frame_bytes:
                buffer.clear()
                self.abort()
                return
            end = start + LENGTH.size + length
            if len(buffer) < end:
                break
            frame = bytes(memoryview(buffer)[start + LENGTH.size : end])
            start = end
            self.frames += 1
            self._on_frame(frame)
            if self.is_ending:
                buffer.clear()
                return  # that frame was its last
        del buffer[:start]

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        self.on_room()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._ended = self.refusal.message if self.refusal else str(error) if error else "the connection was closed"
        if self._on_end is not None:
            self._on_end(self._ended)

    def _say_last(self) -> None:
        """Has TLS say that nothing comes any more, once."""
        if self.tls is not None and self._transport is not None and (told := self.tls.end()):
            self._transport.write(told)

    def _write(self, data: bytes) -> None:
        if self._transport is None or not data:
            return
        if self.tls is None:
            self._transport.write(data)
        elif not self._transport.is_closing():  # the other side has been told that nothing comes any more
            self._transport.write(self.tls.seal(data))


class _Dialled(Connection):
    """The end that connects; `done` is over when the other side is known to be who it has to be."""

    def __init__(self, opening: bytes, tls: TlsStream) -> None:
        super().__init__(opening, tls)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def secured(self) -> None:
        super().secured()
        if not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if not self.done.done():
            self.done.set_exception(self.refusal or ConnectionError("it ended the connection before it was secure"))


class Outbox(Generic[ItemT]):
    """What is to be sent. All that comes in one turn of the loop leaves together; while the peer takes nothing in, it
    gathers."""

    def __init__(self, frame: Callable[[Sequence[ItemT]], Message]) -> None:
        """`frame` makes one of some items."""
        self._frame = frame
        self._items: list[ItemT] = []
        self._connection: Connection | None = None
        self._flushing = False

    def open(self, connection: Connection) -> None:
        """What was added before leaves now."""
        self._connection = connection
        connection.on_room = self.flush
        self.flush()

    def add(self, item: ItemT) -> None:
        self._items.append(item)
        if not self._flushing and self._connection is not None:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self.flush)

    def send(self, items: Iterable[ItemT]) -> None:
        """Sends them now, together with what has gathered."""
        self._items += items
        self.flush()

    def clear(self) -> None:
        self._items.clear()

    def __len__(self) -> int:
        return len(self._items)

    def flush(self) -> None:
        """Sends what has gathered, if the peer takes it in."""
        self._flushing = False
        if self._items and self._connection is not None and not self._connection.full:
            items, self._items = self._items, []
            self._connection.send_all(self._frame, items)


def _length(data: bytes) -> int:
    """What the beginning of a frame says is its length; -1: that is not whole."""
    return int(LENGTH.unpack_from(data)[0]) if len(data) >= LENGTH.size else -1


async def connect(address: str, purpose: Purpose, tls: Shows | None = None, expected: str = "") -> Connection:
    """`expected`, with TLS: as for `check_process`.

    Raises OSError, Unauthenticated. The caller bounds the time.
    """
    host, port = split_address(address)
    loop = asyncio.get_running_loop()
    if tls is None or not tls.is_secure:
        transport, connection = await loop.create_connection(lambda: Connection(purpose.opening), host, port)
        notice_death(transport.get_extra_info("socket"))
        return connection
    stream = TlsStream(tls.contexts(), serves=False, expected=expected)
    transport, dialled = await loop.create_connection(lambda: _Dialled(purpose.opening, stream), host, port)
    notice_death(transport.get_extra_info("socket"))
    try:
        await dialled.done
    except Unauthenticated as error:
        raise Unauthenticated(f"{address}: {error.message}", hint=error.hint) from None
    except asyncio.CancelledError:
        dialled.abort()
        raise
    return dialled


def split_address(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine's programs reach what listens there."""
    host, _ = split_address(address)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def notice_death(end: socket.socket | None) -> None:
    """Has the kernel end a connection whose peer is gone without a word. None: there is no socket under it."""
    if end is None:
        return
    end.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", DEAD_SECONDS),
        ("TCP_KEEPINTVL", 1),
        ("TCP_KEEPCNT", DEAD_SECONDS),
        ("TCP_USER_TIMEOUT", DEAD_SECONDS * 1000),
    ):
        if hasattr(socket, name):
            end.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
