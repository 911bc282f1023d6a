"""What a batch of a stream takes into three tables with its mark, over three nodes, beside three appends by delta-rs.

delta-rs has no transaction over tables, no mark, no replicas and syncs nothing: it stands here as what people have. The
two take turns. What Spark takes to make a batch is in neither. An append by delta-rs takes longer the more versions its
log has, so the first turns and the last ones are told, too.
"""

from __future__ import annotations

import importlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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
        used: dict[str, list[float]] = {what: [] for what in ways}
        for turn in range(WARM + times):
            for what, way in ways.items():
                began = time.process_time()
                took = milliseconds(way)
                if turn >= WARM:
                    taken[what].append(took)
                    used[what].append(1e3 * (time.process_time() - began))
    yield _told(rows, taken, used)


def _told(rows: int, taken: Mapping[str, Sequence[float]], used: Mapping[str, Sequence[float]]) -> Table:
    """Milliseconds of each turn, by what was done."""
    times = min(map(len, taken.values()))
    fifth = max(1, times // 5)
    spans = {"all": slice(None), "the first fifth": slice(fifth), "the last fifth": slice(-fifth, None)}
    found = [
        (what, span, f"{median(taken[what][part]):.1f}", f"{median(used[what][part]):.1f}")
        for what in taken
        for span, part in spans.items()
    ]
    ratios = (_ratio(list(taken.values()), part) for part in spans.values())
    said = f"{times} batches of {rows:,} rows into three tables, by turns: {' x, '.join(ratios)} x"
    return table_of(said, ("what", "turns", "ms, median", "CPU ms of the program"), found)


def _ratio(taken: Sequence[Sequence[float]], part: slice) -> str:
    ours, theirs = (median(each[part]) for each in taken)
    return f"{ours / theirs:.2f}"


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
