"""What an undo and a restore take, by how many files there are and how many of them were touched.

Each file is a partition of its own; a deletion takes half of the rows of those that it touches. What touches some is
done again before each undo, and before each restore to the timestamp before it. What the program reads and writes is
told beside the bytes of the files that were touched: no data is read or written.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Annotated

import numpy as np
import pyarrow as pa
from rich.table import Table

from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import table_of
from txnclient import Client, CommitReceipt

KIB = 1 << 10
DDL = "part int, id bigint, noise bigint"
Taken = defaultdict[str, list[tuple[float, float, int, int]]]
"""What was done → seconds, CPU seconds of the program, bytes that it has read and written; of each time."""


def measure(
    files: Annotated[int, at_least(1, "Files of the larger table.")] = 1_000,
    touched: Annotated[int, at_least(1, "Files that are touched, and all of the smaller table.")] = 10,
    rows: Annotated[int, at_least(2, "Rows of each file.")] = 10_000,
    times: Annotated[int, at_least(1, "Undos and restores of each kind.")] = 10,
) -> Iterator[Table]:
    found = list[tuple[str, ...]]()
    with running() as (_, client):
        for count in (touched, files):
            table = f"bench.of_{count}"
            client.create_table(table, DDL, partition_by=["part"], if_not_exists=True)
            client.write(_rows(range(count), rows), table, "overwrite")
            kib = sum(each.bytes for each in client.snapshot().files(table).files) * touched // count // KIB
            for what, each in _taken(client, table, touched, rows, times).items():
                seconds, cpu, read, written = map(median, zip(*each, strict=True))
                shown = f"{1e3 * seconds:.0f}", f"{1e3 * cpu:.0f}", f"{read / KIB:,.0f}", f"{written / KIB:,.0f}"
                found.append((f"{count:,}", what, *shown, f"{kib:,}"))
    columns = ("files", "what", "ms, median", "CPU ms", "KiB read", "KiB written", "KiB of data touched")
    yield table_of(f"{times} of each, of {touched} files that were touched", columns, found)


def _rows(parts: range, of_each: int) -> pa.Table:
    """Rows that do not compress."""
    count = len(parts) * of_each
    noise = np.random.default_rng(1).integers(0, 1 << 62, count)
    return pa.table({"part": np.repeat(np.array(parts, np.int32), of_each), "id": np.arange(count), "noise": noise})


def _taken(client: Client, table: str, touched: int, rows: int, times: int) -> Taken:
    replacing = _rows(range(touched), rows)
    kinds: dict[str, Callable[[], CommitReceipt]] = {
        "a deletion": lambda: client.delete_where(table, f"part < {touched} AND id % 2 = 0"),
        "an overwrite": lambda: client.write(replacing, table, "overwrite_partitions"),
    }
    taken = Taken(list)
    for _ in range(times):
        for kind, change in kinds.items():
            done = change()
            taken[f"undo of {kind}"].append(_cost(lambda done=done: client.undo(done.txn_id)))  # type: ignore[misc]
            before = change().commit_timestamp - 1
            taken[f"restore to before {kind}"].append(_cost(lambda to=before: client.restore(to, [table])))  # type: ignore[misc]
    return taken


def _cost(work: Callable[[], object]) -> tuple[float, float, int, int]:
    before, began, cpu = _moved(), time.perf_counter(), time.process_time()
    work()
    took, used = time.perf_counter() - began, time.process_time() - cpu
    read, written = (after - first for after, first in zip(_moved(), before, strict=True))
    return took, used, read, written


def _moved() -> tuple[int, int]:
    """Bytes that this process has read and written, of files."""
    said = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(said["rchar"]), int(said["wchar"])
