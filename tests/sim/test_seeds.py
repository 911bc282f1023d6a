"""The service holds its promises in every simulated world. `make sim SEEDS=0..10000` looks at more of them."""

from __future__ import annotations

import os

import pytest

from tests.sim.campaign import campaign
from tests.sim.campaign.scenario import PROFILES

SEEDS = int(os.environ.get("TXN_SIM_SEEDS", "200"))


@pytest.mark.timeout(1200)
def test_the_service_holds_in_every_world() -> None:
    report = campaign.run(range(SEEDS), processes=2)
    stories = [f"{result.scenario}\n{result.violations[0]}" for result in report.failed]
    assert not stories, "replay with: make sim SEED=n\n" + "\n".join(stories)
    # Worlds in which nothing happens hold, too.
    assert report.acked_commits > 5 * SEEDS
    assert report.reads > 10 * SEEDS
    assert set(report.profiles) == set(PROFILES) or SEEDS < 100
    assert len(report.faults) > 15 or SEEDS < 100
