"""What becomes of transactions when a leader's wall clock jumps, by minutes or hours, ahead or back."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.harness.calls import answered
from tests.unit.harness.ranges import World
from txnstatus.catalog.options import Options
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.status.events import Tick
from txnstatus.status.service import StatusService
from txnstatus.types import TxnId, TxnState

pytestmark = pytest.mark.virtual_time

OWNER = "ada"
JUMPS = [seconds * sign * 1_000_000 for seconds in (300, 10 * 3600, 400 * 86_400) for sign in (1, -1)]
RETENTION_SECONDS = 3_600.0


async def begun(world: World, request_id: str) -> TxnId:
    request = pb.BeginTransactionRequest(request_id=request_id, owner=OWNER, keepalive_millis=60_000)
    return TxnId((await answered(world.ranges().begin, request)).txn_ids[0])


async def committed(world: World, request_id: str) -> TxnId:
    txn_id = await begun(world, request_id)
    request = pb.CommitTransactionRequest(txn_id=txn_id, owner=OWNER)
    await world.ranges().call(txn_id, "CommitTransaction", request, pb.CommitTransactionResponse)
    return txn_id


async def state_when_asked_again(world: World, txn_id: TxnId) -> TxnState:
    """What a client is told that commits once more, because it did not get the answer. Raises Forgotten."""
    request = pb.CommitTransactionRequest(txn_id=txn_id, owner=OWNER)
    answer = await world.ranges().call(txn_id, "CommitTransaction", request, pb.CommitTransactionResponse)
    return TxnState(answer.txn.state)


async def live(world: World, seconds: float) -> None:
    """Time goes on, for the wall clock too, and the leader ticks."""
    service = leader(world)
    for _ in range(round(seconds)):
        await asyncio.sleep(1.0)
        world.wall_micros += 1_000_000
        service._handle([Tick()])
        await asyncio.sleep(0)


def leader(world: World) -> StatusService:
    return world.services[0]


def lead(world: World) -> None:
    """Another replica, on the world's clock as it is now, leads from here on."""
    leader(world).on_leadership(False)
    leader(world).on_leadership(True)


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_jump_under_a_leader_forgets_nothing_early_and_all_in_time(jump: int) -> None:
    world = World(options=Options(retention_ms=int(RETENTION_SECONDS * 1000)))
    lead(world)
    before = await committed(world, "before")
    await live(world, 2)
    world.wall_micros += jump
    after = await committed(world, "after")
    await live(world, RETENTION_SECONDS - 60)
    for txn_id in (before, after):
        assert await state_when_asked_again(world, txn_id) is TxnState.COMMITTED
    await live(world, 120)
    assert list(leader(world).table.records()) == []


@pytest.mark.parametrize("skew", JUMPS)
async def test_a_new_leader_whose_clock_is_elsewhere_tells_of_what_was_just_committed(skew: int) -> None:
    world = World(options=Options(retention_ms=int(RETENTION_SECONDS * 1000)))
    lead(world)
    txn_id = await committed(world, "before")
    world.wall_micros += skew
    lead(world)
    await live(world, leader(world).manager.settings.forget_grace_seconds - 10)
    assert await state_when_asked_again(world, txn_id) is TxnState.COMMITTED


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("new_leader", [False, True])
async def test_a_jump_ends_no_lifetime(jump: int, new_leader: bool) -> None:
    world = World(options=Options(max_lifetime_ms=30_000))
    lead(world)
    txn_id = await begun(world, "request")
    world.wall_micros += jump
    if new_leader:
        lead(world)
    await live(world, 25)
    assert leader(world).table.get(txn_id).state is TxnState.OPEN
    await live(world, 10)
    assert leader(world).table.get(txn_id).state is TxnState.ABORTED
