"""Looks for seeds that find planted faults: python -m tests.sim.look [A..B] [NAME ...], by default 0..200 and all.

For each, the first seed that finds it, and what came to light.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tests.sim.campaign import scenario
from tests.sim.planted.everything import ALL_SUBTLE, APART, SUBTLE
from tests.sim.planted.faults import Seams
from tests.sim.world import world


def look(seeds: Iterable[int], faults: Mapping[str, Callable[[], Seams]]) -> Iterator[tuple[str, int, str]]:
    """Seed by seed, so that what is found early costs nothing later: fault, seed and the violation."""
    left = dict(faults)
    for seed in seeds:
        made = replace(scenario.make(seed), groups=APART)
        for name, seams in list(left.items()):
            result = world.run(made, planted=seams())
            if result.failed:
                del left[name]
                yield name, seed, result.violations[0]


def main(arguments: list[str]) -> int:
    if "--help" in arguments:
        print(__doc__)
        return 0
    seeds = range(200)
    if arguments and ".." in arguments[0]:
        first, _, last = arguments.pop(0).partition("..")
        seeds = range(int(first), int(last))
    if unknown := [name for name in arguments if name not in ALL_SUBTLE]:
        print(f"no planted fault {unknown[0]!r}; there are:", *ALL_SUBTLE, sep="\n  ", file=sys.stderr)
        return 2
    faults = {name: ALL_SUBTLE[name] for name in arguments or SUBTLE}
    found = 0
    for name, seed, violation in look(seeds, faults):
        found += 1
        print(f"{name}: {seed}: {violation}", flush=True)
    print(f"{found} of {len(faults)} planted faults within seeds {seeds.start} to {seeds.stop - 1}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
