"""Runs unit tests with faults planted: python -m tests.sim.units NAME PATH ..., below tests/unit; tells which fail.

Without arguments: those that planted/known.py names. It fails when one of them passes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

from tests.sim.planted.everything import SUBTLE
from tests.sim.planted.known import BY_UNIT_TESTS
from tests.sim.world import seams

UNIT = Path(__file__).parents[1] / "unit"
SECONDS = 60
"""What a test may take: some faults make it wait for ever."""


class Planting:
    """In each test of a run, one after the other, every fault that belongs there."""

    def __init__(self, faults: Mapping[str, Sequence[str]]) -> None:
        """Paths and tests below tests/unit, by fault."""
        self.failed: dict[str, list[str]] = defaultdict(list)
        self._faults = faults

    def pytest_collection(self) -> None:
        """No example is made smaller: that it fails is all that counts."""
        settings.register_profile("planted", settings.get_profile("unit"), phases=(Phase.explicit, Phase.generate))
        settings.load_profile("planted")

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        test = item.nodeid.removeprefix("tests/unit/")
        failing = []
        for name, places in self._faults.items():
            if any(_is_in(test, place) for place in places):
                with seams.replaced(SUBTLE[name]()):
                    if _fails(item):
                        failing.append(name)
        if failing and not _fails(item):
            for name in failing:
                self.failed[name].append(test)
        return True


def _fails(item: pytest.Item) -> bool:
    """With all that it shares with others set up anew."""
    return any(report.failed for report in runtestprotocol(item, log=False, nextitem=None))


def _is_in(test: str, place: str) -> bool:
    return test == place or (test.startswith(place) and test[len(place)] in "/:[")


def failing(faults: Mapping[str, Sequence[str]]) -> Mapping[str, Sequence[str]]:
    """The tests that fail, of those in the given places, by fault."""
    planting = Planting(faults)
    places = sorted({str(UNIT / place) for each in faults.values() for place in each})
    quiet = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist", f"--timeout={SECONDS}"]
    code = pytest.main([*quiet, *places], plugins=[planting])
    assert code == pytest.ExitCode.OK, code
    return planting.failed


def main(arguments: Sequence[str]) -> int:
    if arguments:
        name, *places = arguments
        print(*failing({name: places})[name], sep="\n")
        return 0
    known = {name: ["::".join(test)] for name, test in BY_UNIT_TESTS.items()}
    passing = known.keys() - failing(known).keys()
    print(f"{len(known) - len(passing)} of {len(known)} planted faults fail the unit test that is known for them")
    for name in sorted(passing):
        print(f"{name}: {known[name][0]} passes")
    return int(bool(passing))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
