"""The simulator finds faults that were put in on purpose, each within so many seeds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.campaign import scenario
from tests.sim.planted import PLANTED
from tests.sim.planted_registering import PLANTED_REGISTERING, leaders_leave_it_there
from tests.sim.planted_rows import PLANTED_ROWS
from tests.sim.world import world


@pytest.mark.parametrize("name", [*PLANTED, *PLANTED_ROWS, *PLANTED_REGISTERING])
def test_a_planted_fault_is_found(name: str) -> None:
    writes_rows = name in PLANTED_ROWS
    planted = {**PLANTED, **PLANTED_ROWS, **PLANTED_REGISTERING}[name]
    for seed in range(planted.seeds):
        drawn = replace(scenario.make(seed, planted.profile), writes_rows=writes_rows)
        result = world.run(drawn, planted=planted.seams())
        if result.failed:
            assert result.violations[0].startswith(planted.rules), result.violations[0]
            return
    pytest.fail(f"not found in {planted.seeds} seeds")


def test_what_a_leader_leaves_unregistered_is_found_by_those_after_it() -> None:
    for seed in range(5):
        result = world.run(scenario.make(seed, "calm"), planted=leaders_leave_it_there())
        assert not result.failed, result.violations[0]
