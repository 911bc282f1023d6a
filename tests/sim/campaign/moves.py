"""Moves: a group that comes, nodes that come and go, and shards that go to other groups or are split, drawn for a
scenario."""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.sim.campaign.fault import NODES, Fault

MOVING_FROM = 12_000
"""Seeds below it are those by which faults are known that have nothing to do with nodes that come and leave."""
MIGRATING_FROM = 23_000
"""Likewise, with shards that go to other groups."""
SPLITTING_FROM = 24_000
"""Likewise, with shards that are split."""


def drawn(seed: int, profile: str, seconds: float) -> list[Fault]:
    """A group that comes, and nodes."""
    faults = list[Fault]()
    growing, moving = (random.Random(f"scenario {seed}, {what}") for what in ("growing", "moving"))
    if growing.random() < 0.2:
        faults.append(Fault(growing.uniform(1.0, seconds), "add_group", NODES[0]))
    if seed >= MOVING_FROM and moving.random() < 0.4:
        faults += _moves(moving, seconds)
    migrating = random.Random(f"scenario {seed}, migrating")
    if seed >= MIGRATING_FROM and migrating.random() < 0.6:
        faults += _migrations(migrating, seconds, dies=profile != "calm")
    splitting = random.Random(f"scenario {seed}, splitting")
    if seed >= SPLITTING_FROM and splitting.random() < 0.6:
        times = [splitting.uniform(0.5, seconds) for _ in range(splitting.randint(1, 5))]
        faults += [Fault(at, "split", NODES[0], amount=splitting.random()) for at in times]
        faults += _deaths(splitting, times) if profile != "calm" else []
    return faults


def _migrations(rng: random.Random, seconds: float, *, dies: bool) -> list[Fault]:
    """A group that comes, and shards that go from one group to another; nodes die in the middle of that."""
    faults = [Fault(rng.uniform(0.5, 0.5 * seconds), "add_group", NODES[0])]
    times = [rng.uniform(1.0, seconds) for _ in range(rng.randint(1, 8))]
    faults += [Fault(at, "migrate", NODES[0], amount=rng.random()) for at in times]
    return faults + (_deaths(rng, times) if dies else [])


def _deaths(rng: random.Random, times: Sequence[float]) -> list[Fault]:
    """Nodes that die, or nearly so, soon after what happens at these times."""
    kinds = "kill", "power_cut", "isolate", "pause", "hand_over", "slow_disk"
    soon = [at + rng.uniform(0.0, 0.6) for at in times for _ in range(rng.randint(0, 2))]
    return [Fault(at, rng.choice(kinds), rng.choice(NODES), "", rng.uniform(0.1, 2.0), 0.2) for at in soon]


def _moves(rng: random.Random, seconds: float) -> list[Fault]:
    """Nodes that are drained for a while, and one in whose place another comes replica by replica; others die."""
    drained = [rng.uniform(1.0, seconds) for _ in range(rng.randint(0, 3))]
    moves = [Fault(at, "drain", rng.choice(NODES), "", rng.uniform(0.3, 4.0)) for at in drained]
    if rng.random() < 0.5:
        moves.append(Fault(rng.uniform(1.0, seconds), "spread", rng.choice(NODES)))
    kinds = "kill", "power_cut", "isolate", "pause", "hand_over", "slow_disk"
    times = [fault.at + rng.uniform(0.1, 3.0) for fault in moves for _ in range(rng.randint(0, 2))]
    return moves + [Fault(at, rng.choice(kinds), rng.choice(NODES), "", rng.uniform(0.1, 2.0), 0.2) for at in times]
