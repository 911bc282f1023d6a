"""Many seeds over all cores, and what they came to."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from txndeploy.sim import scenario, world
from txndeploy.sim.world import Result


@dataclass
class Report:
    seeds: int = 0
    virtual_seconds: float = 0.0
    wall_seconds: float = 0.0
    commands: int = 0
    calls: int = 0
    acked_commits: int = 0
    reads: int = 0
    profiles: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.virtual_seconds += result.virtual_seconds
        self.commands += result.commands
        self.calls += result.calls
        self.acked_commits += result.acked_commits
        self.reads += result.reads
        self.profiles[result.scenario.profile] += 1
        self.faults.update(result.faults)
        if result.failed:
            self.failed.append(result)


def run_seed(job: tuple[int, str | None]) -> Result:
    seed, profile = job
    return world.run(scenario.make(seed, profile))


def run(
    seeds: Sequence[int],
    profile: str | None = None,
    processes: int | None = None,
    on_result: Callable[[Result], None] = lambda _: None,
) -> Report:
    report, started = Report(), time.monotonic()
    for result in _results([(seed, profile) for seed in seeds], processes or os.cpu_count() or 1):
        report.add(result)
        on_result(result)
    report.wall_seconds = time.monotonic() - started
    report.failed.sort(key=lambda result: result.scenario.seed)
    return report


def _results(jobs: list[tuple[int, str | None]], processes: int) -> Iterable[Result]:
    if processes == 1 or len(jobs) == 1:
        yield from map(run_seed, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        yield from pool.imap_unordered(run_seed, jobs, chunksize=4)
