"""What the calls of clients keep of a process's memory, all together."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

log = logging.getLogger(__name__)


class Holder(Protocol):
    """Calls of one client."""

    def give_up(self) -> None:
        """Ends them all, and with them what they hold."""


class Load:
    """What the calls of all clients keep of this process's memory. Who has the most of it makes room for the others."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Holder, int] = {}
        self._total = 0
        self.idle = asyncio.Event()
        """Set while no call is here."""
        self.idle.set()

    @property
    def bytes(self) -> int:
        """What all of them keep now."""
        return self._total

    def more(self, calls: Holder, size: int) -> None:
        self._held[calls] = self._held.get(calls, 0) + size
        self._count(size)
        while self._total > self._most:
            largest = max(self._held, key=self._held.__getitem__)
            log.warning("a connection ends: of %d bytes of clients' calls it has %d", self._total, self._held[largest])
            self.no_more(largest)
            largest.give_up()

    def less(self, calls: Holder, size: int) -> None:
        if calls in self._held:
            self._held[calls] -= size
            self._count(-size)

    def no_more(self, calls: Holder) -> None:
        self._count(-self._held.pop(calls, 0))

    def _count(self, more: int) -> None:
        self._total += more
        if not self._total:
            self.idle.set()
        elif more > 0:
            self.idle.clear()
