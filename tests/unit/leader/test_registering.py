"""Registering, where it is no story: the command that withdraws, and what registering many costs. The stories are in
the folder `scenarios`."""

from __future__ import annotations

import pytest

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.calls import answered
from tests.unit.harness.leader.shard_service import TABLE, TABLE_ID, Status, shard_service
from tests.unit.harness.ranges import World
from txnparticipant.shard import commands as cmd
from txnparticipant.upkeep.in_doubt import IN_DOUBT_SECONDS
from txnparticipant.versions.mvcc import Manifest
from txnstatus.errors import NotAuthorized
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.types import Timestamp, TxnId

TXN, ALICE, BOB = TxnId(7), "alice", "bob"


def test_a_withdrawal_takes_one_write_and_nothing_else() -> None:
    shard = shard_service().shard
    empty = shard.snapshot()
    first, withdraw = (
        cmd.OpenWrite(TXN, TABLE_ID, ALICE, "write0001", begins=True),
        cmd.Withdraw(TXN, TABLE_ID, "write0001"),
    )
    files = cmd.AddFiles(TXN, TABLE_ID, ALICE, "write0001", Manifest("file:///m", 1, 1, 1, 1, 1), begins=True)
    for begins in (first, files):
        for command in (begins, withdraw):
            shard.apply(command)
        assert shard.snapshot() == empty
    shard.apply(withdraw)
    assert shard.snapshot() == empty
    more: list[cmd.Command] = [
        cmd.OpenWrite(TXN, TABLE_ID, ALICE, "write0002"),
        cmd.AddFiles(TXN, TABLE_ID, ALICE, "write0002", Manifest("file:///m", 1, 1, 1, 1, 1)),
        cmd.BeginCommit(TXN, TABLE_ID, Timestamp(9)),
    ]
    for command in more:
        shard.apply(first)
        shard.apply(command)
        before = shard.snapshot()
        assert hasattr(shard.apply(withdraw), "error")
        assert shard.snapshot() == before
        shard.apply(cmd.AbortTxn(TXN, TABLE_ID))
        shard.restore(empty)
    shard.apply(begin_txn(TXN, TABLE_ID, ALICE))
    shard.apply(cmd.AbortTxn(TXN, TABLE_ID))
    before = shard.snapshot()
    shard.apply(withdraw)
    assert shard.snapshot() == before, "a tombstone stays"
    shard.check_invariants()


async def test_a_pass_asks_for_a_part() -> None:
    service = shard_service(status := Status())
    for number in range(1_200):
        service.shard.apply(cmd.OpenWrite(TxnId(number), TABLE_ID, ALICE, "w", begins=True))
    for now in (0.0, IN_DOUBT_SECONDS):
        await service._registering.resolve(now)
    assert status.registrations == 1_000
    for now in (IN_DOUBT_SECONDS, 2 * IN_DOUBT_SECONDS):
        await service._registering.resolve(now)
    assert status.registrations == 1_200
    service.shard.check_invariants()


@pytest.mark.virtual_time
async def test_registering_again_costs_the_status_table_no_entry() -> None:
    """A new leader asks for all that is open."""
    world = World()
    service = world.services[0]
    service.on_leadership(True)
    await answered(world.ranges().begin, manager_pb.BeginTransactionRequest(request_id="first", owner=ALICE))
    entries: list[object] = []
    world.on_apply = lambda _number, command, _table: entries.append(command)
    for _ in range(2):
        assert await world.ranges().register(TxnId(0), ALICE, TABLE_ID, TABLE) is None
    assert len(entries) == 1
    assert isinstance(await world.ranges().register(TxnId(0), BOB, TABLE_ID, TABLE), NotAuthorized)
    await service.stop()
