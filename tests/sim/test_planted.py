"""The simulator finds faults that were put in on purpose, each within so many seeds."""

from __future__ import annotations

import importlib
import inspect
import operator
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim.campaign import scenario
from tests.sim.look import look
from tests.sim.planted import everything
from tests.sim.planted.everything import ALL_SUBTLE, PLAIN, SUBTLE
from tests.sim.planted.known import BY_UNIT_TESTS, KNOWN
from tests.sim.planted.registering import leaders_leave_it_there
from tests.sim.world import world
from tests.support import rest_in_campaigns

ROOT = Path(__file__).parents[2]
SEED = int(os.environ.get("TXN_SEED", "1"))
SLICES = 8
"""Parts of the seeds that find a subtle fault: each run of the tests tries one, and a campaign the others."""
MAX_MISSED = 1
"""Seeds of a part that need not find their faults any more: each change of the service changes what some seeds do."""
FRESH = 20
"""Seeds that a campaign looks at anew, from one on that its own seed chooses."""


def one_for_each_rule() -> list[str]:
    """Faults that together break every rule that any of them breaks; those that are found soonest come first."""
    chosen: list[str] = []
    broken: set[str] = set()
    for name in sorted(PLAIN, key=lambda name: PLAIN[name].seeds):
        if not broken.issuperset(PLAIN[name].rules):
            chosen.append(name)
            broken.update(PLAIN[name].rules)
    return chosen


ALWAYS = one_for_each_rule()[:8]
"""Faults that are found soonest: the seeds that are known break the other rules, and a campaign finds all."""


@pytest.mark.parametrize("name", rest_in_campaigns(PLAIN, ALWAYS))
def test_a_planted_fault_is_found(name: str) -> None:
    planted = PLAIN[name]
    for drawn in everything.worlds(name):
        result = world.run(drawn, planted=planted.seams())
        if result.failed:
            assert result.violations[0].startswith(planted.rules), result.violations[0]
            return
    pytest.fail(f"not found in {planted.seeds} seeds")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "slice_", [0, *(pytest.param(number, marks=pytest.mark.campaign) for number in range(1, SLICES))]
)
def test_subtle_faults_are_found_by_the_seeds_that_are_known_to(slice_: int) -> None:
    known = dict(list(KNOWN.items())[slice_::SLICES])
    missed = dict(known)
    for name, seed in known.items():
        result = world.run(replace(scenario.make(seed), groups=everything.APART), planted=SUBTLE[name]())
        if result.failed and "TypeError" not in result.violations[0]:
            del missed[name]
    assert len(missed) <= MAX_MISSED, f"not found: {missed}; look for other seeds: python -m tests.sim.look NAME"


@pytest.mark.timeout(900)
def test_subtle_faults_fail_the_unit_tests_that_are_known_to() -> None:
    """In a process of its own, where pytest runs those tests with the faults planted."""
    command = [sys.executable, "-m", "tests.sim.units"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=800)
    assert not done.returncode, done.stdout + done.stderr


def test_every_subtle_fault_is_found_by_one_or_the_other() -> None:
    assert KNOWN.keys() | BY_UNIT_TESTS.keys() == SUBTLE.keys()


@pytest.mark.parametrize("name", ALL_SUBTLE)
def test_a_planted_fault_fits_what_it_is_planted_in(name: str) -> None:
    """One that takes other arguments breaks every world by a TypeError of its own, and shows nothing."""
    planted = ALL_SUBTLE[name]()
    for path, stand_in in planted:
        module, _, attribute = path.partition(":")
        original = operator.attrgetter(attribute)(importlib.import_module(module))
        if inspect.isroutine(original) and inspect.isroutine(stand_in):
            needed = [each for each in inspect.signature(original).parameters.values() if each.default is each.empty]
            by_name = {each.name: each for each in needed if each.kind is each.KEYWORD_ONLY}
            inspect.signature(stand_in).bind(*needed[: len(needed) - len(by_name)], **by_name)


@pytest.mark.campaign
@pytest.mark.timeout(3600 + 10 * FRESH * len(SUBTLE))
def test_most_subtle_faults_are_found_by_fresh_seeds() -> None:
    start = 1_000_000 + SEED * FRESH
    found = {name for name, _, _ in look(range(start, start + FRESH), {name: SUBTLE[name] for name in KNOWN})}
    assert len(found) >= len(KNOWN) // 2, f"not found: {KNOWN.keys() - found}"


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.campaign) for seed in range(1, 5))])
def test_what_a_leader_leaves_unregistered_is_found_by_those_after_it(seed: int) -> None:
    result = world.run(replace(scenario.make(seed, "calm"), groups=everything.APART), planted=leaders_leave_it_there())
    assert not result.failed, result.violations[0]
