"""How long a shard's tables wait while it goes to another group's log: what one writer's commits take meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Annotated

import pyarrow as pa
from rich.table import Table

from benchmarks.suite.options import at_least
from benchmarks.suite.ours import running
from benchmarks.suite.report import table_of
from txnclient import Client
from txndeploy.local.cluster import wait_until
from txndeploy.terminal.listings import catalog
from txnstatus.catalog.catalog import shard_group
from txnstatus.proto import admin_pb2

TABLE = "bench.moved"
WAIT_SECONDS = 120.0
BREATH_SECONDS = 1.0


def measure(
    files: Annotated[str, "Files of the table before it moves, separated by commas."] = "10,1000,10000",
    moves: Annotated[int, at_least(1, "Moves, there and back, of each.")] = 6,
) -> Iterator[Table]:
    shown = []
    for count in map(int, files.split(",")):
        with running() as (_, client):
            client.create_table(TABLE, "id bigint")
            _fill(client, count)
            other = client.add_group()
            took, longest, usual = _move(client, other, moves)
            shown.append(
                (str(count), f"{median(took):.0f}", f"{median(longest):.0f}", f"{max(longest):.0f}", f"{usual:.1f}")
            )
    columns = ("files", "order to end, ms", "longest commit, ms", "longest of all", "usual commit")
    yield table_of(f"{moves} moves of a shard under one writer", columns, shown)


def _fill(client: Client, files: int) -> None:
    one = pa.table({"id": [1]})
    for start in range(0, files, 100):
        with client.begin() as txn:
            for _ in range(min(100, files - start)):
                txn.write(one, TABLE)


def _move(client: Client, other: str, moves: int) -> tuple[list[float], list[float], float]:
    """Milliseconds: of each move, of the longest commit during it, and of the usual commit."""
    shard = int(client.table(TABLE).table_id.split(".")[0])
    commits, ended = list[tuple[float, float]](), threading.Event()
    home = catalog(client).parts[shard_group(shard)]

    def write() -> None:
        one = pa.table({"id": [1]})
        while not ended.is_set():
            began = time.perf_counter()
            client.write(one, TABLE)
            commits.append((began, time.perf_counter()))

    writer = threading.Thread(target=write)
    writer.start()
    took, longest, moved = list[float](), list[float](), list[tuple[float, float]]()
    for number in range(moves):
        time.sleep(BREATH_SECONDS)
        group = home if number % 2 else other
        began = time.perf_counter()
        order = admin_pb2.MigrateShardRequest(shard=shard, group=group)
        client.call("txnstatus.Admin/MigrateShard", order, admin_pb2.MigrateShardResponse)
        wait_until(partial(_is_in, client, shard, group), f"the shard in {group}", WAIT_SECONDS)
        moved.append((began, time.perf_counter()))
    time.sleep(BREATH_SECONDS)
    ended.set()
    writer.join()
    for began, end in moved:
        took.append(1e3 * (end - began))
        longest.append(max(1e3 * (stop - start) for start, stop in commits if start < end and stop > began))
    return took, longest, median(1e3 * (stop - start) for start, stop in commits)


def _is_in(client: Client, shard: int, group: str) -> bool:
    return catalog(client).parts[shard_group(shard)] == group
