"""Answers that are kept: the cluster is asked once, however many ask."""

from __future__ import annotations

import asyncio

import pytest

from txndeploy.console.kept import Kept
from txnstatus.errors import Overloaded, Unavailable

pytestmark = pytest.mark.virtual_time


class Cluster:
    def __init__(self) -> None:
        self.asked = 0
        self.answers = asyncio.Event()

    async def ask(self) -> int:
        self.asked += 1
        await self.answers.wait()
        return self.asked


async def test_those_who_ask_while_it_is_asked_share_its_answer() -> None:
    kept, cluster = Kept[str, int](4), Cluster()
    waiting = [asyncio.ensure_future(kept.get("locks", 1.0, cluster.ask)) for _ in range(5)]
    await asyncio.sleep(60.0)
    cluster.answers.set()
    assert await asyncio.gather(*waiting) == [1] * 5


async def test_it_is_asked_again_after_a_while() -> None:
    kept, cluster = Kept[str, int](4), Cluster()
    cluster.answers.set()
    assert await kept.get("locks", 1.0, cluster.ask) == 1
    await asyncio.sleep(0.9)
    assert await kept.get("locks", 1.0, cluster.ask) == 1
    await asyncio.sleep(0.2)
    assert await kept.get("locks", 1.0, cluster.ask) == 2


async def test_one_that_gives_up_takes_the_answer_from_nobody() -> None:
    kept, cluster = Kept[str, int](4), Cluster()
    first, second = (asyncio.ensure_future(kept.get("locks", 1.0, cluster.ask)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    cluster.answers.set()
    assert await second == 1


async def test_too_many_at_a_time_are_refused_until_there_is_room() -> None:
    kept, cluster = Kept[int, int](2), Cluster()
    waiting = [asyncio.ensure_future(kept.get(number, 1.0, cluster.ask)) for number in range(2)]
    await asyncio.sleep(5.0)
    with pytest.raises(Overloaded):
        await kept.get(2, 1.0, cluster.ask)
    cluster.answers.set()
    await asyncio.gather(*waiting)
    assert await kept.get(2, 1.0, cluster.ask) == 3


async def test_a_refusal_is_shared_and_not_kept_for_longer() -> None:
    kept, refusals = Kept[str, int](2), iter([Unavailable("nobody answers")])

    async def ask() -> int:
        for refusal in refusals:
            raise refusal
        return 7

    for _ in range(2):
        with pytest.raises(Unavailable):
            await kept.get("tables", 10.0, ask)
    await asyncio.sleep(1.1)
    assert await kept.get("tables", 10.0, ask) == 7
