"""Themes: profiles that do one thing often, in small worlds: what is rare elsewhere, with what must hold of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.sim.campaign.scenario import Scenario

KEPT_SECONDS = 3_600
"""Nothing is so old in a run, whatever the clocks say."""

THEMES: Mapping[str, tuple[tuple[str, ...], float]] = {
    "leases": (("hand_over", "hand_over", "client_naps", "client_naps", "slow_disk", "hasten"), 10.0),
    "ashes": (("kill", "hand_over", "hand_over", "power_cut", "slow_disk", "fails_at_ends", "fails_at_ends"), 7.0),
    "pledges": (("fails_at_ends", "fails_at_ends", "kill", "hand_over", "hand_over"), 6.0),
    "gates": (("fails_at_gates", "fails_at_gates", "hand_over", "hand_over", "slow_disk", "kill"), 8.0),
    "pulse": (("pause", "client_naps", "client_naps", "slow_disk", "slow_disk"), 16.0),
    "elections": (("clog", "clog", "clog", "depose", "hand_over", "kill"), 8.0),
    "splits": (("isolate", "one_way", "cut", "clog", "hand_over", "hand_over"), 8.0),
    "members": (("replace", "displace", "cut_off", "cut_off", "hand_over", "kill"), 7.0),
    "crowds": (("kill", "hand_over", "hand_over", "power_cut", "slow_disk"), 6.0),
    "ledgers": (("stall", "stall", "drag", "drag", "fails_at_ends", "hand_over"), 8.0),
    "stalls": (("stall", "stall", "drag", "drag"), 12.0),
    "errands": (("hand_over", "slow_disk", "drag", "kill"), 4.0),
    "tills": (("till_fails", "till_fails", "till_fails", "host_dies", "client_pauses", "hand_over"), 8.0),
    "towers": (("hand_over", "hand_over", "isolate", "clog", "drag", "kill"), 8.0),
}
"""The kinds of fault of each theme, and how many of them in ten seconds."""
THEMED = ((3, 4, 6, 10, 13, 16, 17), (8, 14, 18, 1, 7, 15))
"""Places in a row of twenty seeds that have a theme, one after the other: of the first eight, and of the others."""
FIRST = 8
"""Themes that have the first places."""

FAILING_ENDS = (
    "status.before.FinalizeCommit", "status.before_participate", "status.after_participate",
    "shard.before.FinalizeCommit", "shard.before.FinalizeCommit", "shard.before.AbortTxn",
)  # fmt: skip
"""Failpoints that keep what is prepared prepared."""
FAILING_GATES = (
    "status.before.RegisterParticipants", "status.after.RegisterParticipants", "shard.before_register",
    "shard.after_register", "shard.before.Withdraw", "shard.before.OpenWrite", "shard.after.OpenWrite",
    "status.before_participate", "status.before.BeginAbort",
)  # fmt: skip
"""Failpoints where tables become participants."""


def theme_of(seed: int) -> str | None:
    """The themes come in turn, so a few dozen seeds have them all."""
    row, place = divmod(seed, 20)
    for places, names in zip(THEMED, (list(THEMES)[:FIRST], list(THEMES)[FIRST:]), strict=True):
        if place in places:
            return names[(row * len(places) + places.index(place)) % len(names)]
    return None


def fitted(rng: random.Random, drawn: Scenario) -> Scenario:
    """A small world with little beside what the theme needs."""
    return _with_theme(rng, _small(rng, drawn))


def _small(rng: random.Random, drawn: Scenario) -> Scenario:
    return replace(
        drawn,
        seconds=rng.uniform(8.0, 12.0),
        clients=rng.randint(2, 3),
        keepalive_millis=1000,
        slow_links=False,
        range_span=1000,
        max_open=100_000,
        retention_millis=1000,
        replication=3,
        snapshot_retention_seconds=KEPT_SECONDS,
        changes_options=False,
        writes_rows=False,
        keeps_rolls=False,
        examined=False,
        rebuilds=False,
        locks=False,
        foreign=False,
    )


def _with_theme(rng: random.Random, scenario: Scenario) -> Scenario:
    match scenario.profile:
        case "leases":
            kept = rng.choice([1, 1, 3])
            return replace(
                scenario, snapshot_retention_seconds=kept, upkeep_seconds=0.2, overwrites=0.5, crowd=2, clients=4
            )
        case "ashes":
            return replace(
                scenario,
                rebuilds=True,
                snapshot_retention_seconds=rng.choice([1, KEPT_SECONDS]),
                retention_millis=200,
                crowd=2,
                upkeep_seconds=0.2,
                snapshot_entries=rng.choice([10, 16]),
                derived_every=4,
            )
        case "pledges":
            return replace(
                scenario,
                writes_rows=True,
                locks=rng.random() < 0.5,
                seconds=scenario.seconds / 2,
                clients=3,
                crowd=2,
                keeps_rolls=rng.random() < 0.3,
                row_flush_bytes=1_000,
                snapshot_entries=rng.choice([10, 16]),
                overwrites=0.5,
                upkeep_seconds=0.3,
                late=rng.choice([0.0, 0.2]),
                derived_every=3,
            )
        case "gates":
            return replace(
                scenario,
                clients=4,
                crowd=2,
                haste=0.6,
                overwrites=0.4,
                comes_late=True,
                late=0.3,
                duplicates=0.1,
            )
        case "pulse":
            return replace(scenario, replication=rng.choice([1, 1, 3]), clients=4, comes_late=True, late=0.3)
        case "splits":
            span = rng.choice([3, 4, 6])
            kept = rng.choice([300, 1000])
            return replace(scenario, range_span=span, retention_millis=kept, clients=3)
        case "members":
            return replace(scenario, snapshot_entries=rng.choice([10, 16]), seconds=scenario.seconds + 3.0)
    return _with_later_theme(rng, scenario)


def _with_later_theme(rng: random.Random, scenario: Scenario) -> Scenario:
    match scenario.profile:
        case "crowds":
            return replace(
                scenario,
                locks=True,
                clients=4,
                crowd=2,
                seconds=scenario.seconds / 2,
                snapshot_entries=rng.choice([10, 16]),
                derived_every=3,
            )
        case "ledgers":
            return replace(
                scenario,
                writes_rows=True,
                clients=2,
                overwrites=0.7,
                row_flush_bytes=rng.choice([1_000, 5_000]),
                snapshot_entries=rng.choice([10, 16]),
                upkeep_seconds=0.3,
                derived_every=3,
            )
        case "stalls":
            return replace(
                scenario,
                replication=rng.choice([1, 3, 3]),
                clients=3,
                haste=0.6,
                overwrites=0.5,
                late=rng.choice([0.0, 0.2]),
            )
        case "errands":
            return replace(
                scenario,
                clients=3,
                late=0.0,
                overwrites=0.7,
                rebuilds=rng.random() < 0.6,
                snapshot_retention_seconds=rng.choice([1, KEPT_SECONDS]),
                upkeep_seconds=0.3,
                late_errands=rng.choice([0.4, 0.8]),
            )
        case "tills":
            return replace(
                scenario,
                foreign=True,
                lingers=rng.random() < 0.5,
                clients=2,
                crowd=2,
                late=rng.choice([0.0, 0.2]),
            )
        case "towers":
            return replace(
                scenario,
                rebuilds=True,
                range_span=rng.choice([6, 10]),
                retention_millis=rng.choice([300, 1000]),
                clients=3,
                crowd=2,
                late=rng.choice([0.0, 0.2]),
            )
    return scenario
