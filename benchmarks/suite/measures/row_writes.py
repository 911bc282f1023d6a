"""What row writes cost: requests of one transaction each, on a table that has rows in files, over three nodes.

Keys are spread over the table, and new ones each time; those of an insert lie above all others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Annotated

import pyarrow as pa
import typer
from rich.table import Table

from benchmarks.suite.drive import milliseconds
from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import spread_rows, table_of
from txnclient import Client

TABLE = "bench.rows"
MAX_BATCH = 10_000


def measure(
    rows: Annotated[int, at_least(1, "Those in files.")] = 1_000_000,
    batch: Annotated[int, typer.Option(min=1, max=MAX_BATCH, help="Rows in a request.")] = MAX_BATCH,
    times: Annotated[int, at_least(1, "Requests of each kind.")] = 7,
) -> Iterator[Table]:
    if batch > rows:
        raise typer.BadParameter(f"{batch}: there are {rows} rows", param_hint="--batch")
    with running() as (_, client):
        client.create_table(TABLE, "id bigint, value bigint", primary_key=["id"])
        with client.transaction() as txn:
            txn.write(_with_ids(range(rows)), TABLE)
        taken = _requests(client, rows, batch, times)
        taken["to_arrow"] = [milliseconds(lambda: client.snapshot().to_arrow(TABLE))]
    yield table_of(f"{batch:,} rows a request, {rows:,} rows in files", ("what", "ms"), spread_rows(taken))


def _requests(client: Client, rows: int, batch: int, times: int) -> dict[str, list[float]]:
    """The milliseconds of each request, and of the commit that ends its transaction."""
    taken: dict[str, list[float]] = {}
    new, offset, stride = rows, 0, rows // batch
    for change in ("upsert", "insert", "insert_ignore", "update"):
        for _ in range(times):
            above, spread = range(new, new + batch), range(offset, rows, stride)[:batch]
            new, offset = new + batch, (offset + 1) % stride
            changes = _with_ids(above if change == "insert" else spread)
            txn = client.begin()
            _ = txn.snapshot
            request = partial(getattr(txn, change), TABLE, changes)
            for what, step in ((change, request), (f"{change}: commit", txn.commit)):
                taken.setdefault(what, []).append(milliseconds(step))
    return taken


def _with_ids(ids: range) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array(ids, pa.int64())})
