"""A machine's clocks as functions of the true time: an offset and a rate of their own, and a wall clock that jumps."""

from __future__ import annotations

from dataclasses import dataclass

EPOCH_MICROS = 1_700_000_000_000_000


@dataclass(slots=True)
class Clock:
    offset: float = 0.0
    """Seconds by which the monotonic clock is ahead."""
    rate: float = 1.0
    """Seconds that this clock counts in a true second."""
    wall_offset: float = 0.0
    """Seconds by which the wall clock is ahead; a jump changes them."""

    def monotonic(self, now: float) -> float:
        return self.offset + now * self.rate

    def true_time(self, monotonic: float) -> float:
        return (monotonic - self.offset) / self.rate

    def wall_micros(self, now: float) -> int:
        return EPOCH_MICROS + int((now * self.rate + self.wall_offset) * 1e6)
