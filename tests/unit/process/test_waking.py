"""Who sleeps wakes in time, whatever timers it has set before."""

from __future__ import annotations

import asyncio

from txnstatus.process.waking import Waking

SECONDS = 10.0


async def test_it_wakes_when_it_is_set_and_when_its_time_has_come() -> None:
    waking = Waking()
    async with asyncio.timeout(SECONDS):
        asyncio.get_running_loop().call_soon(waking.set)
        await waking.wait(2 * SECONDS)
        await waking.wait(2 * SECONDS)  # it is set
        waking.is_set = False
        await waking.wait(0.01)
    assert waking.is_set
    waking.close()


async def test_a_shorter_sleep_is_not_held_up_by_an_earlier_longer_one_nor_cut_off_by_more_than_one() -> None:
    waking, loop = Waking(), asyncio.get_running_loop()
    async with asyncio.timeout(SECONDS):
        loop.call_soon(waking.set)
        await waking.wait(2 * SECONDS)
        waking.is_set = False
        await waking.wait(0.02)
        waking.is_set = False
        loop.call_soon(waking.set)
        await waking.wait(0.01)
        began = loop.time()
        for _ in range(2):  # once for the sleep that was cut short
            waking.is_set = False
            await waking.wait(0.2)
        assert loop.time() - began >= 0.2
    waking.close()
