"""Sizes of the work that a worker takes."""

from __future__ import annotations

from txnstatus.values import value


@value
class Sizes:
    """Bytes of the compactions that a worker takes."""

    least: int = 0
    below: int = 0
    """0 = any."""

    def fit(self, size: int) -> bool:
        return size >= self.least and (not self.below or size < self.below)


ANY_SIZE = Sizes()
