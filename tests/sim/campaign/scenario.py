"""A scenario: one run as data, drawn from a seed before anything runs, so that a failing one can be cut down."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tests.sim.campaign import moves
from tests.sim.campaign.failing import DEPARTURES, FAILING, FAILPOINTS, ROW_FAILPOINTS
from tests.sim.campaign.fault import NODES, Fault
from tests.sim.campaign.themes import FAILING_ENDS, FAILING_GATES, KEPT_SECONDS, THEMES, fitted, theme_of
from txnstatus.features import FIRST, OWN, Levels

OLDER = Levels(FIRST, FIRST)
"""What the older version does, where there are two."""


@dataclass(frozen=True, slots=True)
class Scenario:
    seed: int
    profile: str
    seconds: float = 12.0
    """Time of work and faults; then everything heals, and what must come to an end does."""
    clients: int = 3
    faults: tuple[Fault, ...] = ()
    keepalive_millis: int = 1500
    snapshot_entries: int = 40
    duplicates: float = 0.0
    """Chance that a request is carried out twice, the second time late, as after a retry elsewhere."""
    late: float = 0.0
    """Chance that a request waits before it is carried out, and others overtake it."""
    late_errands: float = 0.0
    """The same, of what leaders ask of each other, where it is more."""
    slow_links: bool = False
    range_span: int = 1000
    retention_millis: int = 3_600_000
    segment_bytes: int = 16 << 20
    max_open: int = 100_000
    """Unfinished transactions in one range; more are refused."""
    changes_options: bool = False
    """Whether clients change the cluster's options, too."""
    snapshot_retention_seconds: int = KEPT_SECONDS
    """What was overwritten is kept for so long; if it goes within the run, clients also read under leases."""
    writes_rows: bool = False
    """Whether clients also write rows by key."""
    row_flush_bytes: int = 4 << 20
    keeps_rolls: bool = False
    """Whether clients also change rows of tables that have no key."""
    looks_back: bool = False
    """Whether clients undo transactions, restore tables, and make savepoints."""
    examined: bool = False
    """Whether a doctor goes round meanwhile."""
    replication: int = 3
    """Replicas of each group."""
    groups: int = 1
    """Logs: in the only one is all; of two each has ranges and a shard; of three the first has ranges alone."""
    rebuilds: bool = False
    """Whether tables are dropped, and made anew under their names."""
    locks: bool = False
    """Whether programs lock what others lock."""
    foreign: bool = False
    """Whether a foreign participant takes part."""
    lingers: bool = False
    """Whether what was prepared there waits for long, or comes too late."""
    upkeep_seconds: float = 1.0
    """Time between two passes of a shard's upkeep: what is old enough goes then."""
    derived_every: int = 12
    """Commands after which what follows from a group's state is made anew, and compared."""
    haste: float = 0.15
    """Chance that a program ends a transaction while a first write of it is on its way."""
    overwrites: float = 0.2
    """Share of the writes with files that overwrite."""
    crowd: int = 1
    """How many of each kind are at work in each program, beside its sessions."""
    comes_late: bool = False
    """Whether programs send requests again long after they were answered."""
    carries: bool = False
    """Whether begins carry first writes."""
    goes_back: bool = False
    """Whether transfers go back to savepoints."""
    chronicles: bool = False
    """Whether nodes write down what has ended, and programs read it."""
    two_versions: bool = False
    """Whether nodes begin as an older version, get the newer one, and the cluster's level is raised then."""

    @property
    def retires(self) -> bool:
        return self.snapshot_retention_seconds < KEPT_SECONDS

    def __str__(self) -> str:
        lines = [f"seed {self.seed}, profile {self.profile}: {self.seconds:.1f} s, {self.clients} clients"]
        return "\n".join([*lines, *(f"  {fault}" for fault in self.faults)])


USUAL: Mapping[str, tuple[tuple[str, ...], float]] = {
    # The kinds of fault, and how many of them in ten seconds.
    "calm": ((), 0.0),
    "deaths": (("kill", "kill_at_disk", "kill_at_failpoint", "power_cut"), 5.0),
    "blackout": (("blackout", "kill_at_disk"), 2.5),
    "partitions": (("isolate", "one_way", "reset", "cut", "clog"), 6.0),
    "pauses": (("pause", "slow_disk"), 5.0),
    "clocks": (("wall_jump", "pause", "kill"), 6.0),
    "disks": (("disk_full", "slow_disk", "kill_at_disk", "power_cut"), 5.0),
    "clients": (("client_dies", "client_pauses", "client_cut"), 6.0),
    "storage": (("store_fails", "kill"), 4.0),
    "swizzle": (("swizzle",), 2.0),
    "repairs": (("rot", "rot", "lost_sync", "lost_sync", "kill", "power_cut", "isolate", "replace"), 6.0),
    "replacement": (("replace", "displace", "kill", "cut", "pause", "kill_at_disk"), 4.0),
    "options": (("kill", "isolate", "pause"), 3.0),
    "everything": (
        (
            "kill", "kill_at_disk", "kill_at_failpoint", "power_cut", "blackout", "isolate", "one_way", "reset", "cut",
            "clog", "pause", "slow_disk", "wall_jump", "disk_full", "client_dies", "client_pauses", "store_fails",
            "swizzle", "rot", "lost_sync", "replace",
        ),
        8.0,
    ),
}  # fmt: skip

SPECIAL: Mapping[str, tuple[tuple[str, ...], float]] = {
    "failing": (("fails", "fails", "fails", "hand_over", "isolate"), 9.0),
    "deposed": (("depose",), 5.0),
    "doubt": (("host_dies", "till_fails", "till_fails", "fails", "client_pauses", "kill"), 6.0),
    "alone": (("kill", "power_cut", "kill_at_disk", "pause", "pause", "slow_disk"), 4.0),
    "narrow": (("isolate", "one_way", "cut", "clog", "hand_over", "pause"), 6.0),
    "ruins": (("kill", "hand_over", "pause"), 2.0),
    "moved": (("replace", "displace", "depose", "depose", "isolate", "hand_over"), 6.0),
}
"""Profiles of some of the worlds, each for what is rare in the others."""
SPECIAL_SHARE = 0.4
PROFILES = {**USUAL, **SPECIAL, **THEMES}

DEPARTING = ("elections", "splits", "narrow", "ruins", "moved", "everything")
"""Profiles in which nodes are stopped in order."""
GROUPS = ("catalog", "status-0", "status-1", "shard-0", "shard-0", "shard-1", "shard-1")

GOING_BACK_FROM = 150
"""Seeds below it are those by which faults are known that have nothing to do with savepoints."""
CHRONICLING_FROM = 200
"""Likewise, with the timeline."""
VERSIONS_FROM = 20_000
"""Likewise, with nodes of two versions."""


def make(seed: int, profile: str | None = None) -> Scenario:
    """Everything by chance of the seed; the profile too, unless it is given."""
    rng = random.Random(f"scenario {seed}")
    names = list(USUAL)
    span = rng.choice([10, 25, 1000, 1000])
    drawn = rng.choice([*names, "everything", "everything"])
    special = random.Random(f"scenario {seed}, special")
    if special.random() < SPECIAL_SHARE:
        drawn = special.choice(list(SPECIAL))
    profile = profile or theme_of(seed) or drawn
    scenario = Scenario(
        seed,
        profile,
        seconds=rng.uniform(4.0, 11.0),
        clients=rng.randint(2, 4),
        keepalive_millis=rng.choice([1000, 1500, 2500]),
        snapshot_entries=rng.choice([12, 25, 60, 1000]),
        duplicates=rng.choice([0.0, 0.02, 0.1]),
        late=rng.choice([0.0, 0.05, 0.2]),
        slow_links=rng.random() < 0.2,
        range_span=span,
        # Where ranges fill up all the time, they must also go, or the world is full of groups.
        retention_millis=rng.choice([1000, 3000] if span < 1000 else [1000, 3_600_000]),
    )
    # From a sequence of its own: what was added later does not change what else a seed means.
    later = random.Random(f"scenario {seed}, later")
    scenario = replace(
        scenario,
        segment_bytes=later.choice([4096, 4096, 16_384, 16 << 20]),
        max_open=later.choice([4, 8, *([100_000] * 4)]),
        changes_options=later.random() < 0.2 or profile == "options",
        snapshot_retention_seconds=later.choice([1, 3, KEPT_SECONDS, KEPT_SECONDS]),
        writes_rows=later.random() < 0.4,
        row_flush_bytes=later.choice([1_000, 2_000, 5_000]),
        examined=later.random() < 0.4,
    )
    newest = random.Random(f"scenario {seed}, newest")
    scenario = replace(
        scenario,
        replication=newest.choice([1, *([3] * 9)]),
        rebuilds=newest.random() < 0.4,
        locks=newest.random() < 0.3,
        foreign=newest.random() < 0.3,
    )
    scenario = replace(scenario, groups=random.Random(f"scenario {seed}, placement").choice([1, 1, 2, 3]))
    scenario = replace(scenario, keeps_rolls=random.Random(f"scenario {seed}, changing").random() < 0.3)
    scenario = replace(scenario, carries=random.Random(f"scenario {seed}, carrying").random() < 0.3)
    if seed >= GOING_BACK_FROM:
        scenario = replace(scenario, goes_back=random.Random(f"scenario {seed}, going back").random() < 0.4)
    scenario = fitted(special, scenario) if profile in THEMES else _fitted(special, scenario)
    if seed >= CHRONICLING_FROM and random.Random(f"scenario {seed}, chronicling").random() < 0.4:
        scenario = chronicled(scenario)
    looks_back = random.Random(f"scenario {seed}, undoing").random() < 0.5
    scenario = replace(scenario, looks_back=scenario.keeps_rolls and looks_back)
    kinds, rate = PROFILES[profile]
    count = sum(rng.random() < 0.5 for _ in range(int(rate * scenario.seconds / 10 * 2))) if kinds else 0
    faults = [_fault(rng, rng.choice(kinds), scenario) for _ in range(count)]
    if scenario.writes_rows and "kill_at_failpoint" in kinds:
        faults += [_fault_of_rows(later, scenario) for _ in range(later.randint(0, 3))]
    faults += _later_faults(newest, scenario, faults)
    if profile in DEPARTING:
        faults += _departures(random.Random(f"scenario {seed}, departing"), scenario)
    faults += moves.drawn(scenario.seed, scenario.profile, scenario.seconds)
    if seed >= VERSIONS_FROM and (versions := random.Random(f"scenario {seed}, versions")).random() < 0.3:
        scenario = _of_two_versions(versions, scenario)
        faults += _installations(versions, scenario)
    if scenario.replication == 1:  # there is one copy of all
        faults = [fault for fault in faults if fault.kind not in ("rot", "replace", "displace", "spread")]
    return replace(scenario, faults=tuple(sorted(faults, key=lambda fault: fault.at)))


def _fitted(rng: random.Random, scenario: Scenario) -> Scenario:
    """What the profile needs for its faults to matter."""
    match scenario.profile:
        case "failing":
            return replace(scenario, retention_millis=1000)
        case "doubt":
            return replace(scenario, foreign=True, lingers=True, retention_millis=1000, seconds=scenario.seconds + 4.0)
        case "alone":
            return replace(scenario, replication=1)
        case "narrow":
            span, kept = rng.choice([4, 5, 6]), rng.choice([1000, 3000])
            return replace(scenario, range_span=span, retention_millis=kept, changes_options=rng.random() < 0.5)
        case "ruins":
            kept = rng.choice([3, KEPT_SECONDS, KEPT_SECONDS])
            return replace(scenario, rebuilds=True, retention_millis=1000, snapshot_retention_seconds=kept)
    return scenario


def chronicled(scenario: Scenario) -> Scenario:
    """The same where what has ended is written down, and forgotten within the run."""
    kept = random.Random(f"scenario {scenario.seed}, chronicled").choice([300, 300, 1000, 3000])
    return replace(scenario, chronicles=True, retention_millis=kept)


def _later_faults(rng: random.Random, scenario: Scenario, faults: Sequence[Fault]) -> list[Fault]:
    """Leaderships that are handed over; wall clocks that jump where age counts; and what cuts a replacement off."""
    more = []
    if scenario.profile != "calm":
        times = [rng.uniform(1.0, scenario.seconds) for _ in range(rng.randint(0, 4))]
        more += [Fault(at, "hand_over", rng.choice(NODES)) for at in times]
    if scenario.retires:
        more += [
            Fault(rng.uniform(1.0, scenario.seconds), "wall_jump", rng.choice(NODES), amount=rng.uniform(0.0, 300.0))
            for _ in range(rng.randint(0, 3))
        ]
    if scenario.foreign and scenario.profile != "calm":
        times = [rng.uniform(1.0, scenario.seconds) for _ in range(rng.randint(0, 3))]
        more += [Fault(at, "host_dies", "f1", seconds=rng.uniform(0.1, 4.0)) for at in times]
    for fault in faults:
        if fault.kind in ("replace", "displace"):
            more += [
                Fault(
                    fault.at + rng.uniform(0.3, 4.0),
                    rng.choice(["kill", "power_cut", "isolate", "pause", "hand_over"]),
                    rng.choice(NODES),
                    seconds=rng.uniform(0.1, 2.0),
                )
                for _ in range(rng.randint(0, 3))
            ]
    return more


def _of_two_versions(rng: random.Random, scenario: Scenario) -> Scenario:
    """Half of those have an option, at least, that only the newer one knows."""
    return replace(scenario, two_versions=True, changes_options=scenario.changes_options or rng.random() < 0.5)


def _installations(rng: random.Random, scenario: Scenario) -> list[Fault]:
    """Each node gets the newer version, and some go back in between. The level is ordered also before all have it."""
    faults = list[Fault]()
    for node in NODES:
        times = sorted(rng.uniform(1.0, 0.7 * scenario.seconds) for _ in range(rng.choice([1, 1, 3])))
        faults += [
            Fault(at, "install", node, "", rng.uniform(0.05, 1.0), OLDER.newest if number % 2 else OWN.newest)
            for number, at in enumerate(times)
        ]
    last = max(fault.at + fault.seconds for fault in faults)
    orders = [rng.uniform(1.0, scenario.seconds) for _ in range(rng.randint(0, 2))]
    return faults + [Fault(at, "raise_level", NODES[0]) for at in [*orders, rng.uniform(last, scenario.seconds)]]


def _departures(rng: random.Random, scenario: Scenario) -> list[Fault]:
    """Nodes that are stopped, and hand over; in the middle of some of them they die, or another one does."""
    return [
        Fault(
            rng.uniform(1.0, scenario.seconds),
            "depart",
            rng.choice(NODES),
            rng.choice(["", "", *NODES]),
            rng.uniform(0.1, 2.0),
            amount=rng.randrange(len(DEPARTURES)),
        )
        for _ in range(rng.randint(0, 4))
    ]


def _fault_of_rows(rng: random.Random, scenario: Scenario) -> Fault:
    at, seconds = rng.uniform(1.0, scenario.seconds), rng.uniform(0.1, 3.0)
    return Fault(at, "kill_at_failpoint", rng.choice(NODES), rng.choice(ROW_FAILPOINTS), seconds)


def _fault(rng: random.Random, kind: str, scenario: Scenario) -> Fault:
    at = rng.uniform(1.0, scenario.seconds)
    one, other = rng.sample(NODES, 2)
    seconds = rng.choice([rng.uniform(0.05, 0.5), rng.uniform(0.5, 3.0), rng.uniform(1.0, 6.0)])
    match kind:
        case "one_way" | "cut" | "reset":
            return Fault(at, kind, one, other, seconds)
        case "clog":
            return Fault(at, kind, one, other, seconds, amount=rng.uniform(0.02, 0.6))
        case "kill_at_disk":
            return Fault(at, kind, one, "", seconds, amount=rng.randint(1, 30))
        case "kill_at_failpoint":
            return Fault(at, kind, one, rng.choice(FAILPOINTS), seconds)
        case "disk_full":
            return Fault(at, kind, one, "", seconds, amount=rng.randint(0, 2000))
        case "wall_jump":
            return Fault(at, kind, one, "", 0.0, amount=rng.uniform(-300.0, 300.0))
        case "slow_disk":
            return Fault(at, kind, one, "", seconds, amount=rng.choice([0.02, 0.2, 1.0]))
        case "client_dies" | "client_pauses" | "client_cut":
            return Fault(at, kind, f"c{rng.randint(1, scenario.clients)}", rng.choice(NODES), seconds)
        case "store_fails":
            return Fault(at, kind, "store", "", seconds, amount=rng.uniform(0.1, 0.9))
        case "fails":
            return Fault(at, kind, rng.choice(FAILING), "", 2 * seconds, amount=rng.choice([0.2, 0.5, 1.0]))
        case "till_fails":
            return Fault(at, kind, "till", "", 2 * seconds, amount=rng.choice([0.3, 1.0]))
        case "fails_at_ends":
            return Fault(at, "fails", rng.choice(FAILING_ENDS), "", 2 * seconds, amount=rng.choice([0.5, 0.9]))
        case "fails_at_gates":
            return Fault(at, "fails", rng.choice(FAILING_GATES), "", 2 * seconds, amount=rng.choice([0.3, 0.6]))
        case "cut_off":
            after = rng.randint(0, 7)
            return Fault(at, kind, "all", rng.choice(["leader", "other"]), rng.uniform(3.0, 6.0), amount=after)
        case "client_naps":
            name = f"c{rng.randint(1, scenario.clients)}"
            return Fault(
                at, "client_pauses", name, "", seconds=scenario.keepalive_millis / 1000 * rng.uniform(0.9, 2.0)
            )
        case "hasten":
            return Fault(at, kind, rng.choice(["shard-0", "shard-1"]), "", 0.0, amount=rng.uniform(2.0, 300.0))
        case "host_dies":
            return Fault(at, kind, "f1", "", 2 * seconds)
        case "stall":
            return Fault(at, kind, rng.choice(GROUPS), "", rng.choice([rng.uniform(0.2, 0.8), rng.uniform(0.8, 2.5)]))
        case "drag":
            return Fault(at, kind, rng.choice(GROUPS), "", 2 * seconds, amount=rng.choice([0.1, 0.4, 1.0]))
        case "depose":
            return Fault(at, kind, rng.choice(GROUPS), "", rng.uniform(1.5, 4.0), amount=rng.randint(1, 20))
        case "blackout" | "swizzle":
            return Fault(at, kind, "all", "", seconds)
        case _:
            return Fault(at, kind, one, "", seconds)
