"""All planted faults: those of one profile each, and the subtle ones, in the worlds that seeds draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tests.sim.campaign import scenario
from tests.sim.campaign.scenario import Scenario
from tests.sim.planted import PLANTED, Planted, Seams
from tests.sim.planted_raft import RAFT
from tests.sim.planted_registering import PLANTED_REGISTERING
from tests.sim.planted_rows import PLANTED_ROWS
from tests.sim.planted_shard import SHARD
from tests.sim.planted_status import STATUS

SUBTLE: Mapping[str, Callable[[], Seams]] = {**SHARD, **STATUS, **RAFT}
"""Slips such as somebody from outside would make."""
PLAIN: Mapping[str, Planted] = {**PLANTED, **PLANTED_ROWS, **PLANTED_REGISTERING}


def worlds(name: str) -> Iterator[Scenario]:
    """For a fault of one profile: that, as many seeds as it has."""
    planted = PLAIN[name]
    for seed in range(planted.first, planted.first + planted.seeds):
        yield replace(scenario.make(seed, planted.profile), writes_rows=name in PLANTED_ROWS)
