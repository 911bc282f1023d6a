"""RaftTransport: one gRPC stream per pair of nodes carries the Raft messages of all groups.

The node with the smaller id dials, and dials again for as long as it runs. Each stream begins with a hello in both
directions; a peer of another cluster, or under another name, is refused. A stream is an epoch: what an old one still
delivers after a new one came is dropped. Frames gather while the stream is busy, so batching follows the load.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import grpc

from txnstatus.catalog import CatalogState
from txnstatus.cluster_map import ClusterMap
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.raft.stop import stop_process
from txnstatus.rpc.server import GRPC_OPTIONS

log = logging.getLogger(__name__)

PROTOCOL = 1
RECONNECT_SECONDS = 0.1
HELLO_SECONDS = 2.0
MAX_REFUSAL_CHARACTERS = 500
"""gRPC carries no more than a few kilobytes of an error."""
MAX_QUEUED_MESSAGES = 10_000
"""Beyond this a peer is not keeping up: messages are dropped, and Raft sends what matters again."""


class RaftTransport:
    def __init__(self, cluster_id: str, node_id: str, incarnation: int, cluster: ClusterMap) -> None:
        self._hello = pb.Hello(cluster_id=cluster_id, node_id=node_id, incarnation=incarnation, protocol=PROTOCOL)
        self.node_id = node_id
        self._cluster = cluster
        self._drivers: dict[str, RaftDriver] = {}
        self._links: dict[str, _Link] = {}
        self._dialers: dict[str, asyncio.Task[None]] = {}

    def add(self, driver: RaftDriver) -> None:
        self._drivers[driver.group.group] = driver
        for peer in self._links:
            driver.connected(peer)

    def remove(self, group: str) -> None:
        self._drivers.pop(group, None)

    def start(self) -> None:
        self._dial_all(self._cluster.state)
        self._cluster.subscribe(self._dial_all)

    def _dial_all(self, state: CatalogState) -> None:
        """Dials the nodes that are new, and no longer those that are gone."""
        wanted = {peer for peer in state.nodes if self.node_id < peer}
        for peer in sorted(wanted - self._dialers.keys()):
            task = asyncio.create_task(self._dial(peer), name=f"raft dial {peer}")
            task.add_done_callback(_report)
            self._dialers[peer] = task
        for peer in sorted(self._dialers.keys() - wanted):
            self._dialers.pop(peer).cancel()

    async def drain(self, timeout: float = 1.0) -> None:
        """Returns when what was sent has been handed to the streams, or the time is over."""
        deadline = asyncio.get_running_loop().time() + timeout
        while any(link.pending for link in self._links.values()):
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        for task in self._dialers.values():
            task.cancel()
        await asyncio.gather(*self._dialers.values(), return_exceptions=True)
        for link in list(self._links.values()):
            link.close()

    def send(self, receiver: str, message: pb.RaftMessage) -> None:
        link = self._links.get(receiver)
        if link is not None:
            link.send(message)

    def grpc_handler(self) -> grpc.GenericRpcHandler:
        exchange = grpc.stream_stream_rpc_method_handler(
            self._accept,
            request_deserializer=pb.RaftFrame.FromString,
            response_serializer=pb.RaftFrame.SerializeToString,
        )
        return grpc.method_handlers_generic_handler("txnstatus.Raft", {"Exchange": exchange})

    # ---- both ends

    async def _dial(self, peer: str) -> None:
        options = [*GRPC_OPTIONS, ("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 3_000)]
        while True:
            address = self._cluster.address(peer)
            if address is None:
                return
            async with grpc.aio.insecure_channel(address, options=options) as channel:
                stream: grpc.aio.StreamStreamCall[pb.RaftFrame, pb.RaftFrame] = channel.stream_stream(
                    "/txnstatus.Raft/Exchange",
                    request_serializer=_serialize,
                    response_deserializer=pb.RaftFrame.FromString,
                )()
                try:
                    await stream.write(pb.RaftFrame(hello=self._hello))
                    await self._serve_dialed(peer, stream)
                except (grpc.RpcError, TimeoutError, asyncio.InvalidStateError) as error:
                    log.debug("raft stream to %s ended: %s", peer, error)
                finally:
                    stream.cancel()
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _serve_dialed(self, peer: str, stream: grpc.aio.StreamStreamCall[pb.RaftFrame, pb.RaftFrame]) -> None:
        async with asyncio.timeout(HELLO_SECONDS):
            first = await stream.read()
        if not isinstance(first, pb.RaftFrame):
            return
        refusal = self._refuse(first, expected=peer)
        if refusal:
            log.error("%s", refusal)
            return
        link = self._open(peer)
        writer = asyncio.create_task(self._write(link, stream))
        try:
            while isinstance(frame := await stream.read(), pb.RaftFrame):
                self._deliver(link, frame)
        finally:
            writer.cancel()
            self._shut(link)

    async def _write(self, link: _Link, stream: grpc.aio.StreamStreamCall[pb.RaftFrame, pb.RaftFrame]) -> None:
        async for frame in link.frames():
            await stream.write(frame)

    async def _accept(
        self,
        frames: AsyncIterator[pb.RaftFrame],
        context: grpc.aio.ServicerContext[pb.RaftFrame, pb.RaftFrame],
    ) -> AsyncIterator[pb.RaftFrame]:
        first = await anext(aiter(frames))
        refusal = self._refuse(first)
        if refusal:
            log.error("%s", refusal)
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, refusal[:MAX_REFUSAL_CHARACTERS])
        link = self._open(first.hello.node_id)
        reader = asyncio.create_task(self._read(link, frames))
        try:
            yield pb.RaftFrame(hello=self._hello)
            async for frame in link.frames():
                yield frame
        finally:
            reader.cancel()
            self._shut(link)

    async def _read(self, link: _Link, frames: AsyncIterator[pb.RaftFrame]) -> None:
        try:
            async for frame in frames:
                self._deliver(link, frame)
        finally:
            link.close()

    def _refuse(self, frame: pb.RaftFrame, expected: str | None = None) -> str | None:
        """Why the peer must not take part, if so."""
        hello, own = frame.hello, self._hello
        if not frame.HasField("hello"):
            return "a raft stream that does not begin with a hello"
        if hello.cluster_id != own.cluster_id:
            return f"node {hello.node_id!r} is of cluster {hello.cluster_id!r}; this is {own.cluster_id!r}"
        if hello.protocol != own.protocol:
            return f"node {hello.node_id!r} speaks raft protocol {hello.protocol}; this node {own.protocol}"
        known = hello.node_id in self._cluster.state.nodes and hello.node_id != own.node_id
        if not known or (expected and hello.node_id != expected):
            return f"node {hello.node_id!r} answers where {expected or 'a configured peer'!r} should"
        return None

    def _open(self, peer: str) -> _Link:
        old = self._links.pop(peer, None)
        if old is not None:
            old.close()
            self._tell(peer, up=False)
        link = self._links[peer] = _Link(peer)
        self._tell(peer, up=True)
        return link

    def _shut(self, link: _Link) -> None:
        link.close()
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            self._tell(link.peer, up=False)

    def _tell(self, peer: str, *, up: bool) -> None:
        # Also for groups that the peer is no member of: it may become one, or be the leader that adds this node.
        for driver in self._drivers.values():
            (driver.connected if up else driver.disconnected)(peer)

    def _deliver(self, link: _Link, frame: pb.RaftFrame) -> None:
        if self._links.get(link.peer) is not link:
            return  # an older epoch
        for message in frame.messages:
            driver = self._drivers.get(message.group)
            if driver is None:
                log.warning("%s sent a message for group %r, which is not here", link.peer, message.group)
                continue
            driver.receive(link.peer, message)


def _report(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        stop_process(f"{task.get_name()} failed", error)


def _serialize(frame: pb.RaftFrame) -> bytes:
    return frame.SerializeToString()


class _Link:
    """One epoch of the connection to one peer: what is queued for it."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._queue: list[pb.RaftMessage] = []
        self._wake = asyncio.Event()
        self._closed = False

    def send(self, message: pb.RaftMessage) -> None:
        if len(self._queue) < MAX_QUEUED_MESSAGES:
            self._queue.append(message)
            self._wake.set()

    @property
    def pending(self) -> bool:
        return bool(self._queue)

    async def frames(self) -> AsyncIterator[pb.RaftFrame]:
        """What is to be sent, a frame at a time, until the link is closed."""
        while not self._closed:
            await self._wake.wait()
            self._wake.clear()
            if self._queue:
                frame = pb.RaftFrame(messages=self._queue)
                self._queue.clear()
                yield frame

    def close(self) -> None:
        self._closed = True
        self._wake.set()
