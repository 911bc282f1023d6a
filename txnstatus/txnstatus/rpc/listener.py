"""A process's one port: connections of the cluster's own processes, and gRPC for everybody else.

What a connection says first tells which it is. gRPC's server listens on a loopback port of its own, to which the bytes
of its clients are carried.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

import grpc

from txnstatus.rpc.connection import OPENING, OPENING_BYTES, Connection, Purpose, notice_death, split_address
from txnstatus.rpc.grpc_server import GRPC_OPTIONS, GrpcHandlers
from txnstatus.rpc.server import Registry

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
STOP_SECONDS = 0.2
"""For the gRPC calls that are under way."""

Accept = Callable[[Connection], object]
"""Takes a connection up: sets its callbacks, before its first frame comes."""


class Listener:
    """`bind`, then `start`; serves until `stop`."""

    def __init__(self, registry: Registry, accept: Mapping[Purpose, Accept] = MappingProxyType({})) -> None:
        """`accept`: what other connections than for calls are for."""
        self._registry = registry
        self._accept = {Purpose.CALLS: registry.serve, **accept}
        self._grpc_port = 0
        self._server: asyncio.Server
        self._live: weakref.WeakSet[Connection | _Pump] = weakref.WeakSet()
        self._closing = contextlib.AsyncExitStack()

    async def bind(self, address: str) -> None:
        """Takes the port, and lets nobody in yet. Raises OSError where it is in use, or the address not this host's."""
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self.protocol, host, port, start_serving=False)
        self._closing.callback(self._server.close)

    async def start(self) -> None:
        grpc_server = grpc.aio.server(options=GRPC_OPTIONS)
        grpc_server.add_generic_rpc_handlers((GrpcHandlers(self._registry),))
        self._grpc_port = grpc_server.add_insecure_port(f"{LOOPBACK}:0")
        await grpc_server.start()
        self._closing.push_async_callback(grpc_server.stop, STOP_SECONDS)
        await self._server.start_serving()

    async def stop(self) -> None:
        await self._closing.aclose()
        for one in list(self._live):
            one.abort()

    def protocol(self) -> asyncio.Protocol:
        """For a new connection."""
        return _Opening(self)

    def take_up(self, transport: asyncio.Transport, said: bytes) -> bool:
        """Gives the connection to whom it is for; False = it has not said enough."""
        if not OPENING.startswith(said[: len(OPENING)]):
            pump = _Pump()
            self._live.add(pump)
            transport.set_protocol(pump)
            pump.connection_made(transport)
            pump.carry(said, self._grpc_port)
            return True
        if len(said) < OPENING_BYTES:
            return False
        try:
            accept = self._accept[Purpose(said[len(OPENING) : OPENING_BYTES])]
        except (KeyError, ValueError):
            log.warning("a connection for %r, which is not served here", said[len(OPENING) : OPENING_BYTES])
            transport.abort()
            return True
        connection = Connection()
        self._live.add(connection)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        accept(connection)
        connection.data_received(said[OPENING_BYTES:])
        return True


class _Opening(asyncio.Protocol):
    """A connection that has not said what it is for."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._said = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        notice_death(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        self._said += data
        self._listener.take_up(self._transport, self._said)


class _Pump(asyncio.Protocol):
    """One of two ends: what comes here goes out at the other one, no faster than it is taken there."""

    def __init__(self, other: _Pump | None = None) -> None:
        self._other = other
        self._transport: asyncio.Transport | None = None
        self._connecting: asyncio.Task[None] | None = None

    def carry(self, said: bytes, port: int) -> None:
        """Makes the other end, a connection to a port of this host."""
        assert self._transport is not None
        self._transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect(said, port))

    async def _connect(self, said: bytes, port: int) -> None:
        try:
            await asyncio.get_running_loop().create_connection(lambda: self._make_other(said), LOOPBACK, port)
        except OSError as error:
            log.warning("gRPC's port does not answer: %s", error)
            self.abort()

    def _make_other(self, said: bytes) -> _Pump:
        self._other = _Pump(self)
        self._said = said
        return self._other

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._other is not None:
            self._other.go_on(self._transport)

    def go_on(self, other: asyncio.Transport) -> None:
        """The other end is there."""
        if self._transport is None:
            other.abort()
            return
        other.write(self._said)
        self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.write(data)

    def pause_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._other is not None and self._other._transport is not None:
            self._other._transport.resume_reading()

    def connection_lost(self, _error: Exception | None) -> None:
        self._transport = None
        if self._other is not None and self._other._transport is not None:
            self._other._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
