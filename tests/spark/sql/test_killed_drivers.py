"""Drivers that are killed at some point of a statement that makes, replaces or overwrites: nothing of it, or all."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from tests.support import wait_until
from txnclient import Client
from txndeploy.local.cluster import LocalCluster
from txnstatus.types import TxnState

NewTable = Callable[..., str]
Row = tuple[int, int]
BEFORE = [(1, 1), (2, 2)]
NEW = "SELECT id + 10 AS id, CAST(1 AS int) AS day FROM range(3)"
ADDED = [(10, 1), (11, 1), (12, 1)]
KILLS = 10
"""Drivers that are killed in a campaign: each takes a JVM to start."""
COME_SECONDS = 600.0
"""Longest time for a driver to come to the point at which it dies, on a machine that is busy."""


class Statement(NamedTuple):
    """A statement, how it overwrites partitions, and what is there once all of it is done."""

    text: str
    mode: str
    after: list[Row]


STATEMENTS = {
    "make": Statement(f"CREATE TABLE txn.{{}} PARTITIONED BY (day) AS {NEW}", "static", ADDED),
    "replace": Statement(f"CREATE OR REPLACE TABLE txn.{{}} PARTITIONED BY (day) AS {NEW}", "static", ADDED),
    "all": Statement(f"INSERT OVERWRITE txn.{{}} {NEW}", "static", ADDED),
    "static": Statement(
        "INSERT OVERWRITE txn.{} PARTITION (day = 1) SELECT id + 10 FROM range(3)", "static", [(2, 2), *ADDED]
    ),
    "dynamic": Statement(f"INSERT OVERWRITE txn.{{}} {NEW}", "dynamic", [(2, 2), *ADDED]),
}
UNDONE = ("open before", "open after", "commit before", "added")
"""Points before the commit."""
ANY_TIME = ("commit 0.0", "commit 0.005", "commit 0.02", "open 0.3")
"""Points at which the commit may have come, or not."""
DONE = ("commit after",)
POINTS = (*UNDONE, *ANY_TIME, *DONE)


def there(client: Client, table: str) -> list[Row]:
    return sorted((row["id"], row["day"]) for row in client.snapshot().to_arrow(table).to_pylist())


def written(client: Client, table: str) -> set[str]:
    """The directories of writes to the table that are on disk."""
    return {each.name for each in Path(client.table(table).location.removeprefix("file://")).glob("delta_*")}


def killed(cluster: LocalCluster, statement: Statement, table: str, point: str) -> None:
    job = Path(__file__).with_name("killed_job.py")
    driver = subprocess.Popen(
        [sys.executable, job, cluster.addresses, point, statement.mode, statement.text.format(table)],
        start_new_session=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    try:
        assert driver.wait(COME_SECONDS) == -signal.SIGKILL, f"it did not come to {point!r}"
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def judge(cluster: LocalCluster, client: Client, new_table: NewTable, kind: str, point: str) -> None:
    statement, before, table = STATEMENTS[kind], list[Row](), f"s.killed_{os.urandom(4).hex()}"
    if kind != "make":
        table, before = new_table("id bigint, day int", partition_by=["day"]), BEFORE
        client.write(pa.table({"id": [1, 2], "day": pa.array([1, 2], pa.int32())}), table)
    old = written(client, table) if before else set[str]()
    killed(cluster, statement, table, point)
    wait_until(lambda: not client.transactions([TxnState.OPEN]), f"{kind}, {point}: its transaction is over", 60)
    found = there(client, table)
    allowed = [statement.after] if point in DONE else [before] if point in UNDONE else [before, statement.after]
    assert found in allowed, (kind, point)
    listed = {Path(file.path).parent for file in client.snapshot().files(table).files}
    kept = old | {part for path in listed for part in path.parts if part.startswith("delta_")}
    wait_until(lambda: written(client, table) <= kept, f"{kind}, {point}: what is left over is removed", 60)
    if found == before and kind != "make":
        client.write(pa.table({"id": [3], "day": pa.array([1], pa.int32())}), table)
        assert there(client, table) == [*BEFORE, (3, 1)], "it can be written to"


@pytest.mark.timeout(COME_SECONDS + 300)
def test_a_driver_that_is_killed_once_files_were_added_leaves_nothing(
    cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    judge(cluster, client, new_table, "dynamic", "added")


@pytest.mark.campaign
@pytest.mark.timeout(COME_SECONDS + 300)
@pytest.mark.parametrize("turn", range(KILLS))
def test_a_driver_that_is_killed_anywhere_leaves_nothing_or_all(
    cluster: LocalCluster, client: Client, new_table: NewTable, turn: int
) -> None:
    """A driver that dies between CREATE TABLE AS SELECT and its rows leaves an empty table."""
    drawn = random.Random(int(os.environ.get("TXN_SEED", "1")))
    kind, point = drawn.sample([(kind, point) for kind in STATEMENTS for point in POINTS], KILLS)[turn]
    judge(cluster, client, new_table, kind, point)
