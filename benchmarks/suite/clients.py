"""Independent clients: as many processes, each with a connection of its own and one operation at a time.

As a program (`python -m benchmarks.suite.clients`) it is their parent: it has loaded all modules once, and forks.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from multiprocessing.synchronize import Barrier
from typing import Protocol

from benchmarks.suite.drive import Operation, drive
from benchmarks.suite.model import Tally
from benchmarks.suite.runner import event_loop

START_SECONDS = 120.0
"""Time until all are connected."""
CONNECT_PAUSE_SECONDS = 0.1


class Client(Protocol):
    """Picklable: what one process is to do."""

    def connect(self) -> AbstractAsyncContextManager[Operation]: ...


@dataclass(frozen=True)
class _Task:
    client: Client
    seconds: float
    ready: Barrier

    async def run(self) -> Tally:
        async with self.client.connect() as operation:
            await _connected(operation)
            await asyncio.to_thread(self.ready.wait, START_SECONDS)
            used = sum(os.times()[:2])
            tally = await drive(operation, 1, self.seconds)
            tally.client_cpu = sum(os.times()[:2]) - used
            return tally


async def _connected(operation: Operation) -> None:
    """Does one, before the clock runs: a connection is made with it, and may be refused while so many others are."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return await operation(0)
        except Exception:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(CONNECT_PAUSE_SECONDS)


async def run(client: Client, count: int, seconds: float) -> Tally:
    """The tally of all of them together. Raises RuntimeError with what the processes say when they fail."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.suite.clients"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        answer, story = await process.communicate(pickle.dumps((client, count, seconds)))
    except BaseException:
        process.kill()
        raise
    if process.returncode:
        raise RuntimeError(f"the clients failed: {story.decode(errors='replace').strip()[-500:]}")
    tallies: list[Tally] = pickle.loads(answer)
    return together(tallies)


def together(tallies: Sequence[Tally]) -> Tally:
    whole = Tally(seconds=max(tally.seconds for tally in tallies), client_cpu=0.0)
    for tally in tallies:
        whole.latencies += tally.latencies
        whole.failures += tally.failures
        whole.errors += tally.errors[: Tally.MOST_ERRORS - len(whole.errors)]
        whole.client_cpu = (whole.client_cpu or 0.0) + (tally.client_cpu or 0.0)
    return whole


_task: _Task | None = None
"""The task that the forked processes find."""


def _one(_: int) -> Tally:
    assert _task is not None
    with event_loop() as loop:
        return loop.run(_task.run())


def main() -> None:
    global _task
    client, count, seconds = pickle.load(sys.stdin.buffer)
    forking = multiprocessing.get_context("fork")
    _task = _Task(client, seconds, forking.Barrier(count))
    with forking.Pool(count) as pool:  # each waits for all at the barrier, so each takes one
        tallies = pool.map(_one, range(count), chunksize=1)
        pool.close()
        pool.join()
    sys.stdout.buffer.write(pickle.dumps(tallies))


if __name__ == "__main__":
    main()
