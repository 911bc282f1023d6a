"""What became of one simulated world."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.sim.campaign.scenario import Scenario


@dataclass(slots=True)
class Result:
    scenario: Scenario
    digest: int
    violations: list[str]
    """The first is what to look at."""
    virtual_seconds: float
    commands: int
    calls: int
    acked_commits: int
    reads: int
    refused_begins: int = 0
    """Begins that were refused at the cap of open transactions."""
    faults: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> bool:
        return bool(self.violations)
