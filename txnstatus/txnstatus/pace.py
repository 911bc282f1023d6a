"""Pace: when what a user asks for has its turn, if that is more than he may have in a second.

It waits for its turn where that comes soon, and is refused else. A refusal waits, too: they have turns as all else has,
and come in time for whoever waits for them. So however much somebody asks, he is answered at his rate, and has to do so
much longer with what he has under way.
"""

from __future__ import annotations

from dataclasses import dataclass

from txnstatus.values import value

ROUNDING = 1e-6
"""Part of one by which times may be off."""
WAIT_SECONDS = 1.0
"""Time for which one waits for its turn, at most."""
LATE_SECONDS = 30.0
"""Time after which a refusal is told, at the latest."""
MOST_LATE = 10_000
"""Refusals of one user that wait: more are told at once."""


@value
class Turn:
    """When something is done."""

    seconds: float = 0.0
    """Seconds until then."""
    is_refused: bool = False
    """Whether it is told then that it is not done."""
    count: int = 1
    """Transactions that are to begin, or questions that are asked."""
    rate: int = 0
    """Number that may have their turn in a second; 0: as many as one likes."""
    is_late: bool = False
    """Whether it is one of the refusals that are counted."""

    @property
    def alike(self) -> Turn:
        """What it has in common with others of its kind: all but the time."""
        return Turn(0.0, self.is_refused, self.count, self.rate, self.is_late)


AT_ONCE = Turn()


@dataclass(slots=True)
class Pace:
    """What one user had of late. Times are seconds, of one clock."""

    had: float = 0.0
    """Number that had their turn, less those that might have had it since; those that wait are counted."""
    at: float = 0.0
    """Time to which `had` is counted down."""
    refused_until: float = 0.0
    """Time at which the next refusal has its turn."""
    late: int = 0
    """Refusals that wait."""

    def turn(self, count: int, rate: int, now: float, patience: float) -> Turn:
        """Turn of so many, where `rate` have it in a second. `patience`: seconds for which whoever asks
        waits."""
        wait = self.wait(count, rate, now)
        if wait > min(WAIT_SECONDS, patience):
            return self._refuse(count, rate, now, patience)
        self.had, self.at = self._left(rate, now) + count, now
        return Turn(wait, count=count, rate=rate)

    def refusal(self, rate: int, now: float, patience: float) -> Turn | None:
        """That of whatever is asked for now; None: something has its turn, or waits."""
        if self.wait(1, rate, now) <= min(WAIT_SECONDS, patience):
            return None
        return self._refuse(1, rate, now, patience)

    def wait(self, count: int, rate: int, now: float) -> float:
        """Seconds until so many have their turn. More than a second has do where nothing is left, and others wait for
        longer."""
        over = self._left(rate, now) + min(count, rate) - rate
        return over / rate if over > ROUNDING else 0.0

    def again(self, count: int, rate: int, now: float) -> float:
        """Seconds after which it helps to ask once more."""
        return max(self.wait(count, rate, now) - WAIT_SECONDS, 1 / rate)

    def is_over(self, rate: int, now: float) -> bool:
        """Whether nothing of it matters any more, or there is no limit."""
        return not self.late and (not rate or (self._left(rate, now) == 0.0 and self.refused_until <= now))

    def forget(self) -> None:
        """All of it."""
        self.had = self.at = self.refused_until = 0.0

    def _left(self, rate: int, now: float) -> float:
        return max(0.0, self.had - (now - self.at) * rate)

    def _refuse(self, count: int, rate: int, now: float, patience: float) -> Turn:
        if self.late >= MOST_LATE:
            return Turn(0.0, is_refused=True, count=count, rate=rate)
        turn = min(max(now, self.refused_until), now + LATE_SECONDS)
        self.refused_until = turn + 1 / rate
        self.late += 1
        return Turn(min(turn - now, patience), is_refused=True, count=count, rate=rate, is_late=True)
