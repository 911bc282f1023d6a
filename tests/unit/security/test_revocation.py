"""What counts no more: connections that there are end, and no new one is let in; those of others stay."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import grpc
import pytest
from cryptography.x509 import load_pem_x509_certificate

from tests.unit.harness.answering import STATE, Served
from tests.unit.harness.identities import REQUEST, Identities, awaiting, blocking, free_address
from tests.unit.harness.tickets import KEY, TICKET, Clock, bearers
from txnclient.calls.connections import Connections
from txnstatus.catalog import client as following
from txnstatus.catalog.catalog import CATALOG, CatalogState
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.nodes import NodeInfo
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import Unauthenticated
from txnstatus.process.environment import Environment
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.revocation import is_revoked, of_name, of_serial
from txnstatus.rpc.attempts import NoAnswer
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Purpose, connect
from txnstatus.rpc.errors import GONE
from txnstatus.rpc.grpc_server import GrpcServer
from txnstatus.security import tls
from txnstatus.security.principals import Kind, Principal
from txnstatus.security.showing import ShownTicket, Shows
from txnstatus.security.stream import TlsStream
from txnstatus.security.tickets import sign

QUICK = 10.0
ALICE = Principal("air", Kind.USER, "alice")


@pytest.fixture
def air(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("air"))


def serial_of(air: Identities, name: str) -> int:
    """The number of a user's certificate, as nodes see it."""
    serves, dials = TlsStream(air.node().contexts(), serves=True), TlsStream(air.user(name).contexts(), serves=False)
    serves.take(dials.outgoing())
    dials.take(serves.outgoing())
    serves.take(dials.outgoing())
    return serves.serial


def ticket(air: Identities) -> ShownTicket:
    return ShownTicket(sign(TICKET, 2, KEY), air.authority.pem)


class Held:
    """A connection of somebody, over which one call was answered."""

    def __init__(self, shown: Shows, address: str) -> None:
        self.connections = Connections(shown)
        self._address = address

    async def ask(self) -> str:
        """The error's code; empty: it was answered."""
        given = self._address, STATE, REQUEST.SerializeToString(), QUICK
        try:
            reply = await asyncio.to_thread(self.connections.call, *given)
        except NoAnswer:  # it was ended while it was taken up again
            reply = await asyncio.to_thread(self.connections.call, *given)
        return reply.error.code


@pytest.mark.parametrize(
    ("shown", "what"),
    [
        (lambda air: air.user(), lambda _air: of_name(Kind.USER, "alice")),
        (lambda air: air.user(), lambda air: of_serial(serial_of(air, "alice"))),
        (ticket, lambda _air: of_name(Kind.USER, "alice")),
    ],
    ids=["a name", "a certificate", "a name by its token"],
)
async def test_who_is_revoked_loses_connections_and_gets_no_new_one(
    air: Identities, shown: Callable[[Identities], Shows], what: Callable[[Identities], str]
) -> None:
    """And others keep theirs, and when it counts again it is let in."""
    async with Served(tls=air.node(), bearers=bearers(Clock())) as served, asyncio.timeout(QUICK):
        revoked: set[str] = set()
        served.listener.revoked = lambda: frozenset(revoked)
        held, other = Held(shown(air), served.address), Held(air.user("bob"), served.address)
        await held.ask()
        await other.ask()
        first, second = served.listener.connections
        kept = first if first.principal == Principal("air", Kind.USER, "bob") else second
        revoked.add(what(air))
        served.listener.end_revoked()
        assert await held.ask() == "UNAUTHENTICATED"
        assert not await other.ask()
        assert {first, second} & served.listener.connections == {kept}
        revoked.clear()
        served.listener.end_revoked()
        assert await held.ask() != "UNAUTHENTICATED"
        for each in (held, other):
            each.connections.close()


@pytest.mark.parametrize("ask", [blocking, awaiting])
async def test_who_is_revoked_is_told_so(ask, air: Identities, caplog: pytest.LogCaptureFixture) -> None:  # type: ignore[no-untyped-def]
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        served.listener.revoked = lambda: {"user/alice"}
        with pytest.raises(Unauthenticated, match="user alice of cluster air is revoked"):
            await ask(air.user(), served.address)
        assert await ask(air.user("bob"), served.address) == 2
    assert "a connection is refused: user alice of cluster air is revoked" in caplog.text


@pytest.mark.parametrize("purpose", Purpose)
async def test_a_node_that_was_replaced_is_let_in_for_nothing(air: Identities, purpose: Purpose) -> None:
    """Its certificate holds for long."""
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        served.listener.revoked = lambda: {"node/n3"}
        for name, is_taken in (("n3", False), ("n2", True)):
            taken, over = [], asyncio.Event()
            served.listener.accept = dict.fromkeys(Purpose, lambda guest: (taken.append(guest), over.set()))  # noqa: B023
            connection = await connect(served.address, purpose, air.node(name), "node/n1")
            connection.send(b"")
            connection.take_up(lambda _frame: None, lambda _why: over.set())  # noqa: B023
            await over.wait()
            assert bool(taken) == is_taken
            connection.abort()


async def test_a_node_that_was_replaced_is_told_so(air: Identities, caplog: pytest.LogCaptureFixture) -> None:
    """It says which cluster it means before its first call, and was refused in silence; its log says so once."""
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        served.listener.revoked = lambda: {"node/n3"}
        channel = PeerChannel(served.address, lambda: "air.1", air.node("n3"), "node/n1")
        for _ in range(3):
            with pytest.raises(NoAnswer, match="node n3 of cluster air is revoked"):
                await channel.call(STATE, REQUEST, pb.GetTransactionStateResponse, QUICK)
        await channel.close()
    told = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert told == [f"{served.address}: node n3 of cluster air is revoked"]


async def test_a_node_learns_from_the_refusal_that_it_is_gone(air: Identities, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asked for ever. One whose name is revoked, and which is a node as before, may count again."""
    monkeypatch.setattr(following, "CALL_SECONDS", 0.1)
    async with Served(tls=air.node()) as served, asyncio.timeout(QUICK):
        served.listener.revoked = lambda: {"node/n3", "node/n4"}
        served.listener.is_gone = lambda found: found.name == "n3"
        for name, hint in (("n3", GONE), ("n4", "")):
            channel = PeerChannel(served.address, lambda: "air.1", air.node(name), "node/n1")
            with pytest.raises(NoAnswer, match=f"node {name} of cluster air is revoked") as caught:
                await channel.call(STATE, REQUEST, pb.GetTransactionStateResponse, QUICK)
            await channel.close()
            assert caught.value.hint == hint
        heard, nodes = asyncio.Event(), {"n1": NodeInfo(served.address, ())}
        cluster = ClusterMap(CatalogState(100, nodes, {CATALOG: ("n1",)}, {}, 3, 1, cluster_id="air.1", version=1))
        client = TxnSystemClient(cluster, Environment(), tls=air.node("n3"), gone=heard.set)
        run = asyncio.create_task(following.CatalogClient(client).run())
        await heard.wait()
        run.cancel()
        await client.close()


async def test_a_revoked_certificate_is_refused_over_grpc(
    air: Identities, tmp_path_factory: pytest.TempPathFactory
) -> None:

    node = tmp_path_factory.mktemp("grpc")
    air.authority.issue(Kind.NODE, "n1", node, hosts=["localhost"])

    files = air.files(Kind.USER, "alice")
    credentials = grpc.ssl_channel_credentials(
        air.authority.pem, (files / "key.pem").read_bytes(), (files / "certificate.pem").read_bytes()
    )
    async with Served() as served, asyncio.timeout(QUICK):
        revoked: set[str] = set()
        server, port = GrpcServer(served.registry, tls.within(node), lambda: revoked), free_address().rpartition(":")[2]
        server.bind(f"127.0.0.1:{port}")
        await server.start()
        async with grpc.aio.secure_channel(f"localhost:{port}", credentials) as channel:
            ask = channel.unary_unary(f"/{STATE}", pb.GetTransactionStateRequest.SerializeToString, bytes)
            await ask(REQUEST)
            number = load_pem_x509_certificate((files / "certificate.pem").read_bytes()).serial_number
            for what in ("user/alice", of_serial(number)):
                revoked.add(what)
                with pytest.raises(grpc.aio.AioRpcError, match="is revoked"):
                    await ask(REQUEST)
                revoked.clear()
            await ask(REQUEST)
        await server.stop()


@pytest.mark.parametrize(
    ("revoked", "counts"),
    [
        (set(), True),
        ({"user/alice"}, False),
        ({"node/alice", "host/alice", "user/alic", "user/alicea"}, True),
        ({"serial/5F"}, False),
        ({"serial/5"}, True),
        ({"serial/0"}, True),
    ],
)
def test_a_name_and_a_certificate_are_what_is_revoked_and_nothing_like_them(revoked: set[str], counts: bool) -> None:
    assert is_revoked(ALICE.kind, ALICE.name, 0x5F, revoked) != counts
