"""Many writers that append to one table at once: does every commit succeed, how many a second, and do readers wait?

Each writer is a thread with a client of its own and commits small files, one transaction after the other; beside them
one reader takes snapshots and reads the table. Three nodes on this machine.

    python benchmarks/appenders.py --writers 1,8,32,128 --seconds 10
"""

from __future__ import annotations

import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

import txnclient
from txnclient import TxnError
from txndeploy.local_cluster import LocalCluster

TABLE = "bench.appended"
ROWS = pa.table({"id": pa.array(range(100), pa.int64())})


@dataclass
class Seen:
    """By all threads; list.append is atomic."""

    commits: list[float] = field(default_factory=list)
    """Seconds from begin to receipt."""
    failures: list[str] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    """Seconds from asking for a snapshot to the list of files."""
    torn: list[str] = field(default_factory=list)


def write(addresses: str, until: float, seen: Seen) -> None:
    with txnclient.connect(addresses) as client:
        while time.monotonic() < until:
            began = time.monotonic()
            try:
                with client.transaction() as txn:
                    txn.write(ROWS, TABLE)
            except TxnError as error:
                seen.failures.append(str(error))
            else:
                seen.commits.append(time.monotonic() - began)


def read(addresses: str, until: float, seen: Seen) -> None:
    with txnclient.connect(addresses) as client:
        known = 0
        while time.monotonic() < until:
            began, before = time.monotonic(), len(seen.commits)
            rows = client.snapshot().files(TABLE).rows
            seen.reads.append(time.monotonic() - began)
            if rows % ROWS.num_rows or rows < max(known, before * ROWS.num_rows):
                seen.torn.append(f"{rows} rows after {before} commits, and {known} rows before")
            known = rows


def measure(directory: Path, writers: int, seconds: float) -> tuple[Seen, int]:
    """What was seen, and the rows in the end; a fresh cluster for each number of writers."""
    seen = Seen()
    with LocalCluster(directory) as cluster, txnclient.connect(cluster.addresses) as client:
        client.create_table(TABLE, ROWS.schema)
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=write, args=(cluster.addresses, until, seen)) for _ in range(writers)]
        threads.append(threading.Thread(target=read, args=(cluster.addresses, until, seen)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(seconds + 60)
        return seen, client.snapshot().files(TABLE).rows


def main(
    writers: Annotated[str, typer.Option(help="Numbers of writers, one run each.")] = "1,8,32,128",
    seconds: Annotated[float, typer.Option(help="Of each run.")] = 10.0,
) -> None:
    table = Table("writers", "commits", "failed", "commits/s", "commit p50, p99", "reads", "longest read", "torn reads")
    for count in track([int(part) for part in writers.split(",")], console=Console(stderr=True), transient=True):
        with tempfile.TemporaryDirectory() as directory:
            seen, rows = measure(Path(directory), count, seconds)
        assert rows == len(seen.commits) * ROWS.num_rows or seen.failures, f"{rows} rows of {len(seen.commits)} commits"
        cuts = statistics.quantiles(seen.commits, n=100)
        table.add_row(
            str(count),
            str(len(seen.commits)),
            str(len(seen.failures)),
            f"{len(seen.commits) / seconds:.0f}",
            f"{cuts[49] * 1000:.0f} ms, {cuts[98] * 1000:.0f} ms",
            str(len(seen.reads)),
            f"{max(seen.reads) * 1000:.0f} ms",
            str(len(seen.torn)),
        )
        for failure in seen.failures[:3] + seen.torn[:3]:
            Console(stderr=True).print(failure)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
