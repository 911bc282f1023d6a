"""A table becomes a participant beside the first write on it: whatever fails, in whatever order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from tests.unit.harness import ranges as ranges_harness
from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.shard_service import TABLE, TABLE_ID, Log, Status, shard_service
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.table import TableTxn
from txnparticipant.upkeep.in_doubt import IN_DOUBT_SECONDS
from txnparticipant.versions.mvcc import Manifest
from txnstatus.errors import (
    Forgotten,
    IllegalState,
    NotAuthorized,
    NotFound,
    OutcomeUnknown,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.types import ParticipantState, Timestamp, TxnId, TxnState

TXN = TxnId(7)
ALICE, BOB = "alice", "bob"


class World:
    """One shard and the status table, with a transaction of Alice's."""

    def __init__(self) -> None:
        self.status, self.log = Status(), Log()
        self.status.owner = ALICE
        self.service = shard_service(self.status, self.log)
        self.shard = self.service.shard

    @property
    def record(self) -> TableTxn | None:
        return self.shard.record(TABLE_ID, TXN)

    @property
    def kinds(self) -> list[str]:
        return [type(command).__name__ for command in self.log.proposed]

    async def open_write(self, write_id: str = "write0001", owner: str = ALICE) -> str:
        request = table_pb.OpenWriteRequest(txn_id=TXN, owner=owner, table=TABLE, write_id=write_id)
        return (await self.service.open_write(request)).directory

    async def add_files(self, write_id: str = "write0001") -> None:
        path = f"{self.shard.table(TABLE).directory(TXN, write_id)}/m"
        manifest = cmd.manifest_to_wire(Manifest(path, 1, 1, 1, 1, 1))
        request = table_pb.AddFilesRequest(txn_id=TXN, owner=ALICE, table=TABLE, write_id=write_id, manifest=manifest)
        await self.service.add_files(request)

    async def ask(self, op: str) -> pb.ParticipateResponse:
        op_ = pb.ParticipantOp(txn_id=TXN, table_id=TABLE_ID, type=op)
        return await self.service.participate(pb.ParticipateRequest(ops=[op_]))

    async def change_leaders(self) -> None:
        self.service._registering.forget()

    def leftover(self, owner: str = ALICE, write_id: str = "write0001") -> None:
        """What a leader left that died after the write's entry, before it was told that the table is registered."""
        self.shard.apply(cmd.OpenWrite(TXN, TABLE_ID, owner, write_id, begins=True))

    async def look_for_leftovers(self) -> None:
        now = asyncio.get_running_loop().time()
        await self.service._registering.resolve(now - IN_DOUBT_SECONDS)
        await self.service._registering.resolve(now)


async def turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Callable[[World], Awaitable[None]]) -> None:
    async def within() -> None:
        world = World()
        async with asyncio.timeout(10):
            await test(world)
        world.shard.check_invariants()

    asyncio.run(within())


# ---- beside


@pytest.mark.parametrize("written_first", [True, False])
def test_a_first_write_is_answered_when_it_is_written_and_registered(written_first: bool) -> None:
    async def test(world: World) -> None:
        world.status.open.clear()
        world.log.stuck = True
        write = asyncio.ensure_future(world.open_write())
        await turn()
        assert world.status.registrations == 1
        assert world.kinds == ["OpenWrite"], "both are on their way"
        steps = [world.log.unstick, world.status.open.set]
        for step in steps if written_first else reversed(steps):
            assert not write.done()
            step()
            await turn()
        assert write.done()
        assert await world.open_write("write0002")
        assert world.status.registrations == 1, "what this leader has registered itself is known"

    run(test)


@pytest.mark.parametrize(
    ("state", "absent"),
    [
        (TxnState.COMMIT_IN_PROGRESS, None),
        (TxnState.COMMITTED, None),
        (TxnState.ABORTED, TxnAborted("it was silent")),
        (TxnState.OPEN, NotFound("never given out")),
        (TxnState.OPEN, Forgotten("forgotten")),
        (TxnState.OPEN, Unavailable("no leader")),
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_a_write_whose_table_is_not_registered_leaves_nothing(
    state: TxnState, absent: TxnError | None, listed: bool
) -> None:
    """Whoever else registered it: nobody was told of this write, and there is no other."""

    async def test(world: World) -> None:
        world.status.state, world.status.fails = state, absent
        world.status.participants = {TABLE_ID} if listed else set()
        with pytest.raises(type(absent) if absent else IllegalState):
            await world.open_write()
        assert world.record is None
        assert world.kinds == ["OpenWrite", "Withdraw"]

    run(test)


def test_another_owners_write_is_refused_and_keeps_the_owner_from_nothing() -> None:
    async def test(world: World) -> None:
        world.status.open.clear()
        foreign = asyncio.ensure_future(world.open_write("write0009", BOB))
        await turn()
        own = asyncio.ensure_future(world.open_write())
        await turn()
        world.status.open.set()
        with pytest.raises(NotAuthorized):
            await foreign
        assert await own
        assert world.record is not None
        assert (world.record.owner, world.record.claimed) == (ALICE, ["write0001"])

    run(test)


def test_a_write_that_is_refused_by_the_table_leaves_it_registered_and_the_next_one_begins() -> None:
    async def test(world: World) -> None:
        world.log.lost = Unavailable("not now")
        with pytest.raises(Unavailable):
            await world.open_write()
        world.log.lost = None
        assert world.status.participants
        assert await world.open_write()
        assert world.status.registrations == 1

    run(test)


def test_those_that_wait_are_told_why_and_write_nothing() -> None:
    async def test(world: World) -> None:
        world.status.open.clear()
        world.status.fails = Unavailable("no leader")
        writes = [asyncio.ensure_future(world.open_write(f"write000{i}")) for i in range(3)]
        await turn()
        world.status.open.set()
        answers = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(answer) for answer in answers] == [Unavailable] * 3
        assert world.kinds == ["OpenWrite", "Withdraw"]
        assert world.record is None

    run(test)


def test_what_cannot_be_withdrawn_is_told_to_be_unknown_and_not_taken_for_registered() -> None:
    async def test(world: World) -> None:
        world.status.open.clear()
        world.status.fails = Unavailable("no leader of the range")
        write = asyncio.ensure_future(world.open_write())
        await turn()
        world.log.lost = OutcomeUnknown("leadership lost")
        world.status.open.set()
        with pytest.raises(OutcomeUnknown):
            await write
        assert world.record is not None
        world.log.lost, world.status.fails = None, Unavailable("still no leader")
        for again in (world.open_write(), world.add_files(), world.open_write("write0002")):
            with pytest.raises(Unavailable):
                await again
        assert not world.record.writes, "a record that is OPEN proves nothing"
        world.status.fails = None
        assert await world.open_write()
        await world.add_files()
        assert world.status.participants

    run(test)


def test_whoever_lost_the_leadership_meanwhile_withdraws_nothing() -> None:
    """The next leader may have registered the same write, and acknowledged it."""

    async def test(world: World) -> None:
        world.status.open.clear()
        world.status.fails = Unavailable("no leader of the range")
        write = asyncio.ensure_future(world.open_write())
        await turn()
        await world.change_leaders()
        world.status.open.set()
        with pytest.raises(OutcomeUnknown):
            await write
        assert world.kinds == ["OpenWrite"]

    run(test)


def test_a_prepare_waits_until_the_first_write_is_registered_or_withdrawn() -> None:
    async def test(world: World) -> None:
        world.status.participants = {TABLE_ID}
        world.status.open.clear()
        world.status.state = TxnState.COMMIT_IN_PROGRESS
        write = asyncio.ensure_future(world.open_write())
        prepare = asyncio.ensure_future(world.ask("BEGIN_COMMIT"))
        await turn()
        assert world.kinds == ["OpenWrite"]
        world.status.open.set()
        with pytest.raises(IllegalState):
            await write
        assert not (await prepare).results[0].HasField("error")
        assert world.record is not None
        assert world.record.state is ParticipantState.COMMIT_IN_PROGRESS
        assert not world.record.claimed, "the write that was refused is no part of it"

    run(test)


def test_an_abort_waits_for_nobody_and_a_write_after_it_is_refused() -> None:
    async def test(world: World) -> None:
        world.status.open.clear()
        write = asyncio.ensure_future(world.open_write())
        await turn()
        await world.ask("ABORT_TXN")
        world.status.state = TxnState.ABORTED
        world.status.open.set()
        with pytest.raises(IllegalState):
            await write
        assert world.record is not None
        assert world.record.state is ParticipantState.ABORTED
        assert "Withdraw" not in world.kinds

    run(test)


def test_a_lock_registers_before_it_is_asked_for() -> None:
    async def test(world: World) -> None:
        world.status.state = TxnState.ABORTED
        request = table_pb.LockRequest(txn_id=TXN, owner=ALICE, table=TABLE, mode="LOCK_X")
        with pytest.raises(IllegalState):
            await world.service.lock(request)
        assert not world.log.proposed

    run(test)


# ---- what a leader before has left


def test_a_new_leader_registers_what_is_open() -> None:
    async def test(world: World) -> None:
        world.leftover()
        await world.look_for_leftovers()
        assert world.status.participants
        await world.look_for_leftovers()
        assert world.status.registrations == 1

    run(test)


@pytest.mark.parametrize("state", [TxnState.COMMIT_IN_PROGRESS, TxnState.COMMITTED, TxnState.ABORTED])
@pytest.mark.parametrize("listed", [True, False])
def test_what_is_left_of_one_that_is_not_open_goes_unless_it_is_listed(state: TxnState, listed: bool) -> None:
    async def test(world: World) -> None:
        world.leftover()
        world.status.state, world.status.participants = state, {TABLE_ID} if listed else set()
        await world.look_for_leftovers()
        assert (world.record is not None) == listed

    run(test)


@pytest.mark.parametrize("absent", [NotFound("never given out"), Forgotten("forgotten")])
def test_what_is_left_of_one_that_is_not_known_goes(absent: TxnError) -> None:
    async def test(world: World) -> None:
        world.leftover()
        world.status.fails = absent
        await world.look_for_leftovers()
        assert world.record is None

    run(test)


def test_what_cannot_be_found_out_stays_for_now() -> None:
    async def test(world: World) -> None:
        world.leftover()
        world.status.fails = Unavailable("no leader")
        await world.look_for_leftovers()
        assert world.record is not None
        world.status.fails = None
        await asyncio.gather(world.look_for_leftovers())

    run(test)


def test_another_owners_leftover_goes_before_the_owner_writes_or_prepares() -> None:
    async def test(world: World) -> None:
        world.leftover(BOB, "write0009")
        assert await world.open_write()
        assert world.record is not None
        assert world.record.claimed == ["write0001"]

    async def test_prepare(world: World) -> None:
        world.leftover(BOB, "write0009")
        world.status.state, world.status.participants = TxnState.COMMIT_IN_PROGRESS, {TABLE_ID}
        await world.ask("BEGIN_COMMIT")
        assert world.record is not None
        assert not world.record.claimed
        assert world.record.state is ParticipantState.COMMIT_IN_PROGRESS

    run(test)
    run(test_prepare)


def test_what_was_acknowledged_before_the_change_of_leaders_is_prepared_with_the_rest() -> None:
    async def test(world: World) -> None:
        await world.open_write()
        await world.add_files()
        await world.change_leaders()
        world.status.state = TxnState.COMMIT_IN_PROGRESS
        await world.ask("BEGIN_COMMIT")
        assert world.record is not None
        assert list(world.record.writes) == ["write0001"]
        assert world.record.state is ParticipantState.COMMIT_IN_PROGRESS

    run(test)


# ---- the command


def test_a_withdrawal_takes_one_write_and_nothing_else() -> None:
    async def test(world: World) -> None:
        shard = world.shard
        empty = shard.snapshot()
        withdraw = cmd.Withdraw(TXN, TABLE_ID, "write0001")
        world.leftover()
        shard.apply(withdraw)
        assert shard.snapshot() == empty
        shard.apply(withdraw)
        assert shard.snapshot() == empty
        more: list[cmd.Command] = [
            cmd.OpenWrite(TXN, TABLE_ID, ALICE, "write0002"),
            cmd.AddFiles(TXN, TABLE_ID, ALICE, "write0001", Manifest("file:///m", 1, 1, 1, 1, 1)),
            cmd.BeginCommit(TXN, TABLE_ID, Timestamp(9)),
        ]
        for command in more:
            world.leftover()
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

    run(test)


def test_a_pass_asks_for_a_part() -> None:
    async def test(world: World) -> None:
        for number in range(1_200):
            world.shard.apply(cmd.OpenWrite(TxnId(number), TABLE_ID, ALICE, "w", begins=True))
        await world.look_for_leftovers()
        assert world.status.registrations == 1_000
        cast(Any, world.status).registrations = 0
        await world.look_for_leftovers()
        assert world.status.registrations == 200

    run(test)


def test_registering_again_costs_the_status_table_no_entry() -> None:
    """A new leader asks for all that is open."""

    async def main() -> None:
        world = ranges_harness.World()
        service = world.services[0]
        service.on_leadership(True)
        await world.ranges().begin(manager_pb.BeginTransactionRequest(request_id="first", owner=ALICE))
        entries: list[object] = []
        world.on_apply = lambda _number, command, _table: entries.append(command)
        for _ in range(2):
            assert await world.ranges().register(TxnId(0), ALICE, TABLE_ID, TABLE) is None
        assert len(entries) == 1
        assert isinstance(await world.ranges().register(TxnId(0), BOB, TABLE_ID, TABLE), NotAuthorized)
        await service.stop()

    ranges_harness.run(main())
