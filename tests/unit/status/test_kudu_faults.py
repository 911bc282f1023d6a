"""The weak spots of Kudu's transactions that this design could share, one test each: what Kudu does stands with it.

Source: reading of apache/kudu at 22028a29f. Two of the seventeen cannot occur here:

- 8, a leaked entry of the list of aborts under way suppresses later ones: participants schedule no aborts. They refuse
  to prepare, and the status leader aborts.
- 9, waiting for a lock on the tablet's serial queue delays the very operation that would free it: there are no locks.
  Conflicts are found when a transaction prepares, and the loser is refused at once.

13, heartbeats that never end, is in test_heartbeat.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.harness.calls import answered
from tests.unit.harness.leader.shard_service import TABLE, Status, shard_service
from tests.unit.harness.ranges import World, run
from tests.unit.harness.status_leader import (
    ABORT,
    BEGIN_COMMIT,
    FINALIZE,
    GONE,
    KEEPALIVE_SECONDS,
    OWNER,
    SETTINGS,
    TXN,
    A,
    B,
    Leader,
    expiries,
    leader_with_txn_in,
    send,
)
from txnparticipant.shard import commands as shard_cmd
from txnparticipant.shard.changes import ShardApplied
from txnparticipant.shard.shard import ParticipantShard
from txnstatus.catalog.options import Options
from txnstatus.errors import IllegalState, NotFound, NotTheLeader, TxnError, Unavailable
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.proto import txn_status_pb2 as status_pb
from txnstatus.schema import Column, Schema
from txnstatus.status import commands as cmd
from txnstatus.status.events import Decided, LeadershipGained, Propose
from txnstatus.types import Timestamp, TxnId, TxnState


def test_kudu_fault_01_one_range_that_is_not_led_keeps_no_other_from_being_swept() -> None:
    """Kudu's staleness thread ends its whole pass at the first status tablet that its server does not lead."""
    node = [Leader(leads=False), Leader(), Leader()]
    for replica in node:
        replica.begin(A)
    found = [expiries(replica.live(2 * KEEPALIVE_SECONDS)) for replica in node]
    assert list(map(len, found)) == [0, 1, 1]


def test_kudu_fault_02_a_new_leader_finishes_what_was_decided() -> None:
    """Kudu reloads FINALIZE_IN_PROGRESS into a task whose counter is wrong and which nothing keeps track of."""
    leader = Leader(leader_with_txn_in(TxnState.FINALIZE_IN_PROGRESS).table, leads=False)
    assert leader.handle(LeadershipGained()) == send(FINALIZE, A, B, ts=120)
    leader.manager.check_invariants()
    leader.answer(A, FINALIZE)
    assert leader.apply_all(leader.answer(B, FINALIZE)) == [Decided(leader.table.get(TXN))]
    assert leader.state is TxnState.COMMITTED
    assert leader.manager.task_of(TXN) is None


def test_kudu_fault_03_an_abort_does_not_wait_for_a_participant_that_is_down() -> None:
    """In Kudu an abort during the commit is acted on only after every participant has answered BEGIN_COMMIT."""
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    leader.answer(A, BEGIN_COMMIT, 100)
    assert leader.abort() == [Decided(leader.table.get(TXN)), *send(ABORT, A, B)]
    assert leader.answer(A, ABORT) == []
    leader.answer(B, ABORT, error=GONE)
    assert leader.live(1.5) == send(ABORT, B), "and only the one that is down is asked again"


def test_kudu_fault_04_a_commit_under_way_is_driven_though_its_first_tries_fail() -> None:
    """In Kudu a commit that is reloaded while its system client is not ready stays, and no second call helps it."""
    leader = Leader(leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS).table)
    for participant in (A, B):
        leader.answer(participant, BEGIN_COMMIT, error=GONE)
    assert leader.commit() == [], "a second call is welcome, and not needed"
    assert leader.live(1.5) == send(BEGIN_COMMIT, A, B)


@pytest.mark.parametrize("kind", ["begin", "commit", "abort"])
def test_kudu_fault_04_what_applies_after_its_caller_has_given_up_is_driven(kind: str) -> None:
    """A call is given up after some seconds; its entry is in the log, and applies when the others are back."""

    async def main() -> None:
        world = World()
        service = world.services[0]
        service.on_leadership(True)
        ranges = world.ranges()
        begin = pb.BeginTransactionRequest(request_id="first", owner=OWNER)
        await answered(ranges.begin, begin)
        participant = common.ParticipantInfo(participant_id="0.0", name="air.flights")
        registration = status_pb.Registration(txn_id=0, owner=OWNER, participant=participant)
        await service.register_participants(status_pb.RegisterParticipantsRequest(registrations=[registration]))
        again: Callable[[], Any] = {
            "begin": lambda: answered(ranges.begin, pb.BeginTransactionRequest(request_id="second", owner=OWNER)),
            "commit": lambda: answered(service.commit_transaction, pb.CommitTransactionRequest(txn_id=0, owner=OWNER)),
            "abort": lambda: service.abort_transaction(pb.AbortTransactionRequest(txn_id=0, owner=OWNER)),
        }[kind]
        world.stepped = True
        call = asyncio.create_task(again())
        await asyncio.sleep(0.001)
        while world.pending and not world.pending[0].what.startswith("entry"):
            world.pending.pop(0).go_on()
            await asyncio.sleep(0.001)
        call.cancel()
        await asyncio.sleep(0.001)
        world.pending.pop(0).go_on()
        await asyncio.sleep(0.001)
        service.manager.check_invariants()
        if kind == "begin":
            world.stepped = False
            assert list((await again()).txn_ids) == [1], "the retry finds it"
            assert service.manager.keep_alive([TxnId(1)], OWNER) == {}
        await service.stop()

    run(main())


@pytest.mark.parametrize("error", [NotFound("no such table"), IllegalState("what?"), GONE])
@pytest.mark.parametrize(
    ("state", "op"), [(TxnState.FINALIZE_IN_PROGRESS, FINALIZE), (TxnState.ABORT_IN_PROGRESS, ABORT)]
)
def test_kudu_fault_05_no_error_ends_what_is_decided(state: TxnState, op: Any, error: TxnError) -> None:
    """Kudu's abort stops for good at an error that it does not expect; its finalise counts any error as done."""
    leader = leader_with_txn_in(state)
    leader.answer(A, op)
    leader.answer(B, op, error=error)
    (asked,) = leader.live(1.5)
    assert asked == send(op, B, ts=leader.table.get(TXN).commit_ts)[0]
    assert leader.state is state
    assert len(leader.answer(B, op)) == 1


def test_kudu_fault_06_a_registration_that_failed_leaves_no_participant_behind() -> None:
    """Kudu keeps the participant in memory when its write fails, and so a later commit asks it, and aborts."""

    async def main() -> None:
        world = World()
        service = world.services[0]
        service.on_leadership(True)
        await answered(world.ranges().begin, pb.BeginTransactionRequest(request_id="first", owner=OWNER))
        participant = common.ParticipantInfo(participant_id="0.0", name="air.flights")
        registration = status_pb.Registration(txn_id=0, owner=OWNER, participant=participant)
        request = status_pb.RegisterParticipantsRequest(registrations=[registration])
        world.unavailable = {"status-0"}
        with pytest.raises(NotTheLeader):
            await service.register_participants(request)
        world.unavailable = set()
        answer = await answered(service.commit_transaction, pb.CommitTransactionRequest(txn_id=0, owner=OWNER))
        assert TxnState(answer.txn.state) is TxnState.COMMITTED
        await service.stop()

    run(main())


def test_kudu_fault_07_one_that_registered_and_never_began_prepares() -> None:
    """In Kudu a write that times out between the registration and BEGIN_TXN dooms the commit."""
    shard = ParticipantShard(0)
    shard.apply(shard_cmd.CreateTable(TABLE, Schema((Column("id", "bigint"),)), "file:///w/t", "r"))
    for command in (
        shard_cmd.BeginCommit(TxnId(7), "0.0", Timestamp(100)),
        shard_cmd.FinalizeCommit(TxnId(7), "0.0", Timestamp(100)),
    ):
        assert isinstance(shard.apply(command), ShardApplied)
    assert not shard.table(TABLE).file_sets


def test_kudu_fault_10_a_begin_whose_answer_is_lost_is_found_again() -> None:
    """In Kudu a lost answer leaks an open transaction until it expires, and each retry makes one more."""

    async def main() -> None:
        world = World(span=2)
        request = pb.BeginTransactionRequest(request_id="asked", owner=OWNER)
        first = await answered(world.ranges().begin, request)
        request.is_retry = first.begun_before = True
        assert await answered(world.ranges().begin, request) == first
        assert len(world.tables[0].unfinished) == 1

    run(main())


@pytest.mark.parametrize(
    "question",
    [
        lambda s: answered(s.get_transaction_state, pb.GetTransactionStateRequest(txn_id=0)),
        lambda s: s.keep_transaction_alive(pb.KeepTransactionAliveRequest(txn_ids=[0], owner=OWNER)),
        lambda s: s.raise_floor(status_pb.RaiseFloorRequest()),
        lambda s: s.get_outcomes(status_pb.GetOutcomesRequest(txn_ids=[0])),
        lambda s: s.list_transactions(status_pb.ListTransactionsRequest()),
        lambda s: answered(
            s.begin_in_range,
            status_pb.RangeBeginRequest(request=pb.BeginTransactionRequest(request_id="first", owner=OWNER)),
        ),
    ],
    ids=["state", "keep alive", "snapshot", "outcomes", "list", "begin again"],
)
def test_kudu_fault_11_a_deposed_leader_answers_nothing_from_memory(question: Callable[[Any], Any]) -> None:
    """Kudu's leaders have no lease: one that was deposed may acknowledge heartbeats and tell old states."""

    async def main() -> None:
        world = World()
        service = world.services[0]
        service.on_leadership(True)
        await answered(world.ranges().begin, pb.BeginTransactionRequest(request_id="first", owner=OWNER))
        await question(service)
        world.unavailable = {"status-0"}
        with pytest.raises(NotTheLeader):
            await question(service)

    run(main())


def test_kudu_fault_12_a_shorter_interval_kills_nobody_who_was_promised_a_longer_one() -> None:
    """Kudu holds one interval, a flag: lowered while it runs, it kills transactions whose tokens have the old one."""

    async def main() -> None:
        world = World()
        service = world.services[0]
        service.on_leadership(True)
        ranges = world.ranges()
        answers = []
        for interval in (30_000, 2_000):
            options = Options().with_value("keepalive_default_ms", interval)
            service.configure(SimpleNamespace(options=options))  # type: ignore[arg-type]
            answers.append(
                await answered(ranges.begin, pb.BeginTransactionRequest(request_id=f"{interval}", owner=OWNER))
            )
        assert [answer.keepalive_millis for answer in answers] == [30_000, 2_000]
        assert [record.keepalive_millis for record in service.table.unfinished] == [30_000, 2_000]

    run(main())
    leader = Leader()
    leader.begin(A, request_id="long", keepalive=30.0)
    leader.begin(A, request_id="short", keepalive=2.0)
    assert [expire.txn_id for expire in expiries(leader.live(10.0))] == [1]


def test_kudu_fault_14_another_managers_new_range_is_found_at_once() -> None:
    """A Kudu manager remembers for five minutes that there is no such range, and answers NotFound meanwhile."""

    async def main() -> None:
        world = World(span=2)
        late, other = world.ranges(), world.ranges()
        await answered(late.begin, pb.BeginTransactionRequest(request_id="a", owner=OWNER))
        for number in range(4):
            await answered(other.begin, pb.BeginTransactionRequest(request_id=f"b{number}", owner=OWNER))
        for txn_id in (4, 3):
            request = pb.GetTransactionStateRequest(txn_id=txn_id)
            answer = await late.call(txn_id, "GetTransactionState", request, pb.GetTransactionStateResponse)
            assert answer.txn.txn_id == txn_id

    run(main())


def test_kudu_fault_15_a_registration_that_may_be_retried_is_told_so_and_the_next_write_tries_anew() -> None:
    """Kudu's design has retriable errors of a registration retried; its code makes all of them final."""
    made = shard_service(status := Status())
    status.fails = Unavailable("no leader of status-0")
    request = table_pb.OpenWriteRequest(txn_id=7, owner=OWNER, table=TABLE, write_id="write0001")
    with pytest.raises(Unavailable) as raised:
        asyncio.run(made.open_write(request))
    assert raised.value.retriable
    assert TxnId(7) not in made.shard.table(TABLE).txns
    status.fails = None
    assert asyncio.run(made.open_write(request)).directory
    assert status.registrations == 2


def test_kudu_fault_16_the_commit_timestamp_is_what_the_documents_say() -> None:
    """Kudu's documents have it above every prepare timestamp; its code takes the highest. Ours: not below any, and
    above every commit that was decided before."""
    leader = leader_with_txn_in(TxnState.COMMIT_IN_PROGRESS)
    leader.answer(A, BEGIN_COMMIT, 100)
    leader.apply_all(leader.answer(B, BEGIN_COMMIT, 120))
    assert leader.table.get(TXN).commit_ts == 120
    second = leader.begin(A, request_id="second")
    leader.commit(second)
    leader.apply_all(leader.answer(A, BEGIN_COMMIT, 120, txn_id=second))
    assert leader.table.get(second).commit_ts == 121


def test_kudu_fault_17_what_is_finished_is_forgotten_and_so_is_its_range() -> None:
    """Kudu keeps finished transactions for ever, in memory and on disk, and loads all of them at every failover."""
    settings = replace(SETTINGS, retention_seconds=10.0)
    leader = Leader(settings=settings)
    for number in range(20):
        leader.commit(leader.begin(request_id=f"request-{number}"))
    leader.wall_micros = 20_000_000
    (forget,) = leader.tick(0.1)
    assert forget == Propose(cmd.Forget(10_000_000), awaited=False)
    leader.apply_all([forget])
    assert list(leader.table.records()) == []

    async def main() -> None:
        world = World(span=2)
        for number in range(3):
            await answered(world.ranges().begin, pb.BeginTransactionRequest(request_id=f"r{number}", owner=OWNER))
        for txn_id in (0, 1):
            world.apply(0, cmd.BeginCommit(TxnId(txn_id), OWNER, 1))
        world.apply(0, cmd.Forget(2))
        world.services[0]._tend_range()
        await asyncio.sleep(0.1)
        assert world.state.ranges == (1,)

    run(main())
