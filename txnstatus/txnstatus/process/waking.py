"""Waking: a task that sleeps until somebody has something for it, or a time comes.

As an `asyncio.Event` and a timer, for one that sleeps thousands of times a second: a timer that was set for an earlier
sleep stays, and the next one sets none unless it is to be shorter. So it may be woken for nothing, once in such a time.
"""

from __future__ import annotations

import asyncio


class Waking:
    def __init__(self) -> None:
        self._sleeper: asyncio.Future[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self.is_set = False
        """There is something to do: who sleeps is awake, and stays so until it is cleared."""

    def set(self) -> None:
        self.is_set = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Returns once it is set, after so long at the latest. One task waits at a time."""
        if self.is_set:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._alarm is None or due < self._alarm_at:
            self.close()
            self._alarm, self._alarm_at = loop.call_later(seconds, self._ring), due
        self._sleeper = loop.create_future()
        await self._sleeper

    def close(self) -> None:
        """Nobody waits any more."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        self.set()
