"""Commits whose record is forgotten at once: with a retention of some milliseconds they were answered Forgotten."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.harness.calls import answered
from tests.unit.harness.ranges import World
from txnstatus.errors import Forgotten
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.status import commands as cmd
from txnstatus.status.events import ParticipantAnswered
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import Participant, ParticipantId, ParticipantOpType, Timestamp, TxnId, TxnState

pytestmark = pytest.mark.virtual_time

OWNER = "ada"
TABLE = ParticipantId("0.0")
LATER = 10**18


async def begun(world: World) -> TxnId:
    """Everything that ends is forgotten before whoever waits for it has another turn."""

    def forget(_number: int, _command: cmd.Command, table: TxnStatusTable) -> None:
        table.apply(cmd.Forget(LATER))

    world.on_apply = forget
    world.services[0].on_leadership(True)
    request = pb.BeginTransactionRequest(request_id="request", owner=OWNER, keepalive_millis=60_000)
    return TxnId((await answered(world.ranges().begin, request)).txn_ids[0])


async def commit(world: World, txn_id: TxnId, wait_millis: int) -> pb.CommitTransactionResponse:
    request = pb.CommitTransactionRequest(txn_id=txn_id, owner=OWNER, wait_millis=wait_millis)
    return await world.ranges().call(txn_id, "CommitTransaction", request, pb.CommitTransactionResponse)


@pytest.mark.parametrize("wait_millis", [0, 1_000])
async def test_a_commit_without_participants_is_answered_with_what_it_came_to(wait_millis: int) -> None:
    world = World()
    txn_id = await begun(world)
    assert TxnState((await commit(world, txn_id, wait_millis)).txn.state) is TxnState.COMMITTED
    with pytest.raises(Forgotten):
        await commit(world, txn_id, wait_millis)


@pytest.mark.parametrize("asks", ["commit", "state"])
async def test_whoever_waits_for_a_commit_is_answered_with_what_it_came_to(asks: str) -> None:
    world = World()
    txn_id = await begun(world)
    service, ranges = world.services[0], world.ranges()
    world.apply(0, cmd.RegisterParticipants(txn_id, OWNER, (Participant(TABLE, "air.flights"),)))
    asked = pb.GetTransactionStateRequest(txn_id=txn_id, wait_millis=1_000)
    waiting = asyncio.ensure_future(
        commit(world, txn_id, 1_000)
        if asks == "commit"
        else ranges.call(txn_id, "GetTransactionState", asked, pb.GetTransactionStateResponse)
    )
    await asyncio.sleep(0.01)
    if asks == "state":
        await commit(world, txn_id, 0)
    for op in (ParticipantOpType.BEGIN_COMMIT, ParticipantOpType.FINALIZE_COMMIT):
        service._handle([ParticipantAnswered(txn_id, TABLE, op, Timestamp(7), None)])
    assert service.table.find(txn_id) is None, "it is forgotten before anybody was answered"
    assert TxnState((await waiting).txn.state) in (TxnState.FINALIZE_IN_PROGRESS, TxnState.COMMITTED)
