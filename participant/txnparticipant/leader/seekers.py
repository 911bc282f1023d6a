"""Seekers: workers that ask for compactions, and the sizes that each of them takes.

A compaction is given to a worker that takes its size. It is given to any other one, too, when nobody who takes it was
heard of for long: so none waits for a worker that is not there. One that works is heard of, and waited for, but not for
ever: one that hangs may go on renewing what it has. Who was heard of is in the memory of a shard's leader, and a new
one listens for as long first.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from txnstatus.sizes import Sizes
from txnstatus.values import value

MAX_SEEKERS = 1_000
"""Workers that are remembered: the last ones."""
BUSY_SECONDS = 3_600.0
"""Time since a worker asked, up to which it is heard of as it works."""
SOON_SECONDS = 60.0
"""Time within which a worker that is there is heard of, whether it works or has nothing to do."""


@value
class Seeker:
    """A worker, when it was heard of last."""

    sizes: Sizes
    table: str
    """The only table that it works for; empty: all."""
    asked: float
    """When it had nothing to do last."""
    heard: float

    def takes(self, table: str, size: int) -> bool:
        return self.table in ("", table) and self.sizes.fit(size)


@dataclass(slots=True)
class Seekers:
    """Workers that one shard's leader has heard of."""

    since: float
    """When this leader began to listen."""
    _known: dict[str, Seeker] = field(default_factory=dict)
    """Workers by name, the one that was heard of last at the end."""

    def asks(self, worker: str, sizes: Sizes, table: str, now: float) -> None:
        """The worker has nothing to do."""
        self._known.pop(worker, None)
        self._known[worker] = Seeker(sizes, table, now, now)
        while len(self._known) > MAX_SEEKERS:
            del self._known[next(iter(self._known))]

    def works(self, worker: str, now: float) -> None:
        """The worker renews what it has."""
        if (known := self._known.pop(worker, None)) is not None:
            self._known[worker] = replace(known, heard=min(now, known.asked + BUSY_SECONDS))

    def may_take(self, sizes: Sizes, table: str, size: int, now: float, patience: float) -> bool:
        """Whether a worker that takes these sizes is to have a compaction. `patience`: with others, who take it."""
        return sizes.fit(size) or self._silence(table, size, now) >= patience

    def lack(self, table: str, size: int, now: float) -> str:
        """Why nobody works at a compaction; empty: somebody who takes it is there."""
        silent = self._silence(table, size, now)
        if silent < SOON_SECONDS:
            return ""
        others = any(now - each.heard < SOON_SECONDS for each in self._known.values())
        what = f"no worker that takes one of {size:,} bytes" if others else "no worker"
        return f"{what} was heard of for {silent:.0f} s"

    def _silence(self, table: str, size: int, now: float) -> float:
        """Seconds since somebody who takes it was heard of, or this leader began to listen."""
        heard = (each.heard for each in self._known.values() if each.takes(table, size))
        return now - max(heard, default=self.since)
