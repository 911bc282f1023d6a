"""SyncPlace: where a node syncs its journals, on its event loop or in a worker thread.

A change of thread and back costs as much as a sync does on a good disk, and more where all cores are busy. A sync on
the loop keeps everything else of the node waiting. So it is there as long as that is short; a disk that is slow now and
then holds up the loop so a few times in RETRY_SECONDS.
"""

from __future__ import annotations

SHORT_SECONDS = 0.0005
"""What a sync on the loop may take, in the mean of the last ones."""
LAST = 16
"""Syncs that the mean goes back, about."""
MOST_SECONDS = 0.004
"""What one sync counts for, at most: one alone may have waited for a core, and leaves the loop only with another."""
RETRY_SECONDS = 1.0
"""Time for which syncs stay in the thread, at least, once they were long on the loop."""
MAX_BYTES = 1 << 17
"""What is longer takes its time to write, whatever a sync takes."""


class SyncPlace:
    """One for all journals of a node, since they share its disk. It is told the time, of a clock that only rises."""

    def __init__(self) -> None:
        self._mean = 0.0
        self._in_thread_until: float | None = None
        self._shortest = SHORT_SECONDS
        """Seconds of the shortest in the thread since then: a thread may wait for the interpreter after its sync."""

    def is_loop(self, size: int, now: float) -> bool:
        """Whether the sync of so many bytes that begins now is to be on the loop."""
        if self._in_thread_until is not None and now >= self._in_thread_until:
            if self._shortest < SHORT_SECONDS:
                self._in_thread_until, self._mean = None, 0.0
            else:
                self._stay_in_thread(now)
        return self._in_thread_until is None and size <= MAX_BYTES

    def took(self, seconds: float, now: float, *, on_loop: bool) -> None:
        """A sync has ended."""
        if on_loop:
            self._mean += (min(seconds, MOST_SECONDS) - self._mean) / LAST
            if self._mean > SHORT_SECONDS:
                self._stay_in_thread(now)
        else:
            self._shortest = min(self._shortest, seconds)

    def _stay_in_thread(self, now: float) -> None:
        self._in_thread_until, self._shortest = now + RETRY_SECONDS, float("inf")
