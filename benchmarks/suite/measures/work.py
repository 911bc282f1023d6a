"""What a transaction is to each node, in the measures that a busy machine moves least: calls, cpu or turns.

`calls`: function calls of Python a transaction, by module; the interpreter's own functions count for the module that
makes them. Counting makes all of it slow, so times are no part of what is shown. `cpu`: in which function a node is
whenever it has used a millisecond of CPU (the kernel's clock may make that four). It shows what no count does, such as
what making an object costs; the garbage collector's time is that of whoever was running. `turns`: how late the node's
event loop came to timers of a millisecond, and how late it was by its own work, which is the CPU that it used in that
time: for the rest it waited for a core.

Whole transactions over two tables, as the suite's workload has them, on three nodes; beside others that are only open.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import RenderableType
from rich.table import Table

from benchmarks.suite.ballast import SILENT_MS, begin_batches
from benchmarks.suite.drive import drive
from benchmarks.suite.in_node import BY_ITSELF, LATE, ROOT, UP_TO, Counts, launcher, read
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import COLUMNS, STATUS, TABLES, connected, running, transact
from benchmarks.suite.report import table_of
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import TxnSection

WARM_UP_SECONDS = 2.0


class What(StrEnum):
    CALLS = "calls"
    CPU = "cpu"
    TURNS = "turns"


SHOWN = {What.CALLS: 12, What.CPU: 25}
"""Lines for each node."""


def measure(
    what: Annotated[What, typer.Argument(help="What is counted.")],
    in_flight: Annotated[int, at_least(1, "Transactions at once.")] = 64,
    seconds: Annotated[float, at_least(0.01, "Of load that is measured.")] = 5.0,
    open_: Annotated[int, at_least(0, "Transactions that are begun before, and left alone.", "--open")] = 0,
) -> Iterator[RenderableType]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    with (
        tempfile.TemporaryDirectory() as directory,
        running(
            TxnSection(max_open_transactions=0),
            launcher=launcher(what, Path(directory)),
            environment={"PYTHONPATH": os.pathsep.join(filter(None, paths))},
        ) as (cluster, client),
    ):
        for table in TABLES:
            client.create_table(table, COLUMNS)
        transactions, counts = _run(cluster, Path(directory), in_flight, seconds, open_)
        leader = cluster.leader(STATUS)
    for node in sorted(counts):
        title = f"{node}, which {'leads' if node == leader else 'follows'}"
        yield _turns(title, counts[node]) if what is What.TURNS else _shares(what, title, counts[node], transactions)
    calls = ""
    if what is What.CALLS:
        calls = f": {sum(node.total() for node in counts.values()) / transactions:.0f} calls each on the three nodes"
    yield f"{transactions} transactions, {in_flight} in flight{calls}"


def _run(
    cluster: LocalCluster, directory: Path, in_flight: int, seconds: float, others: int
) -> tuple[int, dict[str, Counts]]:
    """Returns how many transactions there were, and what was counted meanwhile by node. `others`: that are open."""
    leader = cluster.address(cluster.leader(STATUS))

    async def load(for_seconds: float, others: int = 0) -> int:
        async with connected(leader) as channel:
            await begin_batches(channel, others, SILENT_MS)
            return len((await drive(lambda _number: transact(channel), in_flight, for_seconds)).latencies)

    asyncio.run(load(WARM_UP_SECONDS, others))
    before = {node: read(directory, cluster.pid(node)) for node in cluster.configs}
    transactions = asyncio.run(load(seconds))
    return transactions, {node: read(directory, cluster.pid(node)) - before[node] for node in cluster.configs}


def _shares(what: What, title: str, counts: Counts, transactions: int) -> Table:
    of, unit, per = (
        ("module", "calls a transaction", transactions) if what is What.CALLS else ("function", "samples", 1)
    )
    total, top = counts.total(), counts.most_common(SHOWN[what])
    others = f"{len(counts) - len(top)} others", total - sum(count for _, count in top)
    rows = [
        (name, f"{count / per:.0f}", f"{count / max(total, 1):.1%}") for name, count in [*top, others, ("all", total)]
    ]
    return table_of(title, (of, unit, "share"), rows)


def _turns(title: str, counts: Counts) -> Table:
    rows = [(bound, *(f"{counts[f'{kind} {bound}']:,}" for kind in (LATE, BY_ITSELF))) for bound in UP_TO]
    return table_of(title, ("up to", LATE, BY_ITSELF), rows)
