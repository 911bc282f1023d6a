"""Threads: for `loop.run_in_executor`, at half the price of concurrent.futures.

A node syncs its journals in threads, a dozen times for a transaction, and the futures of the standard library's pools,
each with a lock, a condition and a chain of callbacks to the loop's own future, cost about as much as the hand-over.
Here the loop's future is the only one.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from queue import SimpleQueue
from typing import Any, NamedTuple


class _Work(NamedTuple):
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    act: Callable[..., Any]
    arguments: tuple[Any, ...]


class Threads(Executor):
    """So many, begun with the first work. They keep no process alive; `shutdown` waits for what is under way."""

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def submit(self, act: Callable[..., Any], /, *arguments: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """To be called from a running loop, whose future this is. Raises RuntimeError after `shutdown`."""
        if self._closed:
            raise RuntimeError("no work is taken after shutdown")
        if not self._threads:
            self._start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        self._queue.put(_Work(loop, future, act, arguments))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """What was submitted is done first."""
        assert not cancel_futures, "whoever waits for it cancels it"
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _start(self) -> None:
        for number in range(self._count):
            thread = threading.Thread(target=self._run, name=f"{self._name} {number}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            result, error = None, None
            try:
                result = work.act(*work.arguments)
            except BaseException as caught:  # noqa: BLE001 it is raised where the work is waited for
                error = caught
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                work.loop.call_soon_threadsafe(_end, work.future, result, error)
            del work, result, error  # not to be kept until the next one comes


def _end(future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    if future.done():
        return  # whoever waited has given up
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
