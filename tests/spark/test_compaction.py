"""Compaction by Spark's executors: the same rows, in their order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.support import wait_until
from txnclient import Client
from txnclient.compact.distributed import rewrite_by
from txnclient.compact.worker import Worker
from txndeploy.local.cluster import LocalCluster
from txnstatus.sizes import Sizes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_executors_write_files_anew(spark: SparkSession, client: Client, new_table: Callable[..., str]) -> None:
    table = new_table("month int, id bigint", partition_by=["month"])
    for first in range(0, 60, 20):
        rows = range(first, first + 20)
        client.write(pa.table({"month": pa.array([1 + row % 2 for row in rows], pa.int32()), "id": rows}), table)
    client.delete_where(table, "id % 10 = 3")
    done = client.compact(table, spark=spark)
    assert {(each.partition, each.state, each.output_files) for each in done} == {
        ("month=1", "succeeded", 1),
        ("month=2", "succeeded", 1),
    }
    assert all(each.worker.startswith("spark-") for each in done)
    with client.snapshot() as snapshot:
        files = snapshot.files(table)
        assert len(files.files) == 2
        for part in (1, 2):
            found = files.within(f"month={part}").to_arrow()["id"].to_pylist()
            assert found == [row for row in range(60) if 1 + row % 2 == part and row % 10 != 3]
        assert snapshot.read(spark, table).count() == 54


def _two_sizes(client: Client, table: str) -> int:
    """Writes a small partition and a large one, of two files each; a number of bytes between theirs."""
    for number, (month, count) in enumerate([(1, 10), (2, 5_000)] * 2):
        ids = random.Random(number).sample(range(1 << 60), count)  # such as cannot be stored in less
        client.write(pa.table({"month": pa.array([month] * count, pa.int32()), "id": ids}), table)
    return 10_000


def test_a_worker_with_spark_has_what_is_large(
    spark: SparkSession, client: Client, new_table: Callable[..., str]
) -> None:
    table = new_table("month int, id bigint", partition_by=["month"])
    between = _two_sizes(client, table)
    with client.snapshot() as snapshot:
        before = snapshot.to_arrow(table)
    client.compact(table, wait=False)
    with_spark, without = (
        Worker(client.session, name, threading.Event(), table, sizes=sizes, **more)
        for name, sizes, more in (
            ("with", Sizes(least=between), {"rewrite": partial(rewrite_by, spark)}),
            ("without", Sizes(below=between), {}),
        )
    )
    for worker in (with_spark, without):
        assert worker.run_once()
        assert not worker.run_once()
    done = {each.partition: (each.worker, each.state, each.input_bytes < between) for each in client.compactions(table)}
    assert done == {"month=1": ("without", "succeeded", True), "month=2": ("with", "succeeded", False)}
    with client.snapshot() as snapshot:
        assert sorted(snapshot.to_arrow(table)["id"].to_pylist()) == sorted(before["id"].to_pylist())


def _changes(spark: SparkSession, client: Client, table: str, since: int, until: int) -> dict[int, str]:
    """What changed of each row by its id, as Spark and pyarrow find alike."""
    by_spark, by_arrow = (
        {row["id"]: row["_change_kind"] for row in found if row["_change_kind"] != "update_before"}
        for found in (
            client.diff(table, since, until, spark=spark).toArrow().to_pylist(),
            client.diff(table, since, until).to_pylist(),
        )
    )
    assert by_spark == by_arrow
    return by_spark


def test_row_changes_are_folded_by_spark(spark: SparkSession, client: Client, new_table: Callable[..., str]) -> None:
    """Neither what the table holds, nor what changed between two times on both sides of it, is another one after."""
    table = new_table("p int, id bigint, v string", partition_by=["p"], primary_key=["id"])

    def rows(ids: range, v: str) -> pa.Table:
        return pa.table({"p": pa.array([id_ % 2 for id_ in ids], pa.int32()), "id": ids, "v": [v] * len(ids)})

    client.write(rows(range(40), "old"), table)
    first = client.snapshot()
    with client.transaction() as txn:
        txn.upsert(table, rows(range(30, 50), "new"))
        txn.delete(table, pa.table({"id": [3]}))
    second = client.snapshot()
    with first, second:
        before = _changes(spark, client, table, first.timestamp, second.timestamp)
        done = client.compact(table, spark=spark)
        assert [(each.state, each.worker.startswith("spark-")) for each in done] == [("succeeded", True)]
        client.upsert(table, rows(range(48, 52), "newest"))
        expected = {id_: "old" for id_ in range(30) if id_ != 3}
        expected |= dict.fromkeys(range(30, 48), "new") | dict.fromkeys(range(48, 52), "newest")
        with client.snapshot() as last:
            assert {row.id: row.v for row in last.read(spark, table).collect()} == expected
            across = _changes(spark, client, table, first.timestamp, last.timestamp)
        assert _changes(spark, client, table, first.timestamp, second.timestamp) == before
    assert before == {3: "delete"} | dict.fromkeys(range(30, 40), "update_after") | dict.fromkeys(
        range(40, 50), "insert"
    )
    assert across == before | {50: "insert", 51: "insert"}


@pytest.mark.campaign
def test_the_command_with_spark_does_what_is_large(
    cluster: LocalCluster, client: Client, new_table: Callable[..., str]
) -> None:
    table = new_table("id bigint, note string")
    for _ in range(2):
        client.write(pa.table({"id": range(20_000), "note": [os.urandom(40).hex() for _ in range(20_000)]}), table)
    client.compact(table, wait=False)
    command = [sys.executable, "-m", "txndeploy.ctl.cli", "compactor", "--cluster", cluster.addresses, "--table", table]
    small = subprocess.run([*command, "--once", "--large", "1"], timeout=60)
    assert small.returncode == 0
    assert [each.state for each in client.compactions(table)] == ["initiated"]
    large = subprocess.Popen([*command, "--large", "1", "--spark", "local[2]"])
    try:
        wait_until(lambda: [each.state for each in client.compactions(table)] == ["succeeded"], 90)
    finally:
        large.send_signal(signal.SIGTERM)
        assert large.wait(60) == 0
