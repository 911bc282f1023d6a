"""What programs were shown."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Held:
    """What a program reads under a lease."""

    manifests: frozenset[str]
    until: float
    """True seconds: it counts on it until then."""


@dataclass(frozen=True, slots=True)
class Read:
    """What a scan answered."""

    table: str
    timestamp: int
    manifests: frozenset[str]
    sent_at: float
