"""A worker of compactions as a process: any number of them, on any machine that reaches the nodes and the storage."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import txnclient
from txnclient.compact.rewriting import MIN_MEMORY_BYTES, rewrite
from txnclient.compact.worker import Rewrite, Worker
from txndeploy import logs
from txndeploy.errors import StartError
from txndeploy.logs import Level, LogFormat
from txndeploy.node import tethered
from txndeploy.node.process import arm_failpoints
from txndeploy.node.spark import session_builder
from txnstatus.errors import TxnError
from txnstatus.sizes import Sizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MEMORY_MIB = 512
DEFAULT_LARGE_MIB = 10 << 10
"""MiB that a compaction reads from which on it is rather for Spark."""

LOOK_SECONDS = 0.5
"""Time within which the main thread looks up from waiting."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Spark:
    """Whoever does the work, where it is large."""

    master: str
    settings: Mapping[str, str] = field(default_factory=dict)


def command(addresses: str) -> list[str]:
    """What to start as a worker that is tethered."""
    return [sys.executable, "-m", "txndeploy.node.compactor", addresses]


def run(
    addresses: str,
    *,
    table: str = "",
    threads: int = 1,
    memory_mib: int = DEFAULT_MEMORY_MIB,
    large_mib: int = DEFAULT_LARGE_MIB,
    once: bool = False,
    spark: Spark | None = None,
    log_level: Level = Level.INFO,
    log_format: LogFormat = LogFormat.TEXT,
) -> int:
    """Works until SIGTERM or SIGINT; with `once`, until there is nothing to do. `memory_mib`: of all threads together;
    with `spark`, of each of its tasks. `large_mib`: compactions that read as much are for workers with `spark`.

    What is under way then is given back. Returns the process's exit code: 1 = with `once`, nobody could be asked; 2 =
    it cannot start.
    """
    place = f"{socket.gethostname()}-{os.getpid()}"
    logs.begin(place, {"": log_level}, log_format)
    try:
        arm_failpoints()
        with _writing(spark) as write:
            share = max(MIN_MEMORY_BYTES, (memory_mib << 20) // (1 if spark else threads))
            sizes = Sizes(least=large_mib << 20) if spark else Sizes(below=large_mib << 20)
            return _work(addresses, place, table, threads, share, sizes, write, once=once)
    except StartError as error:
        print(f"txnctl compactor: {error}", file=sys.stderr)
        return 2


def _work(
    addresses: str, place: str, table: str, threads: int, memory: int, sizes: Sizes, write: Rewrite, *, once: bool
) -> int:
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):  # after Spark, which would have the second
        signal.signal(signum, lambda *_: stopping.set())
    log.info("looks for something to do at %s", addresses)
    with txnclient.connect(addresses) as client, ThreadPoolExecutor(threads, "compactor") as pool:
        workers = [
            Worker(client.session, f"{place}-{number}", stopping, table, memory, sizes, write)
            for number in range(1, threads + 1)
        ]
        works = [pool.submit(_until_done if once else Worker.run, worker) for worker in workers]
        while not _are_over(works):
            pass
        stopping.set()
        try:
            for work in works:
                work.result()
        except TxnError as error:
            print(f"txnctl compactor: {error}", file=sys.stderr)
            return 1
    return 0


def _are_over(works: Sequence[Future[None]]) -> bool:
    """Whether all have ended, or one has failed, after a while.

    A signal's handler runs in the main thread, which a signal that another thread takes does not wake: it looks up.
    """
    done, working = wait(works, LOOK_SECONDS, return_when=FIRST_EXCEPTION)
    return not working or any(work.exception() for work in done)


@contextmanager
def _writing(spark: Spark | None) -> Iterator[Rewrite]:
    """Whoever writes the files. Raises StartError."""
    if spark is None:
        yield rewrite
        return
    from txnclient.compact.distributed import rewrite_by

    session = _session(spark)
    try:
        yield partial(rewrite_by, session)
    finally:
        session.stop()


def _session(wanted: Spark) -> SparkSession:
    try:
        builder = session_builder().master(wanted.master).appName("txnctl compactor")
    except RuntimeError as error:
        raise StartError(str(error)) from error
    if wanted.master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # whatever `python3` is
    for name, value in wanted.settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise StartError(f"Spark does not start at {wanted.master!r}: {error}") from error


def _until_done(worker: Worker) -> None:
    """Raises TxnError."""
    while not worker.stopping.is_set() and worker.run_once():
        pass


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1]) if tethered.tie() else 1)
