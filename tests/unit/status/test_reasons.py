"""What a manager's caller is told in its time: the manager tried for 15 s, and its caller had long given up on it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.harness.calls import answered
from tests.unit.harness.ranges import Channel, World, finished
from tests.unit.harness.status_leader import GONE, OWNER, TXN, A, Leader
from txnmanager.keepers import Keepers
from txnmanager.txn_manager import TxnManager
from txnstatus.errors import CommitUnknown, Overloaded, Unavailable
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc.deadlines import answer_by, answering_by
from txnstatus.rpc.errors import from_detail
from txnstatus.status import commands as cmd
from txnstatus.status.ranges import StatusRanges
from txnstatus.status.table import TxnStatusTable
from txnstatus.types import TxnState

pytestmark = pytest.mark.virtual_time


async def begun_in_two_ranges(world: World) -> None:
    """0 and 1 in the first range, 2 in the second."""
    for number in range(3):
        await answered(world.ranges().begin, pb.BeginTransactionRequest(request_id=str(number), owner=OWNER))
    for service in world.services.values():
        service.on_leadership(True)


def manager_of(world: World, ranges: StatusRanges) -> TxnManager:
    client = world.client()
    return TxnManager(client, ranges, Keepers(client))


async def test_a_range_without_a_majority_does_not_silence_the_others() -> None:
    """A beat was answered when all of its ranges had answered: too late for all of them."""
    world = World(span=2)
    await begun_in_two_ranges(world)
    world.unavailable = {"status-0"}
    before = world.loop.time()
    with answering_by(answer_by(2.0)):
        answer = await manager_of(world, world.ranges()).keep_transaction_alive(
            pb.KeepTransactionAliveRequest(txn_ids=[0, 1, 2], owner=OWNER)
        )
    assert world.loop.time() - before < 2.0, "the caller is still there"
    refused = {each.txn_id: from_detail(each.error) for each in answer.refused}
    assert sorted(refused) == [0, 1]
    for error in refused.values():
        assert error.retriable
        assert "nobody leads status-0" in error.message


async def test_whoever_asks_hears_in_its_time_what_was_tried_and_why_it_failed() -> None:
    world = World()
    world.unavailable = {"status-0"}
    before = world.loop.time()
    with pytest.raises(Unavailable) as caught, answering_by(answer_by(3.0)):
        await answered(world.ranges().begin, pb.BeginTransactionRequest(request_id="r", owner=OWNER))
    assert world.loop.time() - before < 3.0
    for part in ("no leader of status-0", "within 2.7 s", "attempts", "n1: nobody leads status-0"):
        assert part in caught.value.message


async def test_a_full_queue_is_told_as_what_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()

    async def overloaded(*_: Any) -> Any:
        raise Overloaded("1000 requests already wait")

    monkeypatch.setattr(Channel, "call", overloaded)
    with pytest.raises(Overloaded, match="n1: 1000 requests already wait"), answering_by(answer_by(1.0)):
        await answered(world.ranges().begin, pb.BeginTransactionRequest(request_id="r", owner=OWNER))


def test_a_commit_that_is_held_up_says_by_whom_and_what_they_answer() -> None:
    leader = Leader()
    leader.begin(A)
    leader.commit()
    assert leader.manager.waits_for(TXN) == "air.flights (asked 1 times: no answer yet)"
    leader.answer(A, leader.manager.task_of(TXN).op, error=GONE)  # type: ignore[union-attr]
    assert leader.manager.waits_for(TXN) == "air.flights (asked 1 times: nobody answered)"


async def test_a_commit_whose_first_answer_was_lost_and_whose_record_is_gone_is_not_said_to_be_forgotten() -> None:
    """The manager asks again by itself; its caller asked once, and took Forgotten for `it was over before`."""
    world = World(stepped=True)
    ranges = world.ranges()
    await finished(answered(ranges.begin, pb.BeginTransactionRequest(request_id="r", owner=OWNER)), world)

    def forget(_number: int, _command: cmd.Command, table: TxnStatusTable) -> None:
        table.apply(cmd.Forget(10**18))

    world.on_apply = forget
    request = pb.CommitTransactionRequest(txn_id=0, owner=OWNER)
    call = asyncio.ensure_future(answered(manager_of(world, ranges).commit_transaction, request))
    for _ in range(2):  # the request, the entry; and the reply comes too late
        await asyncio.sleep(0.01)
        world.pending.pop(0).go_on()
    await asyncio.sleep(5.0)
    world.pending.clear()
    with pytest.raises(CommitUnknown, match="transaction 0 is finished and forgotten"):
        await finished(call, world)


async def test_a_commit_of_what_is_forgotten_for_long_is_said_to_be() -> None:
    world = World()
    await answered(world.ranges().begin, pb.BeginTransactionRequest(request_id="r", owner=OWNER))
    manager, request = manager_of(world, world.ranges()), pb.CommitTransactionRequest(txn_id=0, owner=OWNER)
    assert TxnState((await answered(manager.commit_transaction, request)).txn.state) is TxnState.COMMITTED
    world.apply(0, cmd.Forget(10**18))
    with pytest.raises(Exception, match="finished and forgotten") as caught:
        await answered(manager.commit_transaction, request)
    assert not isinstance(caught.value, CommitUnknown)
