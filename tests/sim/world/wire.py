"""TCP's place in the simulation: connections between processes, over links that delay, hold and break.

`Wire.connect` stands for a loop's `create_connection`, `Wire.listen` for a server; the real framing, calls and Raft
links run over both as they are. A connection is FIFO and loses nothing while it lives; a cut holds what is under way,
and what is held arrives when the link heals, unless a keep-alive has broken the connection meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.world.loop import Process, VirtualLoop

KEEPALIVE_SECONDS = (1.0, 8.0)
"""How long a connection may be silent before an end takes it for broken."""


@dataclass(slots=True)
class Link:
    """From one machine to another."""

    delay: tuple[float, float] = (0.0002, 0.003)
    cuts: int = 0
    held: list[_Pipe] = field(default_factory=list)
    """Pipes, once for each item that has arrived at the cut."""
    clogs: list[tuple[float, float]] = field(default_factory=list)
    """Delays that faults have put in place of its own; the last one counts."""

    def draw_delay(self, rng: random.Random) -> float:
        shortest, longest = self.clogs[-1] if self.clogs else self.delay
        return shortest + (longest - shortest) * rng.random() ** 2


class Wire:
    """All machines' connections. A machine is the part of an address before the colon, and a process's name."""

    def __init__(self, loop: VirtualLoop, rng: random.Random) -> None:
        self.loop = loop
        self.rng = rng
        loop.connect = self.connect
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: dict[str, tuple[Process, Callable[[], asyncio.Protocol]]] = {}
        self._connections: dict[_Connection, None] = {}

    # ---- machines

    def listen(self, process: Process, accept: Callable[[], asyncio.Protocol]) -> None:
        """`accept` makes the server's protocol of a new connection."""
        self._servers[process.name] = (process, accept)

    async def connect(
        self, make: Callable[[], asyncio.Protocol], machine: str
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        """From the running process. Raises OSError."""
        connection = _Connection(self, self.loop.current, machine, make)
        self._connections[connection] = None
        connection.up.put(_CONNECT)
        try:
            return await connection.made
        except asyncio.CancelledError:
            connection.lost()
            raise

    def died(self, process: Process, *, told: bool) -> None:
        """Its connections end: at once where its kernel lives on and says so, else when somebody misses it."""
        for one in [one for one in self._connections if process in (one.client, one.server)]:
            if told:
                one.lost()
            else:
                self.loop.post_later(self.rng.uniform(*KEEPALIVE_SECONDS), one.lost)

    # ---- faults

    def link(self, source: str, target: str) -> Link:
        return self._links.setdefault((source, target), Link())

    def cut(self, source: str, target: str) -> None:
        """One way. Cuts add up; `heal` as often."""
        self.link(source, target).cuts += 1
        self.loop.post_later(self.rng.uniform(*KEEPALIVE_SECONDS), self._miss, source, target)

    def heal(self, source: str, target: str) -> None:
        link = self.link(source, target)
        link.cuts = max(0, link.cuts - 1)
        if not link.cuts:
            held, link.held = link.held, []
            for pipe in held:
                pipe.carry()

    def heal_all(self) -> None:
        for (source, target), link in self._links.items():
            link.cuts = min(link.cuts, 1)
            self.heal(source, target)

    def reset(self, one: str, other: str) -> None:
        """Breaks the connections between two machines; what was under way on them is gone."""
        for each in [each for each in self._connections if {each.client.name, each.server_name} == {one, other}]:
            each.lost()

    def _miss(self, source: str, target: str) -> None:
        if self.link(source, target).cuts:
            self.reset(source, target)

    # ---- inside

    def forget(self, connection: _Connection) -> None:
        self._connections.pop(connection, None)

    def server(self, machine: str) -> tuple[Process, Callable[[], asyncio.Protocol]] | None:
        found = self._servers.get(machine)
        return found if found is not None and found[0].alive else None


class _Pipe:
    """One direction of a stream."""

    def __init__(self, wire: Wire, source: str, target: str, deliver: Callable[[object], None]) -> None:
        self._wire = wire
        self._link = wire.link(source, target)
        self._deliver = deliver
        self._items: deque[object] = deque()
        self._last = 0.0

    def put(self, item: object) -> None:
        if self._wire.loop.current.alive:
            self._items.append(item)
            self.carry()

    def carry(self) -> None:
        """Lets the first item that has not arrived arrive in a while."""
        wire = self._wire
        self._last = max(self._last, wire.loop.now + self._link.draw_delay(wire.rng))
        wire.loop.post_at(self._last, wire.loop.world, self._arrive)

    def _arrive(self) -> None:
        if self._link.cuts:
            self._link.held.append(self)
        else:
            self._deliver(self._items.popleft())


_CONNECT, _ACCEPTED, _REFUSED, _END = object(), object(), object(), object()
"""What travels beside bytes."""


class _Connection:
    """Between a client's and a server's process."""

    def __init__(self, wire: Wire, client: Process, server_name: str, make: Callable[[], asyncio.Protocol]) -> None:
        self.client, self.server_name = client, server_name
        self.server: Process | None = None
        self.made: asyncio.Future[tuple[asyncio.Transport, asyncio.Protocol]] = wire.loop.create_future()
        self.up = _Pipe(wire, client.name, server_name, self._at_server)
        self.down = _Pipe(wire, server_name, client.name, self._at_client)
        self._wire, self._loop, self._make = wire, wire.loop, make
        self._client_end: _End | None = None
        self._server_end: _End | None = None
        self._over = False

    def lost(self) -> None:
        """It breaks for both ends."""
        if self._over:
            return
        self._over = True
        self._wire.forget(self)
        self._loop.post(self.client, self._refuse, "the connection was lost")
        for end in (self._client_end, self._server_end):
            if end is not None:
                self._loop.post(end.process, end.finish, ConnectionResetError("the connection was lost"))

    # ---- arrivals, in the world

    def _at_server(self, item: object) -> None:
        if self._over:
            return
        if item is _CONNECT:
            found = self._wire.server(self.server_name)
            if found is None:
                self.down.put(_REFUSED)
                return
            self.server, accept = found
            self._loop.post(self.server, self._accept, accept)
        else:
            self._arrive(self._server_end, item)

    def _at_client(self, item: object) -> None:
        if self._over:
            return
        if item is _REFUSED:
            self._over = True
            self._wire.forget(self)
            self._loop.post(self.client, self._refuse, "connection refused")
        elif item is _ACCEPTED:
            self._loop.post(self.client, self._accepted)
        else:
            self._arrive(self._client_end, item)

    def _arrive(self, end: _End | None, item: object) -> None:
        if end is None:
            return
        if item is _END:
            self._over = True
            self._wire.forget(self)
            self._loop.post(end.process, end.finish, None)
        else:
            self._loop.post(end.process, end.receive, item)

    # ---- in the processes

    def _accept(self, accept: Callable[[], asyncio.Protocol]) -> None:
        if self._over:  # it was lost while the process stood still
            return
        end = self._server_end = _End(self._loop, self.down, accept())
        self.down.put(_ACCEPTED)
        end.protocol.connection_made(end)

    def _accepted(self) -> None:
        if self._over:
            return
        end = self._client_end = _End(self._loop, self.up, self._make())
        end.protocol.connection_made(end)
        if not self.made.done():
            self.made.set_result((end, end.protocol))

    def _refuse(self, why: str) -> None:
        if not self.made.done():
            self.made.set_exception(ConnectionError(why))


class _End(asyncio.Transport):
    """What a protocol is given."""

    def __init__(self, loop: VirtualLoop, pipe: _Pipe, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.process = loop.current
        self.protocol = protocol
        self._loop, self._pipe = loop, pipe
        self._closing = self._is_paused = False
        self._held: deque[bytes] = deque()
        """Data that has arrived since its owner takes nothing in."""

    def receive(self, data: bytes) -> None:
        if not self._closing:
            self._held.append(data)
            self._hand_on()

    def _hand_on(self) -> None:
        while self._held and not self._is_paused and not self._closing:
            data = self._held.popleft()
            self._loop.note(data)
            self.protocol.data_received(data)

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._loop.call_soon(self._hand_on)

    def finish(self, error: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self.protocol.connection_lost(error)

    def write(self, data: Any) -> None:
        if not self._closing:
            self._pipe.put(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """It buffers nothing."""

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._pipe.put(_END)
            self._loop.call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol
