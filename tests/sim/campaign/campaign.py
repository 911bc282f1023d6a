"""Many seeds over all cores, and what they came to."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import struct
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tests.sim.campaign import scenario
from tests.sim.campaign.result import Result
from tests.sim.world import world

LOOK_SECONDS = 0.5
"""Time within which a campaign looks up from waiting for its processes."""


@dataclass
class Report:
    seeds: int = 0
    virtual_seconds: float = 0.0
    wall_seconds: float = 0.0
    commands: int = 0
    calls: int = 0
    acked_commits: int = 0
    reads: int = 0
    refused_begins: int = 0
    profiles: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    failed: list[Result] = field(default_factory=list)
    digest: int = 0
    """The digest of all seeds' digests, in the order in which they ended: with one process the same in every run."""

    def add(self, result: Result) -> None:
        self.seeds += 1
        self.virtual_seconds += result.virtual_seconds
        self.commands += result.commands
        self.calls += result.calls
        self.acked_commits += result.acked_commits
        self.reads += result.reads
        self.refused_begins += result.refused_begins
        self.digest = zlib.crc32(struct.pack("<qI", result.scenario.seed, result.digest), self.digest)
        self.profiles[result.scenario.profile] += 1
        self.faults.update(result.faults)
        if result.failed:
            self.failed.append(result)

    def to_json(self) -> str:
        """Figures that can be added up over campaigns."""
        figures = {
            "seeds": self.seeds,
            "simulated_hours": self.virtual_seconds / 3600,
            "wall_seconds": self.wall_seconds,
            "commands": self.commands,
            "calls": self.calls,
            "acked_commits": self.acked_commits,
            "scans": self.reads,
            "refused_begins": self.refused_begins,
            "digest": f"{self.digest:08x}",
            "profiles": dict(self.profiles.most_common()),
            "faults": dict(self.faults.most_common()),
            "failures": [
                {"seed": result.scenario.seed, "profile": result.scenario.profile, "violation": result.violations[0]}
                for result in self.failed
            ],
        }
        return json.dumps(figures, indent=2) + "\n"


def run_seed(job: tuple[int, str | None]) -> Result:
    seed, profile = job
    return world.run(scenario.make(seed, profile))


def run(
    seeds: Sequence[int],
    profile: str | None = None,
    processes: int | None = None,
    on_result: Callable[[Report, Result], None] = lambda *_: None,
) -> Report:
    """An interrupt (ctrl-C, or SIGTERM where it raises KeyboardInterrupt) ends it early; what there is, is reported."""
    report, started = Report(), time.monotonic()
    with contextlib.suppress(KeyboardInterrupt):
        for result in _results([(seed, profile) for seed in seeds], processes or os.cpu_count() or 1):
            report.add(result)
            report.wall_seconds = time.monotonic() - started
            on_result(report, result)
    report.wall_seconds = time.monotonic() - started
    report.failed.sort(key=lambda result: result.scenario.seed)
    return report


def _results(jobs: list[tuple[int, str | None]], processes: int) -> Iterable[Result]:
    if processes == 1 or len(jobs) == 1:
        yield from map(run_seed, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(processes, _leave_interrupts_to_the_parent) as pool:
        results = pool.imap_unordered(run_seed, jobs)  # of one a chunk: only these can be waited for with a deadline
        while True:
            try:
                yield results.next(LOOK_SECONDS)
            except multiprocessing.TimeoutError:
                continue  # whoever only waits does not act on a signal that another thread took
            except StopIteration:
                return


def _leave_interrupts_to_the_parent() -> None:
    """A terminal's ctrl-C goes to all; the parent ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
