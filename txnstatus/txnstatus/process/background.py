"""Work in the background of a service, for as long as it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from txnstatus.process.stop import stop_process


def supervised(work: Coroutine[Any, Any, None], story: str) -> asyncio.Task[None]:
    """A task whose failure ends the process: one that is just gone is missed by nobody, and leaves its work undone.

    `story` says what failed.
    """
    task = asyncio.create_task(work)
    task.add_done_callback(lambda ended: _judge(ended, story))
    return task


def _judge(task: asyncio.Task[None], story: str) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        stop_process(story, error)
