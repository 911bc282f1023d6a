"""A process's port: connections from the cluster's other processes and from client libraries."""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import cast

from txnstatus.errors import LimitReached, Overloaded, TxnError, Unauthenticated
from txnstatus.limits import MAX_REQUEST_BYTES
from txnstatus.proto import rpc_pb2 as pb
from txnstatus.revocation import is_revoked
from txnstatus.rpc.connection import (
    MAX_FRAME_BYTES,
    MAX_SHARED_FRAME_BYTES,
    OPENING_BYTES,
    Connection,
    Purpose,
    notice_death,
    split_address,
)
from txnstatus.rpc.errors import GONE
from txnstatus.rpc.guests import Bounds, Guests
from txnstatus.rpc.reading import read, refuse, refuse_first
from txnstatus.rpc.served_calls import serve, serve_client
from txnstatus.rpc.server import Registry
from txnstatus.security.bearers import Bearer, Bearers
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.refusals import Refused
from txnstatus.security.showing import GIVE
from txnstatus.security.stream import HANDSHAKE, TAKES_NONE, TlsStream
from txnstatus.security.tls import Tls, check_cluster_of
from txnstatus.shares import Users

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Time between two looks for connections whose time is over."""
SAME_SECONDS = 10.0
"""Time in which the log says the same of a connection only once: who is refused tries again."""

NAMELESS_FRAME_BYTES = 1 << 14
"""Length of a frame of whoever has shown no certificate, and of one in which something is shown in its place."""

MOST_BYTES = MAX_REQUEST_BYTES + MAX_SHARED_FRAME_BYTES
"""Length of a frame of whoever is known."""

Accept = Callable[[Connection], object]
"""Takes a connection up: sets its callbacks. Its first frame has come, and is handed on then."""

MAY_BE: Mapping[Purpose, frozenset[Kind]] = {
    Purpose.CALLS: frozenset(Kind),
    Purpose.PEER_CALLS: frozenset({Kind.NODE, Kind.HOST}),
    Purpose.RAFT: frozenset({Kind.NODE}),
}
"""The kinds of processes that may have a connection, by what it is for."""


class Listener:
    """`bind`, then `start`; serves until `stop`."""

    def __init__(
        self,
        registry: Registry,
        accept: Mapping[Purpose, Accept] = MappingProxyType({}),
        bounds: Bounds = Bounds(),  # noqa: B008 it is a value
        tls: Tls | None = None,
        bearers: Bearers | None = None,
        revoked: Callable[[], Collection[str]] = frozenset,
        is_gone: Callable[[Principal], bool] = lambda _: False,
    ) -> None:
        """`accept`: what other connections than for calls are for. `tls` None: whoever reaches the port may do all.
        `bearers` None: nobody is known but by a certificate. `revoked`: what counts no more, as it is now.
        `is_gone`: whether one of that is no process of the cluster any more, for good."""
        self.tls, self.bearers, self.revoked, self.is_gone = tls, bearers, revoked, is_gone
        self._registry = registry
        serving = {Purpose.CALLS: partial(serve_client, registry), Purpose.PEER_CALLS: partial(serve, registry)}
        self.accept: dict[Purpose, Accept] = {**serving, **accept}
        self.guests: Guests[Connection] = Guests(bounds)
        self.connections: set[_Guest] = set()
        self._server: asyncio.Server | None = None
        self._looking: asyncio.TimerHandle | None = None
        self._ended_for: Collection[str] = frozenset()
        """What was revoked when connections were last ended for it."""
        self._warned: tuple[str, float] = ("", 0.0)

    async def bind(self, address: str) -> None:
        """Takes the port, and lets nobody in yet. Raises OSError where it is in use, or the address not this host's."""
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.protocol, host, port, start_serving=False)

    async def start(self) -> None:
        """Lets everybody in. Raises OSError where another socket has come to listen there since `bind`."""
        assert self._server is not None, "it is bound first"
        await self._server.start_serving()
        if not all(
            bound and bound.fileno() >= 0 for bound in self._server.sockets
        ):  # uvloop closes it, and does not tell
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))

    def close(self) -> None:
        """Lets nobody in any more; whoever is in stays."""
        if self._server is not None:
            self._server.close()

    def stop(self) -> None:
        """Ends all connections; what was sent over them has left."""
        self.close()
        if self._looking is not None:
            self._looking.cancel()
        for connection in list(self.connections):
            connection.close()

    def end_revoked(self) -> None:
        """Ends the connections of those who count no more, where that has changed."""
        before, self._ended_for = self._ended_for, self.revoked()
        if self._ended_for == before:
            return
        for connection in [each for each in self.connections if each.is_revoked]:
            self.warn(f"a connection ends: {connection.principal} is revoked")
            connection.abort()

    def protocol(self) -> asyncio.Protocol:
        """For a new connection."""
        return _Guest(self)

    @property
    def users(self) -> Users:
        """What each user has of this process."""
        return self._registry.access.users

    def look_in_time(self) -> None:
        """For those whose time is over, while there are any that have one."""
        if self._looking is None and self.guests.any_may_be_late:
            self._looking = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look)

    def warn(self, told: str) -> None:
        """For the operator."""
        now, (last, at) = asyncio.get_running_loop().time(), self._warned
        if told != last or now - at >= SAME_SECONDS:
            self._warned = told, now
            log.warning("%s", told)
        self._registry.recording.stranger(told)

    def _look(self) -> None:
        self._looking = None
        for connection in self.guests.late(asyncio.get_running_loop().time()):
            connection.abort()
        self.look_in_time()


class _Guest(Connection):
    """A connection that somebody has made to this port."""

    def __init__(self, listener: Listener) -> None:
        """It is a stranger while it says who it is, too."""
        tls = listener.tls
        super().__init__(tls=TlsStream(tls.contexts(), serves=True) if tls else None)
        self.max_frame_bytes = MOST_BYTES
        self._listener = listener
        self._is_silent = True
        self._said = b""
        self._purpose: Purpose | None = None
        self._user = ""
        """Name of the user whose connection it counts as; empty: nobody's."""
        self._bearer: Bearer | None = None
        self._expiry: asyncio.TimerHandle | None = None
        self.take_up(self._take_first, lambda _why: None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        notice_death(transport.get_extra_info("socket"))
        self._listener.connections.add(self)
        self._end(self._listener.guests.came(self, asyncio.get_running_loop().time()))

    def data_received(self, data: bytes) -> None:
        if self.refusal is not None:
            return  # what comes until the other side has read why is nothing to us
        if self._is_silent and self.tls is not None and not data.startswith(HANDSHAKE):
            self._refuse_plain()
            return
        self._is_silent = False
        super().data_received(data)

    def secured(self) -> None:
        super().secured()
        if self.tls is not None and not self.tls.has_certificate:
            self.max_frame_bytes = NAMELESS_FRAME_BYTES

    def bytes_received(self, data: bytes) -> None:
        if self._purpose is None:
            self._said += data
            data = self._open()
        if self._purpose is None:
            return
        had, frames = self.unfinished, self.frames
        super().bytes_received(data)
        if (had or self.unfinished) and self in self._listener.connections and not self.is_ending:
            now, begun = asyncio.get_running_loop().time(), not had or self.frames > frames
            self._end(self._listener.guests.holds(self, self.unfinished, now, begun=begun))

    def connection_lost(self, error: Exception | None) -> None:
        self._listener.connections.discard(self)
        self._listener.guests.left(self)
        if self._user:
            self._listener.users.disconnected(self._user)
        if self._expiry is not None:
            self._expiry.cancel()
        super().connection_lost(error)

    def _open(self) -> bytes:
        """Sees what the connection is for, once it has said enough. Returns what comes after that."""
        said, self._said = self._said, b""
        opening = said[:OPENING_BYTES]
        self._purpose = next((each for each in self._listener.accept if each.opening == opening), None)
        if self._purpose is None and any(each.opening.startswith(opening) for each in self._listener.accept):
            self._said = said
        elif self._purpose is None:
            self._refuse_opening(opening)
        return said[OPENING_BYTES:]

    @property
    def is_revoked(self) -> bool:
        """Whether whoever it is counts no more; whoever is nobody never did."""
        revoked = self._listener.revoked()
        if not revoked or (self.tls is not None and not self.tls.is_ready):
            return False
        try:
            found = self.principal
        except Unauthenticated:
            return False
        return found is not None and is_revoked(
            found.kind, found.name, self.tls.serial if self.tls is not None else 0, revoked
        )

    @property
    def principal(self) -> Principal | None:
        return super().principal if self._bearer is None else self._bearer.principal

    def _take_first(self, frame: bytes) -> None:
        """Whoever sends a whole frame is no stranger any more, unless it is to be known by what is in the frame."""
        if (shown := self._shown(frame)) is None:
            self._admit(frame)
            return
        self.max_frame_bytes = MOST_BYTES
        meanwhile: list[bytes] = []
        identifying = asyncio.get_running_loop().create_task(self._identify(shown, frame, meanwhile))

        def ended(_why: str) -> None:
            identifying.cancel()

        self.take_up(meanwhile.append, ended)
        self.hold_up()

    def _shown(self, frame: bytes) -> pb.Frame.Credential | None:
        """What is shown in place of a certificate."""
        has_certificate = self.tls is not None and self.tls.has_certificate
        if self._listener.bearers is None or has_certificate or self._purpose is not Purpose.CALLS:
            return None
        said = read(frame) if len(frame) <= NAMELESS_FRAME_BYTES else None
        return said.hello.credential if said is not None and said.hello.HasField("credential") else None

    async def _identify(self, shown: pb.Frame.Credential, frame: bytes, meanwhile: list[bytes]) -> None:
        """`meanwhile`: frames that come until it is known who it is."""
        bearers = self._listener.bearers
        assert bearers is not None, "nothing is looked for where nobody is known by it"
        try:
            self._bearer = await bearers.identify(shown)
        except Refused as error:
            self._refuse(error, None, error.why)
            return
        except TxnError as error:
            self._tell(None, error)
            self.end_writing()
            return
        finally:
            self.go_on()
        if (left := self._bearer.expires - bearers.now) < math.inf:
            self._expiry = asyncio.get_running_loop().call_later(max(0.0, left), self.close)
        self._admit(frame)
        for each in meanwhile:
            self.hand_on(each)

    def _admit(self, frame: bytes) -> None:
        purpose, guests = cast(Purpose, self._purpose), self._listener.guests
        try:
            self._check(purpose)
        except Unauthenticated as error:
            self._refuse(error, frame, error.message)
            return
        try:
            self._count(purpose)
        except LimitReached as error:
            self._tell(frame, error)
            self.close()
            return
        if guests.known(self, is_peer=purpose is not Purpose.CALLS):
            self.max_frame_bytes = MAX_FRAME_BYTES if purpose is Purpose.RAFT else MOST_BYTES
            self._listener.accept[purpose](self)
            self.hand_on(frame)
            return
        log.warning("a connection is refused: there are as many as this process may have")
        if purpose is not Purpose.RAFT:
            self._tell(frame, Overloaded("this node has as many connections as it may have"))
        self.close()

    def _count(self, purpose: Purpose) -> None:
        """As one of its user's connections. Raises LimitReached."""
        found = self.principal if purpose is Purpose.CALLS and self._listener.tls is not None else None
        if found is not None and not found.is_process:
            self._listener.users.connected(found.owner)
            self._user = found.owner

    def _refuse(self, error: Unauthenticated, frame: bytes | None, why: str) -> None:
        """`frame`: the first; None: what was shown in it does not hold. `why`: for the log."""
        self._listener.warn(f"a connection is refused: {why}")
        self.refusal = error
        if self._purpose is not Purpose.RAFT:
            self._tell(frame, error)
        self.end_writing()

    def _tell(self, frame: bytes | None, error: TxnError) -> None:
        """The calls of the first frame hear it; of whoever has no certificate, and shows something else first, the
        first one does."""
        if frame is not None and self._bearer is None and (self.tls is None or self.tls.has_certificate):
            refuse(self, frame, error)
        else:
            refuse_first(self, error)

    def _check(self, purpose: Purpose) -> None:
        """Whether who it is may have a connection for that. Raises Unauthenticated."""
        if self.is_revoked:
            is_gone = self.principal is not None and self._listener.is_gone(self.principal)
            raise Unauthenticated(f"{self.principal} is revoked", hint=GONE if is_gone else "")
        if self._listener.tls is None or self._bearer is not None:
            return
        found = self.principal
        if found is None:
            raise Unauthenticated("no certificate was shown", hint=GIVE)
        check_cluster_of(found, self._listener.tls.own)
        if found.kind not in MAY_BE[purpose]:
            raise Unauthenticated(f"{found} is no process that may have a connection for {purpose.name}")

    def end_writing(self) -> None:
        """The other side is to read why before it hears of the end, which its time as a stranger brings at the latest:
        what is closed with something unread is reset."""
        self.take_up(lambda _frame: None, lambda _why: None)
        super().end_writing()

    def refused(self) -> None:
        self._listener.warn(f"a connection is refused: {self.refusal.message if self.refusal else ''}")
        self.end_writing()

    def _refuse_plain(self) -> None:
        self.tls, self.refusal = None, Unauthenticated("this node takes connections with TLS only", hint=GIVE)
        refuse_first(self, self.refusal)
        self.refused()

    def _refuse_opening(self, opening: bytes) -> None:
        if self.tls is None and opening.startswith(HANDSHAKE):
            self.refusal = Unauthenticated("this node takes no TLS: its configuration has no [tls]")
            self._write(TAKES_NONE)
            self.refused()
        else:
            log.warning("a connection that begins with %r, which is not served here", opening)
            self.abort()

    def _end(self, others: list[Connection]) -> None:
        for each in others:
            each.abort()
        self._listener.look_in_time()
