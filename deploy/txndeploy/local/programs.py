"""Programs that keep a cluster busy while something else is done to it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Self

END_SECONDS = 120.0


class Programs(ABC):
    """Threads that run within a `with` block. At its end each is told, and waited for."""

    def __init__(self, count: int) -> None:
        self.ended = threading.Event()
        self._threads = [threading.Thread(target=self.run, args=(number,)) for number in range(count)]

    @abstractmethod
    def run(self, number: int) -> None:
        """What one does, until `ended` is set. `number`: which of them it is, from 0 up."""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Raises TimeoutError where one does not end."""
        self.ended.set()
        for thread in self._threads:
            thread.join(END_SECONDS)
        if left := sum(thread.is_alive() for thread in self._threads):
            raise TimeoutError(f"{left} programs do not end: not within {END_SECONDS:.0f} s")
