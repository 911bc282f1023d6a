"""What it costs that a primary key holds: appends of files by pyarrow and, with --spark, by Spark.

The rows that are there have even ids, the new ones odd: above all of them, where ranges in manifests rule the files
out, or among them. Each append is timed until its transaction has it, and then aborted, so the table stays as it is.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.table import Table

from benchmarks.suite.drive import milliseconds
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import spread_rows, table_of
from txnclient import Client

KEYED, PLAIN = "bench.keyed", "bench.plain"
SMALL = 1_000
Ways = dict[str, Callable[[], object]]


def measure(
    rows: Annotated[int, at_least(SMALL, "Rows that are there, and that are appended.")] = 1_000_000,
    times: Annotated[int, at_least(1, "Appends of each kind.")] = 5,
    spark: Annotated[bool, typer.Option(help="Spark, too.")] = False,
) -> Iterator[Table]:
    with ExitStack() as stack:
        _, client = stack.enter_context(running())
        for table, key in ((KEYED, ["id"]), (PLAIN, [])):
            client.create_table(table, "id bigint, value bigint", primary_key=key)
            client.write(_odd_or_even(0, rows), table)
        ways = _ways(client, _odd_or_even, rows, "pyarrow")
        if spark:
            from txndeploy.demo.spark_session import local_cluster_session

            scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyed-appends-")))
            session = stack.enter_context(local_cluster_session("keyed appends", scratch))
            ways |= _ways(client, lambda first, count: _frame(session, first, count), rows, "Spark")
        taken: dict[str, list[float]] = {what: [] for what in ways}
        for turn in range(times + 1):
            for what, way in ways.items():
                took = milliseconds(way)
                if turn:  # the first only warms up
                    taken[what].append(took)
    yield table_of(f"{rows:,} rows, and {SMALL:,}, to {rows:,}", ("what", "ms"), spread_rows(taken))


def _ways(client: Client, make: Callable[[int, int], Any], rows: int, by: str) -> Ways:
    above, among, few = make(2 * rows + 1, rows), make(1, rows), make(rows // 2 * 2 + 1, SMALL)

    def append(data: Any, table: str, **options: bool) -> Callable[[], object]:
        def way() -> None:
            txn = client.begin()
            txn.write(data, table, **options)  # type: ignore[arg-type]
            txn.abort()

        return way

    return {
        f"{by}: no key": append(among, PLAIN),
        f"{by}: keys above": append(above, KEYED),
        f"{by}: keys among those that are there": append(among, KEYED),
        f"{by}: keys among them, keys_are_new": append(among, KEYED, keys_are_new=True),
        f"{by}: {SMALL:,} rows, no key": append(few, PLAIN),
        f"{by}: {SMALL:,} rows, keys among them": append(few, KEYED),
    }


def _odd_or_even(first: int, count: int) -> pa.Table:
    ids = pa.array(range(first, first + 2 * count, 2), pa.int64())
    return pa.table({"id": ids, "value": ids})


def _frame(session: Any, first: int, count: int) -> Any:
    return session.range(first, first + 2 * count, 2).selectExpr("id", "id AS value")
