"""Connections with TLS: who is let in, who is taken for a node, and what everybody else is told, and soon."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import socket
import ssl
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.unit.harness.answering import SECONDS, STATE, Served
from tests.unit.harness.identities import REQUEST, Identities, awaiting, blocking, free_address, trusting
from txnclient.calls.connections import Connections
from txndeploy.local import authority
from txnstatus.catalog.catalog import CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.errors import Unauthenticated, Unavailable
from txnstatus.proto import raft_pb2, rpc_pb2
from txnstatus.raft import transport
from txnstatus.raft.transport import RaftTransport
from txnstatus.rpc import guests
from txnstatus.rpc import listener as listeners
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import LENGTH, Connection, Purpose, connect, split_address
from txnstatus.rpc.listener import Listener
from txnstatus.rpc.server import Registry
from txnstatus.security import stream, tls
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.stream import TlsStream
from txnstatus.security.tls import Tls

QUICK = 5.0
"""Seconds within which whoever is refused has been told: calls have twice as many."""
INPUTS = int(os.environ.get("TXN_TLS_INPUTS", "300"))
CLIENTS = pytest.mark.parametrize("ask", [blocking, awaiting])


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("air"))


@pytest.fixture
def again(tmp_path: Path) -> Identities:
    """A cluster of the same name, by another authority."""
    return Identities(tmp_path / "again")


# ---- those who know each other


async def test_all_kinds_of_callers_are_answered(air: Identities) -> None:
    async with Served(tls=air.node()) as served:
        assert await blocking(air.user(), served.address) == 2
        assert await awaiting(air.user(), served.address) == 2
        for shown in (air.node("n2"), air.host()):
            served.channel = PeerChannel(served.address, tls=shown, expected="node/n1")
            assert await served.state(2) == 2
            await served.channel.close()


async def test_many_calls_go_over_one_connection(air: Identities) -> None:
    async with Served(tls=air.node()) as served:
        served.channel = PeerChannel(served.address, tls=air.node("n2"), expected="node/n1")
        assert await asyncio.gather(*map(served.state, range(2, 800, 2))) == list(range(2, 800, 2))
        assert len(served.listener.connections) == 1


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 16_381, 5_000_000])
async def test_frames_of_any_size_arrive_whole(air: Identities, size: int) -> None:
    """A frame ends within a TLS record, with it, or many later."""
    sent, heard = random.Random(size).randbytes(size), asyncio.get_running_loop().create_future()

    def take_up(guest: Connection) -> None:
        guest.take_up(heard.set_result, lambda _why: None)

    listener, address = Listener(Registry(), {Purpose.CALLS: take_up}, tls=air.node()), free_address()
    await listener.bind(address)
    await listener.start()
    try:
        connection = await connect(address, Purpose.CALLS, air.user())
        connection.send(sent)
        async with asyncio.timeout(SECONDS):
            assert await heard == sent
    finally:
        listener.stop()


async def test_a_connection_that_rests_is_used_again_and_one_that_ended_is_not(air: Identities) -> None:
    connections = Connections(air.user())

    async def ask() -> None:
        await asyncio.to_thread(connections.call, served.address, STATE, REQUEST.SerializeToString(), SECONDS)

    async with Served(tls=air.node()) as served:
        for _ in range(3):
            await ask()
        (first,) = served.listener.connections
        first.close()
        await ask()
        assert first not in served.listener.connections
    connections.close()


# ---- those who do not


@CLIENTS
async def test_a_client_by_another_authority_is_told(ask, air: Identities, again: Identities) -> None:  # type: ignore[no-untyped-def]
    """It trusts the node, whose alert comes when its own handshake is done."""
    stranger = trusting(again.files(Kind.USER, "alice"), air.authority)
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match="it does not know the authority of the certificate"):
            await ask(stranger, served.address)
        assert not served.manager.asked


async def test_whoever_shows_no_certificate_is_told_and_not_read(air: Identities) -> None:
    """Nor is a long frame of theirs waited for."""
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    shown.check_hostname = False
    shown.load_verify_locations(air.authority_file)
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        reader, writer = await asyncio.open_connection(*split_address(served.address), ssl=shown)
        frame = rpc_pb2.Frame(calls=[rpc_pb2.Call(id=1, method=STATE)]).SerializeToString()
        writer.write(Purpose.CALLS.opening + LENGTH.pack(len(frame)) + frame)
        answer = await reader.readexactly(LENGTH.unpack(await reader.readexactly(LENGTH.size))[0])
        (reply,) = rpc_pb2.Frame.FromString(answer).replies
        assert (reply.error.code, reply.error.message) == ("UNAUTHENTICATED", "no certificate was shown")
        writer.close()
        reader, writer = await asyncio.open_connection(*split_address(served.address), ssl=shown)
        writer.write(Purpose.CALLS.opening + LENGTH.pack(1 << 20))
        with contextlib.suppress(OSError):
            assert not await reader.read()
        assert not served.manager.asked


@CLIENTS
async def test_a_node_by_another_authority_is_asked_nothing(ask, air: Identities, again: Identities) -> None:  # type: ignore[no-untyped-def]
    async with Served(tls=again.node()) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match="its certificate does not hold: "):
            await ask(air.user(), served.address)
        assert not served.manager.asked


async def test_an_authority_of_two_clusters_does_not_make_them_one(
    air: Identities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names count, not signatures alone; on either side."""
    sea = trusting(Identities(tmp_path, "sea").files(Kind.USER, "alice"), air.authority)
    node = trusting(air.files(Kind.NODE, "n9"), Identities(tmp_path / "more", "sea").authority)
    node = tls_trusting_each_other(node, sea)
    async with Served(tls=node) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match="it is node n9 of cluster air, and not a node of cluster sea"):
            await blocking(sea, served.address)
        monkeypatch.setattr(stream, "check_process", lambda *_: None)
        with pytest.raises(Unauthenticated, match="user alice of cluster sea is not of cluster air"):
            await awaiting(sea, served.address)
        assert not served.manager.asked


def tls_trusting_each_other(one: Tls, other: Tls) -> Tls:
    """The first one, which trusts the authorities of the second one, too."""
    authorities = one._files.authority
    authorities.write_bytes(authorities.read_bytes() + other._files.authority.read_bytes())
    return tls.within(authorities.parent)


@pytest.mark.parametrize("who", ["client", "node"])
async def test_a_certificate_that_expired_is_told_of_by_both(
    air: Identities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    kind = Kind.USER if who == "client" else Kind.NODE
    monkeypatch.setattr(tls, "_shown", lambda *_: (Principal("air", kind, "late"), 0.0))  # it was valid as it was read
    expired = tls.within(air.files(kind, "late", days=-0.001))
    node, client = (air.node(), expired) if who == "client" else (expired, air.user())
    told = "the certificate that it was shown has expired" if who == "client" else "certificate has expired"
    async with Served(tls=node) as served, asyncio.timeout(QUICK):
        for ask in (blocking, awaiting):
            with pytest.raises(Unauthenticated, match=told):
                await ask(client, served.address)


@pytest.mark.parametrize("who", ["client", "node"])
async def test_a_certificate_of_a_clock_that_is_ahead_is_told_of_by_both(
    air: Identities, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """It is not valid yet by the clock of whoever looks at it."""
    kind = Kind.USER if who == "client" else Kind.NODE
    monkeypatch.setattr(authority, "SKEW", timedelta(hours=-1))
    monkeypatch.setattr(tls, "_shown", lambda *_: (Principal("air", kind, "early"), 0.0))  # its own clock is ahead, too
    early = tls.within(air.files(kind, "early"))
    node, client = (air.node(), early) if who == "client" else (early, air.user())
    told = "is not valid yet by its clock" if who == "client" else "certificate is not yet valid"
    async with Served(tls=node) as served, asyncio.timeout(QUICK):
        for ask in (blocking, awaiting):
            with pytest.raises(Unauthenticated, match=told):
                await ask(client, served.address)


@pytest.mark.parametrize(
    ("shown", "purpose", "told"),
    [
        ("user", Purpose.PEER_CALLS, "user alice of cluster air is no process"),
        ("user", Purpose.RAFT, None),
        ("host", Purpose.RAFT, None),
    ],
)
async def test_a_user_is_not_taken_for_a_process(
    air: Identities, shown: str, purpose: Purpose, told: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    raft: list[Connection] = []
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        served.listener.accept[Purpose.RAFT] = raft.append
        connection, ended = await connect(served.address, purpose, getattr(air, shown)()), asyncio.Event()
        frames: list[bytes] = []
        connection.send(rpc_pb2.Frame(calls=[rpc_pb2.Call(id=7, method=STATE)]).SerializeToString())
        connection.take_up(frames.append, lambda _why: ended.set())
        await ended.wait()
        assert [reply.error.code for frame in frames for reply in rpc_pb2.Frame.FromString(frame).replies] == (
            ["UNAUTHENTICATED"] if told else []
        )
        assert not raft
        assert not served.manager.asked
    assert "a connection is refused: " in caplog.text


async def test_a_node_that_answers_in_place_of_another_is_asked_nothing(
    air: Identities, caplog: pytest.LogCaptureFixture
) -> None:
    """Its caller hears what it does of a node that is silent, and the log has why, once."""
    async with Served(tls=air.node("n3")) as served, asyncio.timeout(QUICK):
        served.channel = PeerChannel(served.address, tls=air.node("n2"), expected="node/n1")
        for _ in range(3):
            with pytest.raises(Unavailable, match="it is node n3 of cluster air, and not node/n1 of cluster air"):
                await served.state(2)
        assert not served.manager.asked
    assert len([record for record in caplog.records if "not node/n1" in record.message]) == 1


async def test_a_host_is_not_taken_for_a_node_by_clients(air: Identities) -> None:
    async with Served(tls=air.host()) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match="it is host billing of cluster air, and not a node"):
            await blocking(air.user(), served.address)


async def test_nodes_hear_each_other_over_tls(air: Identities) -> None:
    nodes = {name: NodeInfo(free_address(), ()) for name in ("n1", "n2")}
    heard: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
    ends = []
    for name in nodes:
        raft = RaftTransport("air", name, 1, ClusterMap(CatalogState(100, nodes, {}, {}, 3, 1)), air.node(name))
        driver = SimpleNamespace(
            group=SimpleNamespace(group="g"),
            connected=lambda peer: heard.put_nowait((peer, "connected")),
            disconnected=lambda _peer: None,
            receive=lambda peer, message: heard.put_nowait((peer, message.group)),
        )
        raft.add(driver)  # type: ignore[arg-type]
        listener = Listener(Registry(), {Purpose.RAFT: raft.accept}, tls=air.node(name))
        await listener.bind(nodes[name].address)
        await listener.start()
        ends.append((raft, listener))
    async with asyncio.timeout(SECONDS):
        for raft, _ in ends:
            raft.start()
        assert {await heard.get(), await heard.get()} == {("n1", "connected"), ("n2", "connected")}
        for (raft, _), other in zip(ends, ("n2", "n1"), strict=True):
            raft.send([(other, raft_pb2.RaftMessage(group="g"))])
        assert {await heard.get(), await heard.get()} == {("n1", "g"), ("n2", "g")}
    for raft, listener in ends:
        await raft.stop()
        listener.stop()


async def test_a_stolen_identity_takes_no_part_in_raft(air: Identities, caplog: pytest.LogCaptureFixture) -> None:
    """The hello says n3, the certificate n4."""
    nodes = {name: NodeInfo(free_address(), ()) for name in ("n1", "n3")}
    cluster = ClusterMap(CatalogState(100, nodes, {}, {}, 3, 1))
    raft = RaftTransport("air", "n1", 1, cluster, air.node())
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        served.listener.accept[Purpose.RAFT] = raft.accept
        connection, ended = await connect(served.address, Purpose.RAFT, air.node("n4")), asyncio.Event()
        heard: list[bytes] = []
        hello = raft_pb2.Hello(cluster_name="air", node_id="n3", incarnation=1, protocol=transport.PROTOCOL)
        connection.send(raft_pb2.RaftFrame(hello=hello).SerializeToString())
        connection.take_up(heard.append, lambda _why: ended.set())
        await ended.wait()
    told = "node 'n3' shows the certificate of node n4 of cluster air"
    assert [raft_pb2.RaftFrame.FromString(frame).refusal for frame in heard] == [told]
    assert told in caplog.text


# ---- those who have TLS, and those who have none


@CLIENTS
async def test_a_client_without_tls_is_told_to_bring_it(ask, air: Identities) -> None:  # type: ignore[no-untyped-def]
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match="this node takes connections with TLS only") as caught:
            await ask(None, served.address)
        for each in (
            "TXN_CREDENTIALS=",
            "connect(credentials=",
            "certificate.pem",
            "JWT, in token",
            "secret",
            "txn.token()",
        ):
            assert each in caught.value.hint, "all that may be given is named"
        assert not served.manager.asked


@CLIENTS
async def test_a_client_with_tls_is_told_that_a_node_takes_none(ask, air: Identities) -> None:  # type: ignore[no-untyped-def]
    async with Served() as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated, match="it does not take TLS"):
            await ask(air.user(), served.address)


@pytest.mark.parametrize("caller", [None, "n2"])
async def test_nodes_with_tls_and_without_do_not_talk(air: Identities, caller: str | None) -> None:
    listens = None if caller else air.node()
    async with Served(tls=listens) as served, asyncio.timeout(QUICK):
        served.channel = PeerChannel(served.address, tls=air.node(caller) if caller else None)
        with pytest.raises(Unavailable, match="TLS"):
            await served.state(2)
        assert not served.manager.asked


async def test_older_tls_is_refused(air: Identities) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.maximum_version = False, ssl.TLSVersion.TLSv1_2
    old.load_verify_locations(air.authority_file)
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        with pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
            await asyncio.open_connection(*split_address(served.address), ssl=old)


async def test_whoever_never_ends_a_handshake_goes(air: Identities, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guests, "OPENING_SECONDS", 0.2)
    monkeypatch.setattr(listeners, "LOOK_SECONDS", 0.05)
    begun = TlsStream(air.user().contexts(), serves=False).outgoing()
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        for said in (b"", begun[:3], begun, begun[:-1]):
            reader, writer = await asyncio.open_connection(*split_address(served.address))
            writer.write(said)
            while await reader.read(1_000):
                pass
            writer.close()
        assert await blocking(air.user(), served.address) == 2


# ---- whatever comes


class Handshake:
    """A client that is known, and a server; what the client sends, piece by piece."""

    def __init__(self, air: Identities) -> None:
        self.serves = TlsStream(air.node().contexts(), serves=True)
        self._dials = TlsStream(air.user().contexts(), serves=False)
        self.hello = self._dials.outgoing()

    def rest(self) -> bytes:
        """The client's certificate and what ends the handshake, and a frame."""
        assert self.serves.take(self.hello) == b""
        self._dials.take(self.serves.outgoing())
        return self._dials.outgoing() + self._dials.seal(b"a frame")


def changed(data: bytes, rng: random.Random) -> bytes:
    """Bytes changed, left out, doubled or put in; or all made up."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(600))
    made = bytearray(data)
    while made == data:
        at = rng.randrange(len(made))
        made[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(3))
    return bytes(made)


def test_whatever_bytes_come_nobody_gets_in_and_nothing_else_is_raised(air: Identities) -> None:
    """Refused by name, or waited for. TXN_TLS_INPUTS says how many are tried."""
    rng, hello = random.Random(1), Handshake(air).hello
    for number in range(INPUTS):
        handshake = Handshake(air) if number % 10 == 0 else None
        serves = handshake.serves if handshake else TlsStream(air.node().contexts(), serves=True)
        data = changed(handshake.rest() if handshake else hello, rng)
        try:
            for start in range(0, len(data), 100):
                assert serves.take(data[start : start + 100]) in (b"", b"a frame" if handshake else b"")
        except Unauthenticated:
            continue
        assert handshake or not serves.is_ready


async def test_a_port_with_tls_outlives_whatever_is_sent_to_it(air: Identities) -> None:
    rng = random.Random(2)
    async with Served(tls=air.node()) as served, asyncio.timeout(SECONDS):
        for _ in range(200):
            with socket.create_connection(split_address(served.address), 1) as made:
                made.sendall(rng.choice([b"\x16\x03\x01", b"", b"TXN1C"]) + rng.randbytes(rng.randrange(300)))
            await asyncio.sleep(0)
        assert await blocking(air.user(), served.address) == 2


def test_what_is_sealed_is_not_there_to_read(air: Identities) -> None:
    handshake = Handshake(air)
    sent = handshake.rest()
    assert handshake.serves.take(sent) == b"a frame"
    assert b"a frame" not in sent
    assert b"alice" not in handshake.hello + sent, "who it is goes sealed, too"
