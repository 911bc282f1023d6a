"""All planted faults: those of one profile each, and the subtle ones, in the worlds that seeds draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from tests.sim.campaign import scenario
from tests.sim.campaign.scenario import Scenario
from tests.sim.planted.annals import PLANTED_ANNALS
from tests.sim.planted.compaction import PLANTED_COMPACTION
from tests.sim.planted.faults import PLANTED, Planted, Seams
from tests.sim.planted.fresh import FRESH
from tests.sim.planted.going_back import GOING_BACK, PLANTED_GOING_BACK
from tests.sim.planted.history import PLANTED_HISTORY
from tests.sim.planted.migrating import MIGRATING
from tests.sim.planted.moving import MOVING
from tests.sim.planted.placing import PLACING, PLANTED_PLACING, SPREAD
from tests.sim.planted.raft import RAFT
from tests.sim.planted.registering import CARRYING, PLANTED_REGISTERING
from tests.sim.planted.rolls import PLANTED_ROLLS
from tests.sim.planted.rows import PLANTED_ROWS
from tests.sim.planted.shard import SHARD
from tests.sim.planted.status import STATUS
from tests.sim.planted.together import CARRYING_TOGETHER, PLANTED_TOGETHER
from tests.sim.planted.versions import VERSIONS

APART = 3
"""Groups where no shard is in the log of the status table: what is asked of participants goes by messages there."""
SUBTLE: Mapping[str, Callable[[], Seams]] = {
    **SHARD,
    **STATUS,
    **RAFT,
    **PLACING,
    **GOING_BACK,
    **MOVING,
    **MIGRATING,
    **VERSIONS,
}
"""Slips such as somebody from outside would make."""
ALL_SUBTLE: Mapping[str, Callable[[], Seams]] = {**SUBTLE, **FRESH}
CHANGING: Mapping[str, Planted] = {**PLANTED_ROLLS, **PLANTED_COMPACTION, **PLANTED_HISTORY}
PLAIN: Mapping[str, Planted] = {
    **PLANTED,
    **PLANTED_ROWS,
    **PLANTED_REGISTERING,
    **PLANTED_TOGETHER,
    **PLANTED_PLACING,
    **PLANTED_GOING_BACK,
    **PLANTED_ANNALS,
    **CHANGING,
}


def worlds(name: str) -> Iterator[Scenario]:
    """For a fault of one profile: that, as many seeds as it has."""
    planted = PLAIN[name]
    for seed in range(planted.first, planted.first + planted.seeds):
        drawn = scenario.make(seed, planted.profile)
        drawn = replace(
            drawn,
            writes_rows=name in PLANTED_ROWS,
            carries=drawn.carries or name in (*CARRYING, *CARRYING_TOGETHER),
            goes_back=name in PLANTED_GOING_BACK,
            groups=1 if name in PLANTED_TOGETHER else SPREAD if name in PLANTED_PLACING else APART,
        )
        drawn = _changing(drawn) if name in CHANGING else drawn
        drawn = scenario.chronicled(drawn) if name in PLANTED_ANNALS else drawn
        yield _looking_back(drawn) if name in PLANTED_HISTORY else drawn


def _changing(drawn: Scenario) -> Scenario:
    """A world where programs change rows of tables without a key, and do little else."""
    alone = replace(drawn, rebuilds=False, locks=False, foreign=False, examined=False, changes_options=False)
    return replace(alone, keeps_rolls=True, looks_back=False)


def _looking_back(drawn: Scenario) -> Scenario:
    """One where they undo, restore, and make savepoints, too, while what is old goes, and little is kept in logs."""
    return replace(
        drawn,
        looks_back=True,
        snapshot_retention_seconds=1,
        upkeep_seconds=0.3,
        snapshot_entries=12,
        late=0.0,
        duplicates=0.0,
    )
