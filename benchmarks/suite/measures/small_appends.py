"""What a small append takes over three nodes: as a file, and as rows in memory, which only a table with a key has."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median
from typing import Annotated

import pyarrow as pa
from rich.table import Table

from benchmarks.suite.drive import milliseconds
from benchmarks.suite.machine import used_by
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import table_of
from txndeploy.local.cluster import LocalCluster

FILES, ROWS = "bench.files", "bench.rows"
COLUMNS = "id bigint, value bigint, text string"
WARM = 20


def measure(
    rows: Annotated[int, at_least(1, "Rows of each append.")] = 100,
    times: Annotated[int, at_least(1, "Appends of each kind, each a transaction.")] = 200,
) -> Iterator[Table]:
    with running() as (cluster, client):
        client.create_table(FILES, COLUMNS)
        client.create_table(ROWS, COLUMNS, primary_key=["id"])
        ways: dict[str, Callable[[int], object]] = {
            "a file": lambda number: client.write(_rows(number * rows, rows), FILES),
            "rows by key": lambda number: client.upsert(ROWS, _rows(number * rows, rows)),
        }
        taken = [(what, *_taken(cluster, way, times)) for what, way in ways.items()]
    columns = ("what", "ms, median", "CPU ms of the program", "CPU ms of the nodes")
    yield table_of(f"{times} appends of {rows} rows", columns, taken)


def _taken(cluster: LocalCluster, append: Callable[[int], object], times: int) -> tuple[str, str, str]:
    for number in range(WARM):
        append(times + number)
    nodes, own = _nodes(cluster), time.process_time()
    took = [milliseconds(partial(append, number)) for number in range(times)]
    program, service = (1e3 * used / times for used in (time.process_time() - own, _nodes(cluster) - nodes))
    return f"{median(took):.0f}", f"{program:.1f}", f"{service:.1f}"


def _nodes(cluster: LocalCluster) -> float:
    return sum(used_by(cluster.pid(node)) for node in cluster.configs)


def _rows(first: int, count: int) -> pa.Table:
    ids = pa.array(range(first, first + count), pa.int64())
    return pa.table({"id": ids, "value": ids, "text": [f"text {each}" for each in range(first, first + count)]})
