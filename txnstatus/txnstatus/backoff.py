"""Backoff: how long to wait before what has failed is tried again."""

from __future__ import annotations

from txnstatus.values import value

MAX_EXPONENT = 64
"""Every pause is at its most by then; a float cannot hold the powers of much larger ones."""


@value
class Backoff:
    """Pauses that grow with each failure up to a limit, spread so that those who failed together come back apart."""

    first_seconds: float
    most_seconds: float
    growth: float

    def pause(self, failures: int, chance: float) -> float:
        """Seconds after so many failures in a row, one or more. `chance` lies between 0 and 1, and is the caller's:
        at 0 it is half of what it is at 1."""
        longest = min(self.most_seconds, self.first_seconds * self.growth ** min(failures - 1, MAX_EXPONENT))
        return longest * (0.5 + chance / 2)
