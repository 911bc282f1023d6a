"""The checker of isolation finds each anomaly that is planted, and none in what a snapshot isolated store shows."""

from __future__ import annotations

import random

import pytest

from tests.sim.judges.isolation import Observed, anomalies


def txn(
    name: str, reads: dict[str, list[int]], appends: dict[str, list[int]] | None = None, **rest: object
) -> Observed:
    return Observed(name, rest.pop("committed", True), reads, appends or {}, **rest)  # type: ignore[arg-type]


def kinds(*history: Observed) -> set[str]:
    return {anomaly.kind for anomaly in anomalies(history)}


W1 = txn("T1", {}, {"x": [1]})
W2 = txn("T2", {}, {"x": [2]})


@pytest.mark.parametrize(
    ("expected", "history"),
    [
        ("garbage", [txn("T1", {"x": [9]})]),
        ("garbage", [txn("T1", {"y": [1]}), txn("T2", {}, {"x": [1]})]),
        ("duplicate", [W1, txn("T2", {"x": [1, 1]})]),
        ("G1a", [txn("T1", {}, {"x": [1]}, committed=False), txn("T2", {"x": [1]})]),
        ("G1b", [txn("T1", {}, {"x": [1, 2]}), txn("T2", {"x": [1]})]),
        ("incompatible order", [W1, W2, txn("T3", {"x": [1, 2]}), txn("T4", {"x": [2, 1]})]),
        ("incompatible order", [W1, W2, txn("T3", {"x": [1]}), txn("T4", {"x": [2]})]),
        (
            "lost update",
            [txn("T1", {}, {"x": [1]}, ended_at=1.0), txn("T2", {"x": []}, began_at=2.0, committed=None)],
        ),
        (
            "G0",
            [
                txn("T1", {}, {"x": [1], "y": [11]}),
                txn("T2", {}, {"x": [2], "y": [12]}),
                txn("T3", {"x": [1, 2], "y": [12, 11]}),
            ],
        ),
        ("G1c", [txn("T1", {"y": [2]}, {"x": [1]}), txn("T2", {"x": [1]}, {"y": [2]})]),
        (
            "G-single",  # a read of one half: T2 sees x after T1 and y before it
            [txn("T1", {}, {"x": [1], "y": [11]}), txn("T2", {"x": [1], "y": []}), txn("T3", {"y": [11]})],
        ),
        (
            "G-single",  # a lost update: both read nothing, both append
            [txn("T1", {"x": []}, {"x": [1]}), txn("T2", {"x": []}, {"x": [2]}), txn("T3", {"x": [1, 2]})],
        ),
        (
            "G-nonadjacent",  # two readers disagree on which of two writes was first (a long fork)
            [
                txn("T1", {}, {"x": [1]}),
                txn("T2", {}, {"y": [2]}),
                txn("T3", {"x": [1], "y": []}),
                txn("T4", {"x": [], "y": [2]}),
                txn("T5", {"x": [1], "y": [2]}),
            ],
        ),
        (
            "G-single-realtime",  # a stale snapshot
            [
                txn("T1", {}, {"x": [1]}, ended_at=1.0),
                txn("T2", {"x": []}, began_at=2.0, ended_at=3.0),
                txn("T3", {"x": [1]}, began_at=1.0),
            ],
        ),
    ],
)
def test_a_planted_anomaly_is_found(expected: str, history: list[Observed]) -> None:
    assert expected in kinds(*history)


def test_write_skew_is_allowed() -> None:
    skew = [
        txn("T1", {"x": [], "y": []}, {"x": [1]}),
        txn("T2", {"x": [], "y": []}, {"y": [2]}),
        txn("T3", {"x": [1], "y": [2]}),
    ]
    assert not anomalies(skew)


def test_what_nobody_knows_is_held_against_nobody() -> None:
    unknown = txn("T1", {"x": []}, {"x": [1]}, committed=None)
    assert not anomalies([unknown, txn("T2", {"x": []})])
    assert not anomalies([unknown, txn("T2", {"x": [1]})])


class Store:
    """Snapshot isolation by the book; each fault breaks one rule of it."""

    def __init__(self, seed: int, fault: str = "") -> None:
        self.rng, self.fault = random.Random(seed), fault
        self.versions: list[dict[str, list[int]]] = [{}]
        self.now = 0.0
        self.elements = 0

    def history(self, count: int = 60) -> list[Observed]:
        """Transactions that overlap: each has a snapshot, commits later, or fails."""
        found, running = [], []
        for number in range(count):
            self.now += 1.0
            base = len(self.versions) - 1
            if self.fault == "stale snapshot":
                base = max(0, base - self.rng.randint(0, 3))
            running.append((f"T{number}", base, self.now))
            while len(running) > self.rng.randint(0, 4):
                found.append(self.end(*running.pop(self.rng.randrange(len(running)))))
        found += [self.end(*each) for each in running]
        self.now += 1.0
        final = {key: list(value) for key, value in self.versions[-1].items()}
        return [*found, Observed("final", None, final, {}, self.now)]

    def end(self, name: str, base: int, began_at: float) -> Observed:
        self.now += 1.0
        keys = self.rng.sample(["x", "y", "z"], 2)
        reads = {key: list(self.versions[base].get(key, [])) for key in keys}
        if self.fault == "torn snapshot":
            reads[keys[1]] = list(self.versions[-1].get(keys[1], []))
        appends = {}
        for key in self.rng.sample(keys, self.rng.randint(0, 2)):
            self.elements += 1
            appends[key] = [self.elements]
        latest = self.versions[-1]
        conflict = any(latest.get(key, []) != self.versions[base].get(key, []) for key in appends)
        committed = self.fault == "no conflicts" or not conflict
        if committed and appends:
            new = {key: list(value) for key, value in latest.items()}
            for key, added in appends.items():
                new[key] = [*(reads[key] if self.fault == "no conflicts" else new.get(key, [])), *added]
            self.versions.append(new)
        elif appends and self.fault == "dirty abort":
            key = next(iter(appends))
            self.versions.append({**latest, key: [*latest.get(key, []), *appends[key]]})
        return Observed(name, committed, reads, appends, began_at, self.now)


@pytest.mark.parametrize("seed", range(30))
def test_a_snapshot_isolated_store_has_no_anomalies(seed: int) -> None:
    assert not anomalies(Store(seed).history())


@pytest.mark.parametrize("fault", ["stale snapshot", "torn snapshot", "no conflicts", "dirty abort"])
def test_a_store_with_a_fault_is_found_out(fault: str) -> None:
    found = [bool(anomalies(Store(seed, fault).history())) for seed in range(10)]
    assert sum(found) >= 9


def test_a_long_history_is_judged_in_time_also_where_it_is_wrong() -> None:
    """Only what does not follow from others is an edge of real time."""
    writers = [txn(f"W{n}", {"x": list(range(n))}, {"x": [n]}, began_at=float(n), ended_at=n + 0.5) for n in range(50)]
    whole = list(range(50))
    readers = [txn(f"R{n}", {"x": whole}, began_at=100.0 + n, ended_at=106.5 + n) for n in range(5_000)]
    assert not anomalies([*writers, *readers])
    stale = txn("stale", {"x": whole[:10]}, began_at=6_000.0, ended_at=6_001.0)
    assert kinds(*writers, *readers, stale) == {"G-single-realtime"}
