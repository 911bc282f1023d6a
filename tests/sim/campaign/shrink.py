"""Cuts a failing scenario down: fewer faults, clients and seconds, as long as the same rule is broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.sim.campaign.result import Result
from tests.sim.campaign.scenario import Scenario

MAX_RUNS = 60


def rule_of(result: Result) -> str:
    """The broken rule; empty = none is."""
    return result.violations[0].partition(":")[0] if result.violations else ""


def shrink(failed: Result, run: Callable[[Scenario], Result], max_runs: int = MAX_RUNS) -> Result:
    """The smallest scenario that was found to break the same rule, as it ran."""
    best, rule, runs = failed, rule_of(failed), 0
    progress = True
    while progress and runs < max_runs:
        progress = False
        for smaller in _smaller(best.scenario, best.virtual_seconds):
            runs += 1
            result = run(smaller)
            if rule_of(result) == rule:
                best, progress = result, True
                break
            if runs >= max_runs:
                break
    return best


def _smaller(scenario: Scenario, failed_at: float) -> Iterator[Scenario]:
    faults = scenario.faults
    if failed_at < scenario.seconds:
        kept = tuple(fault for fault in faults if fault.at < failed_at)
        yield replace(scenario, seconds=failed_at + 0.01, faults=kept)
    # Halves first, then quarters, down to one by one (Zeller's delta debugging).
    size = len(faults)
    while size > 1:
        size = (size + 1) // 2
        for start in range(0, len(faults), size):
            yield replace(scenario, faults=faults[:start] + faults[start + size :])
    if len(faults) == 1:
        yield replace(scenario, faults=())
    if scenario.clients > 1:
        yield replace(scenario, clients=scenario.clients - 1)
    if scenario.duplicates:
        yield replace(scenario, duplicates=0.0)
    if scenario.late:
        yield replace(scenario, late=0.0)
    if scenario.slow_links:
        yield replace(scenario, slow_links=False)
    for number, fault in enumerate(faults):
        if fault.seconds > 0.2:
            shorter = replace(fault, seconds=fault.seconds / 2)
            yield replace(scenario, faults=(*faults[:number], shorter, *faults[number + 1 :]))
