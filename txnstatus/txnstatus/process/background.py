"""Work in the background of a service, for as long as it serves."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Coroutine
from typing import Any

from txnstatus.process.stop import stop_process


class Tasks:
    """Work that nobody waits for. A failure ends the process: a task that is just gone leaves its work undone."""

    def __init__(self, story: str) -> None:
        """`story` says what has failed, if one of them does."""
        self._story = story
        self._running: dict[asyncio.Task[None], None] = {}
        """Tasks in the order of their start, held here because the loop does not hold them."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """In a context of its own: whoever's call gave rise to it, it is bound to no caller's deadline."""
        task = asyncio.create_task(work, context=contextvars.Context())
        self._running[task] = None
        task.add_done_callback(self._ended)
        return task

    async def stop(self) -> None:
        """Cancels what runs, and returns when it has ended."""
        running = [task for task in self._running if task is not asyncio.current_task()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            stop_process(self._story, error)
