"""Shares: who takes more than its own is refused, with the limit's name and value, and nobody else is."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.harness.answering import SECONDS, STATE, Served
from tests.unit.harness.identities import REQUEST, Identities
from txnclient.calls.channel import ManagerChannel
from txnclient.calls.connections import Connections
from txnstatus.errors import LimitReached, TxnError
from txnstatus.proto import table_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.server import Registry
from txnstatus.security.access import PACED, Access
from txnstatus.security.authority import CALLS
from txnstatus.security.principals import Kind, Principal
from txnstatus.shares import BEGINS, FEW, LOCK, READS, Shares, Users

SCAN = "txnstatus.Table/Scan"


def users(**shares: int) -> Users:
    made = Users()
    made.shares = Shares(**shares)
    return made


def begin(there: Users, user: str, count: int, now: float) -> bool:
    """Whether they begin at once."""
    turn = there.turn(user, BEGINS, count, now, SECONDS)
    return not turn.is_refused and turn.seconds == 0.0


def test_each_limit_is_named_with_its_value_and_holds_for_each_user_by_itself() -> None:
    there = users(connections=2, begins_per_second=3, calls_mib=1, lock_waits=1)
    for _ in range(2):
        there.connected("ada")
    with pytest.raises(LimitReached, match="ada has 2 connections to this node: user_connections = 2"):
        there.connected("ada")
    there.connected("bob")
    there.disconnected("ada")
    there.connected("ada")

    assert begin(there, "ada", 3, 10.0)
    turn = there.turn("ada", BEGINS, 3, 10.0, 0.9)
    assert turn.is_refused
    reached = there.told("ada", BEGINS, turn, 10.0)
    assert reached.message.startswith("ada can begin 3 more in 1.00 s: user_begins_per_second = 3")
    assert reached.hint.startswith("wait, or begin fewer a second; ")
    assert begin(there, "bob", 3, 10.0)
    assert begin(there, "ada", 1, 10.4)

    there.answers("ada", SCAN, 1 << 19)
    there.answers("ada", SCAN, 1 << 19)
    with pytest.raises(LimitReached, match="ada has calls of 1048576 bytes under way: user_calls_mib = 1"):
        there.answers("ada", SCAN, 1)
    there.answers("bob", SCAN, 1 << 30)  # one that is alone is answered, however large
    there.answered("ada", SCAN, 1 << 19)
    there.answers("ada", LOCK, 1)
    with pytest.raises(LimitReached, match="ada waits for 1 locks: user_lock_waits = 1"):
        there.answers("ada", LOCK, 1)
    there.answers("ada", SCAN, 1)
    there.answered("ada", LOCK, 1)
    there.answers("ada", LOCK, 1)


def test_a_users_own_limit_holds_in_place_of_that_of_all() -> None:
    there = users(connections=1)
    there.own = {"ada": Shares(connections=2), "bob": Shares()}
    for user in ("ada", "ada", "bob", "bob", "bob", "eve"):
        there.connected(user)
    with pytest.raises(LimitReached, match="ada has 2 connections to this node: user_connections = 2") as reached:
        there.connected("ada")
    assert "txnctl limit set ada user_connections N" in reached.value.hint
    with pytest.raises(LimitReached, match="user_connections = 1"):
        there.connected("eve")


def test_questions_have_a_limit_of_their_own() -> None:
    there = users(begins_per_second=1, reads_per_second=2)
    assert begin(there, "ada", 1, 0.0)
    assert [there.turn("ada", READS, 1, 0.0, 0.9).seconds for _ in range(3)] == [0.0, 0.0, 0.5]
    refused = there.turn("ada", READS, 1, 0.0, 0.9)
    assert refused.is_refused
    told = there.told("ada", READS, refused, 0.0)
    assert told.message == "ada can ask 1 more in 1.00 s: user_reads_per_second = 2 are possible"
    assert told.hint.startswith("wait, or ask fewer a second; ")


def test_what_keeps_or_ends_something_has_no_rate() -> None:
    """It waits behind nothing that its user asks."""
    assert PACED.keys() <= CALLS.keys()
    for held in ("Keep", "Renew", "Commit", "Abort", "Complete", "Fail", "Release", "Lock", "Open", "Add", "Write"):
        assert not [method for method in PACED if method.partition("/")[2].startswith(held)]


def test_without_limits_nothing_is_refused() -> None:
    there = users()
    for number in range(1_000):
        there.connected("ada")
        assert begin(there, "ada", 1_000, 0.0)
        there.answers("ada", (SCAN, LOCK)[number % 2], 1 << 30)


@pytest.mark.parametrize("count", [1, 3])
def test_a_connection_too_many_is_refused_by_name_and_one_that_ended_makes_room(tmp_path: Path, count: int) -> None:
    air = Identities(tmp_path)

    async def ask(address: str, name: str) -> ManagerChannel:
        channel = ManagerChannel([address], Connections(air.user(name)))
        try:
            await asyncio.to_thread(channel.call, STATE, REQUEST, pb.GetTransactionStateResponse, timeout=SECONDS)
        except TxnError:
            channel.close()
            raise
        return channel

    async def ask_until(address: str) -> ManagerChannel:
        """Until the node has heard of the end of the other one."""
        async with asyncio.timeout(10.0):
            while True:
                with contextlib.suppress(LimitReached):
                    return await ask(address, "alice")

    async def run() -> None:
        async with Served(tls=air.node()) as served:
            served.registry.access.users.shares = Shares(connections=count)
            there = [await ask(served.address, "alice") for _ in range(count)]
            with pytest.raises(LimitReached, match=f"user_connections = {count}"):
                await ask(served.address, "alice")
            there.append(await ask(served.address, "bob"))
            there.pop(0).close()
            there.append(await ask_until(served.address))
            for channel in there:
                channel.close()

    asyncio.run(run())


def test_calls_of_grpc_and_of_the_console_count_as_all_others() -> None:
    """They come one by one, over nobody's connection."""
    lock = table_pb2.LockRequest(table="a.t").SerializeToString()

    class Locks:
        def __init__(self) -> None:
            self.asked, self.over = asyncio.Event(), asyncio.Event()

        async def lock(self, _request: table_pb2.LockRequest) -> table_pb2.LockResponse:
            self.asked.set()
            await self.over.wait()
            return table_pb2.LockResponse()

    async def run() -> None:
        registry, locks = Registry(), Locks()
        registry.access = Access(["ada", "bob"])
        registry.access.users.shares = Shares(lock_waits=1)
        registry.add(table_pb2.DESCRIPTOR.services_by_name["Table"], locks)
        ada = Principal("air", Kind.USER, "ada")
        waits = asyncio.create_task(registry.call(LOCK, lock, caller=ada))
        await locks.asked.wait()
        with pytest.raises(LimitReached, match="ada waits for 1 locks: user_lock_waits = 1"):
            await registry.call(LOCK, lock, caller=ada)
        locks.over.set()
        await registry.call(LOCK, lock, caller=replace(ada, name="bob"))
        await waits
        await registry.call(LOCK, lock, caller=ada)

    asyncio.run(run())


def test_users_who_have_nothing_any_more_take_nothing() -> None:
    there = users(begins_per_second=2)
    for number in range(10 * FEW):
        user = f"user/{number}"
        there.connected(user)
        assert begin(there, user, 2, number)
        there.answers(user, LOCK, 7)
        there.disconnected(user)
        there.answered(user, LOCK, 7)
    assert len(there._uses) <= FEW
    assert not begin(there, user, 2, 10 * FEW - 1)


def test_users_who_begin_nothing_are_forgotten_at_once() -> None:
    there = users()
    for number in range(3):
        there.connected(f"user/{number}")
        assert begin(there, f"user/{number}", 2, number)
        there.disconnected(f"user/{number}")
    assert not there._uses
