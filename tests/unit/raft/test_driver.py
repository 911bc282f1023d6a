"""When a driver runs a cycle."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace
from typing import cast

import pytest

from txnstatus.process.environment import Environment
from txnstatus.process.sync_place import SyncPlace
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.driver import RaftDriver, Sender
from txnstatus.raft.elections import Takeover
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.jobs import Jobs
from txnstatus.raft.proposals import Proposal

SECONDS = 10.0


class Group:
    """Takes messages, and has nothing else to do."""

    group = "test-0"
    term = 1
    applied_index = 0
    is_ready = is_leader = False
    peers = ()
    journal = SimpleNamespace(dirty=False)
    node_id = "a"
    settings = SimpleNamespace(election_max_seconds=1.0)

    def __init__(self) -> None:
        self.elections = SimpleNamespace(takeover=lambda: Takeover(0.5, 0.1, 0.1), has_company=True, ready_leader="")
        self.jobs = Jobs()
        self.received: list[int] = []
        self.proposed: list[bytes] = []
        self.cycles = 0
        self.ticked = asyncio.Event()

    def can_wait(self, message: pb.RaftMessage) -> bool:
        return message.term == 0

    def receive(self, _sender: str, message: pb.RaftMessage) -> None:
        self.received.append(message.append_reply.next_index)

    def tick(self) -> None:
        self.cycles += 1
        self.ticked.set()

    def idle_seconds(self) -> float:
        return SECONDS

    def take(self) -> list[object]:
        return []

    take_early = take_late = take_done = take

    def propose(self, proposal: Proposal) -> None:
        self.proposed += proposal.commands

    def go_on(self) -> None:
        pass

    def hand_over(self) -> None:
        pass

    def close(self) -> None:
        pass


def journal(write: Callable[[object], None], *, settled: bool) -> SimpleNamespace:
    """One that has something to write."""
    frame = SimpleNamespace(data=b"")
    return SimpleNamespace(dirty=True, has_synced=lambda _: settled, take_unsynced=lambda: frame, write=write)


class Place(SyncPlace):
    """Always the same."""

    def __init__(self, *, loop: bool) -> None:
        super().__init__()
        self._loop = loop
        self.took_where: list[bool] = []

    def is_loop(self, _size: int, _now: float) -> bool:
        return self._loop

    def took(self, _seconds: float, _now: float, *, on_loop: bool) -> None:
        self.took_where.append(on_loop)


@asynccontextmanager
async def driving(
    group: Group, place: SyncPlace | None = None, sender: Sender | None = None
) -> AsyncIterator[RaftDriver]:
    with ThreadPoolExecutor(1) as threads:
        environment = Environment(blocking=threads, sync_place=place or SyncPlace())
        driver = RaftDriver(cast(RaftGroup, group), sender or cast(Sender, None), environment)
        driver.start()
        yield driver
        await driver.stop()


async def some_turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def message(number: int, *, urgent: bool) -> pb.RaftMessage:
    return pb.RaftMessage(term=int(urgent), append_reply={"next_index": number})


async def test_what_can_wait_is_taken_in_its_turn_with_what_cannot() -> None:
    group = Group()
    async with driving(group) as driver:
        await group.ticked.wait()
        before = group.cycles
        driver.receive("a", message(1, urgent=False))
        await some_turns()
        assert (group.received, group.cycles) == ([], before)
        group.ticked.clear()
        driver.receive("b", message(2, urgent=True))
        driver.receive("a", message(3, urgent=False))
        async with asyncio.timeout(SECONDS):
            await group.ticked.wait()
        assert group.received == [1, 2, 3]


async def test_what_comes_while_a_cycle_runs_has_a_cycle_of_its_own() -> None:
    group = Group()
    written, loop = asyncio.Event(), asyncio.get_running_loop()

    def write(_frame: object) -> None:
        group.journal = SimpleNamespace(dirty=False)
        loop.call_soon_threadsafe(driver.receive, "a", message(1, urgent=True))
        loop.call_soon_threadsafe(written.set)

    group.journal = journal(write, settled=True)
    async with driving(group) as driver:
        async with asyncio.timeout(SECONDS):
            await written.wait()
            while not group.received:
                group.ticked.clear()
                await group.ticked.wait()


async def test_a_command_that_nobody_waits_for_goes_with_the_next_entry_or_in_a_while_alone() -> None:
    group = Group()
    group.is_ready = True
    async with driving(group) as driver:
        await group.ticked.wait()

        async def submitted(command: bytes, *, linger: bool) -> int:
            """Cycles that have run a few turns later."""
            driver.submit([command], lambda _proposal: None, linger=linger)
            await some_turns()
            return group.cycles

        before = group.cycles
        assert await submitted(b"lingers", linger=True) == before
        driver.receive("a", message(1, urgent=True))
        await some_turns()
        assert (group.received, group.proposed) == ([1], []), "a cycle for something else is none for it"
        before = group.cycles
        assert await submitted(b"is waited for", linger=False) == before + 1
        assert group.proposed == [b"lingers", b"is waited for"]
        await submitted(b"lingers, too", linger=True)
        group.ticked.clear()
        async with asyncio.timeout(SECONDS / 2):  # before it would by itself
            await group.ticked.wait()
        assert group.cycles == before + 2


@pytest.mark.parametrize("settled", [True, False])
async def test_what_an_earlier_sync_made_sure_of_is_answered_while_the_next_one_runs(settled: bool) -> None:
    group = Group()
    ended, writing = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    done = [Proposal([b""], ended=lambda _proposal: ended.set())]
    may_end = threading.Event()

    def write(_frame: object) -> None:
        group.journal = SimpleNamespace(dirty=False)
        loop.call_soon_threadsafe(writing.set)
        may_end.wait(SECONDS)

    def take_done() -> list[Proposal]:
        taken, done[:] = done[:], []
        return taken

    group.take_done = take_done  # type: ignore[method-assign, assignment]
    group.journal = journal(write, settled=settled)
    async with driving(group, Place(loop=False)):
        async with asyncio.timeout(SECONDS):
            await writing.wait()
            await some_turns()
            assert ended.is_set() == settled
            may_end.set()
            await ended.wait()


async def test_a_sync_on_the_loop_begins_when_what_was_sent_and_answered_has_left() -> None:
    group, place = Group(), Place(loop=True)
    group.is_leader = True
    order, written = list[str](), asyncio.Event()
    loop = asyncio.get_running_loop()

    class Peer:
        def send(self, _messages: Sequence[tuple[str, pb.RaftMessage]]) -> None:
            order.append("sent")

    def answer(_proposal: Proposal) -> None:
        order.append("answered")
        # As one does for which a task waits, and then an outbox.
        loop.call_soon(lambda: loop.call_soon(order.append, "left"))

    def write(_frame: object) -> None:
        assert threading.current_thread() is threading.main_thread()
        order.append("synced")
        group.journal = SimpleNamespace(dirty=False)
        written.set()

    early, done = [("a", message(1, urgent=True))], [Proposal([b""], ended=answer)]

    def take_once(left: list[object]) -> list[object]:
        taken, left[:] = left[:], []
        return taken

    group.take_early = partial(take_once, early)  # type: ignore[method-assign, assignment]
    group.take_done = partial(take_once, done)  # type: ignore[method-assign, assignment]
    group.journal = journal(write, settled=True)
    async with driving(group, place, cast(Sender, Peer())), asyncio.timeout(SECONDS):
        await written.wait()
    assert order == ["sent", "answered", "left", "synced"]
    assert place.took_where == [True]


async def test_who_leads_is_told_whenever_somebody_else_is_ready_to_or_the_same_one_anew() -> None:
    group, told = Group(), list[str]()
    async with driving(group) as driver:
        driver.on_leader(told.append)

        async def becomes(ready_leader: str, term: int) -> list[str]:
            group.elections.ready_leader, group.term, group.is_ready = ready_leader, term, ready_leader == "a"
            group.ticked.clear()
            driver.receive("b", message(1, urgent=True))
            await group.ticked.wait()
            await some_turns()
            return told

        assert await becomes("b", 1) == ["b"]
        assert await becomes("b", 1) == ["b"]
        assert await becomes("", 2) == ["b"], "whoever leads refuses all that ask it"
        assert await becomes("b", 2) == ["b", "b"]
        assert await becomes("a", 3) == ["b", "b", "a"]
        assert driver.takeover == Takeover(0.5, 0.1, 0.1)


async def test_a_lost_connection_is_a_reason_for_a_cycle() -> None:
    """The time until the next one was reckoned while the leader was there."""
    group = Group()
    group.disconnected = lambda _peer: None  # type: ignore[attr-defined]
    async with driving(group) as driver, asyncio.timeout(SECONDS / 2):
        await group.ticked.wait()
        group.ticked.clear()
        driver.disconnected("b")
        await group.ticked.wait()


async def test_a_driver_that_hands_over_goes_on_until_another_one_leads_and_is_ready() -> None:
    group = Group()
    group.is_leader, group.elections.ready_leader = True, "a"
    async with driving(group) as driver:
        await group.ticked.wait()
        stopping = asyncio.create_task(driver.stop())
        await some_turns()
        group.is_leader, group.elections.ready_leader = False, ""
        driver.receive("b", message(1, urgent=True))
        await some_turns()
        assert not stopping.done(), "the other may need its vote, and its journal for what it begins with"
        group.elections.ready_leader = "b"
        driver.receive("b", message(2, urgent=True))
        async with asyncio.timeout(SECONDS / 2):
            await stopping


async def test_a_driver_that_is_alone_hands_over_to_nobody() -> None:
    group = Group()
    group.is_leader, group.elections.ready_leader = True, "a"
    group.elections.has_company = False
    async with driving(group) as driver:
        await group.ticked.wait()
        async with asyncio.timeout(0.5):
            await driver.stop()


async def test_a_follower_acknowledges_before_it_applies() -> None:
    group, order, written = Group(), list[str](), asyncio.Event()

    class Peer:
        def send(self, _messages: Sequence[tuple[str, pb.RaftMessage]]) -> None:
            order.append("acknowledged")

    def write(_frame: object) -> None:
        order.append("synced")
        group.journal = SimpleNamespace(dirty=False)
        written.set()

    def tick() -> None:
        if written.is_set():
            order.append("ticked")
            group.ticked.set()

    late = [("a", message(1, urgent=True))]

    def take_late() -> list[object]:
        return [late.pop()] if late and written.is_set() else []

    group.tick = tick  # type: ignore[method-assign]
    group.take_late = take_late  # type: ignore[method-assign, assignment]
    group.journal = journal(write, settled=True)
    async with driving(group, Place(loop=True), cast(Sender, Peer())), asyncio.timeout(SECONDS):
        await group.ticked.wait()
        assert order[:3] == ["synced", "acknowledged", "ticked"]


async def test_what_lingers_when_the_driver_stops_ends_with_it() -> None:
    group = Group()
    group.is_ready = True
    async with driving(group) as driver:
        await group.ticked.wait()
        driver.submit([b"lingers"], lambda _proposal: None, linger=True)
        assert group.proposed == []
    assert group.proposed == [b"lingers"]


async def test_what_is_on_its_way_has_an_age_until_it_ends() -> None:
    class Ending(Group):
        is_ready = is_leader = True

        def __init__(self) -> None:
            super().__init__()
            self.done: list[Proposal] = []
            self.waiting: list[Proposal] = []

        def propose(self, proposal: Proposal) -> None:
            self.waiting.append(proposal)

        def take_done(self) -> list[object]:
            done, self.done = self.done, []
            return list(done)

    group = Ending()
    async with driving(group) as driver:
        assert driver.unsettled_seconds() == 0
        for command in (b"first", b"second"):
            driver.submit([command], lambda _proposal: None)
        first, second = group.waiting
        first.began, second.began = (driver._environment.monotonic() - age for age in (7.0, 3.0))
        driver._submitted_at = {id(each): each.began for each in group.waiting}
        assert 7 <= driver.unsettled_seconds() < 7.5
        for each, left in ((first, 3.0), (second, 0.0)):
            group.done.append(each)
            driver.receive("b", message(1, urgent=True))
            await some_turns()
            assert left <= driver.unsettled_seconds() < left + 0.5
