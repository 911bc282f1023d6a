"""How long steps take, from a node's histograms. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from txnstatus.measures import Durations, Measures


@dataclass(frozen=True, slots=True)
class Step:
    step: str
    """A method, or `log sync`, `log replication`."""
    count: int
    refused: int
    mean_seconds: float
    median_seconds: float | None
    """A bound of the histogram that half of them kept; None: it is above the last bound, as with `p99_seconds`."""
    p99_seconds: float | None


def of(measures: Measures) -> list[Step]:
    """The steps that were taken, the slowest first."""
    return sorted(
        _steps(measures), key=lambda step: (step.p99_seconds or float("inf"), step.mean_seconds), reverse=True
    )


def _steps(measures: Measures) -> Iterator[Step]:
    refused: dict[str, int] = {}
    for (method, _code), count in measures.refusals.items():
        refused[method] = refused.get(method, 0) + count
    for method, durations in list(measures.calls.items()):
        yield from _step(method.removeprefix("txnstatus."), durations, refused.get(method, 0))
    yield from _step("log sync", measures.syncs, 0)
    yield from _step("log replication", measures.replications, 0)


def _step(name: str, durations: Durations, refused: int) -> Iterator[Step]:
    if count := durations.count:
        mean = durations.seconds / count
        yield Step(name, count, refused, mean, within(durations, 0.5), within(durations, 0.99))


def within(durations: Durations, share: float) -> float | None:
    """The lowest bound that such a share kept; None: no finite one, or there are none."""
    wanted = durations.count * share
    for bound, count in durations.cumulative():
        if count >= wanted and count:
            return bound if bound != float("inf") else None
    return None
