"""Late: begins beyond a user's rate wait for their turn, refusals too; and nothing else waits behind them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.unit.harness.answering import SECONDS, STATE, Served
from tests.unit.harness.identities import REQUEST, Identities
from txnclient.calls.channel import ManagerChannel
from txnclient.calls.connections import Connections
from txnstatus.errors import LimitReached
from txnstatus.pace import AT_ONCE
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.channel import PeerChannel
from txnstatus.rpc.connection import Purpose
from txnstatus.security.access import BEGIN
from txnstatus.security.principals import Kind, Principal
from txnstatus.shares import BEGINS, READS, Shares

RATE = 5
METHOD = pb.DESCRIPTOR.services_by_name["TxnManager"].methods_by_name["BeginTransaction"]
ALICE = Principal("air", Kind.USER, "alice")


async def begins(request: pb.BeginTransactionRequest) -> pb.BeginTransactionResponse:
    return pb.BeginTransactionResponse(txn_ids=range(request.count or 1))


@asynccontextmanager
async def served(air: Identities) -> AsyncIterator[Served]:
    async with Served(tls=air.node()) as there, asyncio.timeout(2 * SECONDS):
        there.registry.access.users.shares = Shares(begins_per_second=RATE)
        there.registry.add_method(METHOD, begins)
        yield there


async def begin(channel: PeerChannel, seconds: float = SECONDS) -> float:
    """When it was answered."""
    await channel.call(BEGIN, pb.BeginTransactionRequest(), pb.BeginTransactionResponse, seconds)
    return asyncio.get_running_loop().time()


async def until(condition: Callable[[], bool]) -> None:
    while True:
        if condition():
            return
        await asyncio.sleep(0.01)


async def test_what_is_a_little_early_begins_late_and_the_rest_is_refused_at_the_rate_in_time(tmp_path: Path) -> None:
    air = Identities(tmp_path)
    async with served(air) as there:
        channel = PeerChannel(there.address, tls=air.user("alice"), purpose=Purpose.CALLS)
        other = PeerChannel(there.address, tls=air.user("bob"), purpose=Purpose.CALLS)
        answered = 0
        began = asyncio.get_running_loop().time()

        async def one() -> LimitReached | None:
            nonlocal answered
            try:
                await begin(channel, 5.0)
            except LimitReached as refusal:
                return refusal
            finally:
                answered += 1
            return None

        tasks = [asyncio.create_task(one()) for _ in range(200)]
        for _ in range(5):
            answer = await channel.call(STATE, REQUEST, pb.GetTransactionStateResponse, SECONDS)
            assert answer.txn.txn_id == REQUEST.txn_id, "what else he asks over that connection"
            await begin(other)
        took = asyncio.get_running_loop().time() - began
        assert took > 4.0 or answered <= RATE + 2 * RATE * (took + 1), "begins come at the rate, and refusals at it"
        refusals = [each for each in await asyncio.gather(*tasks) if each is not None]
        took = asyncio.get_running_loop().time() - began
        assert took >= 4.0, "most wait for nearly as long as whoever asks"
        assert RATE < 200 - len(refusals) <= RATE + RATE * (took + 1)
        assert all("user_begins_per_second = 5 are possible" in each.message for each in refusals)
        assert all(each.again_seconds > 0 for each in refusals)
        assert not there.registry.access.users._uses["alice"].begins.late
        await asyncio.gather(channel.close(), other.close())


async def test_refusals_are_waited_for_no_more_once_the_connection_has_ended(tmp_path: Path) -> None:
    air = Identities(tmp_path)
    async with served(air) as there:
        channel = PeerChannel(there.address, tls=air.user("alice"), purpose=Purpose.CALLS)
        pace = there.registry.access.users._use("alice").begins
        tasks = [asyncio.create_task(begin(channel)) for _ in range(20 * RATE)]
        await until(lambda: pace.late >= 10)
        await channel.close()
        await until(lambda: not pace.late)
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_client_asks_again_when_it_helps_and_its_program_notices_nothing(tmp_path: Path) -> None:
    air, pauses = Identities(tmp_path), list[float]()
    async with served(air) as there:
        users = there.registry.access.users
        users.turn("alice", BEGINS, 4 * RATE, asyncio.get_running_loop().time(), 1.0)

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            users._use("alice").begins.had = 0.0  # the time has come

        channel = ManagerChannel([there.address], Connections(air.user("alice")), pause=pause)
        request, response = pb.BeginTransactionRequest(), pb.BeginTransactionResponse
        answer = await asyncio.to_thread(channel.call, BEGIN, request, response, timeout=SECONDS)
        assert list(answer.txn_ids) == [0]
        assert len(pauses) == 1
        assert 2.0 < pauses[0] < 1.5 * 2.2

        users.turn("alice", BEGINS, 100 * RATE, asyncio.get_running_loop().time(), 1.0)
        with pytest.raises(LimitReached, match="user_begins_per_second = 5 are possible"):
            await asyncio.to_thread(channel.call, BEGIN, request, response, timeout=2.0)
        assert len(pauses) == 1, "it would be too late"
        channel.close()


async def test_calls_of_grpc_and_of_the_console_wait_and_are_refused_likewise(tmp_path: Path) -> None:
    async with served(Identities(tmp_path)) as there:
        registry, request = there.registry, pb.BeginTransactionRequest(count=RATE).SerializeToString()
        users, loop = registry.access.users, asyncio.get_running_loop()
        await registry.call(BEGIN, request, caller=ALICE)
        began = loop.time()
        await registry.call(BEGIN, request, caller=ALICE)
        assert loop.time() - began > 0.8
        users.turn("alice", BEGINS, 100 * RATE, loop.time(), 1.0)
        with pytest.raises(LimitReached, match="user_begins_per_second = 5"):
            await registry.call(BEGIN, request, seconds=1.0, caller=ALICE)
        users._use("alice").begins.refused_until = loop.time() + 10.0
        waits = asyncio.create_task(registry.call(BEGIN, request, seconds=60.0, caller=ALICE))
        await until(lambda: users._use("alice").begins.late > 0)
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)
        assert waits.cancelled()
        assert not users._use("alice").begins.late
        assert users.turn("bob", BEGINS, 1, loop.time(), 1.0).seconds == AT_ONCE.seconds


async def test_questions_wait_and_are_refused_by_their_own_limit(tmp_path: Path) -> None:
    async with served(Identities(tmp_path)) as there:
        registry = there.registry
        registry.access.users.shares = Shares(begins_per_second=RATE, reads_per_second=1)
        request, began = REQUEST.SerializeToString(), asyncio.get_running_loop().time()
        for _ in range(2):
            await registry.call(STATE, request, caller=ALICE)
        assert asyncio.get_running_loop().time() - began > 0.8
        await registry.call(BEGIN, b"", caller=ALICE)
        registry.access.users.turn("alice", READS, 50, asyncio.get_running_loop().time(), 1.0)
        with pytest.raises(LimitReached, match=r"alice can ask 1 more in .* s: user_reads_per_second = 1"):
            await registry.call(STATE, request, seconds=0.5, caller=ALICE)
