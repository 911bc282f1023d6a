"""The gate before a transaction's first write on a table."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from txnparticipant.leader.dispatcher import Dispatcher
from txnstatus.errors import NotFound, Overloaded

KEY = ("3.0", 7)


class Begin:
    """Counts how often it is asked to begin; begins when the test lets it."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self.go = asyncio.Event()
        self.cancelled = False
        self._error = error

    async def __call__(self) -> None:
        self.count += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._error is not None:
            raise self._error


async def turn() -> None:
    """Lets every task that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


def start(dispatcher: Dispatcher, begin: Callable[[], Awaitable[None]], writes: int) -> list[asyncio.Task[None]]:
    return [asyncio.ensure_future(dispatcher.admit(KEY, begin)) for _ in range(writes)]


def nothing_is_left(dispatcher: Dispatcher) -> bool:
    return not dispatcher._gates


async def test_many_writes_begin_once() -> None:
    dispatcher, begin = Dispatcher(), Begin()
    writes = start(dispatcher, begin, 100)
    await turn()
    assert not any(write.done() for write in writes)
    begin.go.set()
    await asyncio.gather(*writes)
    assert begin.count == 1
    assert nothing_is_left(dispatcher)


async def test_transactions_do_not_wait_for_each_other() -> None:
    dispatcher, slow, fast = Dispatcher(), Begin(), Begin()
    fast.go.set()
    waiting = asyncio.ensure_future(dispatcher.admit(KEY, slow))
    await dispatcher.admit(("3.0", 8), fast)
    assert not waiting.done()
    slow.go.set()
    await waiting


async def test_a_failure_reaches_all_that_wait_and_leaves_nothing() -> None:
    dispatcher, begin = Dispatcher(), Begin(NotFound("no such transaction"))
    writes = start(dispatcher, begin, 3)
    await turn()
    begin.go.set()
    answers = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(answer) for answer in answers] == [NotFound] * 3
    assert begin.count == 1
    assert nothing_is_left(dispatcher)
    again = Begin()
    again.go.set()
    await dispatcher.admit(KEY, again)
    assert again.count == 1, "the next write tries anew"


async def test_more_than_the_limit_is_refused_and_the_others_go_through() -> None:
    dispatcher, begin = Dispatcher(max_waiting=2), Begin()
    writes = start(dispatcher, begin, 2)
    await turn()
    with pytest.raises(Overloaded, match="2 writes"):
        await dispatcher.admit(KEY, begin)
    begin.go.set()
    await asyncio.gather(*writes)
    assert begin.count == 1
    assert nothing_is_left(dispatcher)


@pytest.mark.parametrize("who", [0, 1])
async def test_a_caller_that_gives_up_takes_nobody_with_it(who: int) -> None:
    """Not even the first one, whose write started the begin."""
    dispatcher, begin = Dispatcher(), Begin()
    writes = start(dispatcher, begin, 2)
    await turn()
    writes[who].cancel()
    await turn()
    assert not begin.cancelled
    begin.go.set()
    await writes[1 - who]
    assert writes[who].cancelled()
    assert begin.count == 1
    assert nothing_is_left(dispatcher)


@pytest.mark.parametrize("error", [None, NotFound("no such transaction")])
async def test_the_begin_goes_on_when_all_have_given_up(error: Exception | None) -> None:
    """The table may be registered already: then it must also begin. An error nobody hears is no loose end."""
    unheard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unheard.append(context))
    dispatcher, begin = Dispatcher(), Begin(error)
    (write,) = start(dispatcher, begin, 1)
    await turn()
    write.cancel()
    await turn()
    begin.go.set()
    await turn()
    assert not begin.cancelled
    assert nothing_is_left(dispatcher)
    assert unheard == []


async def test_a_write_that_comes_while_it_begins_waits_for_the_same_begin() -> None:
    dispatcher, begin, other = Dispatcher(), Begin(), Begin()
    first = start(dispatcher, begin, 1)
    await turn()
    late = start(dispatcher, other, 1)
    await turn()
    begin.go.set()
    await asyncio.gather(*first, *late)
    assert (begin.count, other.count) == (1, 0)


async def test_a_gate_is_gone_as_soon_as_what_it_waited_for_has_ended() -> None:
    """Else who comes in the same turn of the loop finds one that is open, and looks again without end."""
    dispatcher, registered = Dispatcher(), asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    async def register() -> None:
        begun.set()
        await registered

    waiter = asyncio.create_task(dispatcher.admit("key", register))
    await begun.wait()
    seen: list[bool] = []
    registered.set_result(None)
    asyncio.get_running_loop().call_soon(lambda: seen.append(dispatcher.is_busy("key")))
    await waiter
    assert seen == [False]
