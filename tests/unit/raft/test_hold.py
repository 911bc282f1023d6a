"""A group that is held: what is submitted waits, and what was submitted before has applied."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from tests.sim.world.disk import SimDisk
from tests.unit.harness.raft import FAST, Recorder
from txnstatus.errors import NotTheLeader, Unavailable
from txnstatus.process.environment import Environment
from txnstatus.raft.driver import RaftDriver, Sender
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.proposals import Proposal

SECONDS = 20.0


@asynccontextmanager
async def leading() -> AsyncIterator[tuple[RaftDriver, Recorder]]:
    """A group of one member, which leads."""
    machine, ready = Recorder("a", [], lambda: None), asyncio.Event()
    with ThreadPoolExecutor(1) as threads:
        environment = Environment(blocking=threads)
        group = RaftGroup("g", "a", ["a"], machine, Path("/g"), FAST, environment.monotonic, SimDisk(random.Random(1)))
        driver = RaftDriver(group, cast(Sender, SimpleNamespace(send=lambda _messages: None)), environment)
        driver.subscribe(lambda leads: ready.set() if leads else None)
        driver.start()
        async with asyncio.timeout(SECONDS):
            await ready.wait()
            yield driver, machine
            await driver.stop()


class Submitted:
    """A command that was submitted, and what became of it."""

    def __init__(self, driver: RaftDriver, command: bytes) -> None:
        self._ended = asyncio.get_running_loop().create_future()
        driver.submit([command], self._hear)

    def _hear(self, proposal: Proposal) -> None:
        self._ended.set_result(proposal.error)

    @property
    def is_over(self) -> bool:
        return self._ended.done()

    async def error(self) -> object:
        return await self._ended


async def test_what_was_submitted_before_has_applied_and_what_comes_then_waits() -> None:
    async with leading() as (driver, machine):
        before = [Submitted(driver, b"before %d" % number) for number in range(20)]
        hold = await driver.hold(SECONDS)
        assert machine.applied == [b"before %d" % number for number in range(20)]
        after = Submitted(driver, b"after")
        assert driver.is_held(hold)
        assert [await each.error() for each in before] == [None] * 20
        assert (len(machine.applied), after.is_over, driver.is_held(hold)) == (20, False, True)
        driver.let_go(hold)
        assert await after.error() is None
        assert machine.applied[20:] == [b"after"]
        assert not driver.is_held(hold)


async def test_a_hold_ends_by_itself_and_says_so() -> None:
    async with leading() as (driver, machine):
        hold = await driver.hold(0.01)
        assert await Submitted(driver, b"after").error() is None
        assert not driver.is_held(hold)
        assert machine.applied == [b"after"]
        driver.let_go(hold)  # harmless
        assert driver.is_held(await driver.hold(SECONDS))


async def test_one_holds_at_a_time_and_a_group_that_stops_is_let_go() -> None:
    async with leading() as (driver, _):
        hold = await driver.hold(SECONDS)
        with pytest.raises(Unavailable, match="held already"):
            await driver.hold(SECONDS)
        waits = Submitted(driver, b"waits")
        await driver.stop()
        assert waits.is_over
        assert not driver.is_held(hold)
        with pytest.raises(NotTheLeader):
            await driver.hold(SECONDS)
