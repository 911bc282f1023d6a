"""Twins of the client's classes: what their calls run in."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

from txnclient.aio.twins import Twin

WAITING = 4


class Original:
    """A client whose writes may wait, as for a lock."""

    def __init__(self) -> None:
        self.released = threading.Event()

    def write(self, *, waits: bool) -> str:
        return "in time" if not waits or self.released.wait(20) else "too late"


def test_calls_that_wait_in_threads_leave_some_to_what_they_wait_for() -> None:
    """Writes that wait for a lock would wait for each other, until the time for locks is over."""

    async def work() -> list[str]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WAITING))
        original = Original()
        twin = Twin(original)

        async def write(*, waits: bool) -> str:
            found: str = await twin.write(waits=waits)
            return found

        others = [asyncio.ensure_future(write(waits=True)) for _ in range(WAITING)]
        await asyncio.sleep(0)
        await asyncio.wait_for(write(waits=False), 10)  # by the holder of the lock
        original.released.set()
        return await asyncio.gather(*others)

    assert asyncio.run(work()) == ["in time"] * WAITING
