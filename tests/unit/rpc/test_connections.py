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

from tests.unit.harness.answering import METHOD, SECONDS, STATE, Served
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.errors import InvalidArgument, NotFound, Unavailable
from txnstatus.proto import admin_pb2, rpc_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.raft import transport
from txnstatus.rpc import connection as connections
from txnstatus.rpc import guests, line, served_calls, server
from txnstatus.rpc import listener as listeners
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Connection, Outbox, Purpose, connect, split_address
from txnstatus.rpc.deadlines import Deadlines
from txnstatus.rpc.guests import Bounds
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.server import Registry


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

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

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
    monkeypatch.setattr(connections, "MAX_SHARED_FRAME_BYTES", 100)
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


@pytest.mark.parametrize(
    ("own", "meant", "told"),
    [
        ("local.1", "local.1", None),
        ("local.1", "", None),
        ("", "", None),
        ("local.2", "local.1", "is of cluster 'local.2', not of 'local.1'"),
        ("", "local.1", "does not know yet of which cluster it is"),
    ],
)
async def test_a_process_asks_nothing_of_another_cluster(own: str, meant: str, told: str | None) -> None:
    async with Served() as served:
        served.cluster_id = own
        served.channel = PeerChannel(served.address, lambda: meant)
        if told is None:
            assert await served.state(2) == 2
            return
        with pytest.raises(Unavailable, match=told):
            await served.state(2)
        assert not served.manager.asked


async def test_the_operator_hears_once_of_an_address_that_is_another_clusters(caplog: pytest.LogCaptureFixture) -> None:
    async with Served() as served:
        served.cluster_id = "local.2"
        served.channel = PeerChannel(served.address, lambda: "local.1")
        for _ in range(3):
            with pytest.raises(Unavailable):
                await served.state(2)
    assert [record.message for record in caplog.records if "local.2" in record.message] == [
        f"{served.address} is of cluster 'local.2', not of 'local.1'"
    ]


async def test_a_node_that_has_heard_of_the_founding_answers_those_that_mean_its_cluster() -> None:
    async with Served() as served:
        served.channel = PeerChannel(served.address, lambda: "local.1")
        with pytest.raises(Unavailable, match="does not know yet"):
            await served.state(2)
        served.cluster_id = "local.1"
        assert await served.state(2) == 2


async def test_whoever_is_answered_knows_of_which_cluster_the_answer_is() -> None:
    """A node heard of the founding while it answered, and the caller took whoever it met next for its cluster."""
    async with Served() as served:
        opening, frames = await connect(served.address, Purpose.CALLS), list[bytes]()
        answered = asyncio.Event()

        def take(frame: bytes) -> None:
            frames.append(frame)
            if rpc_pb2.Frame.FromString(frame).replies:
                answered.set()

        opening.take_up(take, lambda _why: None)
        served.manager.meanwhile = lambda: setattr(served, "cluster_id", "local.1")
        payload = pb.GetTransactionStateRequest(txn_id=2).SerializeToString()
        call = rpc_pb2.Call(id=1, method=STATE, payload=payload, timeout_millis=5_000)
        opening.send(rpc_pb2.Frame(calls=[call]).SerializeToString())
        async with asyncio.timeout(SECONDS):
            await answered.wait()
        assert [rpc_pb2.Frame.FromString(frame).hello.cluster_id for frame in frames] == ["local.1", ""]
        opening.abort()


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
        for connection in list(served.listener.connections):
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
    monkeypatch.setattr("txnstatus.rpc.channel.MAX_REQUEST_BYTES", 10)
    async with Served() as served:
        request = pb.CommitTransactionRequest(owner="x" * 100)
        with pytest.raises(InvalidArgument, match="102 bytes"):
            await served.channel.call(STATE, request, pb.GetTransactionStateResponse, SECONDS)


async def test_an_answer_that_is_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("txnstatus.rpc.served_calls.MAX_MESSAGE_BYTES", 3)
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


async def said_and_heard(address: str, said: bytes) -> bytes:
    """All that comes back until the other side ends the connection."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(said)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def framed(*calls: rpc_pb2.Call) -> bytes:
    data = rpc_pb2.Frame(calls=calls).SerializeToString()
    return struct.pack(">I", len(data)) + data


ASKS = pb.GetTransactionStateRequest(txn_id=2).SerializeToString()


async def test_a_client_too_many_is_told_so_and_a_process_of_the_cluster_is_let_in() -> None:
    call = rpc_pb2.Call(id=7, method=STATE, payload=ASKS, timeout_millis=5_000)
    async with Served(Bounds(clients=1)) as served, asyncio.timeout(SECONDS):
        reader, writer = await asyncio.open_connection(*split_address(served.address))
        writer.write(Purpose.CALLS.opening + framed(call))
        await reader.readexactly(5)
        answer = await said_and_heard(served.address, Purpose.CALLS.opening + framed(call))
        (reply,) = rpc_pb2.Frame.FromString(answer[4:]).replies
        assert (reply.id, reply.error.code) == (7, "OVERLOADED")
        assert await served.state(2) == 2
        writer.close()


async def test_strangers_take_no_place_from_whoever_speaks() -> None:
    async with Served(Bounds(clients=1, strangers=5)) as served, asyncio.timeout(SECONDS):
        silent = [await asyncio.open_connection(*split_address(served.address)) for _ in range(20)]
        assert await served.state(2) == 2
        for reader, _ in silent[:15]:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        assert len(served.listener.connections) <= 6
        for _, writer in silent:
            writer.close()


async def test_what_is_silent_or_slow_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "OPENING_SECONDS", 0.1)
    monkeypatch.setattr(guests, "FRAME_SECONDS", 0.2)
    monkeypatch.setattr(listeners, "LOOK_SECONDS", 0.05)
    async with Served() as served, asyncio.timeout(SECONDS):
        assert await served.state(2) == 2
        for said in (b"", b"TXN", Purpose.CALLS.opening, Purpose.CALLS.opening + b"\0\0", Purpose.RAFT.opening[:4]):
            assert await said_and_heard(served.address, said) == b""
        (connection,) = served.listener.connections
        assert await served.state(2) == 2
        assert served.listener.connections == {connection}, "who has called may rest"


async def test_what_is_half_sent_is_bounded_over_all_connections() -> None:
    half = Purpose.CALLS.opening + struct.pack(">I", 1_000_000) + bytes(400_000)
    async with Served(Bounds(unfinished_bytes=1_000_000)) as served, asyncio.timeout(SECONDS):
        ends = [asyncio.create_task(said_and_heard(served.address, half)) for _ in range(8)]
        ended: set[asyncio.Task[bytes]] = set()
        while len(ended) < 6:
            ended |= (await asyncio.wait(set(ends) - ended, return_when=asyncio.FIRST_COMPLETED))[0]
        assert sum(connection.unfinished for connection in served.listener.connections) <= 1_000_000
        assert await served.state(2) == 2
        for end in ends:
            end.cancel()


async def test_a_frame_longer_than_any_request_is_ended_by_its_length() -> None:
    async with Served() as served, asyncio.timeout(SECONDS):
        assert await said_and_heard(served.address, Purpose.CALLS.opening + struct.pack(">I", 50 << 20)) == b""


async def test_a_long_frame_of_many_calls_ends_its_connection_and_many_in_short_ones_take_turns() -> None:
    """Its decoding, and the tasks of its calls, held up everybody else."""
    async with Served() as served, asyncio.timeout(SECONDS):
        long = b"\x0a\x00" * (1 << 20)
        assert await said_and_heard(served.address, Purpose.CALLS.opening + struct.pack(">I", len(long)) + long) == b""
        reader, writer = await asyncio.open_connection(*split_address(served.address))
        calls = [rpc_pb2.Call(id=n, method=STATE, payload=ASKS, timeout_millis=60_000) for n in range(1, 2_000)]
        writer.write(Purpose.CALLS.opening + framed(*calls))
        answered: set[int] = set()
        while len(answered) < len(calls):
            (length,) = struct.unpack(">I", await reader.readexactly(4))
            replies = rpc_pb2.Frame.FromString(await reader.readexactly(length)).replies
            assert len(replies) <= 2 * server.CALLS_PER_TURN
            answered |= {reply.id for reply in replies}
        writer.close()


async def test_who_takes_no_answer_in_has_no_more_of_its_calls_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers to 1,600 calls, which nobody read, were 600 MB in a node's memory."""
    monkeypatch.setattr(served_calls, "CLIENT_CALLS", 32)
    begun = 0
    call = rpc_pb2.Call(id=1, method=STATE, payload=ASKS, timeout_millis=60_000)

    async def much(_request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
        nonlocal begun
        begun += 1
        return pb.GetTransactionStateResponse(waits_for="x" * (1 << 18))

    async with Served() as served, asyncio.timeout(SECONDS):
        served.registry.add_method(METHOD, much)
        reader, writer = await asyncio.open_connection(*split_address(served.address))
        writer.write(Purpose.CALLS.opening + framed(*[call] * 2_000))
        await reader.readexactly(4)
        for _ in range(5):
            await served.state(2)
        before = begun
        assert served_calls.CLIENT_CALLS <= before < 200
        while begun == before:
            await reader.read(1 << 20)  # it goes on where the answers are taken in
        writer.close()


async def test_calls_that_wait_are_bounded_by_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(served_calls, "CLIENT_WAITING_BYTES", 1_000)
    async with Served() as served, asyncio.timeout(SECONDS):
        served.registry.add_method(METHOD, never)
        call = rpc_pb2.Call(id=1, method=STATE, payload=ASKS, timeout_millis=60_000)
        many = framed(*[call] * (served_calls.CLIENT_CALLS + 1 + 1_000 // len(ASKS)))
        assert await said_and_heard(served.address, Purpose.CALLS.opening + many) == b""


async def test_so_are_those_of_all_connections_together_and_who_has_the_most_makes_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each connection was bounded by itself, and by requests alone: names of methods and groups were not counted."""

    async def never(_request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
        return await asyncio.get_running_loop().create_future()

    monkeypatch.setattr(server, "CLIENTS_BYTES", 100_000)
    async with Served() as served, asyncio.timeout(SECONDS):
        served.registry.add_method(METHOD, never, "busy")
        held = []
        for count in (5, 40, 10):
            reader, writer = await asyncio.open_connection(*split_address(served.address))
            call = rpc_pb2.Call(id=1, method=STATE, group="busy", payload=ASKS, timeout_millis=60_000)
            long = rpc_pb2.Call(id=2, method="x" * 1_500, timeout_millis=60_000)
            waiting = [call] * served_calls.CLIENT_CALLS if count == 40 else []
            writer.write(Purpose.CALLS.opening + framed(*waiting, *[long if waiting else call] * count))
            held.append((reader, writer))
        reader, _ = held[1]
        assert await reader.read() == b"", "it has the most"
        assert await served.state(2) == 2, "others are served"
        for reader, writer in held:
            assert reader.at_eof() == (reader is held[1][0])
            writer.close()


async def test_a_process_that_leaves_answers_what_is_under_way_and_sends_clients_elsewhere() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def later(request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
        begun.set()
        await may_end.wait()
        return pb.GetTransactionStateResponse(txn={"txn_id": request.txn_id})

    call = rpc_pb2.Call(id=7, method=STATE, payload=ASKS, timeout_millis=60_000)

    async def ask(end: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> rpc_pb2.Reply:
        end[1].write(framed(call))
        return await told(end[0])

    async def told(reader: asyncio.StreamReader) -> rpc_pb2.Reply:
        while True:
            (length,) = struct.unpack(">I", await reader.readexactly(4))
            if replies := rpc_pb2.Frame.FromString(await reader.readexactly(length)).replies:
                return replies[0]

    async with Served() as served, asyncio.timeout(SECONDS):
        one, other = [await asyncio.open_connection(*split_address(served.address)) for _ in range(2)]
        for _, writer in (one, other):
            writer.write(Purpose.CALLS.opening)
        served.registry.add_method(METHOD, later)
        one[1].write(framed(call))
        await begun.wait()
        leaving = asyncio.create_task(served.registry.leave(Unavailable("n1 stops")))
        assert (await ask(other)).error.code == "UNAVAILABLE"
        assert (await ask(one)).error.message == "n1 stops"
        assert not leaving.done()
        of_a_peer = asyncio.create_task(served.state(2))
        may_end.set()
        assert (await told(one[0])).payload
        await leaving
        assert await of_a_peer == 2, "the cluster's processes are served to the end"
        for _, writer in (one, other):
            writer.close()


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

    async def connect(self, address: str, purpose: Purpose, *_: object) -> Connection:
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
    raft = transport.RaftTransport("c", "n1", 1, ClusterMap(CatalogState(100, nodes, {}, {}, 3, 1)))
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
    monkeypatch.setattr(line, "connect", dials.connect)
    channel = PeerChannel(address_of(server))
    async with asyncio.timeout(SECONDS):
        for _ in range(2):
            with pytest.raises(Unavailable, match=r"was closed|reset by peer"):
                await channel.call(STATE, pb.GetTransactionStateRequest(), pb.GetTransactionStateResponse, 60.0)
    assert dials.made.qsize() == 2
    await channel.close()
    server.close()
