"""A node that counts what it does, and writes it down when SIGUSR2 asks for it: `work` starts nodes by it."""

from __future__ import annotations

import asyncio
import cProfile
import marshal
import os
import signal
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from txndeploy.local.cluster import wait_until
from txndeploy.node import tethered
from txndeploy.node.loop_watch import LoopWatch

ROOT = Path(__file__).parent.parent.parent
SAMPLE_SECONDS = 0.001
LOOK_SECONDS = 0.001
LATE_MS = (1, 2, 5, 10, 20, 50)
UP_TO = (*(f"{ms} ms" for ms in LATE_MS), "more")
LATE, BY_ITSELF = "late", "by its own work"

Counts = Counter[str]
"""Calls by module, samples by function, or timers by how late they were."""


def launcher(what: str, directory: Path) -> list[str]:
    """Words before a node's command, for one that counts this and answers in the directory."""
    return [sys.executable, "-m", "benchmarks.suite.in_node", what, str(directory)]


def read(directory: Path, pid: int) -> Counts:
    """All that a node has counted since it began."""
    written = directory / str(pid)
    written.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR2)
    wait_until(written.exists, f"process {pid} says what it has counted")
    return Counter(marshal.loads(written.read_bytes()))


# ---- in the node: each begins to count, and returns what tells of all since then


def count_calls() -> Callable[[], Counts]:
    profile = cProfile.Profile()
    profile.enable()

    def counted() -> Counts:
        profile.snapshot_stats()
        counts: Counts = Counter()
        for (file, _, _), (_, count, _, _, callers) in profile.stats.items():
            if file == "~":  # the interpreter's own
                for (caller, _, _), (made, *_) in callers.items():
                    counts[_module(caller)] += made
            else:
                counts[_module(file)] += count
        return counts

    return counted


def sample_cpu() -> Callable[[], Counts]:
    samples: Counts = Counter()

    def sample(_signum: int, frame: FrameType | None) -> None:
        if frame is not None:
            samples[f"{_module(frame.f_code.co_filename)} {frame.f_code.co_qualname}"] += 1

    signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    return samples.copy


def time_turns() -> Callable[[], Counts]:
    timers: Counts = Counter()

    async def watch(_watch: LoopWatch) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, used = loop.time() + LOOK_SECONDS, time.thread_time()
            await asyncio.sleep(LOOK_SECONDS)
            late = loop.time() - due
            timers[f"{LATE} {_up_to(late)}"] += 1
            timers[f"{BY_ITSELF} {_up_to(min(late, time.thread_time() - used))}"] += 1

    LoopWatch.run = watch  # type: ignore[assignment, method-assign]
    return timers.copy


def _up_to(seconds: float) -> str:
    return UP_TO[bisect_left(LATE_MS, 1000 * seconds)]


def _module(file: str) -> str:
    path = Path(file)
    if "site-packages" in path.parts:
        return path.parts[path.parts.index("site-packages") + 1]
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else "the standard library"


COUNTED = {"calls": count_calls, "cpu": sample_cpu, "turns": time_turns}


def main(what: str, directory: Path, config: Path) -> int:
    """Runs the node; returns its exit code."""
    counted = COUNTED[what]()

    def write(_signum: int, _frame: FrameType | None) -> None:
        partial = directory / f"{os.getpid()}.new"
        partial.write_bytes(marshal.dumps(dict(counted())))
        partial.rename(directory / str(os.getpid()))

    signal.signal(signal.SIGUSR2, write)
    return tethered.main(config)


if __name__ == "__main__":  # what follows the launcher's words ends with a tethered node's configuration
    raise SystemExit(main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[-1])))
