"""How long a shard's tables wait while it goes to another group's log, or is split: what one writer's commits take
meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
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
Row = Sequence[str]


def measure(
    files: Annotated[str, "Files of the table before it moves, separated by commas."] = "10,1000,10000",
    moves: Annotated[int, at_least(1, "Moves, there and back, of each; and splits.")] = 6,
) -> Iterator[Table]:
    moved, split = list[Row](), list[Row]()
    for count in map(int, files.split(",")):
        with running() as (_, client):
            client.create_table(TABLE, "id bigint")
            _fill(client, count)
            other, shard = client.add_group(), int(client.table(TABLE).table_id.split(".")[0])
            home = catalog(client).parts[shard_group(shard)]
            turns = [partial(_move, client, shard, home if number % 2 else other) for number in range(moves)]
            moved.append((str(count), *_under_a_writer(client, turns)))
            split.append((str(count), *_under_a_writer(client, [partial(_split, client, shard)] * moves)))
    columns = ("files", "order to end, ms", "longest commit, ms", "longest of all", "usual commit")
    yield table_of(f"{moves} moves of a shard under one writer", columns, moved)
    yield table_of(f"{moves} splits of it", columns, split)


def _fill(client: Client, files: int) -> None:
    one = pa.table({"id": [1]})
    for start in range(0, files, 100):
        with client.begin() as txn:
            for _ in range(min(100, files - start)):
                txn.write(one, TABLE)


def _under_a_writer(client: Client, turns: Sequence[Callable[[], None]]) -> tuple[str, str, str, str]:
    """Milliseconds: of a turn, of the longest commit during one, of the longest during any, and of a usual commit."""
    commits, ended = list[tuple[float, float]](), threading.Event()

    def write() -> None:
        one = pa.table({"id": [1]})
        while not ended.is_set():
            began = time.perf_counter()
            client.write(one, TABLE)
            commits.append((began, time.perf_counter()))

    writer = threading.Thread(target=write)
    writer.start()
    spans = list[tuple[float, float]]()
    for turn in turns:
        time.sleep(BREATH_SECONDS)
        began = time.perf_counter()
        turn()
        spans.append((began, time.perf_counter()))
    time.sleep(BREATH_SECONDS)
    ended.set()
    writer.join()
    took = [1e3 * (end - began) for began, end in spans]
    longest = [
        max(1e3 * (stop - start) for start, stop in commits if start < end and stop > began) for began, end in spans
    ]
    usual = median(1e3 * (stop - start) for start, stop in commits)
    return f"{median(took):.0f}", f"{median(longest):.0f}", f"{max(longest):.0f}", f"{usual:.1f}"


def _move(client: Client, shard: int, group: str) -> None:
    order = admin_pb2.MigrateShardRequest(shard=shard, group=group)
    client.call("txnstatus.Admin/MigrateShard", order, admin_pb2.MigrateShardResponse)
    part = shard_group(shard)
    wait_until(lambda: catalog(client).parts[part] == group, f"the shard in {group}", WAIT_SECONDS)


def _split(client: Client, shard: int) -> None:
    new = catalog(client).shards[-1] + 1
    order = admin_pb2.SplitShardRequest(shard=shard, new_shard=new)
    client.call("txnstatus.Admin/SplitShard", order, admin_pb2.SplitShardResponse)
    wait_until(lambda: not catalog(client).migrations, f"shard {new}", WAIT_SECONDS)
