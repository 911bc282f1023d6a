"""Worlds in which nodes of two versions are one cluster, whose level is raised once all are of the newer one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.sim.campaign import scenario
from tests.sim.campaign.fault import NODES, Fault
from tests.sim.campaign.scenario import OLDER, VERSIONS_FROM, Scenario
from tests.sim.world import world
from txnstatus import features

DRAWN = [made.seed for made in map(scenario.make, range(VERSIONS_FROM, VERSIONS_FROM + 150)) if made.two_versions]
ALWAYS = 2
RAISED = f"operator: the level is {features.OWN.newest}"


def calm(*faults: Fault) -> Scenario:
    made = replace(scenario.make(1, "calm"), seconds=9.0, two_versions=True, segment_bytes=4096)
    return replace(made, faults=faults)


def install(at: float, node: str, newest: int) -> Fault:
    return Fault(at, "install", node, "", 0.3, newest)


def story(made: Scenario) -> tuple[list[str], list[str]]:
    """What was violated, and what the operator saw."""
    lines: list[str] = []
    result = world.run(made, lambda at, who, text: lines.append(f"{who}: {text}"))
    assert result.acked_commits
    return result.violations, [line for line in lines if line.startswith("operator: the level")]


def test_the_level_stays_until_the_last_node_is_of_the_newer_version() -> None:
    newest = features.OWN.newest
    installs = [install(2.0 + number, node, newest) for number, node in enumerate(NODES)]
    asked = [Fault(1.5, "raise_level", "n1"), Fault(3.8, "raise_level", "n1"), Fault(6.0, "raise_level", "n1")]
    violations, told = story(calm(*installs, *asked))
    assert not violations
    assert all(line.startswith("operator: the level stays: feature level") for line in told[:2])
    assert told[2:] == [RAISED]


def test_a_node_goes_back_as_long_as_nobody_has_ordered_the_level() -> None:
    newest, older = features.OWN.newest, OLDER.newest
    there_and_back = [install(2.0, "n1", newest), install(3.0, "n1", older), install(4.0, "n1", newest)]
    violations, told = story(calm(*there_and_back, Fault(5.0, "raise_level", "n1")))
    assert not violations
    assert told[0].startswith("operator: the level stays: feature level")
    assert told[-1] == RAISED  # in the end, when all have the newer one


def test_those_who_were_drawn_before_are_as_they_were() -> None:
    assert not any(scenario.make(seed).two_versions for seed in (*range(50), VERSIONS_FROM - 1))
    assert len(DRAWN) > 30


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seeds", [DRAWN[:ALWAYS], pytest.param(DRAWN[ALWAYS:], marks=pytest.mark.campaign)], ids=len)
def test_nodes_of_two_versions_are_one_cluster(seeds: list[int]) -> None:
    for seed in seeds:
        result = world.run(scenario.make(seed))
        assert not result.failed, f"make sim SEED={seed}: {result.violations[0]}"
        assert result.faults["install"] >= len(NODES)
