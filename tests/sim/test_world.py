"""The parts of the simulated world keep their own promises: a rig that cheats proves nothing."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.sim.campaign import scenario, shrink
from tests.sim.campaign.fault import Fault
from tests.sim.campaign.result import Result
from tests.sim.world import seams, world
from tests.sim.world.clock import Clock
from tests.sim.world.disk import SimDisk
from tests.sim.world.loop import Killed, NoThreads, Process, VirtualLoop
from tests.sim.world.wire import Wire
from txnstatus.raft import frames


def loop_with(*names: str) -> tuple[VirtualLoop, list[Process]]:
    loop = VirtualLoop(1)  # type: ignore[abstract]
    return loop, [Process(name, Clock()) for name in names]


def start(loop: VirtualLoop, process: Process, work: Callable[[], Awaitable[Any]]) -> None:
    loop.post(process, lambda: loop.create_task(work()))  # type: ignore[arg-type]


# ---- the loop


def test_time_passes_only_by_waiting() -> None:
    loop, (process,) = loop_with("a")
    woken: list[float] = []

    async def sleep() -> None:
        await asyncio.sleep(1000)
        woken.append(loop.now)

    start(loop, process, sleep)
    loop.run(2000)
    assert woken == [pytest.approx(1000, abs=0.01)]


def test_a_clock_of_its_own_rate_wakes_a_process_by_its_own_time() -> None:
    loop, _ = loop_with()
    fast = Process("fast", Clock(offset=50, rate=2.0))
    woken: list[float] = []

    async def sleep() -> None:
        assert asyncio.get_running_loop().time() == pytest.approx(50, abs=0.01)
        await asyncio.sleep(10)
        woken.append(loop.now)

    start(loop, fast, sleep)
    loop.run(20)
    assert woken == [pytest.approx(5, abs=0.01)]


def test_nothing_of_a_killed_process_runs_not_even_what_stands_in_finally() -> None:
    loop, (process,) = loop_with("a")
    ran: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(10)
        finally:
            ran.append("finally")

    start(loop, process, work)
    loop.run(1)
    loop.kill(process)
    loop.run(100)
    assert ran == []
    loop.close()


def test_a_process_that_dies_at_a_line_does_not_reach_the_next_one() -> None:
    loop, (process,) = loop_with("a")
    ran: list[str] = []

    def step() -> None:
        ran.append("before")
        loop.die()
        ran.append("after")

    async def work() -> None:
        with pytest.raises(Killed):
            step()
        await asyncio.sleep(0)
        ran.append("later")

    start(loop, process, work)
    loop.run(1)
    assert ran == ["before"]


def test_a_paused_process_does_afterwards_what_was_due_and_in_order() -> None:
    loop, (process,) = loop_with("a")
    woken: list[tuple[int, float]] = []

    async def sleep(number: int) -> None:
        await asyncio.sleep(number)
        woken.append((number, loop.now))

    for number in (3, 1, 2):
        start(loop, process, lambda number=number: sleep(number))  # type: ignore[misc]
    loop.run(0.5)
    loop.pause(process)
    loop.run(9.5)
    assert woken == []
    loop.resume(process)
    loop.run(1)
    assert [number for number, _ in woken] == [1, 2, 3]
    assert all(at >= 10 for _, at in woken)


def test_what_blocks_takes_a_while_and_is_lost_with_its_process() -> None:
    loop, (survivor, victim) = loop_with("survivor", "victim")
    done: list[str] = []

    async def work() -> None:
        name = loop.current.name
        await loop.run_in_executor(NoThreads(), done.append, name)
        assert loop.now > 0.0001

    start(loop, survivor, work)
    start(loop, victim, work)
    loop.run(0.0001)
    loop.kill(victim)
    loop.run(1)
    assert done == ["survivor"]


# ---- the wire


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Listen(asyncio.Protocol):
    """Keeps what comes, and how it ended."""

    def __init__(self, got: list[int], ended: list[Exception | None]) -> None:
        self.got, self.ended = got, ended

    def data_received(self, data: bytes) -> None:
        self.got += data

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.append(error)


def echoing() -> tuple[VirtualLoop, Wire, Process, Process, list[int], list[Exception | None]]:
    """A client that has sent 100 numbered messages, and what it got back."""
    loop, (client, server) = loop_with("client", "server")
    wire = Wire(loop, random.Random(1))
    wire.listen(server, Echo)
    got: list[int] = []
    ended: list[Exception | None] = []

    async def talk() -> None:
        transport, _ = await loop.create_connection(lambda: Listen(got, ended), "server", 1)
        wire.link("client", "server").delay = (0.001, 0.5)
        for number in range(100):
            transport.write(bytes([number]))

    start(loop, client, talk)
    return loop, wire, client, server, got, ended


def test_a_connection_is_in_order_and_complete_also_through_a_cut_that_heals_in_time() -> None:
    loop, wire, _, _, got, ended = echoing()
    loop.run(0.3)
    wire.link("client", "server").cuts += 1  # without the keep-alive that would break it
    loop.run(5)
    before = len(got)
    wire.heal("client", "server")
    loop.run(5)
    assert before < 100
    assert got == list(range(100))
    assert not ended


def test_a_cut_that_lasts_breaks_the_connection_and_loses_what_is_under_way() -> None:
    loop, wire, _, _, got, ended = echoing()
    loop.run(0.02)
    wire.cut("client", "server")
    loop.run(20)
    wire.heal("client", "server")
    loop.run(20)
    assert got == []
    assert len(ended) == 1


@pytest.mark.parametrize("told", [True, False])
def test_a_peer_hears_of_a_death_at_once_or_by_missing_it(told: bool) -> None:
    loop, wire, _, server, _, ended = echoing()
    loop.run(0.3)
    loop.kill(server)
    wire.died(server, told=told)
    loop.run(0.1)
    assert bool(ended) == told
    loop.run(20)
    assert len(ended) == 1


def test_who_stood_still_while_its_new_connection_was_lost_hears_that_it_was() -> None:
    loop, (client, server) = loop_with("client", "server")
    wire, heard = Wire(loop, random.Random(1)), list[str]()
    wire.listen(server, Echo)

    async def talk() -> None:
        try:
            await loop.create_connection(lambda: Listen([], []), "server", 1)
        except ConnectionError:
            heard.append("lost")
        else:
            heard.append("connected")

    start(loop, client, talk)
    loop.run(0.0001)
    loop.pause(client)
    loop.run(1)
    loop.kill(server)
    wire.died(server, told=True)
    loop.run(1)
    loop.resume(client)
    loop.run(1)
    assert heard == ["lost"]


# ---- the disk


def test_what_rots_is_never_what_a_power_cut_may_have_torn() -> None:
    disk, path = SimDisk(random.Random(1)), Path("/raft/00000000000000000001.log")
    disk.overwrite(path, b"".join(frames.frame(frames.BATCH, b"x" * 20) for _ in range(3)))
    size = frames.HEADER_BYTES + 20
    found = {disk.rot_at([path]) for _ in range(5000)}
    assert found == {(path, position) for position in range(2 * size)}
    assert disk.rot_at([]) is None


def test_a_failed_sync_is_told_once_and_drops_what_it_was_to_write() -> None:
    for seed in range(20):
        disk, told = SimDisk(random.Random(seed)), []
        disk.on_failed_sync = lambda told=told: told.append(True)  # type: ignore[misc]
        disk.make_directory(Path("/raft"))
        file = disk.create(Path("/raft/file"))
        file.write(b"first")
        file.sync()
        file.write(b"second")
        disk.fails_next_sync = True
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        assert told == [True]
        file.sync()
        if disk.read(Path("/raft/file")) != b"firstsecond":
            return
    pytest.fail("nothing was ever dropped")


# ---- shrinking


def test_faults_that_overlap_leave_nothing_behind() -> None:
    made = world.World(scenario.make(1, "calm"), None)
    for fault in (Fault(0.0, "clog", "n1", "n2", 1.0, 0.5), Fault(0.0, "slow_disk", "n1", "", 1.0, 0.5)):
        made.nemesis.inflict(fault)
        made.nemesis.inflict(replace(fault, amount=0.9))
    link, machine = made.wire.link("n1", "n2"), made.cluster.machines["n1"]
    assert link.draw_delay(random.Random(1)) > 0.2
    made.nemesis.end_all()
    assert link.draw_delay(random.Random(1)) < 0.01
    assert not machine.slowness


def test_a_failing_scenario_is_cut_down_to_what_matters() -> None:
    faults = tuple(Fault(float(number), "kill", f"n{number % 3 + 1}", "", 2.0) for number in range(1, 11))
    made = replace(scenario.make(1, "calm"), faults=faults, seconds=12.0, clients=3)

    def run(tried: scenario.Scenario) -> Result:
        guilty = any(fault.at == 7.0 for fault in tried.faults)
        return Result(tried, 0, ["3 lost: it is gone"] if guilty else [], tried.seconds, 0, 0, 0, 0)

    smallest = shrink.shrink(run(made), run, max_runs=200).scenario
    assert [fault.at for fault in smallest.faults] == [7.0]
    assert smallest.clients == 1


# ---- failpoints


def test_a_node_dies_where_it_was_told_to_and_comes_back() -> None:
    """As a dictionary without items, what was armed was never asked: no node of any world died at a failpoint."""
    fault = Fault(1.0, "kill_at_failpoint", "n1", "raft.before_sync", 0.5)
    made = replace(scenario.make(1, "calm"), faults=(fault,), seconds=2.0)
    played = world.World(made, None)
    with seams.no_collection(), seams.quiet(), seams.replaced(played.seams()):
        played.play()
    assert played.cluster.machines["n1"].lives == 2
