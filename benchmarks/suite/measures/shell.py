"""How soon `txnctl sql` answers a count of a table of one file: once it has its prompt, typed into a terminal."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Annotated

import pyarrow as pa
from rich.table import Table

from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import table_of

ROWS = 4_711
TABLE = "bench.counted"
PROMPT, WHERE, THERE = b"txn>", b"\x1b[6n", b"\x1b[1;1R"
"""What the shell prompts with; what it asks a terminal for, its cursor's place; and what one says."""
SECONDS = 60.0
STEPS = ("start, to the prompt", "the first count", "the second one")


def measure(times: Annotated[int, at_least(1, "Shells that are started.")] = 5) -> Iterator[Table]:
    with running() as (cluster, client):
        client.create_table(TABLE, "id bigint")
        client.write(pa.table({"id": range(ROWS)}), TABLE)
        found = [_shell(cluster.addresses) for _ in range(times)]
    shown = [
        (step, *(f"{1e3 * each:.0f}" for each in (median(taken), min(taken), max(taken))))
        for step, taken in zip(STEPS, zip(*found, strict=True), strict=True)
    ]
    yield table_of(f"txnctl sql, {times} times", ("what", "ms, median", "least", "most"), shown)


def _shell(addresses: str) -> list[float]:
    """Seconds of each step."""
    ours, its = pty.openpty()
    environment = {**os.environ, "TXN_CLUSTER": addresses, "TERM": "xterm"}
    command = [str(Path(sys.executable).parent / "txnctl"), "sql"]
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True) as shell:
        try:
            _await(ours, PROMPT)
            taken = [time.perf_counter() - began]
            for _ in STEPS[1:]:
                began = time.perf_counter()
                os.write(ours, f"SELECT count(*) FROM {TABLE};\r".encode())
                _await(ours, str(ROWS).encode())
                taken.append(time.perf_counter() - began)
        finally:
            shell.kill()
            os.close(its)
            os.close(ours)
    return taken


def _await(terminal: int, what: bytes) -> None:
    """Reads until that is shown. Raises TimeoutError."""
    shown, deadline = b"", time.monotonic() + SECONDS
    while what not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError(f"the shell shows no {what!r}, but {shown[-500:]!r}")
        new = os.read(terminal, 1 << 16)
        shown += new
        if WHERE in new:
            os.write(terminal, THERE)
