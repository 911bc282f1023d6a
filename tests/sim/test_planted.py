"""The simulator finds faults that were put in on purpose, each within so many seeds."""

from __future__ import annotations

import pytest

from tests.sim.planted import PLANTED
from txndeploy.sim import scenario, world


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str) -> None:
    planted = PLANTED[name]
    for seed in range(planted.seeds):
        result = world.run(scenario.make(seed, planted.profile), planted=planted.seams())
        if result.failed:
            assert result.violations[0].startswith(planted.rules), result.violations[0]
            return
    pytest.fail(f"not found in {planted.seeds} seeds")
