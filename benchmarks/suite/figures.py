"""Medians with their spread, ratios within a round, and whether goals are reached. Nothing here does I/O."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.suite.model import CLIENT, Goal, Sample, Tally

FOREIGN_MUCH = 0.25
"""Share of the machine's CPU, used by others, from which on a run is marked."""


@dataclass(frozen=True)
class Spread:
    """The median of the rounds' values, with the least and the most."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float]) -> Spread | None:
        known = list(values)
        return Spread(statistics.median(known), min(known), max(known)) if known else None

    def text(self, form: str = "{:,.0f}") -> str:
        low, high = form.format(self.low), form.format(self.high)
        return form.format(self.median) + (f" [{low}..{high}]" if low != high else "")


@dataclass
class Results:
    """The samples of one workload on one kind of disk."""

    samples: dict[tuple[str, int, int], Sample] = field(default_factory=dict)
    """Samples by contender, point and round."""
    problems: dict[str, list[str]] = field(default_factory=dict)
    """What went wrong, or is missing, by contender."""
    versions: dict[str, str] = field(default_factory=dict)

    def add(self, contender: str, point: int, number: int, sample: Sample) -> None:
        self.samples[contender, point, number] = sample

    def problem(self, contender: str, what: str) -> None:
        told = self.problems.setdefault(contender, [])
        if what not in told:
            told.append(what)

    def contenders(self) -> list[str]:
        return list(dict.fromkeys(name for name, _, _ in self.samples))

    def points(self) -> list[int]:
        return sorted({point for _, point, _ in self.samples})

    def of(self, contender: str, point: int) -> dict[int, Sample]:
        """By round."""
        return {n: sample for (name, at, n), sample in self.samples.items() if (name, at) == (contender, point)}

    def values(self, contender: str, point: int, measure: str) -> dict[int, float]:
        """By round, of those in which it was measured."""
        measured = {number: sample.measure(measure) for number, sample in self.of(contender, point).items()}
        return {number: value for number, value in measured.items() if value is not None}

    def spread(self, contender: str, point: int, measure: str) -> Spread | None:
        return Spread.of(self.values(contender, point, measure).values())

    def ratio(self, ours: str, peer: str, point: int, measure: str, peer_point: int | None = None) -> Spread | None:
        """The ratio in each round that has both."""
        return Spread.of(
            ratios(
                self.values(ours, point, measure),
                self.values(peer, point if peer_point is None else peer_point, measure),
            )
        )

    def judge(self, goal: Goal) -> Spread | None:
        """What was measured of it; None: nothing."""
        if goal.peer is None:
            return self.spread(goal.ours, goal.point, goal.measure)
        return self.ratio(goal.ours, goal.peer, goal.point, goal.measure, goal.peer_point)

    def failures(self) -> list[str]:
        """One line for each contender and point at which operations failed."""
        lines = []
        for name in self.contenders():
            for point in self.points():
                samples = self.of(name, point).values()
                failed = sum(sample.failures for sample in samples)
                if failed:
                    done = sum(sample.count for sample in samples)
                    why = next((error for sample in samples for error in sample.errors), "")
                    lines.append(f"{name} at {point}: {failed:,} failed, {done:,} did not; {why}")
        return lines


def ratios(ours: Mapping[int, float], theirs: Mapping[int, float]) -> list[float]:
    return [ours[number] / theirs[number] for number in sorted(ours.keys() & theirs.keys()) if theirs[number]]


def percentile(ordered: Sequence[float], part: float) -> float:
    """The value that `part` of them do not exceed."""
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))] if ordered else 0.0


def sum_up(tally: Tally, cpu: Mapping[str, float], foreign: float) -> Sample:
    """`cpu`: seconds by role."""
    ordered = sorted(tally.latencies)
    if tally.client_cpu is not None:
        cpu = {**cpu, CLIENT: tally.client_cpu}
    return Sample(
        count=tally.count,
        seconds=tally.seconds,
        p50_ms=1000 * percentile(ordered, 0.5),
        p99_ms=1000 * percentile(ordered, 0.99),
        max_ms=1000 * (ordered[-1] if ordered else 0.0),
        failures=tally.failures,
        cpu_us={role: 1e6 * seconds / tally.count for role, seconds in cpu.items()} if tally.count else {},
        foreign=foreign,
        errors=tuple(tally.errors),
        extra=dict(tally.extra),
    )
