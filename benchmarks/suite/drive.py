"""Load: so many operations in flight, for so long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from benchmarks.suite.model import Tally

Operation = Callable[[int], Awaitable[None]]
"""Does one operation, for the given one of those that are in flight."""


def milliseconds(step: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    step()
    return 1e3 * (time.perf_counter() - began)


async def drive(operation: Operation, in_flight: int, seconds: float) -> Tally:
    """Each of them does one operation after the other; what is under way at the end is finished, and counts."""
    tally = Tally()
    began = time.perf_counter()
    until = began + seconds

    async def worker(number: int) -> None:
        while (start := time.perf_counter()) < until:
            try:
                await operation(number)
            except Exception as error:  # noqa: BLE001 whatever it is, it is counted and shown
                tally.failed(error)
                await asyncio.sleep(0)  # one that fails at once must not keep the others from running
            else:
                tally.latencies.append(time.perf_counter() - start)

    await asyncio.gather(*(worker(number) for number in range(in_flight)))
    tally.seconds = time.perf_counter() - began
    return tally
