"""A network that a test can cut, slow down and break without being root.

Every node reaches every other one through a loopback proxy of its own, so each direction between two nodes passes here
and can be treated by itself. What is cut is held back, as TCP would hold it, and delivered when the cut is over, unless
the connection has been given up by then. Loss shows to a program as TCP shows it: as waiting for the retransmission.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from txndeploy.local.network import Network, Way

CHUNK_BYTES = 65_536
RETRANSMISSION_SECONDS = 0.2
TRICKLE_BYTES, TRICKLE_SECONDS = 200, 0.1


def _new_socket() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)


class Proxies(Network):
    """All proxies of a cluster, on a thread of its own."""

    faults = frozenset({"cut", "delay", "loss", "clogged", "reset"})

    def __init__(self, seed: int, new_socket: Callable[[], socket.socket] = _new_socket) -> None:
        """`new_socket`: makes the sockets by which proxies reach what is behind them."""
        super().__init__()
        self._dice = random.Random(seed)
        self._new_socket = new_socket
        self._ways: dict[tuple[str, str], Way] = {}
        self._live: dict[tuple[str, str], set[asyncio.Task[None]]] = {}
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()

    def reach(self, source: str, target: str, address: str) -> str:
        """The address of a new proxy."""
        proxy: str = self._run(self._serve(source, target, address))
        return proxy

    def set(self, ways: Iterable[tuple[str, str]], **how: Any) -> None:
        self._run(self._set(list(ways), how))

    def heal(self) -> None:
        self._run(self._heal())

    def reset(self, one: str, other: str) -> None:
        self._run(self._reset([(one, other), (other, one)]))

    def close(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        super().close()

    # ---- on the thread

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _serve(self, source: str, target: str, address: str) -> str:
        host, port = address.rsplit(":", 1)

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            live = self._live.setdefault((source, target), set())
            live.add(task)
            try:
                await self._carry(source, target, host, int(port), reader, writer)
            except (OSError, asyncio.CancelledError):
                return  # one of the two ended it, or a reset did: the other one sees it end, too
            finally:
                live.discard(task)
                writer.transport.abort()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _carry(
        self,
        source: str,
        target: str,
        host: str,
        port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        there, back = self._way(source, target), self._way(target, source)
        await self._pass(there)
        target_reader, target_writer = await self._connect(host, port)
        pumps = [
            asyncio.create_task(self._pump(reader, target_writer, there)),
            asyncio.create_task(self._pump(target_reader, writer, back)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)  # the end of one ends both
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            target_writer.transport.abort()

    async def _connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        connection = self._new_socket()
        connection.setblocking(False)
        try:
            await self._loop.sock_connect(connection, (host, port))
        except BaseException:
            connection.close()
            raise
        return await asyncio.open_connection(sock=connection)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        while data := await reader.read(CHUNK_BYTES):
            lost = way.loss and self._dice.random() < way.loss
            if way.delay or lost:
                await asyncio.sleep(way.delay + (RETRANSMISSION_SECONDS if lost else 0.0))
            await self._pass(way)
            for start in range(0, len(data), TRICKLE_BYTES):
                if not way.clogged:
                    writer.write(data[start:])
                    break
                writer.write(data[start : start + TRICKLE_BYTES])
                await asyncio.sleep(TRICKLE_SECONDS)
            await writer.drain()

    async def _pass(self, way: Way) -> None:
        while way.cut:
            await self._changed.wait()

    def _way(self, source: str, target: str) -> Way:
        return self._ways.setdefault((source, target), Way())

    async def _set(self, ways: list[tuple[str, str]], how: dict[str, Any]) -> None:
        for source, target in ways:
            for name, value in how.items():
                setattr(self._way(source, target), name, value)
        self._tell()

    async def _heal(self) -> None:
        for way in self._ways.values():
            way.cut, way.delay, way.loss, way.clogged = False, 0.0, 0.0, False
        self._tell()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _reset(self, pairs: list[tuple[str, str]]) -> None:
        tasks = [task for pair in pairs for task in self._live.get(pair, ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        await self._reset(list(self._live))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.gather(*(server.wait_closed() for server in self._servers))
