"""The timeline in worlds whose nodes write it, which are drawn from seed 200 on only: some of each way to fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.sim.campaign import scenario
from tests.sim.campaign.scenario import Scenario
from tests.sim.world import world


def splits(drawn: Scenario) -> Scenario:
    """Ranges fill, and go."""
    return replace(drawn, range_span=25)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 20))])
@pytest.mark.parametrize(
    ("profile", "fitted"),
    [("deaths", splits), ("storage", scenario.chronicled), ("partitions", splits), ("clocks", scenario.chronicled)],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_all_that_has_ended_is_told(seed: int, profile: str, fitted: Callable[[Scenario], Scenario]) -> None:
    result = world.run(scenario.chronicled(fitted(scenario.make(seed, profile))))
    assert not result.failed, result.violations[0]
    assert result.acked_commits
