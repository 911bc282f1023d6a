"""Measures: what a process counts of its own doings, for whoever wants to know. A count costs part of a microsecond.

Nothing here is replicated, and no decision rests on it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Seconds: upper bounds of what counts together."""


class Durations:
    """A histogram of times."""

    __slots__ = ("_counts", "seconds")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        """All of them together."""

    def add(self, seconds: float) -> None:
        self._counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Each bound, and how many took so long or less; the last bound is infinite."""
        so_far = 0
        for bound, count in zip((*BOUNDS, float("inf")), self._counts, strict=True):
            so_far += count
            yield bound, so_far


@dataclass(slots=True)
class Measures:
    """Counts of one process, since its start."""

    calls: defaultdict[str, Durations] = field(default_factory=lambda: defaultdict(Durations))
    """Method → from when a call came over a connection until its answer left, waiting included."""
    refusals: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Method and error's code → calls that were answered with an error."""
    syncs: Durations = field(default_factory=Durations)
    """Writes of a journal with their sync."""
    replications: Durations = field(default_factory=Durations)
    """Times from when commands were submitted until they had applied here, on a leader."""
    lateness: Durations = field(default_factory=Durations)
    """How late the event loop was for whoever waited a moment; looked at some fifty times a second."""
    begun: int = 0
    """Transactions that began under this leader."""
    ended: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Final state and, of an abort, its cause's code → transactions that ended under this leader."""
