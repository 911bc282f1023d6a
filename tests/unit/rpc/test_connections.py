"""Frames over TCP, and the calls in them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Callable

import pytest
import uvloop

from tests.unit.harness.answering import SECONDS, STATE, Manager
from txnstatus.catalog.catalog import CatalogState, NodeInfo
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.errors import InvalidArgument, NotFound, Unavailable
from txnstatus.proto import admin_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.raft import transport
from txnstatus.rpc import channel as channels
from txnstatus.rpc import connection as connections
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Connection, Outbox, Purpose, connect, split_address
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.server import Registry


class Served:
    """A manager on a port of its own."""

    async def __aenter__(self) -> Served:
        self.manager = Manager()
        registry = Registry()
        registry.add(pb.DESCRIPTOR.services_by_name["TxnManager"], self.manager)
        self.listener = Listener(registry)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        await self.listener.bind(self.address)
        await self.listener.start()
        self.channel = PeerChannel(self.address)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.channel.close()
        self.listener.stop()

    async def state(self, txn_id: int, timeout: float = SECONDS) -> int:
        request = pb.GetTransactionStateRequest(txn_id=txn_id)
        answer = await self.channel.call(STATE, request, pb.GetTransactionStateResponse, timeout)
        return answer.txn.txn_id


def received(chunks: list[bytes]) -> list[bytes]:
    connection, frames = Connection(), []
    connection._transport = _Silent()
    connection.take_up(frames.append, lambda _why: None)
    for chunk in chunks:
        connection.data_received(chunk)
    return frames


class _Silent(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.ended = False

    def is_closing(self) -> bool:
        return self.ended

    def abort(self) -> None:
        self.ended = True


@pytest.mark.parametrize("seed", range(20))
def test_frames_arrive_whole_however_the_bytes_are_cut(seed: int) -> None:
    rng = random.Random(seed)
    frames = [rng.randbytes(rng.choice([0, 1, 3, 4, 5, 100, 5_000])) for _ in range(30)]
    stream = b"".join(struct.pack(">I", len(frame)) + frame for frame in frames)
    cuts = sorted(rng.sample(range(len(stream)), 40))
    assert received([stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]) == frames


def test_nothing_is_taken_after_a_frame_that_is_too_long() -> None:
    assert received([struct.pack(">I", connections.MAX_FRAME_BYTES + 1) + struct.pack(">I", 1) + b"x"]) == []


def test_what_is_too_long_for_one_frame_leaves_in_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_FRAME_BYTES", 100)
    sent: list[bytes] = []
    connection = Connection()
    monkeypatch.setattr(connection, "send", sent.append)
    nodes = [f"{number:020}" for number in range(30)]
    connection.send_all(lambda part: admin_pb2.MoveReplicaResponse(members=part), nodes)
    assert max(map(len, sent)) <= 100
    assert [node for frame in sent for node in admin_pb2.MoveReplicaResponse.FromString(frame).members] == nodes


async def test_many_calls_at_once_get_their_own_answers() -> None:
    async with Served() as served:
        answers = await asyncio.gather(*map(served.state, range(1, 400)), return_exceptions=True)
        for txn_id, answer in enumerate(answers, start=1):
            assert isinstance(answer, NotFound) if txn_id % 2 else answer == txn_id


async def test_a_call_ends_in_time_and_so_does_its_handler() -> None:
    async with Served() as served:
        with pytest.raises(Unavailable, match=f"did not answer {STATE} within 0.1 s"):
            await served.state(0, timeout=0.1)
        async with asyncio.timeout(SECONDS):
            await served.manager.gave_up.wait()
        assert await served.state(2) == 2, "the connection goes on"


async def test_a_connection_that_breaks_fails_what_is_under_way_and_the_next_call_makes_a_new_one() -> None:
    async with Served() as served:
        await served.state(2)
        waiting = asyncio.create_task(served.state(0))
        await served.state(2)
        for connection in list(served.listener._live):
            connection.abort()
        with pytest.raises(Unavailable):
            await waiting
        assert await served.state(2) == 2


async def test_nobody_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        channel = PeerChannel(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(Unavailable, match="cannot be reached"):
            await channel.call(STATE, pb.GetTransactionStateRequest(), pb.GetTransactionStateResponse, SECONDS)


async def test_a_request_that_is_too_long_is_refused_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.rpc.channel.MAX_MESSAGE_BYTES", 10)
    async with Served() as served:
        request = pb.CommitTransactionRequest(owner="x" * 100)
        with pytest.raises(InvalidArgument, match="102 bytes"):
            await served.channel.call(STATE, request, pb.GetTransactionStateResponse, SECONDS)


async def test_an_answer_that_is_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.rpc.server.MAX_MESSAGE_BYTES", 3)
    async with Served() as served:
        with pytest.raises(InvalidArgument, match="an answer of"):
            await served.state(2)


@pytest.mark.parametrize("said", [b"TXN2C", b"PRI * HTTP/2.0\r\n", b"x", b"TXN1Z"])
async def test_whoever_says_something_else_first_is_ended(said: bytes) -> None:
    async with Served() as served, asyncio.timeout(SECONDS):
        host, port = split_address(served.address)
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(said)
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""
        writer.close()
        assert await served.state(2) == 2


async def test_a_port_in_use_is_an_error() -> None:
    async with Served() as served:
        with pytest.raises(OSError, match="in use"):
            await Listener(Registry()).bind(served.address)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_port_that_another_came_to_listen_on_is_an_error(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The node said that it serves, and was deaf: uvloop does not tell that its socket could not listen."""

    async def bind_and_start() -> None:
        listener = Listener(Registry())
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(("127.0.0.1", 0))
            await listener.bind("{}:{}".format(*other.getsockname()))
            other.listen()
            with pytest.raises(OSError, match="in use"):
                await listener.start()
        listener.stop()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(bind_and_start())


async def test_what_is_for_nothing_here_is_ended() -> None:
    async with Served() as served:
        ended = asyncio.Event()
        connection = await connect(served.address, Purpose.RAFT)
        connection.take_up(lambda _frame: None, lambda _why: ended.set())
        async with asyncio.timeout(SECONDS):
            await ended.wait()


def test_deadlines_tell_of_each_that_is_not_removed() -> None:
    async def wait() -> list[str]:
        late: asyncio.Queue[str] = asyncio.Queue()
        deadlines = Deadlines(late.put_nowait)
        for name, seconds in (("first", 0.0), ("never", SECONDS), ("second", 0.06), ("removed", 0.06)):
            deadlines.add(name, seconds)
        deadlines.remove("removed")
        async with asyncio.timeout(SECONDS):
            found = [await late.get(), await late.get()]
        deadlines.clear()
        return found

    assert asyncio.run(wait()) == ["first", "second"]


def test_what_is_to_be_sent_gathers_for_a_turn_and_while_the_peer_takes_nothing_in() -> None:
    sent: list[list[str]] = []

    async def send() -> None:
        connection = Connection()
        outbox: Outbox[str] = Outbox(lambda nodes: admin_pb2.MoveReplicaResponse(members=nodes))
        connection.send = lambda frame: sent.append(  # type: ignore[method-assign]
            list(admin_pb2.MoveReplicaResponse.FromString(frame).members)
        )
        outbox.add("before there is a connection")
        outbox.open(connection)
        for name in "ab":
            outbox.add(name)
        await asyncio.sleep(0)
        connection.pause_writing()
        outbox.add("c")
        await asyncio.sleep(0)
        outbox.add("d")
        assert len(outbox) == 2
        connection.resume_writing()
        await asyncio.sleep(0)

    asyncio.run(send())
    assert sent == [["before there is a connection"], ["a", "b"], ["c", "d"]]


# ---- connections that end before anybody looks


class Dials:
    """A caller that looks at its connection when that has ended already: a process that dies takes what it has not
    accepted with it, and on a busy machine the caller has its turn later."""

    def __init__(self) -> None:
        self.made: asyncio.Queue[Connection] = asyncio.Queue()

    async def connect(self, address: str, purpose: Purpose) -> Connection:
        connection = await connect(address, purpose)
        while connection._transport is not None:  # noqa: ASYNC110 nobody tells of it yet, which is the point
            await asyncio.sleep(0)
        self.made.put_nowait(connection)
        return connection


async def hanging_up() -> asyncio.Server:
    """A server that ends every connection at once."""
    return await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)


def address_of(server: asyncio.Server) -> str:
    host, port, *_ = server.sockets[0].getsockname()
    return f"{host}:{port}"


async def test_a_node_that_dies_as_it_is_dialled_is_dialled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it was never again: two nodes of three could not find each other until one of them was restarted."""
    dials, server = Dials(), await hanging_up()
    monkeypatch.setattr(transport, "connect", dials.connect)
    nodes = {"n1": NodeInfo("127.0.0.1:1", ()), "n2": NodeInfo(address_of(server), ())}
    raft = transport.RaftTransport("c", "n1", 1, ClusterMap(CatalogState(100, nodes, {}, 3, 1)))
    raft.start()
    async with asyncio.timeout(SECONDS):
        for _ in range(3):
            await dials.made.get()
    await raft.stop()
    server.close()


async def test_a_call_over_a_connection_that_has_ended_fails_at_once_and_the_next_has_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Once each call took its whole time, and none made a new connection."""
    dials, server = Dials(), await hanging_up()
    monkeypatch.setattr(channels, "connect", dials.connect)
    channel = PeerChannel(address_of(server))
    async with asyncio.timeout(SECONDS):
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"was closed|reset by peer"):
                await channel.call(STATE, pb.GetTransactionStateRequest(), pb.GetTransactionStateResponse, 60.0)
    assert dials.made.qsize() == 2
    await channel.close()
    server.close()
