"""The shell of a shard's locks: who waits, who is woken, what a refusal says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import pytest

from tests.unit.harness.beginning import begin_txn
from tests.unit.harness.leader.shard_service import TABLE, Log, shard_service
from txnparticipant.leader import aborts
from txnparticipant.leader import locks as lock_service
from txnparticipant.leader.service import ShardService
from txnparticipant.locks.locks import Mode
from txnparticipant.locks.strategies import BUILT_IN, Contender, Die, Refuse, Settlement, Strategy, Wait
from txnparticipant.shard import commands as cmd
from txnparticipant.shard.shard import ParticipantShard
from txnstatus import pages
from txnstatus.errors import (
    InternalError,
    InvalidArgument,
    Locked,
    NotTheLeader,
    Overloaded,
    TxnAborted,
    TxnError,
    Unavailable,
)
from txnstatus.proto import common_pb2, table_pb2
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.rpc.deadlines import answer_by, answering_by
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId

OWNER = "me"
OLD, YOUNG = 1, 2
SOON, LONG = 1, 60_000


class Calls:
    """A status table that knows everybody's label, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.fails = False
        self.aborts = asyncio.Event()
        """Aborts are held up while it is not set."""
        self.aborts.set()

    def check_shard(self, _name: str, _shard: int) -> None:
        """Every name is kept by the shard that is asked."""

    async def register(self, txn_id: int, *_registration: object) -> None:
        self.asked.append(("RegisterParticipant", txn_id))

    async def call(self, txn_id: int, method: str, request: Any, response: type[Any]) -> Any:
        self.asked.append((method, txn_id))
        if self.fails:
            raise Unavailable("not now")
        if method == "AbortTransaction":
            await self.aborts.wait()
        cause = common_pb2.AbortCause(code="requested", message=getattr(request, "reason", ""), by=OWNER)
        if response is manager_pb.AbortTransactionResponse or method == "GetTransactionState":
            return response(txn=common_pb2.TxnInfo(txn_id=txn_id, owner="bob", label="nightly", cause=cause))
        raise AssertionError(method)


def made(*, calls: Calls | None = None) -> tuple[ShardService, list[cmd.Command]]:
    """A shard in which both transactions have begun, and what is proposed from now on."""
    ranges = calls or Calls()
    shard = shard_service(cast(Any, ranges), log := Log())
    for txn in (OLD, YOUNG):
        shard.shard.apply(begin_txn(TxnId(txn), "0.0", OWNER))
        shard._registering._sure["0.0"].add(TxnId(txn))
    return shard, log.proposed


def asks(txn: int, *, wait: int = 0, strategy: str = "wait", **fields: Any) -> table_pb2.LockRequest:
    wanted = {"txn_id": txn, "owner": OWNER, "table": TABLE, "mode": "LOCK_X", "settled_by": strategy, **fields}
    return table_pb2.LockRequest(**wanted, wait_millis=wait)


async def waits(shard: ShardService, txn: int, wait: int = LONG) -> asyncio.Task[table_pb2.LockResponse]:
    """The call, once it waits."""
    task = asyncio.create_task(shard.lock(asks(txn, wait=wait)))
    await turns()
    assert shard._locks._waiters
    return task


async def turns() -> None:
    """As many turns of the loop as anything takes here that nobody holds up."""
    for _ in range(20):
        await asyncio.sleep(0)


async def ends(shard: ShardService, txn: int) -> None:
    await shard.participate(pb.ParticipateRequest(ops=[pb.ParticipantOp(txn_id=txn, table_id="0.0", type="ABORT_TXN")]))


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(within())


def test_the_end_of_the_holder_wakes_whoever_waits() -> None:
    async def test() -> None:
        shard, proposed = made()
        assert (await shard.lock(asks(OLD))).granted
        task = await waits(shard, YOUNG)
        await ends(shard, OLD)
        assert (await task).granted
        assert [type(command) for command in proposed] == [cmd.AcquireLocks, cmd.AcquireLocks, cmd.AbortTxn]
        assert not shard._locks._waiters

    run(test)


def test_a_call_that_has_waited_long_enough_keeps_its_place_and_asks_again_for_nothing() -> None:
    async def test() -> None:
        shard, proposed = made()
        await shard.lock(asks(OLD))
        for _ in range(3):
            assert not (await shard.lock(asks(YOUNG, wait=SOON))).granted
        assert len(proposed) == 2, "the place in the queue is known without another entry"
        await ends(shard, OLD)
        assert (await shard.lock(asks(YOUNG, wait=SOON))).granted
        assert len(proposed) == 3

    run(test)


def test_whoever_gives_up_leaves_the_queue_and_is_told_who_is_in_the_way() -> None:
    async def test() -> None:
        shard, _ = made()
        await shard.lock(asks(OLD))
        await shard.lock(asks(YOUNG, wait=SOON))
        with pytest.raises(Locked) as caught:
            await shard.lock(asks(YOUNG, strategy="no-wait"))
        assert f"transaction 2 does not get X on {TABLE}" in caught.value.message
        assert f"transaction 1 ('nightly' of bob) holds X on {TABLE}, asked for at 1970-01-01" in caught.value.message
        assert not shard.shard.table(TABLE).locks.queue()

    run(test)


def test_a_refusal_does_without_the_label_when_nobody_tells_it() -> None:
    async def test() -> None:
        calls = Calls()
        shard, _ = made(calls=calls)
        await shard.lock(asks(OLD))
        calls.fails = True
        with pytest.raises(Locked, match="transaction 1 holds X"):
            await shard.lock(asks(YOUNG, strategy="no-wait"))

    run(test)


def test_whoever_wounds_has_the_younger_aborted_and_waits_for_the_locks() -> None:
    async def test() -> None:
        calls = Calls()
        shard, _ = made(calls=calls)
        await shard.lock(asks(YOUNG))
        calls.fails = True
        assert not (await shard.lock(asks(OLD, strategy="wound-wait", wait=SOON))).granted, "it tries again"
        calls.fails = False
        assert not (await shard.lock(asks(OLD, strategy="wound-wait", wait=SOON))).granted
        assert set(calls.asked) == {("AbortTransaction", YOUNG)}
        await ends(shard, YOUNG)
        assert (await shard.lock(asks(OLD, strategy="wound-wait", wait=SOON))).granted

    run(test)


def test_whoever_is_younger_wounds_nobody_and_whoever_has_prepared_is_not_wounded() -> None:
    async def test() -> None:
        calls = Calls()
        shard, _ = made(calls=calls)
        await shard.lock(asks(OLD))
        assert not (await shard.lock(asks(YOUNG, strategy="wound-wait", wait=SOON))).granted
        await ends(shard, OLD)
        shard.shard.apply(begin_txn(TxnId(0), "0.0", OWNER))
        shard._registering._sure["0.0"].add(TxnId(0))
        shard.shard.apply(cmd.BeginCommit(TxnId(YOUNG), "0.0", Timestamp(9)))
        assert not (await shard.lock(asks(0, strategy="wound-wait", wait=SOON))).granted
        assert not calls.asked

    run(test)


def test_whoever_dies_is_aborted_before_it_is_told() -> None:
    async def test() -> None:
        calls = Calls()
        shard, _ = made(calls=calls)
        await shard.lock(asks(OLD))
        with pytest.raises(TxnAborted, match=r"transaction 1 holds X on .*, and is older: wait-die"):
            await shard.lock(asks(YOUNG, strategy="wait-die"))
        assert calls.asked == [("AbortTransaction", YOUNG)]
        calls.fails = True
        with pytest.raises(Unavailable), answering_by(answer_by(0.1)):
            await shard.lock(asks(YOUNG, strategy="wait-die"))

    run(test)


# ---- the first of a transaction here

NEW = 3


def test_the_first_lock_registers_and_begins_in_one_entry() -> None:
    async def test() -> None:
        calls = Calls()
        shard, proposed = made(calls=calls)
        assert (await shard.lock(asks(NEW))).granted
        assert calls.asked == [("RegisterParticipant", NEW)]
        (command,) = proposed
        assert isinstance(command, cmd.AcquireLocks)
        assert command.begins
        assert (await shard.lock(asks(NEW))).granted
        assert len(calls.asked) == len(proposed) == 1

    run(test)


def test_the_first_write_registers_and_begins_in_one_entry() -> None:
    async def test() -> None:
        calls = Calls()
        shard, proposed = made(calls=calls)
        for write_id in ("write001", "write002"):
            await shard.open_write(table_pb2.OpenWriteRequest(txn_id=NEW, owner=OWNER, table=TABLE, write_id=write_id))
        assert calls.asked == [("RegisterParticipant", NEW)]
        assert [getattr(command, "begins", None) for command in proposed] == [True, False]

    run(test)


def test_a_strategy_is_asked_before_the_first_lock_is() -> None:
    """The loser leaves nothing here, and its place in the queue keeps nobody waiting."""

    async def test() -> None:
        calls = Calls()
        shard, proposed = made(calls=calls)
        await shard.lock(asks(OLD))
        with pytest.raises(TxnAborted, match="wait-die"):
            await shard.lock(asks(NEW, strategy="wait-die"))
        assert [command.txn_id for command in proposed if isinstance(command, cmd.TxnCommand)] == [OLD]
        assert calls.asked == [("RegisterParticipant", NEW), ("AbortTransaction", NEW)]

    run(test)


# ---- strategies of one's own


class Scripted:
    """Answers in turn, the last one again and again; notes what it was asked."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[list[Contender], list[Contender]]] = []

    def settle(self, asking: Sequence[Contender], in_the_way: Sequence[Contender]) -> Settlement:
        self.asked.append((list(asking), list(in_the_way)))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return cast(Settlement, answer)


def made_with(strategy: Strategy, calls: Calls) -> tuple[ShardService, list[cmd.Command]]:
    shard, proposed = made(calls=calls)
    cast(Any, shard._locks)._strategies = {**BUILT_IN, "mine": strategy}
    return shard, proposed


def test_it_is_told_who_contends_and_asked_only_if_somebody_does() -> None:
    async def test() -> None:
        calls, strategy = Calls(), Scripted(Refuse())
        shard, _ = made_with(strategy, calls)
        assert (await shard.lock(asks(OLD, strategy="mine"))).granted
        assert not strategy.asked
        for _ in range(2):
            with pytest.raises(Locked):
                await shard.lock(asks(YOUNG, strategy="mine", mode="LOCK_S"))
        ((asking,), (holder,)) = strategy.asked[0]
        assert asking == Contender(TxnId(YOUNG), OWNER, "nightly", TABLE, Mode.S, holds=False, prepared=False)
        assert holder == Contender(TxnId(OLD), OWNER, "nightly", TABLE, Mode.X, holds=True, prepared=False)
        # Once for the labels of both, which stay what they are; and for each refusal's text.
        assert sorted(calls.asked) == [("GetTransactionState", OLD)] * 3 + [("GetTransactionState", YOUNG)]

    run(test)


def test_whoever_waits_is_judged_again_by_what_is_in_its_way_then() -> None:
    async def test() -> None:
        strategy = Scripted(Wait(), Wait(), Wait(abort=(TxnId(OLD),)), Die("enough"))
        calls = Calls()
        shard, proposed = made_with(strategy, calls)
        await shard.lock(asks(OLD))
        assert not (await shard.lock(asks(YOUNG, strategy="mine", wait=SOON))).granted
        assert len(strategy.asked) == 2, "before it is queued, and when it is"
        assert not (await shard.lock(asks(YOUNG, strategy="mine", wait=SOON))).granted
        assert ("AbortTransaction", OLD) in calls.asked
        with pytest.raises(TxnAborted, match="enough"):
            await shard.lock(asks(YOUNG, strategy="mine", wait=SOON))
        assert [type(command) for command in proposed] == [cmd.AcquireLocks] * 2

    run(test)


def test_one_that_breaks_while_its_request_waits_takes_it_out_of_the_queue() -> None:
    async def test() -> None:
        strategy = Scripted(Wait(), Wait(), ValueError("broken"))
        shard, _ = made_with(strategy, Calls())
        await shard.lock(asks(OLD))
        assert not (await shard.lock(asks(YOUNG, strategy="mine", wait=SOON))).granted
        with pytest.raises(InternalError, match="'mine' raised ValueError: broken"):
            await shard.lock(asks(YOUNG, strategy="mine", wait=SOON))
        assert not shard.shard.table(TABLE).locks.queue()
        await ends(shard, OLD)
        assert (await shard.lock(asks(YOUNG, strategy="mine"))).granted, "nobody is in the way, so it is not asked"

    run(test)


def test_a_transaction_that_ends_while_labels_are_looked_up_is_told_so() -> None:
    async def test() -> None:
        strategy = Scripted(Wait())

        class Ends(Calls):
            async def call(self, txn_id: int, method: str, request: Any, response: type[Any]) -> Any:
                if method == "GetTransactionState":
                    shard.shard.apply(cmd.AbortTxn(TxnId(YOUNG), "0.0"))
                return await super().call(txn_id, method, request, response)

        shard, _ = made_with(strategy, Ends())
        await shard.lock(asks(OLD))
        with pytest.raises(TxnAborted):
            await shard.lock(asks(YOUNG, strategy="mine", wait=SOON))
        assert not strategy.asked

    run(test)


def test_labels_that_nobody_tells_fail_the_call_and_not_the_strategy() -> None:
    async def test() -> None:
        calls, strategy = Calls(), Scripted(Refuse())
        shard, _ = made_with(strategy, calls)
        await shard.lock(asks(OLD))
        calls.fails = True
        with pytest.raises(Unavailable):
            await shard.lock(asks(YOUNG, strategy="mine", wait=SOON))
        assert not strategy.asked

    run(test)


def test_a_table_whose_strategy_this_node_does_not_have(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        shard, proposed = made()
        shard.shard.apply(cmd.CreateTable("air.own", Schema((Column("id", "bigint"),)), "file:///o", "o", "mine"))
        shard.on_leadership(True)
        assert "the locks of air.own cannot be settled: this node has no conflict strategy 'mine'" in caplog.text
        with pytest.raises(InvalidArgument, match="no conflict strategy 'mine'"):
            await shard.lock(asks(OLD, table="air.own", strategy="mine"))
        assert not proposed
        restored = ParticipantShard(0)
        restored.restore(shard.shard.snapshot())
        assert restored.table("air.own").conflicts == "mine", "a replica needs only its name"

    run(test)


def test_the_end_of_the_transaction_ends_its_wait() -> None:
    async def test() -> None:
        shard, _ = made()
        await shard.lock(asks(OLD))
        task = await waits(shard, YOUNG)
        await ends(shard, YOUNG)
        with pytest.raises(TxnAborted):
            await task

    run(test)


def test_a_replica_that_does_not_lead_any_more_sends_its_waiters_elsewhere() -> None:
    async def test() -> None:
        shard, _ = made()
        await shard.lock(asks(OLD))
        task = await waits(shard, YOUNG)
        shard.on_leadership(False)
        with pytest.raises(NotTheLeader):
            await task
        assert len(shard.shard.table(TABLE).locks.queue()) == 1, "its place is in the log"

    run(test)


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"mode": 0}, "no lock mode 0; there are LOCK_S, LOCK_SHARED_WRITE, LOCK_X"),
        ({"mode": 99}, "no lock mode 99"),
        ({"settled_by": "hope"}, "no conflict strategy 'hope'; there are first-committer-wins, wait, wait-die"),
        ({"partitions": ["month=1"]}, "not partitioned"),
        ({"partitions": ["x"] * 1_001}, "1001 partitions"),
    ],
)
def test_what_no_request_may_say(fields: dict[str, Any], says: str) -> None:
    async def test() -> None:
        shard, proposed = made()
        with pytest.raises(InvalidArgument, match=says):
            await shard.lock(asks(OLD, **fields))
        assert not proposed

    run(test)


def test_locks_are_shown_by_object_holders_first() -> None:
    async def test() -> None:
        shard, _ = made()
        await shard.lock(asks(YOUNG, mode="LOCK_S"))
        await shard.lock(asks(OLD, wait=SOON))
        everything = (await shard.show_locks(table_pb2.ShowLocksRequest())).locks
        assert [(lock.object, lock.txn_id, lock.granted, list(lock.blocked_by)) for lock in everything] == [
            (TABLE, YOUNG, True, []),
            (TABLE, OLD, False, [YOUNG]),
        ]
        for table, partition, count in ((TABLE, "", 2), ("air", "", 2), ("ai", "", 0), (TABLE, "m=1", 0)):
            request = table_pb2.ShowLocksRequest(table=table, partition=partition)
            assert len((await shard.show_locks(request)).locks) == count

    run(test)


@pytest.mark.parametrize("at_once", [1, 2, 7])
def test_locks_are_shown_page_by_page(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All were in one answer: with enough of them it was longer than an answer may be, and none was shown."""
    monkeypatch.setattr(pages, "MAX_LISTED", at_once)

    async def test() -> None:
        shard, _ = made()
        await shard.lock(asks(YOUNG, mode="LOCK_S"))
        await shard.lock(asks(YOUNG, mode="LOCK_S", table="air"))
        await shard.lock(asks(OLD, wait=SOON))
        found: list[tuple[str, int]] = []
        request, more = table_pb2.ShowLocksRequest(), True
        while more:
            answer = await shard.show_locks(request)
            assert len(answer.locks) <= at_once
            found += [(lock.object, lock.txn_id) for lock in answer.locks]
            last, more = answer.locks[-1], answer.more
            request.after.CopyFrom(table_pb2.LockPlace(object=last.object, since=last.since, txn_id=last.txn_id))
        assert found == [("air", YOUNG), (TABLE, YOUNG), (TABLE, OLD)]

    run(test)


def test_a_database_is_shown_as_no_table() -> None:
    async def test() -> None:
        shard, _ = made()
        assert (await shard.lock(asks(OLD, table="air", mode="LOCK_S"))).granted
        assert [table.name for table in (await shard.list_tables(table_pb2.ListTablesRequest())).tables] == [TABLE]
        with pytest.raises(TxnError, match="is no name of a database"):
            await shard.lock(asks(OLD, table="no/name"))

    run(test)


def test_a_queue_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_service, "MAX_WAITING", 1)

    async def test() -> None:
        shard, _ = made()
        shard.shard.apply(begin_txn(TxnId(3), "0.0", OWNER))
        await shard.lock(asks(OLD))
        assert not (await shard.lock(asks(YOUNG, wait=SOON))).granted
        with pytest.raises(Overloaded, match="1 requests already wait"):
            await shard.lock(asks(3, wait=SOON))
        assert not (await shard.lock(asks(YOUNG, wait=SOON))).granted, "it has its place"

    run(test)


# ---- whoever is to be aborted is aborted, though the caller has gone


def test_wait_die_sees_the_abort_through_though_its_caller_has_gone() -> None:
    """The abort was dropped with the call that it was the answer to, and the locks of the younger stayed."""

    async def test() -> None:
        calls = Calls()
        shard, _ = made(calls=calls)
        await shard.lock(asks(OLD))
        calls.aborts.clear()
        call = asyncio.create_task(shard.lock(asks(YOUNG, strategy="wait-die")))
        await turns()
        assert ("AbortTransaction", YOUNG) in calls.asked
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert TxnId(YOUNG) in shard._locks._aborts
        calls.aborts.set()
        await turns()
        assert TxnId(YOUNG) not in shard._locks._aborts
        assert calls.asked.count(("AbortTransaction", YOUNG)) == 1

    run(test)


def test_an_abort_that_nobody_answers_is_asked_for_again_and_the_caller_hears_why_in_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(aborts, "PAUSE_SECONDS", 0.001)

    async def test() -> None:
        calls = Calls()
        shard, _ = made(calls=calls)
        await shard.lock(asks(OLD))
        calls.fails = True
        with (
            pytest.raises(Unavailable, match=r"transaction 2 is being aborted .*is older: wait-die.*: not now"),
            answering_by(answer_by(0.1)),
        ):
            await shard.lock(asks(YOUNG, strategy="wait-die"))
        calls.fails = False
        await ends(shard, OLD)  # the lock is free; the younger dies all the same
        with pytest.raises(TxnAborted, match="is older: wait-die"):
            await shard.lock(asks(YOUNG, strategy="wait-die"))

    run(test)


def test_a_leader_that_is_lost_forgets_whom_it_aborts_and_says_so() -> None:
    async def test() -> None:
        calls = Calls()
        shard, _ = made(calls=calls)
        await shard.lock(asks(OLD))
        calls.aborts.clear()
        call = asyncio.create_task(shard.lock(asks(YOUNG, strategy="wait-die")))
        await turns()
        shard.on_leadership(False)
        with pytest.raises(NotTheLeader):
            await call
        assert TxnId(YOUNG) not in shard._locks._aborts

    run(test)
