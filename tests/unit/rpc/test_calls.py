"""Calls that come together are answered by one handler, and each has its own answer, owner of it and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from tests.unit.harness.answering import METHOD, SECONDS, Served
from tests.unit.harness.calls import answered
from txnstatus.errors import InternalError, InvalidArgument, NotFound, TxnError, Unavailable
from txnstatus.proto import rpc_pb2
from txnstatus.proto import txn_manager_pb2 as pb
from txnstatus.rpc import server
from txnstatus.rpc.calls import Call, PassedOn, Question, one_by_one, takes_calls
from txnstatus.rpc.server import Registry

STATE = "txnstatus.TxnManager/GetTransactionState"


def state(txn_id: int) -> pb.GetTransactionStateResponse:
    return pb.GetTransactionStateResponse(txn={"txn_id": txn_id})


class Manager:
    """Answers with the id; of 13 it says that it is none, and 99 it does not answer."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.given_up = asyncio.Queue[Call]()

    @takes_calls
    def get_transaction_state(self, calls: Sequence[Call]) -> None:
        self.batches.append([call.request.txn_id for call in calls])
        for call in calls:
            if call.request.txn_id == 13:
                call.tell(NotFound("no such transaction", txn_id=13))
            elif call.request.txn_id == 99:
                call.on_end = partial(self.given_up.put_nowait, call)
            else:
                call.tell(state(call.request.txn_id))


def serve(served: Served, manager: Any) -> Any:
    served.registry.add(pb.DESCRIPTOR.services_by_name["TxnManager"], manager)
    return manager


async def outcomes(served: Served, *txn_ids: int, timeout: float = SECONDS) -> list[int | str]:
    """What each call hears: all are sent in one turn, so in one frame."""
    found = await asyncio.gather(*(served.state(each, timeout) for each in txn_ids), return_exceptions=True)
    return [each if isinstance(each, int) else type(each).__name__ for each in found]


async def test_calls_of_one_method_in_a_frame_are_answered_together_in_their_order() -> None:
    async with Served() as served:
        manager = serve(served, Manager())
        await served.state(1)
        assert await outcomes(served, 3, 2, 7, 5) == [3, 2, 7, 5]
        assert manager.batches == [[1], [3, 2, 7, 5]]


async def test_calls_that_begin_in_one_turn_are_answered_together_whoever_asks_and_as_many_as_a_turn_may_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "CALLS_PER_TURN", 3)
    registry, manager, told = Registry(), Manager(), list[Any]()
    registry.add(pb.DESCRIPTOR.services_by_name["TxnManager"], manager)
    begun = [Question(pb.GetTransactionStateRequest(txn_id=each), SECONDS, told.append) for each in (3, 99, 7, 5, 13)]
    for call in begun:
        registry.begin(STATE, call)
    begun[0].give_up()
    assert manager.batches == []
    await asyncio.sleep(0)
    assert manager.batches == [[99, 7]]
    await asyncio.sleep(0)
    assert manager.batches == [[99, 7], [5, 13]]
    assert [type(each) for each in told] == [pb.GetTransactionStateResponse, pb.GetTransactionStateResponse, NotFound]


async def test_one_that_is_refused_harms_no_other() -> None:
    async with Served() as served:
        serve(served, Manager())
        await served.state(1)
        assert await outcomes(served, 3, 13, 7) == [3, "NotFound", 7]


async def test_so_does_one_that_does_not_read_or_has_no_method() -> None:
    async with Served() as served:
        manager = serve(served, Manager())
        await served.state(1)
        session = served.channel._session
        assert session is not None
        asked = asyncio.gather(*(served.state(each) for each in (3, 7, 5)), return_exceptions=True)
        await asyncio.sleep(0)
        calls: list[rpc_pb2.Call] = session._outgoing._items
        calls[0].payload = b"\xff\xff"
        calls[1].method = "txnstatus.TxnManager/Nothing"
        told = await asked
        assert [type(each) for each in told] == [InvalidArgument, InvalidArgument, int]
        assert manager.batches == [[1], [5]]


async def test_one_that_is_not_answered_keeps_no_other_waiting_and_ends_at_its_own_deadline() -> None:
    async with Served() as served:
        manager = serve(served, Manager())
        await served.state(1)
        late = asyncio.ensure_future(outcomes(served, 99, timeout=0.2))
        assert await outcomes(served, 3, 99, 7, timeout=0.5) == [3, "NoAnswer", 7]
        assert await late == ["NoAnswer"]
        async with asyncio.timeout(SECONDS):
            for _ in range(2):
                call = await manager.given_up.get()
                call.tell(state(99))  # nobody waits for it


async def test_what_a_handler_raises_is_the_answer_to_those_that_it_has_not_answered() -> None:
    class Broken:
        def __init__(self, error: Exception) -> None:
            self._error = error

        @takes_calls
        def get_transaction_state(self, calls: Sequence[Call]) -> None:
            calls[0].tell(state(3))
            raise self._error

    async with Served() as served:
        for error, told in ((Unavailable("away"), "Unavailable"), (KeyError("a fault"), InternalError.__name__)):
            serve(served, Broken(error))
            await asyncio.gather(served.state(3))
            assert await outcomes(served, 3, 7, 5) == [3, told, told]


async def test_the_work_for_a_call_ends_with_its_connection() -> None:
    ended = asyncio.Event()

    async def never(_request: pb.GetTransactionStateRequest) -> pb.GetTransactionStateResponse:
        try:
            return await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    async with Served() as served, asyncio.timeout(SECONDS):
        served.registry.add_method(METHOD, never)
        with pytest.raises(TxnError):
            await served.state(1, 0.1)
        await served.channel.close()
        await ended.wait()


async def test_a_task_that_waits_and_is_cancelled_ends_the_work() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def never(_request: Any) -> Any:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    asked = asyncio.ensure_future(answered(one_by_one("never", never), pb.GetTransactionStateRequest()))
    async with asyncio.timeout(SECONDS):
        await begun.wait()
        asked.cancel()
        await ended.wait()


async def test_a_call_that_is_passed_on_ends_with_its_origin_and_is_answered_once() -> None:
    heard: list[Any] = []

    class Origin(Call):
        def _hear(self, answer: Any) -> None:
            heard.append(answer)

    def passed(act: Callable[[Call, PassedOn], None]) -> tuple[list[Any], Call, PassedOn]:
        heard.clear()
        origin = Origin(1, SECONDS)
        on = PassedOn(origin, 2)
        act(origin, on)
        return list(heard), origin, on

    assert passed(lambda _origin, on: (on.tell("a"), on.tell("b"))[0])[0] == ["a"]  # type: ignore[arg-type, func-returns-value]
    told, _, on = passed(lambda origin, _on: origin.give_up())
    assert (told, on.is_over) == ([], True)
