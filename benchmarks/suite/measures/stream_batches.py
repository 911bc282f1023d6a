"""What a batch of a stream takes into three tables with its mark, over three nodes, beside three appends by delta-rs.

delta-rs has no transaction over tables, no mark, no replicas and syncs nothing: it stands here as what people have. The
two take turns. What Spark takes to make a batch is in neither.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import pyarrow as pa
from rich.table import Table

from benchmarks.suite.drive import milliseconds
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import table_of
from txnclient import Client

TABLES = ("bench.first", "bench.second", "bench.third")
SOURCE = "bench"
WARM = 10


def measure(
    rows: Annotated[int, at_least(1, "Rows of each batch, in each table.")] = 1_000,
    times: Annotated[int, at_least(1, "Batches of each kind.")] = 100,
) -> Iterator[Table]:
    data = pa.table({"id": pa.array(range(rows), pa.int64()), "note": [f"note {each}" for each in range(rows)]})
    with running() as (_, client), tempfile.TemporaryDirectory(prefix="stream-batches-") as scratch:
        ways = {
            "a batch, with its mark": _ours(client, data),
            "three appends by delta-rs": _delta(Path(scratch), data),
        }
        taken: dict[str, list[float]] = {what: [] for what in ways}
        used = dict.fromkeys(ways, 0.0)
        for turn in range(WARM + times):
            for what, way in ways.items():
                began = time.process_time()
                took = milliseconds(way)
                if turn >= WARM:
                    taken[what].append(took)
                    used[what] += time.process_time() - began
    found = [(what, f"{median(taken[what]):.1f}", f"{1e3 * used[what] / times:.1f}") for what in ways]
    ours, theirs = (median(each) for each in taken.values())
    columns = ("what", "ms, median", "CPU ms of the program")
    yield table_of(
        f"{times} batches of {rows:,} rows into three tables, by turns: {ours / theirs:.2f} x", columns, found
    )


def _ours(client: Client, data: pa.Table) -> Callable[[], object]:
    for table in TABLES:
        client.create_table(table, "id bigint, note string")

    def batch() -> None:
        with client.transaction(tables=TABLES) as txn:
            mark = txn.marked(SOURCE)
            at = None if mark is None else mark.position
            txn.mark(SOURCE, (at or 0) + 1, expected=at)
            txn.write_all(dict.fromkeys(TABLES, data))

    return batch


def _delta(directory: Path, data: pa.Table) -> Callable[[], object]:
    delta: Any = importlib.import_module("deltalake")
    places = [str(directory / name.replace(".", "_")) for name in TABLES]
    for place in places:
        delta.DeltaTable.create(place, data.schema)
    handles = [delta.DeltaTable(place) for place in places]

    def batch() -> None:
        for handle in handles:
            delta.write_deltalake(handle, data, mode="append")

    return batch
