"""The rounds: in each of them every contender is started, runs every point, and is ended."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.suite.figures import Results, sum_up
from benchmarks.suite.machine import CpuMeter
from benchmarks.suite.model import Contender, Sample

_log = logging.getLogger(__name__)
ResultT = TypeVar("ResultT")

Told = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    points: Sequence[int]
    rounds: int
    seconds: float
    warm_up_seconds: float


def run_async(work: Coroutine[Any, Any, ResultT]) -> ResultT:
    """In an event loop of its own, of the kind that our nodes and a careful client use."""
    if sys.platform == "win32":
        return asyncio.run(work)
    import uvloop

    return uvloop.run(work)


def steps(plan: Plan, contenders: int) -> int:
    """How often `told` is called."""
    return plan.rounds * contenders * len(plan.points)


def order(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Another one begins each round, so that none always runs after the same one."""
    turn = number % len(contenders) if contenders else 0
    return [*contenders[turn:], *contenders[:turn]]


def run(contenders: Sequence[Contender], plan: Plan, below: Path, told: Told = lambda what: None) -> Results:
    """`told` hears of every point that is over. A contender that fails is noted, and the others go on."""
    results = Results()
    able = []
    for contender in contenders:
        missing = contender.missing()
        if missing is None:
            able.append(contender)
        else:
            results.problem(contender.name, f"not installed: {missing}")
    for number in range(plan.rounds):
        for contender in order(able, number):
            _turn(contender, plan, number, below, results, told)
    return results


def _turn(contender: Contender, plan: Plan, number: int, below: Path, results: Results, told: Told) -> None:
    directory = Path(tempfile.mkdtemp(prefix=f"{contender.name}-", dir=below))
    left = list(plan.points)
    try:
        contender.start(directory)
        results.versions[contender.name] = contender.version()
        if plan.warm_up_seconds:
            run_async(contender.warm_up(max(plan.points), plan.warm_up_seconds))
        while left:
            sample = _measure(contender, left[0], plan.seconds)
            results.add(contender.name, left[0], number, sample)
            told(f"{contender.name} at {left.pop(0)}: {sample.rate:,.0f}/s")
    except Exception as error:  # noqa: BLE001 whatever a peer dies of is reported, and the others run on
        _log.warning("%s failed", contender.name, exc_info=error)
        results.problem(contender.name, f"failed in round {number + 1}: {type(error).__name__}: {error}")
        for point in left:
            told(f"{contender.name} at {point}: failed")
    finally:
        contender.stop()
        shutil.rmtree(directory, ignore_errors=True)


def _measure(contender: Contender, point: int, seconds: float) -> Sample:
    meter = CpuMeter(contender.pids())
    tally = run_async(contender.run(point, seconds))
    return sum_up(tally, *meter.stop())
