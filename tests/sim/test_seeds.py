"""The service holds its promises in every simulated world. `make sim SEEDS=0..10000` looks at more of them."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from tests.sim.campaign import campaign, scenario
from tests.sim.campaign.scenario import PROFILES

SEED = int(os.environ.get("TXN_SEED", "1"))
SEEDS = int(os.environ.get("TXN_SIM_SEEDS", "1000"))
"""A campaign's, from one on that its own seed chooses."""
WORLDS = sorted(map(scenario.make, range(200)), key=lambda made: made.seconds * made.clients * made.crowd, reverse=True)
LEAST = {made.profile: made.seed for made in WORLDS}
"""Profile → the seed of the smallest world that has it."""
ALWAYS = sorted(LEAST.values())


@pytest.mark.timeout(300 + 3 * SEEDS)
@pytest.mark.parametrize(
    "seeds", [ALWAYS, pytest.param(range(SEED * SEEDS, (SEED + 1) * SEEDS), marks=pytest.mark.campaign)], ids=len
)
def test_the_service_holds_in_every_world(seeds: Sequence[int]) -> None:
    report = campaign.run(seeds, processes=2)
    stories = [f"{result.scenario}\n{result.violations[0]}" for result in report.failed]
    assert not stories, "replay with: make sim SEED=n\n" + "\n".join(stories)
    # Worlds in which nothing happens hold, too.
    assert report.acked_commits > 5 * len(seeds)
    assert report.reads > 10 * len(seeds)
    assert set(report.profiles) == set(PROFILES)
    assert len(report.faults) > 15
