"""The rounds: in each of them every contender is started, runs every point, and is ended."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import uvloop

from benchmarks.suite.figures import Results, sum_up
from benchmarks.suite.machine import CpuMeter
from benchmarks.suite.model import Contender, Sample

_log = logging.getLogger(__name__)
Told = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    points: Sequence[int]
    rounds: int
    seconds: float
    warm_up_seconds: float


def event_loop() -> asyncio.Runner:
    """A loop of the kind that our nodes and a careful client use."""
    return asyncio.Runner(loop_factory=uvloop.new_event_loop)


def steps(plan: Plan, contenders: int) -> int:
    """How often `told` is called."""
    return plan.rounds * contenders * len(plan.points)


def order(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Another one begins each round, so that none always runs after the same one."""
    turn = number % len(contenders) if contenders else 0
    return [*contenders[turn:], *contenders[:turn]]


def run(
    contenders: Sequence[Contender],
    plan: Plan,
    below: Path,
    told: Told = lambda what: None,
    on_the_way: Told = lambda what: None,
) -> Results:
    """`told` hears of every point that is over, `on_the_way` how far contenders are whose points take minutes.

    A contender that fails is noted, and the others go on.
    """
    results = Results()
    able = []
    for contender in contenders:
        missing = contender.missing()
        if missing is None:
            contender.tell = on_the_way
            able.append(contender)
        else:
            results.problem(contender.name, f"not installed: {missing}")
    with event_loop() as loop:  # one for all: gRPC minds when loops come and go
        for number in range(plan.rounds):
            for contender in order(able, number):
                _turn(contender, plan, number, below, results, told, loop)
    return results


def _turn(
    contender: Contender, plan: Plan, number: int, below: Path, results: Results, told: Told, loop: asyncio.Runner
) -> None:
    directory = Path(tempfile.mkdtemp(prefix=f"{contender.name}-", dir=below))
    left = list(plan.points)
    try:
        contender.start(directory)
        results.versions[contender.name] = contender.version()
        if plan.warm_up_seconds:
            loop.run(contender.warm_up(max(plan.points), plan.warm_up_seconds))
        while left:
            sample = _measure(contender, left[0], plan.seconds, loop)
            results.add(contender.name, left[0], number, sample)
            told(f"{contender.name} at {left.pop(0)}: {sample.rate:,.0f}/s")
    except Exception as error:  # noqa: BLE001 whatever a peer dies of is reported, and the others run on
        _log.warning("%s failed", contender.name, exc_info=error)
        results.problem(contender.name, f"failed in round {number + 1}: {type(error).__name__}: {error}")
        for point in left:
            told(f"{contender.name} at {point}: failed")
    finally:
        _end(contender, results)
        shutil.rmtree(directory, ignore_errors=True)


def _end(contender: Contender, results: Results) -> None:
    try:
        contender.stop()
    except Exception as error:  # noqa: BLE001 it is reported, and the others run on
        _log.warning("%s did not end", contender.name, exc_info=error)
        results.problem(contender.name, f"did not end: {type(error).__name__}: {error}")


def _measure(contender: Contender, point: int, seconds: float, loop: asyncio.Runner) -> Sample:
    loop.run(contender.prepare(point))
    meter = CpuMeter(contender.pids())
    tally = loop.run(contender.run(point, seconds))
    return sum_up(tally, *meter.stop())
