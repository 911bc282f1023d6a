"""Foreign participants: names, what may be asked when, and a host with a participant that is a dictionary."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import replace
from typing import Any, cast

import pytest

from tests.unit.harness.calls import AsyncChannel
from tests.unit.harness.cluster import new_catalog
from txnparticipant.foreign.host import ForeignHost
from txnparticipant.upkeep.in_doubt import IN_DOUBT_SECONDS
from txnstatus.catalog.cluster_map import ClusterMap
from txnstatus.catalog.system_client import TxnSystemClient
from txnstatus.errors import IllegalState, InvalidArgument, NotFound, TxnError, Unavailable, forgotten
from txnstatus.foreign import (
    ACTS,
    Act,
    Standing,
    Verdict,
    check_foreign_name,
    foreign_id,
    foreign_name,
    gid,
    txn_of_gid,
    verdict,
)
from txnstatus.id_sets import IdSet, of_spans
from txnstatus.process.environment import Environment
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import txn_manager_pb2 as manager_pb
from txnstatus.rpc.errors import from_detail
from txnstatus.status.commit.participant_calls import ParticipantCalls
from txnstatus.status.commit.tasks import SendOp
from txnstatus.status.events import ParticipantAnswered
from txnstatus.status.ranges import StatusRanges
from txnstatus.types import (
    NO_TIMESTAMP,
    HybridClock,
    ParticipantId,
    ParticipantOpType,
    Timestamp,
    TxnId,
    TxnState,
    timestamp,
)

BEGIN_COMMIT = ParticipantOpType.BEGIN_COMMIT
FINALIZE_COMMIT = ParticipantOpType.FINALIZE_COMMIT
ABORT_TXN = ParticipantOpType.ABORT_TXN


# ---- names


def test_a_foreign_id_is_no_tables_and_no_databases() -> None:
    assert foreign_id("billing") == "@billing"
    assert foreign_name("@billing") == "billing"
    assert foreign_name("1.4") is None
    assert foreign_name("1.sales") is None


@pytest.mark.parametrize("wrong", ["", "@x", "a.b", "a b", "-a", "a:b", "x" * 64, "é", "a\n"])
def test_a_name_that_could_be_taken_for_something_else_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidArgument, match="is no name of a foreign participant"):
        check_foreign_name(wrong)


def test_a_gid_is_its_participants_alone_and_fits_into_postgresql() -> None:
    longest = gid("c" * 63, "n" * 63, TxnId(2**63 - 1))
    assert len(longest) < 200
    assert txn_of_gid(longest, "c" * 63, "n" * 63) == 2**63 - 1
    for other in ("txnstatus:c:billing2:7", "txnstatus:c2:billing:7", "txnstatus:c:billing:x", "of somebody else", ""):
        assert txn_of_gid(other, "c", "billing") is None
    assert txn_of_gid(gid("c", "billing", TxnId(7)), "c", "billing") == 7


# ---- the tables


def test_every_standing_has_an_answer_to_every_operation() -> None:
    asked = {(standing, op) for standing in Standing for op in (BEGIN_COMMIT, FINALIZE_COMMIT, ABORT_TXN)}
    assert asked == set(ACTS)


def test_nothing_is_published_that_was_not_prepared_and_nothing_ends_twice() -> None:
    assert [key for key, act in ACTS.items() if act is Act.PUBLISH] == [(Standing.PREPARED, FINALIZE_COMMIT)]
    assert [key for key, act in ACTS.items() if act is Act.DISCARD] == [(Standing.PREPARED, ABORT_TXN)]
    assert ACTS[Standing.ABSENT, BEGIN_COMMIT] is Act.ILLEGAL
    assert ACTS[Standing.ABSENT, FINALIZE_COMMIT] is Act.ILLEGAL
    assert ACTS[Standing.PUBLISHED, ABORT_TXN] is Act.ILLEGAL


@pytest.mark.parametrize("state", TxnState)
def test_only_what_is_decided_is_ended_and_only_what_takes_part_is_published(state: TxnState) -> None:
    committed = state in (TxnState.FINALIZE_IN_PROGRESS, TxnState.COMMITTED)
    aborted = state in (TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED)
    decided = Verdict.DISCARD if committed or aborted else Verdict.WAIT
    assert verdict(state, takes_part=True) is (Verdict.PUBLISH if committed else decided)
    assert verdict(state, takes_part=False) is decided


# ---- the host


class FakeParticipant:
    """Keeps the protocol, in memory."""

    def __init__(self) -> None:
        self.standings: dict[int, Standing] = {}
        self.published: dict[int, int] = {}
        self.forgotten: list[tuple[int, int]] = []
        self.blocked = threading.Event()
        self.blocked.set()
        self.error: Exception | None = None

    def prepare(self, txn_id: TxnId) -> None:
        self._act(txn_id, BEGIN_COMMIT)

    def publish(self, txn_id: TxnId, commit_ts: Timestamp) -> None:
        self._act(txn_id, FINALIZE_COMMIT)
        self.published.setdefault(txn_id, commit_ts)

    def discard(self, txn_id: TxnId) -> None:
        self._act(txn_id, ABORT_TXN)

    def prepared(self) -> Iterable[TxnId]:
        return [TxnId(txn_id) for txn_id, standing in self.standings.items() if standing is Standing.PREPARED]

    def forget(self, first: TxnId, below: TxnId) -> None:
        self.forgotten.append((first, below))

    def _act(self, txn_id: TxnId, op: ParticipantOpType) -> None:
        assert self.blocked.wait(10)
        if self.error:
            raise self.error
        act = ACTS[self.standings.get(txn_id, Standing.ABSENT), op]
        if act is Act.ILLEGAL:
            raise IllegalState(f"{op.name} of {txn_id}")
        if act is not Act.ALREADY:
            self.standings[txn_id] = Standing.PUBLISHED if act is Act.PUBLISH else Standing.ABSENT


class FakeRanges:
    """A status table of transactions by hand."""

    def __init__(self) -> None:
        self.txns: dict[int, common.TxnInfo | TxnError] = {}

    def add(self, txn_id: int, state: TxnState, participant: str = "@billing", commit_ts: int = 0) -> None:
        info = common.TxnInfo(txn_id=txn_id, state=state.name, commit_timestamp=commit_ts)
        info.participants.add(participant_id=participant, name=participant)
        self.txns[txn_id] = info

    async def call(self, txn_id: int, _method: str, _request: Any, _response: Any) -> Any:
        found = self.txns[txn_id]
        if isinstance(found, TxnError):
            raise found
        return manager_pb.GetTransactionStateResponse(txn=found)

    async def forgotten(self) -> IdSet:
        return of_spans([(0, 5), (10, 12)])


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.participant = FakeParticipant()
        self.ranges = FakeRanges()
        self.environment = Environment(monotonic=lambda: self.now, wall_micros=lambda: 1_000)
        self.host = ForeignHost("billing", self.participant, cast(StatusRanges, self.ranges), self.environment)

    def prepared(self, txn_id: int) -> None:
        self.participant.standings[txn_id] = Standing.PREPARED

    async def ask(self, op: ParticipantOpType, txn_id: int, to: str = "@billing") -> pb.ParticipantOpResult:
        asked = pb.ParticipantOp(txn_id=txn_id, table_id=to, type=op.name, commit_timestamp=99)
        (result,) = (await self.host.participate(pb.ParticipateRequest(ops=[asked]))).results
        return result

    async def resolve(self) -> None:
        """Finds what is prepared, and comes back when it is in doubt."""
        await self.host.resolve()
        self.now += IN_DOUBT_SECONDS
        await self.host.resolve()


def in_world(test: Callable[[World], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        world = World()
        asyncio.run(test(world))
        world.environment.blocking.shutdown()

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


def refusal(result: pb.ParticipantOpResult) -> TxnError:
    assert result.HasField("error")
    return from_detail(result.error)


@in_world
async def test_a_prepared_transaction_is_published_once_however_often_it_is_asked_for(world: World) -> None:
    world.prepared(7)
    first = await world.ask(BEGIN_COMMIT, 7)
    assert first.timestamp > NO_TIMESTAMP
    assert (await world.ask(BEGIN_COMMIT, 7)).timestamp > first.timestamp
    for _ in range(2):
        assert not (await world.ask(FINALIZE_COMMIT, 7)).HasField("error")
    assert world.participant.published == {7: 99}
    assert isinstance(refusal(await world.ask(BEGIN_COMMIT, 7)), IllegalState)
    assert isinstance(refusal(await world.ask(ABORT_TXN, 7)), IllegalState)


@in_world
async def test_what_was_never_prepared_is_refused_not_published_and_nothing_to_discard(world: World) -> None:
    assert isinstance(refusal(await world.ask(BEGIN_COMMIT, 7)), IllegalState)
    assert isinstance(refusal(await world.ask(FINALIZE_COMMIT, 7)), IllegalState)
    assert not (await world.ask(ABORT_TXN, 7)).HasField("error")
    assert world.participant.published == {}


@in_world
async def test_operations_for_somebody_else_or_of_no_kind_are_refused(world: World) -> None:
    world.prepared(7)
    assert isinstance(refusal(await world.ask(FINALIZE_COMMIT, 7, to="@other")), IllegalState)
    assert isinstance(refusal(await world.ask(ParticipantOpType.BEGIN_TXN, 7)), InvalidArgument)
    assert world.participant.published == {}


@in_world
async def test_one_at_a_time_for_each_transaction_and_a_slow_one_holds_up_no_other_call(world: World) -> None:
    world.prepared(7)
    world.participant.blocked.clear()
    slow = asyncio.create_task(world.ask(FINALIZE_COMMIT, 7))
    await asyncio.sleep(0)
    assert refusal(await world.ask(FINALIZE_COMMIT, 7)).retriable
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    assert refusal(await world.ask(FINALIZE_COMMIT, 7)).retriable, "it goes on though its caller is gone"
    world.participant.blocked.set()
    await asyncio.gather(*world.host._busy.values())
    assert world.participant.published == {7: 99}


@in_world
async def test_a_fault_of_the_participant_is_an_error_of_the_table(world: World) -> None:
    world.participant.error = ZeroDivisionError("in somebody else's code")
    assert "ZeroDivisionError" in refusal(await world.ask(BEGIN_COMMIT, 7)).message


@in_world
async def test_what_is_in_doubt_ends_as_the_status_table_says(world: World) -> None:
    for txn_id, state in enumerate(TxnState, start=10):
        world.prepared(txn_id)
        world.ranges.add(txn_id, state, commit_ts=txn_id)
    await world.host.resolve()
    assert len(list(world.participant.prepared())) == len(TxnState), "the outcome is probably on its way"
    await world.resolve()
    state_of = dict(enumerate(TxnState, start=10))
    left = {state_of[txn_id] for txn_id in world.participant.prepared()}
    assert left == {TxnState.OPEN, TxnState.COMMIT_IN_PROGRESS}
    published = world.participant.published
    assert {state_of[txn_id] for txn_id in published} == {TxnState.COMMITTED, TxnState.FINALIZE_IN_PROGRESS}
    assert all(txn_id == commit_ts for txn_id, commit_ts in published.items())


@in_world
async def test_what_is_no_part_of_a_committed_transaction_is_discarded(world: World) -> None:
    """Its program never enlisted it, or was too late for that."""
    world.prepared(7)
    world.ranges.add(7, TxnState.COMMITTED, participant="@other")
    await world.resolve()
    assert world.participant.standings[7] is Standing.ABSENT


@in_world
async def test_what_is_forgotten_is_discarded_and_what_never_was_is_left_to_people(world: World) -> None:
    world.prepared(7)
    world.prepared(8)
    world.prepared(9)
    world.ranges.txns = {7: forgotten(TxnId(7)), 8: NotFound("transaction 8 is unknown"), 9: Unavailable("later")}
    await world.resolve()
    assert world.participant.standings == {7: Standing.ABSENT, 8: Standing.PREPARED, 9: Standing.PREPARED}


@in_world
async def test_what_nobody_will_ask_about_is_forgotten(world: World) -> None:
    await world.host._forget()
    assert world.participant.forgotten == [(0, 5), (10, 12)]


# ---- the status leader's side


class OneHost(AsyncChannel):
    def __init__(self, timestamp: int = 5, times: int = 1) -> None:
        """`times`: how often it answers each operation."""
        self.asked: list[pb.ParticipateRequest] = []
        self._timestamp, self._times = timestamp, times

    async def call(self, method: str, request: pb.ParticipateRequest, *_: object) -> pb.ParticipateResponse:  # type: ignore[override]
        assert method == "txnstatus.Participant/Participate"
        self.asked.append(request)
        results = [pb.ParticipantOpResult(timestamp=self._timestamp)] * len(request.ops) * self._times
        return pb.ParticipateResponse(results=results)


def answers_of(
    foreign: dict[str, str], *ops: SendOp, host: OneHost | None = None
) -> tuple[OneHost, list[ParticipantAnswered]]:
    host, answers = host or OneHost(), list[ParticipantAnswered]()

    async def run() -> None:
        cluster = ClusterMap(replace(new_catalog().state, foreign=foreign))
        client = TxnSystemClient(cluster, Environment(), lambda _address: host)
        tasks: list[asyncio.Task[None]] = []
        clock = HybridClock(lambda: 1)
        calls = ParticipantCalls(client, clock, answers.extend, lambda work: tasks.append(asyncio.create_task(work)))
        for op in ops:
            calls.send(op)
        await asyncio.sleep(0)
        await asyncio.gather(*tasks)

    asyncio.run(run())
    return host, answers


def send_op(txn_id: int, op: ParticipantOpType) -> SendOp:
    return SendOp(TxnId(txn_id), ParticipantId("@billing"), op, Timestamp(3))


def test_what_one_turn_has_for_a_foreign_participant_is_one_call() -> None:
    host, answers = answers_of({"billing": "h:1"}, send_op(1, BEGIN_COMMIT), send_op(2, ABORT_TXN))
    (request,) = host.asked
    assert [(op.txn_id, op.table_id) for op in request.ops] == [(1, "@billing"), (2, "@billing")]
    assert [(answer.txn_id, answer.timestamp, answer.error) for answer in answers] == [(1, 5, None), (2, 5, None)]


def test_one_that_the_leader_has_not_heard_of_yet_is_asked_again() -> None:
    _, (answer,) = answers_of({}, send_op(1, ABORT_TXN))
    assert answer.error is not None
    assert answer.error.retriable


def test_one_that_was_removed_refuses_commits_and_holds_up_no_end() -> None:
    host, answers = answers_of({"billing": ""}, *(send_op(1, op) for op in (BEGIN_COMMIT, FINALIZE_COMMIT, ABORT_TXN)))
    assert not host.asked
    assert isinstance(answers[0].error, NotFound)
    assert [answer.error for answer in answers[1:]] == [None, None]


@pytest.mark.parametrize("times", [0, 2])
def test_a_host_that_answers_other_operations_than_it_was_asked_for_is_asked_again(times: int) -> None:
    """It is none of ours, perhaps: it may hold up what takes part there, and ends no status leader."""
    _, answers = answers_of(
        {"billing": "h:1"}, send_op(1, BEGIN_COMMIT), send_op(2, ABORT_TXN), host=OneHost(times=times)
    )
    assert [(answer.txn_id, type(answer.error)) for answer in answers] == [(1, Unavailable), (2, Unavailable)]
    assert answers[0].error is not None
    assert f"{2 * times} operations" in answers[0].error.message


def test_a_host_whose_clock_is_far_ahead_takes_no_commit_timestamp_there() -> None:
    """Commit timestamps rise: all later ones would be above it, and no time of a clock would lead to them."""
    a_month = timestamp(31 * 86_400 * 1_000_000)
    _, (answer,) = answers_of({"billing": "h:1"}, send_op(1, BEGIN_COMMIT), host=OneHost(timestamp=a_month))
    assert NO_TIMESTAMP < answer.timestamp <= timestamp(1_000_000)
