"""LoopWatch: how long the node's event loop was busy with one thing, which is how late everything else was."""

from __future__ import annotations

import asyncio

from txnstatus.measures import Durations

LOOK_SECONDS = 0.02
WINDOW_SECONDS = 10.0


class LoopWatch:
    def __init__(self, lateness: Durations) -> None:
        """`lateness` counts each look."""
        self._lateness = lateness
        self._last_window = 0.0
        self._this_window = 0.0

    @property
    def longest_pause(self) -> float:
        """Seconds; of the last ten to twenty seconds."""
        return max(self._last_window, self._this_window)

    async def run(self) -> None:
        """For ever."""
        loop = asyncio.get_running_loop()
        window_ends = loop.time() + WINDOW_SECONDS
        while True:
            due = loop.time() + LOOK_SECONDS
            await asyncio.sleep(LOOK_SECONDS)
            now = loop.time()
            self._lateness.add(max(0.0, now - due))
            self._this_window = max(self._this_window, now - due)
            if now >= window_ends:
                self._last_window, self._this_window = self._this_window, 0.0
                window_ends = now + WINDOW_SECONDS
