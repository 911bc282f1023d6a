"""Work that blocks, in threads: it comes back to its loop, whatever becomes of it or of who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from txnstatus.threads import Threads

SECONDS = 10.0


@pytest.fixture
def threads() -> Iterator[Threads]:
    threads = Threads(2, "work")
    yield threads
    threads.shutdown()


def test_results_and_errors_come_back(threads: Threads) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(threads, divmod, 7, 2) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(threads, divmod, 7, 0)
        with pytest.raises(SystemExit):
            await loop.run_in_executor(threads, exit)
        many = [loop.run_in_executor(threads, pow, number, 2) for number in range(100)]
        assert await asyncio.gather(*many) == [number**2 for number in range(100)]

    asyncio.run(run())


def test_the_loop_goes_on_meanwhile_and_as_many_run_at_once_as_there_are(threads: Threads) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        both = threading.Barrier(2)
        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(loop.run_in_executor(threads, both.wait, SECONDS) for _ in range(2)))
        may_end = threading.Event()
        blocked = loop.run_in_executor(threads, may_end.wait, SECONDS)
        await asyncio.sleep(0)
        assert not blocked.done()
        may_end.set()
        assert await blocked

    asyncio.run(run())


def test_work_that_nobody_waits_for_is_done_all_the_same(threads: Threads) -> None:
    async def run() -> threading.Event:
        loop, began, may_end, done = asyncio.get_running_loop(), threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            began.set()
            may_end.wait(SECONDS)
            done.set()

        waiting = loop.run_in_executor(threads, work)
        assert await loop.run_in_executor(threads, began.wait, SECONDS)
        waiting.cancel()
        may_end.set()
        assert await loop.run_in_executor(threads, done.wait, SECONDS)
        late = threading.Event()
        loop.run_in_executor(threads, late.wait, SECONDS).cancel()
        return late

    asyncio.run(run()).set()  # it ends when the loop is closed


def test_a_shutdown_waits_for_what_was_submitted_and_takes_no_more() -> None:
    async def run() -> None:
        threads, done = Threads(1, "work"), list[int]()
        loop = asyncio.get_running_loop()
        waiting = [loop.run_in_executor(threads, done.append, number) for number in range(50)]
        threads.shutdown()
        assert done == list(range(50))
        await asyncio.gather(*waiting)
        with pytest.raises(RuntimeError, match="shutdown"):
            loop.run_in_executor(threads, done.append, 50)
        Threads(1, "never used").shutdown()

    asyncio.run(run())


def test_results_come_back_under_uvloop_too(threads: Threads) -> None:
    uvloop = pytest.importorskip("uvloop")

    async def run() -> object:
        return await asyncio.get_running_loop().run_in_executor(threads, divmod, 7, 2)

    assert uvloop.run(run()) == (3, 1)
