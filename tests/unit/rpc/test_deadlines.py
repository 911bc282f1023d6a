"""Blocks that may take so long and no longer, with one timer for all of them."""

from __future__ import annotations

import asyncio

import pytest

from txnstatus.process.background import Tasks
from txnstatus.rpc.deadlines import ANSWER_SHARE, Timeouts, answering_within, time_left

AT_MOST = 10.0


def test_a_block_that_takes_too_long_is_ended_and_its_task_goes_on() -> None:
    async def main() -> None:
        timeouts = Timeouts()
        for _ in range(2):
            with pytest.raises(TimeoutError), timeouts.after(0.01):
                await asyncio.sleep(AT_MOST)
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling()
        await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(main(), AT_MOST))


def test_a_block_that_is_in_time_is_left_alone_later() -> None:
    async def main() -> None:
        timeouts, later = Timeouts(), asyncio.Event()
        with timeouts.after(0.01):
            pass
        with timeouts.after(AT_MOST):
            asyncio.get_running_loop().call_later(0.2, later.set)
            await later.wait()

    asyncio.run(asyncio.wait_for(main(), AT_MOST))


def test_blocks_within_each_other_end_by_their_own_time() -> None:
    async def main() -> None:
        timeouts = Timeouts()
        with timeouts.after(AT_MOST), pytest.raises(TimeoutError), timeouts.after(0.01):
            await asyncio.sleep(AT_MOST)
        with pytest.raises(TimeoutError), timeouts.after(0.01), timeouts.after(AT_MOST):
            await asyncio.sleep(AT_MOST)

    asyncio.run(asyncio.wait_for(main(), AT_MOST))


def test_what_a_block_raises_comes_through() -> None:
    async def main() -> None:
        with Timeouts().after(AT_MOST):
            raise KeyError("mine")

    with pytest.raises(KeyError):
        asyncio.run(main())


def test_whoever_cancels_the_task_is_obeyed_also_when_the_time_is_over() -> None:
    async def main() -> None:
        started = asyncio.Event()

        async def work() -> None:
            with Timeouts().after(0.01):
                try:
                    started.set()
                    await asyncio.sleep(AT_MOST)
                except asyncio.CancelledError:
                    task.cancel()
                    raise

        task = asyncio.create_task(work())
        await started.wait()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(asyncio.wait_for(main(), AT_MOST))


def test_what_is_done_for_a_caller_ends_before_the_caller_gives_up_and_the_shortest_time_counts() -> None:
    async def main() -> None:
        assert time_left(AT_MOST) == AT_MOST
        with answering_within(4.0):
            assert 3.0 < time_left(AT_MOST) <= 4.0 * ANSWER_SHARE
            assert time_left(1.0) == 1.0
            with answering_within(2.0):
                assert time_left(AT_MOST) <= 2.0 * ANSWER_SHARE
            with answering_within(60.0):
                assert time_left(AT_MOST) <= 4.0 * ANSWER_SHARE
        with answering_within(0.0):
            assert time_left(AT_MOST) == 0.0
        assert time_left(AT_MOST) == AT_MOST

    asyncio.run(main())


def test_what_a_call_leaves_to_the_background_has_no_deadline() -> None:
    async def main() -> None:
        left: list[float] = []

        async def work() -> None:
            left.append(time_left(AT_MOST))

        with answering_within(0.001):
            await Tasks("it failed").spawn(work())
        assert left == [AT_MOST]

    asyncio.run(main())
