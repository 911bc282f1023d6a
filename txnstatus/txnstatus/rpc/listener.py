"""A process's port: connections from the cluster's other processes and from client libraries."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import cast

from txnstatus.rpc.connection import OPENING, OPENING_BYTES, Connection, Purpose, notice_death, split_address
from txnstatus.rpc.server import Registry

log = logging.getLogger(__name__)

Accept = Callable[[Connection], object]
"""Takes a connection up: sets its callbacks, before its first frame comes."""


class Listener:
    """`bind`, then `start`; serves until `stop`."""

    def __init__(self, registry: Registry, accept: Mapping[Purpose, Accept] = MappingProxyType({})) -> None:
        """`accept`: what other connections than for calls are for."""
        self._accept = {Purpose.CALLS: registry.serve, **accept}
        self._server: asyncio.Server | None = None
        self._live: weakref.WeakSet[Connection] = weakref.WeakSet()

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

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._live):
            connection.abort()

    def protocol(self) -> asyncio.Protocol:
        """For a new connection."""
        return _Opening(self)

    def take_up(self, transport: asyncio.Transport, said: bytes) -> None:
        """Gives the connection to whom it is for, once it has said enough."""
        if len(said) < OPENING_BYTES and OPENING.startswith(said[: len(OPENING)]):
            return
        opening = said[:OPENING_BYTES]
        purpose = next((each for each in self._accept if each.opening == opening), None)
        if purpose is None:
            log.warning("a connection that begins with %r, which is not served here", opening)
            transport.abort()
            return
        connection = Connection()
        self._live.add(connection)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        self._accept[purpose](connection)
        connection.data_received(said[OPENING_BYTES:])


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
