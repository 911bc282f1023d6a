"""RaftTransport: one connection per pair of nodes carries the Raft messages of all groups.

The node with the smaller id dials, and dials again for as long as it runs. Each connection begins with a hello in both
directions; a peer of another cluster, or under another name, is refused. A connection is an epoch: what an old one
still delivers after a new one came is dropped. Messages that are sent together leave at once, in one frame. While the
peer takes nothing in they gather, so batching follows the load.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from google.protobuf.message import DecodeError

from txnstatus import features
from txnstatus.errors import Unauthenticated
from txnstatus.features import Levels
from txnstatus.process.background import Tasks
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.driver import RaftDriver
from txnstatus.rpc.connection import Connection, Outbox, Purpose, connect
from txnstatus.security.principals import Principal
from txnstatus.security.tls import Tls

log = logging.getLogger(__name__)

PROTOCOL = 3
"""What nodes say to each other, and what entries of their logs mean. Nodes of two numbers are no cluster: one that
passes over a part of an entry comes to another state than the others do. 2: columns have names beside those in
files. 3: they have defaults.
"""
RECONNECT_SECONDS = 0.1
REFUSED_SECONDS = 5.0
"""The longest pause before a peer is dialled again that lets this node in no more than the time before."""
HELLO_SECONDS = 2.0
MAX_REFUSAL_CHARACTERS = 500
MAX_QUEUED_MESSAGES = 10_000
"""Messages for a peer beyond which it is not keeping up: more are dropped, and Raft sends what matters again."""


class Cluster(Protocol):
    """The nodes, and where they are."""

    @property
    def cluster_id(self) -> str:
        """The id that was drawn at the founding; empty: this process has not heard of it yet."""
        ...

    @property
    def level(self) -> int | None:
        """The feature level; None: this process has not heard of the founding yet."""
        ...

    @property
    def nodes(self) -> Collection[str]:
        """The ids of all nodes, this one included."""
        ...

    def address(self, node: str) -> str | None:
        """Where the node is reached; None: there is no such node any more."""
        ...

    def subscribe(self, listener: Callable[[object], None]) -> None:
        """`listener` hears of every change."""


class RaftTransport:
    def __init__(
        self,
        cluster_name: str,
        node_id: str,
        incarnation: int,
        cluster: Cluster,
        tls: Tls | None = None,
        version: str = "",
        levels: Levels = features.OWN,
    ) -> None:
        """`version`: this program's, for people. `levels`: those that it does."""
        self._tls = tls
        self._own = pb.Hello(
            cluster_name=cluster_name,
            node_id=node_id,
            incarnation=incarnation,
            protocol=PROTOCOL,
            version=version,
            oldest_level=levels.oldest,
            newest_level=levels.newest,
        )
        self.node_id = node_id
        self._cluster = cluster
        self._drivers: dict[str, RaftDriver] = {}
        self._links: dict[str, _Link] = {}
        self._tasks = Tasks(f"the Raft connections of {node_id} failed")
        self._dialers: dict[str, asyncio.Task[None]] = {}

    def add(self, driver: RaftDriver) -> None:
        self._drivers[driver.group.group] = driver
        for peer in self._links:
            driver.connected(peer)

    def remove(self, group: str) -> None:
        self._drivers.pop(group, None)

    def start(self) -> None:
        self._dial_all()
        self._cluster.subscribe(lambda _change: self._follow())

    def _follow(self) -> None:
        self._dial_all()
        for link in list(self._links.values()):
            if (refusal := self._unable(link.peer, link.levels)) is not None:
                link.refuse(refusal)

    def _dial_all(self) -> None:
        """Dials the nodes that are new, and no longer those that are gone."""
        wanted = {peer for peer in self._cluster.nodes if self.node_id < peer}
        for peer in sorted(wanted - self._dialers.keys()):
            self._dialers[peer] = self._tasks.spawn(self._dial(peer))
        for peer in sorted(self._dialers.keys() - wanted):
            self._dialers.pop(peer).cancel()

    async def drain(self, timeout: float = 1.0) -> None:
        """Returns when what was sent has been handed to the kernel, or the time is over."""
        deadline = asyncio.get_running_loop().time() + timeout
        while any(link.pending for link in self._links.values()):
            if asyncio.get_running_loop().time() > deadline:
                return
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        await self._tasks.stop()
        for link in list(self._links.values()):
            link.close()

    def send(self, messages: Sequence[tuple[str, pb.RaftMessage]]) -> None:
        by_receiver: defaultdict[str, list[pb.RaftMessage]] = defaultdict(list)
        for receiver, message in messages:
            by_receiver[receiver].append(message)
        for receiver, some in by_receiver.items():
            if (link := self._links.get(receiver)) is not None:
                link.send(some)

    def accept(self, connection: Connection) -> None:
        """Takes up a connection that another node has made."""
        _Link(connection, self, expected=None)

    # ---- both ends

    async def _dial(self, peer: str) -> None:
        stranger, pause = "", RECONNECT_SECONDS
        while (address := self._cluster.address(peer)) is not None:
            is_refused = False
            try:
                async with asyncio.timeout(HELLO_SECONDS):
                    connection = await connect(address, Purpose.RAFT, self._tls, f"node/{peer}")
            except Unauthenticated as error:
                is_refused = True
                if stranger != error.message:  # the operator hears of it once
                    stranger = error.message
                    log.error("%s", stranger)
            except OSError as error:
                log.debug("%s does not answer: %s", peer, error)
            else:
                link = _Link(connection, self, expected=peer)
                try:
                    await link.ended.wait()
                finally:
                    link.close()
                is_refused = link.was_refused
            pause = min(2 * pause, REFUSED_SECONDS) if is_refused else RECONNECT_SECONDS
            await asyncio.sleep(pause)

    @property
    def hello(self) -> pb.RaftFrame:
        self._own.cluster_id = self._cluster.cluster_id
        return pb.RaftFrame(hello=self._own)

    def refusal(self, frame: pb.RaftFrame, expected: str | None, shown: Principal | None) -> str | None:
        """Why the peer must not take part, if so. `shown`: whom its certificate names."""
        hello, own = frame.hello, self._own
        if not frame.HasField("hello"):
            return "a raft connection that does not begin with a hello"
        if shown is not None and hello.node_id != shown.name:
            return f"node {hello.node_id!r} shows the certificate of {shown}"
        if hello.cluster_name != own.cluster_name:
            return f"node {hello.node_id!r} is of cluster {hello.cluster_name!r}; this is {own.cluster_name!r}"
        known = self._cluster.cluster_id
        if hello.cluster_id and known and hello.cluster_id != known:
            return f"node {hello.node_id!r} has data of cluster {hello.cluster_id!r}; this is {known!r}"
        if hello.protocol != own.protocol:
            return f"node {hello.node_id!r} speaks raft protocol {hello.protocol}; this node {own.protocol}"
        if (unable := self._unable(hello.node_id, levels_of(hello))) is not None:
            return unable
        is_peer = hello.node_id in self._cluster.nodes and hello.node_id != own.node_id
        if not is_peer or (expected and hello.node_id != expected):
            return f"node {hello.node_id!r} answers where {expected or 'a configured peer'!r} should"
        return None

    def _unable(self, peer: str, levels: Levels) -> str | None:
        """Why the peer's version cannot be in the cluster as it is now."""
        level = self._cluster.level
        return features.refusal(f"node {peer!r}", levels, level) if level is not None else None

    def up(self, link: _Link) -> None:
        old = self._links.pop(link.peer, None)
        if old is not None:
            old.close()
            self._tell(link.peer, up=False)
        self._links[link.peer] = link
        self._tell(link.peer, up=True)

    def down(self, link: _Link) -> None:
        if self._links.get(link.peer) is link:
            del self._links[link.peer]
            self._tell(link.peer, up=False)

    def _tell(self, peer: str, *, up: bool) -> None:
        # Also for groups that the peer is no member of: it may become one, or be the leader that adds this node.
        for driver in self._drivers.values():
            (driver.connected if up else driver.disconnected)(peer)

    def deliver(self, link: _Link, frame: pb.RaftFrame) -> None:
        if self._links.get(link.peer) is not link:
            return  # an older epoch
        for message in frame.messages:
            driver = self._drivers.get(message.group)
            if driver is None:
                log.warning("%s sent a message for group %r, which is not here", link.peer, message.group)
                continue
            driver.receive(link.peer, message)


def levels_of(hello: pb.Hello) -> Levels:
    """Versions that say none do the first alone."""
    return Levels(hello.oldest_level or features.FIRST, hello.newest_level or features.FIRST)


class _Link:
    """One epoch of the connection to one peer: its hello, and what is queued for it."""

    def __init__(self, connection: Connection, transport: RaftTransport, expected: str | None) -> None:
        """`expected`: whom this node has dialled; it says hello first."""
        self.peer = ""
        """The other end's node id; empty before its hello."""
        self.levels = Levels(features.FIRST, features.FIRST)
        """The feature levels that the other end does, once it has said hello."""
        self.ended = asyncio.Event()
        self._connection = connection
        self._transport = transport
        self._expected = expected
        self._queue: Outbox[pb.RaftMessage] = Outbox(lambda messages: pb.RaftFrame(messages=messages))
        self._queue.open(connection)
        self._is_late = False
        self._late = asyncio.get_running_loop().call_later(HELLO_SECONDS, self._end_late)
        if expected is not None:
            connection.send(transport.hello.SerializeToString())
        connection.take_up(self._take, self._end)

    def send(self, messages: Sequence[pb.RaftMessage]) -> None:
        self._queue.send(messages[: MAX_QUEUED_MESSAGES - len(self._queue)])

    @property
    def was_refused(self) -> bool:
        """Whether the other end, or this one, has ended it instead of meeting. One that is silent refuses nothing."""
        return not self.peer and not self._is_late

    @property
    def pending(self) -> bool:
        return bool(self._queue) or self._connection.pending

    def close(self) -> None:
        self._connection.close()

    def _end_late(self) -> None:
        self._is_late = True
        self._connection.abort()

    def _take(self, data: bytes) -> None:
        try:
            frame = pb.RaftFrame.FromString(data)
        except DecodeError as error:
            log.error("%s sent a frame that does not read: %s", self.peer or "a peer", error)
            self._connection.abort()
            return
        if frame.refusal:
            log.error("%s refuses: %s", self.peer or self._expected or "a peer", frame.refusal)
            self._connection.close()
        elif self.peer:
            self._transport.deliver(self, frame)
        else:
            self._meet(frame)

    def _meet(self, frame: pb.RaftFrame) -> None:
        self._late.cancel()
        refusal = self._transport.refusal(frame, self._expected, self._connection.principal)
        if refusal:
            self.refuse(refusal)
            return
        if self._expected is None:
            self._connection.send(self._transport.hello.SerializeToString())
        self.peer, self.levels = frame.hello.node_id, levels_of(frame.hello)
        self._transport.up(self)

    def refuse(self, why: str) -> None:
        log.error("%s", why)
        self._connection.send(pb.RaftFrame(refusal=why[:MAX_REFUSAL_CHARACTERS]).SerializeToString())
        self._connection.close()

    def _end(self, why: str) -> None:
        log.debug("the raft connection to %s ended: %s", self.peer or self._expected, why)
        self._late.cancel()
        self._queue.clear()
        self.ended.set()
        self._transport.down(self)
