"""Load by threads, for clients whose calls block: each thread is a writer."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from benchmarks.suite.clients import together
from benchmarks.suite.model import Tally

Blocking = Callable[[], None]
"""One operation."""


def in_threads(writer: Callable[[], Blocking], count: int, seconds: float) -> Tally:
    """`count` threads, each of which does one operation after the other; what is under way at the end counts.

    `writer` makes a thread's operation, in that thread; the time begins when all have theirs. Raises RuntimeError when
    it cannot.
    """
    tallies = [Tally() for _ in range(count)]
    ready = threading.Barrier(count + 1)
    unable: list[BaseException] = []

    def work(tally: Tally) -> None:
        try:
            operation = writer()
        except BaseException as error:  # noqa: BLE001 it is raised below
            unable.append(error)
            ready.abort()
            return
        with contextlib.suppress(threading.BrokenBarrierError):
            ready.wait()
            _repeat(operation, tally, seconds)

    threads = [threading.Thread(target=work, args=(tally,)) for tally in tallies]
    for thread in threads:
        thread.start()
    with contextlib.suppress(threading.BrokenBarrierError):
        ready.wait()
    began = time.perf_counter()
    for thread in threads:
        thread.join()
    if unable:
        raise RuntimeError(f"a writer cannot begin: {type(unable[0]).__name__}: {unable[0]}") from unable[0]
    whole = together(tallies)
    whole.seconds, whole.client_cpu = time.perf_counter() - began, None
    return whole


def _repeat(operation: Blocking, tally: Tally, seconds: float) -> None:
    until = time.perf_counter() + seconds
    while (start := time.perf_counter()) < until:
        try:
            operation()
        except Exception as error:  # noqa: BLE001 whatever it is, it is counted and shown
            tally.failed(error)
        else:
            tally.latencies.append(time.perf_counter() - start)
