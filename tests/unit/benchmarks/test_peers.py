"""What the benchmark suite's clients are made of: batches, pools, tallies of many processes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from benchmarks.suite.clients import together
from benchmarks.suite.figures import sum_up
from benchmarks.suite.model import Tally
from benchmarks.suite.peers.batching import Batcher
from benchmarks.suite.peers.pool import Pool


class Server:
    """Answers a batch when it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.answers: list[asyncio.Future[None]] = []

    async def send(self, steps: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(steps))
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        await answer
        return [step * 10 for step in steps]


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def started(steps: Sequence[Coroutine[Any, Any, int]]) -> list[asyncio.Task[int]]:
    return [asyncio.create_task(step) for step in steps]


# ---- batches


async def test_what_waits_leaves_together() -> None:
    server = Server()
    batcher = Batcher(server.send, most=100)
    first = started([batcher.step(1), batcher.step(2)])
    await turns()
    rest = started([batcher.step(3), batcher.step(4), batcher.step(5)])
    await turns()
    assert server.batches == [[1, 2]]
    server.answers[0].set_result(None)
    await turns()
    assert server.batches == [[1, 2], [3, 4, 5]]
    server.answers[1].set_result(None)
    assert await asyncio.gather(*first, *rest) == [10, 20, 30, 40, 50]


async def test_batches_are_bounded_and_so_many_are_under_way() -> None:
    server = Server()
    batcher = Batcher(server.send, most=2, parallel=2)
    tasks = started([batcher.step(number) for number in range(5)])
    await turns()
    assert server.batches == [[0, 1], [2, 3]]
    for number in range(3):
        server.answers[number].set_result(None)
        await turns()
    assert server.batches == [[0, 1], [2, 3], [4]]
    assert await asyncio.gather(*tasks) == [0, 10, 20, 30, 40]


async def test_a_batch_that_fails_fails_its_own_steps() -> None:
    server = Server()
    batcher = Batcher(server.send, most=1)
    tasks = started([batcher.step(1), batcher.step(2)])
    await turns()
    server.answers[0].set_exception(OSError("no"))
    await turns()
    server.answers[1].set_result(None)
    with pytest.raises(OSError, match="no"):
        await tasks[0]
    assert await tasks[1] == 20


# ---- pools


async def test_who_waits_longest_is_next() -> None:
    pool = Pool(["only"])
    order: list[int] = []

    async def user(number: int) -> None:
        for _ in range(2):
            async with pool.one():
                order.append(number)
                await asyncio.sleep(0)

    await asyncio.gather(*(user(number) for number in range(3)))
    assert order == [0, 1, 2, 0, 1, 2]


async def test_a_thing_comes_back_from_a_user_that_fails() -> None:
    pool = Pool(["only"])
    with pytest.raises(OSError, match="no"):
        async with pool.one():
            raise OSError("no")
    async with pool.one() as thing:
        assert thing == "only"


# ---- many clients


def test_tallies_of_processes_are_one() -> None:
    whole = together(
        [
            Tally(2.0, [0.1, 0.2], failures=1, errors=["a"], client_cpu=0.25),
            Tally(2.5, [0.3], failures=5, errors=["b", "c", "d"], client_cpu=0.5),
        ]
    )
    assert (whole.seconds, whole.count, whole.failures) == (2.5, 3, 6)
    assert whole.errors == ["a", "b", "c"]
    assert sum_up(whole, {"client": 9.0, "leader": 0.3}, 0.0).cpu_us == {"client": 250_000.0, "leader": 100_000.0}
