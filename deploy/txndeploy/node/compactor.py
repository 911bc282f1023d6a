"""A worker of compactions as a process: any number of them, on any machine that reaches the nodes and the storage."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

import txnclient
from txnclient.compact.rewriting import MIN_MEMORY_BYTES
from txnclient.compact.worker import Worker
from txndeploy.node import tethered
from txndeploy.node.process import StartError, arm_failpoints
from txnstatus.errors import TxnError

DEFAULT_MEMORY_MIB = 512

log = logging.getLogger(__name__)


def command(addresses: str) -> list[str]:
    """What to start, from the process whose child it is to be, and with which it ends."""
    return [sys.executable, "-m", "txndeploy.node.compactor", str(os.getpid()), addresses]


def run(
    addresses: str,
    *,
    table: str = "",
    threads: int = 1,
    memory_mib: int = DEFAULT_MEMORY_MIB,
    once: bool = False,
) -> int:
    """Works until SIGTERM or SIGINT; with `once`, until there is nothing to do. `memory_mib`: of all threads together.

    What is under way then is given back. Returns the process's exit code: 1 = with `once`, nobody could be asked; 2 =
    it cannot start.
    """
    place = f"{socket.gethostname()}-{os.getpid()}"
    logging.basicConfig(
        level="INFO", format=f"%(asctime)s %(levelname)s {place} %(name)s: %(message)s", stream=sys.stderr
    )
    stopping = threading.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: stopping.set())
    try:
        arm_failpoints()
    except StartError as error:
        print(f"txnctl compactor: {error}", file=sys.stderr)
        return 2
    share = max(MIN_MEMORY_BYTES, (memory_mib << 20) // threads)
    log.info("looks for something to do at %s", addresses)
    with txnclient.connect(addresses) as client, ThreadPoolExecutor(threads, "compactor") as pool:
        workers = [
            Worker(client.session, f"{place}-{number}", stopping, table, share) for number in range(1, threads + 1)
        ]
        works = [pool.submit(_until_done if once else Worker.run, worker) for worker in workers]
        wait(works, return_when=FIRST_EXCEPTION)
        stopping.set()
        try:
            for work in works:
                work.result()
        except TxnError as error:
            print(f"txnctl compactor: {error}", file=sys.stderr)
            return 1
    return 0


def _until_done(worker: Worker) -> None:
    """Raises TxnError."""
    while not worker.stopping.is_set() and worker.run_once():
        pass


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[2]) if tethered.tie(int(sys.argv[1])) else 1)
