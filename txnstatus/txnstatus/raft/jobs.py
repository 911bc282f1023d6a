"""Disk work of one group that would be too long for a cycle: it runs beside the cycles, one piece at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from txnstatus.process.disk import DiskFull


class Jobs:
    """`take` what is to be run, in any thread; once it ran, `finish` tells the outcome on the group's own thread."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], Any], Callable[[Any], None]]] = deque()
        self._running: Callable[[Any], None] | None = None
        self._outcome: Any = None

    def add(self, work: Callable[[], Any], ended: Callable[[Any], None] = lambda _outcome: None) -> None:
        """`ended` gets what `work` returned, or the DiskFull that it raised. Anything else that it raises, the caller
        of `take` gets, and must end the process."""
        self._waiting.append((work, ended))

    @property
    def idle(self) -> bool:
        return not self._waiting and self._running is None

    def take(self) -> Callable[[], None] | None:
        """The next piece of work; None while there is none, or one runs."""
        if self._running is not None or not self._waiting:
            return None
        work, self._running = self._waiting.popleft()

        def run() -> None:
            try:
                self._outcome = work()
            except DiskFull as error:
                self._outcome = error

        return run

    def finish(self) -> None:
        assert self._running is not None
        ended, self._running = self._running, None
        outcome, self._outcome = self._outcome, None
        ended(outcome)
