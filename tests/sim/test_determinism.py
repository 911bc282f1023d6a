"""The same seed is the same run: in another process, with other hashes, whatever ran before."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.campaign import scenario
from tests.sim.world import world

SEEDS = (5, 11)
Worlds = tuple[tuple[int, bool], ...]
"""Seeds, and whether their worlds write rows."""
EACH: Worlds = ((5, False), (11, True))
OTHERS: Worlds = ((5, True), (11, False))
PROGRAM = """
from dataclasses import replace
from tests.sim.campaign import scenario; from tests.sim.world import world
for seed, writes_rows in WORLDS:
    made = replace(scenario.make(seed, "everything"), writes_rows=writes_rows, keeps_rolls=writes_rows)
    result = world.run(made)
    print(result.digest, result.virtual_seconds, result.commands, result.violations)
"""


DEPARTURES = """
from dataclasses import replace
from tests.sim.campaign import scenario; from tests.sim.campaign.fault import Fault; from tests.sim.world import world
nodes = ("n1", "n2"), ("n2", "n3"), ("n3", "n1")
faults = (Fault(1.0 + each, "depart", *pair, 0.6, amount=each) for each, pair in enumerate(nodes))
print(world.run(replace(scenario.make(5, "calm"), seconds=4.5, faults=tuple(faults))).digest)
"""


def digests(hash_seed: str, worlds: Worlds) -> list[str]:
    return said(hash_seed, PROGRAM.replace("WORLDS", repr(worlds)))


def said(hash_seed: str, program: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return ran.stdout.splitlines()


@pytest.mark.parametrize("worlds", [EACH, pytest.param(OTHERS, marks=pytest.mark.campaign)])
def test_a_seed_is_the_same_run_in_another_process_with_other_hashes(worlds: Worlds) -> None:
    first = digests("1", worlds)
    assert len(set(first)) == len(worlds), "other seeds are other runs"
    assert digests("2", worlds) == first


def test_nodes_that_come_back_together_do_so_in_one_order() -> None:
    """One that was stopped, and another one that died meanwhile."""
    assert said("1", DEPARTURES) == said("2", DEPARTURES)


def test_what_ran_before_makes_no_difference() -> None:
    alone = world.run(scenario.make(SEEDS[0], "everything")).digest
    world.run(scenario.make(SEEDS[1], "everything"))
    assert world.run(scenario.make(SEEDS[0], "everything")).digest == alone
