"""What a published table's Delta log takes of the nodes: appends to a table that has one, and to one that has none.

The two take turns, in lots: each lot's commits are all in the log before its time is taken. So what nodes do without
cause until the last pass counts for the log, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Annotated

import pyarrow as pa
from rich.table import Table

from benchmarks.suite.machine import used_by
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import table_of
from txnclient import Client
from txndeploy.local.cluster import LocalCluster, wait_until
from txnstatus.lake import delta_actions, delta_log

PUBLISHED, PLAIN = "bench.published", "bench.plain"
WARM = 2


def measure(
    rows: Annotated[int, at_least(1, "Rows of each append.")] = 100,
    commits: Annotated[int, at_least(1, "Commits of each lot.")] = 100,
    lots: Annotated[int, at_least(1, "Lots of each kind.")] = 5,
) -> Iterator[Table]:
    data = pa.table({"id": range(rows), "note": [f"note {each}" for each in range(rows)]})
    used: dict[str, list[float]] = {PUBLISHED: [], PLAIN: []}
    with running() as (cluster, client):
        for table in used:
            properties = {"publish": "delta"} if table == PUBLISHED else {}
            client.create_table(table, "id bigint, note string", properties=properties)
        for lot in range(WARM + lots):
            for table, taken in used.items():
                found = _lot(cluster, client, table, data, commits)
                if lot >= WARM:
                    taken.append(found)
    one, other = (median(each) for each in used.values())
    shown = [(table, f"{median(taken):.2f}", f"{min(taken):.2f}", f"{max(taken):.2f}") for table, taken in used.items()]
    columns = ("table", "CPU ms of the nodes a commit, median of the lots", "least", "most")
    yield table_of(f"{lots} lots of {commits} commits: {one - other:.2f} ms for the log", columns, shown)


def _lot(cluster: LocalCluster, client: Client, table: str, data: pa.Table, commits: int) -> float:
    """Milliseconds of all nodes for each commit."""
    before = _nodes(cluster)
    last = max(client.write(data, table).commit_timestamp for _ in range(commits))
    if table == PUBLISHED:
        info = client.table(table)

        def is_published() -> bool:  # without a call, which would be counted, too
            _, first = delta_log.last_entry(info.location)
            return (delta_actions.commit_of(first, info.table_id) or 0) >= last

        wait_until(is_published, "all of it is published")
    return 1e3 * (_nodes(cluster) - before) / commits


def _nodes(cluster: LocalCluster) -> float:
    return sum(used_by(cluster.pid(node)) for node in cluster.configs)
