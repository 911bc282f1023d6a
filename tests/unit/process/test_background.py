"""Work in the background: held while it runs, ended when its owner stops, and missed when it fails."""

from __future__ import annotations

import asyncio
import gc

import pytest

from txnstatus.process.background import Tasks


def test_it_is_held_until_it_has_ended_and_not_longer() -> None:
    async def main() -> None:
        tasks, go_on = Tasks("it failed"), asyncio.Event()

        async def work() -> None:
            await go_on.wait()

        tasks.spawn(work())
        gc.collect()
        (task,) = tasks._running
        go_on.set()
        await task
        assert not tasks._running

    asyncio.run(main())


def test_stopping_waits_for_what_it_cancels() -> None:
    async def main() -> None:
        tasks, ended = Tasks("it failed"), list[int]()

        async def work(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(number)

        for number in range(3):
            tasks.spawn(work(number))
        await asyncio.sleep(0)
        await tasks.stop()
        assert ended == [0, 1, 2]
        await tasks.stop()

    asyncio.run(main())


def test_a_failure_ends_the_process_with_its_story(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[tuple[str, BaseException]] = []
    monkeypatch.setattr(
        "txnstatus.process.background.stop_process", lambda story, error: stopped.append((story, error))
    )
    fault = KeyError("a fault in the program")

    async def fail() -> None:
        raise fault

    async def main() -> None:
        tasks = Tasks("it failed")
        tasks.spawn(fail())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await tasks.stop()

    asyncio.run(main())
    assert stopped == [("it failed", fault)]
