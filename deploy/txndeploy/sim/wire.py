"""gRPC's place in the simulation: streams between processes, over links that delay, hold and break.

`channel` stands for `grpc.aio.insecure_channel`, `Wire.listen` for a server; the service's own stream code runs over
both as it is. A stream is FIFO and loses nothing while it lives, as TCP is; a cut holds what is under way, and what is
held arrives when the link heals, unless a keep-alive has broken the connection meanwhile.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
from grpc.aio import AioRpcError, Metadata

from txndeploy.sim.loop import Process, VirtualLoop

KEEPALIVE_SECONDS = (1.0, 8.0)
"""How long a connection may be silent before an end takes it for broken."""


@dataclass(slots=True)
class Link:
    """From one machine to another."""

    delay: tuple[float, float] = (0.0002, 0.003)
    cuts: int = 0
    held: list[_Pipe] = field(default_factory=list)
    """Once for each item that has arrived at the cut."""
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
        self._links: dict[tuple[str, str], Link] = {}
        self._servers: dict[str, tuple[Process, Sequence[grpc.GenericRpcHandler]]] = {}
        self._streams: dict[_Stream, None] = {}

    # ---- machines

    def listen(self, process: Process, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._servers[process.name] = (process, handlers)

    def channel(self, address: str, *_args: object, **_kwargs: object) -> Channel:
        return Channel(self, self.loop.current, address.partition(":")[0])

    def died(self, process: Process, *, told: bool) -> None:
        """Its connections end: at once where its kernel lives on and says so, else when somebody misses it."""
        for stream in [stream for stream in self._streams if process in (stream.client, stream.server)]:
            if told:
                stream.lost()
            else:
                self.loop.post_later(self.rng.uniform(*KEEPALIVE_SECONDS), stream.lost)

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
        for stream in [stream for stream in self._streams if {stream.client.name, stream.server_name} == {one, other}]:
            stream.lost()

    def _miss(self, source: str, target: str) -> None:
        if self.link(source, target).cuts:
            self.reset(source, target)

    # ---- inside

    def open(self, stream: _Stream) -> None:
        self._streams[stream] = None

    def forget(self, stream: _Stream) -> None:
        self._streams.pop(stream, None)

    def server(self, machine: str) -> tuple[Process, Sequence[grpc.GenericRpcHandler]] | None:
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


@dataclass(frozen=True, slots=True)
class _Ended:
    """The last thing in a direction."""

    error: AioRpcError | None = None


class _Stream:
    """A bidirectional stream between a client's and a server's process."""

    def __init__(
        self, wire: Wire, client: Process, server_name: str, path: str, serialize: Any, deserialize: Any
    ) -> None:
        self.client, self.server_name, self.path = client, server_name, path
        self.server: Process | None = None
        self.wire = wire
        self.up = _Pipe(wire, client.name, server_name, self._at_server)
        self.down = _Pipe(wire, server_name, client.name, self._at_client)
        self.requests = _Inbox(wire.loop)
        self.responses = _Inbox(wire.loop)
        self.serialize, self.deserialize = serialize, deserialize
        self.broken = False
        self._task: Any = None
        wire.open(self)
        self.up.put("connect")

    def lost(self) -> None:
        """The connection breaks for both ends."""
        if self.broken:
            return
        self.broken = True
        self.wire.forget(self)
        loop = self.wire.loop
        loop.post(self.client, self.responses.feed, _Ended(_error("the connection was lost")))
        if self.server is not None:
            loop.post(self.server, self._cancel_handler)

    # ---- arrivals, in the world

    def _at_server(self, item: object) -> None:
        loop = self.wire.loop
        if self.broken:
            return
        if item == "connect":
            found = self.wire.server(self.server_name)
            if found is None:
                self.down.put(_Ended(_error("connection refused")))
                return
            self.server, handlers = found
            loop.post(self.server, self._serve, handlers)
        elif self.server is not None and self.server.alive:
            if item == "cancel":
                self._end()
                loop.post(self.server, self._cancel_handler)
            else:
                loop.post(self.server, self.requests.feed, item)

    def _at_client(self, item: object) -> None:
        if self.broken:
            return
        if isinstance(item, _Ended):
            self._end()
        self.wire.loop.post(self.client, self.responses.feed, item)

    def _end(self) -> None:
        self.broken = True
        self.wire.forget(self)

    # ---- in the server's process

    def _serve(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        details = _Details(self.path)
        found = [method for handler in handlers if (method := handler.service(details)) is not None]  # type: ignore[arg-type]
        assert found, f"nobody serves {self.path}"
        self._task = self.wire.loop.create_task(self._handle(found[0]))

    async def _handle(self, method: Any) -> None:
        try:
            requests = self._read_requests(method.request_deserializer)
            async for response in method.stream_stream(requests, _Context()):
                self.down.put(method.response_serializer(response))
        except AioRpcError as error:
            self.down.put(_Ended(error))
        else:
            self.down.put(_Ended())

    async def _read_requests(self, deserialize: Any) -> AsyncIterator[Any]:
        while (data := await self.requests.next()) is not None:
            yield deserialize(data)

    def _cancel_handler(self) -> None:
        if self._task is not None:
            self._task.cancel()


class _Inbox:
    """What one end of a stream has received and not read."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._items: deque[object] = deque()
        self._waiter: Any = None
        self.ended: _Ended | None = None

    def feed(self, item: object) -> None:
        if isinstance(item, _Ended):
            self.ended = item
        else:
            self._items.append(item)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> bytes | None:
        """None at the end. Raises AioRpcError where it ended badly."""
        while not self._items:
            if self.ended is not None:
                if self.ended.error is not None:
                    raise self.ended.error
                return None
            self._waiter = self._loop.create_future()
            await self._waiter
        item = self._items.popleft()
        assert isinstance(item, bytes)
        self._loop.note(item)
        return item


class Channel:
    """What `grpc.aio.insecure_channel` returns."""

    def __init__(self, wire: Wire, process: Process, machine: str) -> None:
        self._wire, self._process, self._machine = wire, process, machine
        self._calls: list[_Call] = []

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> Callable[[], _Call]:
        def start() -> _Call:
            stream = _Stream(self._wire, self._process, self._machine, path, request_serializer, response_deserializer)
            self._calls = [call for call in self._calls if not call.is_over]
            self._calls.append(_Call(stream))
            return self._calls[-1]

        return start

    async def close(self) -> None:
        for call in self._calls:
            call.cancel()

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Call:
    """What a client holds of a stream."""

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream

    @property
    def is_over(self) -> bool:
        return self._stream.broken

    async def write(self, message: Any) -> None:
        ended = self._stream.responses.ended
        if ended is not None:
            raise ended.error or _error("the stream has ended")
        self._stream.up.put(self._stream.serialize(message))

    async def read(self) -> Any:
        data = await self._stream.responses.next()
        return grpc.aio.EOF if data is None else self._stream.deserialize(data)

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (data := await self._stream.responses.next()) is not None:
            yield self._stream.deserialize(data)

    def cancel(self) -> bool:
        if self._stream.responses.ended is None:
            self._stream.responses.feed(_Ended(_error("cancelled", grpc.StatusCode.CANCELLED)))
            self._stream.up.put("cancel")
        return True


class _Context:
    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> NoReturn:
        raise AioRpcError(code, Metadata(), Metadata(*trailing_metadata), details)


@dataclass(frozen=True, slots=True)
class _Details:
    method: str
    invocation_metadata: tuple[object, ...] = ()


def _error(details: str, code: grpc.StatusCode = grpc.StatusCode.UNAVAILABLE) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details)
