"""The timeline in worlds whose nodes write it, which are drawn from seed 200 on only: some of each way to fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.sim.campaign import scenario
from tests.sim.campaign.scenario import Scenario
from tests.sim.world import world
from tests.support import rest_in_campaigns


def splits(drawn: Scenario) -> Scenario:
    """Ranges fill, and go."""
    return replace(drawn, range_span=25)


FITTED: dict[str, Callable[[Scenario], Scenario]] = {
    "storage": scenario.chronicled, "deaths": splits, "partitions": splits, "clocks": scenario.chronicled,
}  # fmt: skip
CASES = [(profile, seed) for seed in range(20) for profile in FITTED]


@pytest.mark.parametrize("case", rest_in_campaigns(CASES, CASES[:2]), ids=str)
def test_all_that_has_ended_is_told(case: tuple[str, int]) -> None:
    profile, seed = case
    result = world.run(scenario.chronicled(FITTED[profile](scenario.make(seed, profile))))
    assert not result.failed, result.violations[0]
    assert result.acked_commits
