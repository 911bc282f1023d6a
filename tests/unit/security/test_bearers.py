"""Connections of those who show a ticket in place of a certificate: who is let in, for how long, and what is told."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.unit.harness.answering import SECONDS, STATE, Served
from tests.unit.harness.identities import Identities, awaiting, blocking
from tests.unit.harness.tickets import CLUSTER_ID, KEY, NOW, TICKET, Clock, bearers
from txnclient.aio import stepping
from txnclient.aio.lines import Lines
from txnclient.calls.channel import ManagerChannel
from txnclient.calls.connections import Connections
from txnstatus.errors import NotAuthorized, Unauthenticated, Unavailable
from txnstatus.proto import rpc_pb2, table_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.connection import Purpose, connect
from txnstatus.security.principals import Principal, Scope
from txnstatus.security.refusals import TOLD
from txnstatus.security.showing import ShownTicket
from txnstatus.security.tickets import Ticket, sign
from txnstatus.types import TxnId

QUICK = 5.0
MINE = replace(TICKET, scope=Scope(TxnId(2)))
CLIENTS = pytest.mark.parametrize("ask", [blocking, awaiting])
SCAN = table_pb2.ScanRequest(txn_id=2, table="air.flights")


@pytest.fixture(scope="module")
def air(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities(tmp_path_factory.mktemp("air"))


def shown(air: Identities | None, ticket: Ticket = MINE, number: int = 2, key: bytes = KEY) -> ShownTicket:
    """`air` None: for nodes without TLS."""
    return ShownTicket(sign(ticket, number, key), air.authority.pem if air else b"")


def serving(air: Identities | None, clock: Clock) -> Served:
    return Served(tls=air.node() if air else None, bearers=bearers(clock))


@CLIENTS
@pytest.mark.parametrize("secure", [True, False])
async def test_a_ticket_needs_no_certificate_and_does_nothing_else(ask, air: Identities, secure: bool) -> None:  # type: ignore[no-untyped-def]
    by = air if secure else None
    async with serving(by, Clock()) as served, asyncio.timeout(QUICK):
        assert await ask(shown(by), served.address) == 2
        with pytest.raises(NotAuthorized, match="a token of transaction 7 does not allow this GetTransactionState"):
            await ask(shown(by, TICKET), served.address)
        assert served.manager.asked == 1


@CLIENTS
@pytest.mark.parametrize(
    ("ticket", "number", "key"),
    [
        (replace(MINE, expires=int(NOW)), 2, KEY),
        (replace(MINE, cluster_id="air.2"), 2, KEY),
        (MINE, 2, bytes(32)),
        (MINE, 1, KEY),
    ],
    ids=["too old", "of another cluster", "forged", "by another key"],
)
async def test_a_ticket_that_does_not_hold_is_told_nothing_more_and_the_log_has_why(  # type: ignore[no-untyped-def]
    ask, ticket: Ticket, number: int, key: bytes, air: Identities, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(air, Clock()) as served, asyncio.timeout(QUICK):
        with pytest.raises(Unauthenticated) as caught:
            await ask(shown(air, ticket, number, key), served.address)
        assert caught.value.message == f"{served.address}: {TOLD}"
        assert not served.manager.asked
    assert "a connection is refused: a ticket " in caplog.text


async def test_a_ticket_of_a_newer_key_is_asked_for_elsewhere(air: Identities) -> None:
    async with serving(air, Clock()) as old, asyncio.timeout(SECONDS):
        with pytest.raises(Unavailable, match="has not heard yet of the key"):
            await asyncio.to_thread(_ask, [old.address], shown(air, number=3), 2.0)


def _ask(addresses: list[str], by: ShownTicket, timeout: float) -> int:
    channel = ManagerChannel(addresses, Connections(by))
    try:
        request = pb.GetTransactionStateRequest(txn_id=2)
        return channel.call(STATE, request, pb.GetTransactionStateResponse, timeout=timeout).txn.txn_id
    finally:
        channel.close()


async def test_many_calls_of_a_line_that_is_refused_hear_it_at_once(air: Identities) -> None:
    async with serving(air, Clock()) as served, asyncio.timeout(QUICK):
        lines = Lines(shown(air, key=bytes(32)))
        asked = [awaiting_over(lines, served.address) for _ in range(20)]
        heard = await asyncio.gather(*asked, return_exceptions=True)
        lines.hang_up()
        assert {type(each) for each in heard} == {Unauthenticated}


async def awaiting_over(lines: Lines, address: str) -> object:
    request = pb.GetTransactionStateRequest(txn_id=2).SerializeToString()
    return await stepping.run(lambda: lines.call(address, STATE, request, SECONDS))


async def test_a_connection_ends_as_what_was_shown_expires(air: Identities) -> None:
    clock = Clock()
    async with serving(air, clock) as served, asyncio.timeout(QUICK):
        soon = replace(MINE, expires=int(NOW) + 1)
        clock.seconds = soon.expires - 0.2
        connections = Connections(shown(air, soon))
        request = pb.GetTransactionStateRequest(txn_id=2).SerializeToString()
        await asyncio.to_thread(connections.call, served.address, STATE, request, SECONDS)
        (guest,) = served.listener.connections
        ended = asyncio.Event()
        take_up = guest._on_end
        guest.take_up(guest._on_frame, lambda why: (take_up and take_up(why), ended.set())[1])
        await ended.wait()
        clock.seconds = soon.expires
        reply = await asyncio.to_thread(connections.call, served.address, STATE, request, SECONDS)
        assert reply.error.message == TOLD
        connections.close()


@pytest.mark.parametrize("purpose", [Purpose.PEER_CALLS, Purpose.RAFT])
async def test_nobody_is_a_process_of_the_cluster_by_a_ticket(air: Identities, purpose: Purpose) -> None:
    async with serving(air, Clock()) as served, asyncio.timeout(QUICK):
        raft: list[object] = []
        served.listener.accept[Purpose.RAFT] = raft.append
        connection, ended = await connect(served.address, purpose, shown(air)), asyncio.Event()
        said: list[bytes] = []
        credential = shown(air).credential()
        hello = rpc_pb2.Frame.Hello(cluster_id=CLUSTER_ID, credential=credential)
        connection.send(rpc_pb2.Frame(hello=hello).SerializeToString())
        connection.take_up(said.append, lambda _why: ended.set())
        await ended.wait()
        assert not raft
        assert not served.manager.asked


async def test_a_certificate_counts_before_what_is_shown_beside_it(air: Identities) -> None:
    async with serving(air, Clock()) as served, asyncio.timeout(QUICK):
        connection, heard = await connect(served.address, Purpose.CALLS, air.user()), asyncio.Queue[bytes]()
        hello = rpc_pb2.Frame.Hello(credential=shown(air, key=bytes(32)).credential())
        connection.send(rpc_pb2.Frame(hello=hello).SerializeToString())
        request = pb.GetTransactionStateRequest(txn_id=4).SerializeToString()
        call = rpc_pb2.Call(id=1, method=STATE, payload=request, timeout_millis=5_000)
        connection.send(rpc_pb2.Frame(calls=[call]).SerializeToString())
        connection.take_up(heard.put_nowait, lambda _why: None)
        (reply,) = rpc_pb2.Frame.FromString(await heard.get()).replies
        assert pb.GetTransactionStateResponse.FromString(reply.payload).txn.txn_id == 4
        connection.close()


# ---- when the transaction has ended


class Tables:
    """A shard's leader: it would answer a scan, whatever became of the transaction that it is for."""

    def __init__(self) -> None:
        self.scanned = 0

    async def scan(self, _request: table_pb2.ScanRequest) -> table_pb2.ScanResponse:
        self.scanned += 1
        return table_pb2.ScanResponse()


@pytest.mark.parametrize("is_open", [True, False])
async def test_what_would_be_answered_after_the_end_asks_first_whether_there_was_one(
    air: Identities, is_open: bool
) -> None:
    asked: list[int] = []

    async def require_open(txn_id: TxnId) -> None:
        asked.append(txn_id)
        if not is_open:
            raise NotAuthorized("it is over")

    def scan(connections: Connections) -> rpc_pb2.Reply:
        return connections.call(served.address, "txnstatus.Table/Scan", SCAN.SerializeToString(), SECONDS)

    async with serving(air, Clock()) as served, asyncio.timeout(QUICK):
        tables = Tables()
        served.registry.add(table_pb2.DESCRIPTOR.services_by_name["Table"], tables)
        ticket = replace(MINE, scope=Scope(TxnId(2), ("air.flights",)))
        connections = Connections(shown(air, ticket))
        assert (await asyncio.to_thread(scan, connections)).error.code == "UNAVAILABLE", "nobody can tell"
        served.registry.require_open = require_open
        reply = await asyncio.to_thread(scan, connections)
        assert (reply.error.code, tables.scanned, asked) == (("", 1, [2]) if is_open else ("NOT_AUTHORIZED", 0, [2]))
        users = Connections(air.user())
        assert not (await asyncio.to_thread(scan, users)).error.code
        assert asked == [2], "others are asked nothing"
        for each in (connections, users):
            each.close()


def test_who_acts_by_a_ticket_is_told_from_who_acts_by_themselves() -> None:
    principal: Principal = TICKET.principal
    assert str(principal) == "user alice, by a token of transaction 7, of cluster air"
    assert principal != replace(principal, scope=None)
