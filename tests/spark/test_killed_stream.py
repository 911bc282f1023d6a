"""A stream whose driver is killed, with its JVM, at whatever it does, and nodes below it: each row is there once."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.stream_drivers import FILE_ROWS, driver, kill, written
from tests.spark.two_streams_job import BATCHES, IDS, started
from tests.support import FAST_TXN, connect, fast_cluster, wait_until
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SEED = int(os.environ.get("TXN_SEED", "1"))
STEP_SECONDS = 300
"""Longest time in which a driver that lives commits a batch: on a busy machine Spark alone takes minutes to start."""
MOST_SECONDS = 3.0
"""Longest time for which a driver goes on, once it has committed something."""
KILLS = 5
FILES_A_LIFE = 3


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """One on which nobody expires whose heartbeats are late: a batch that Spark runs has three attempts."""
    patient = FAST_TXN.model_copy(update={"keepalive_default_ms": 120_000})
    with fast_cluster(tmp_path / "cluster", txn=patient) as running:
        yield running


@pytest.mark.timeout(4 * STEP_SECONDS)
def test_a_batch_that_died_in_its_writes_is_there_once(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """The second batch of two has written both tables, and stays there until it dies, after a node below it."""
    lay_out(tmp_path, files=2)
    with connect(cluster) as client:
        create(client)
        with driver(cluster, tmp_path, "first") as first:
            wait_until(
                lambda: (tmp_path / "first.inside").exists() or first.poll() is not None,
                "the first driver is in its second batch",
                STEP_SECONDS,
            )
            assert first.poll() is None, story(tmp_path, "first")
            cluster.kill("n1")
            kill(first)
        start_again(cluster, "n1")
        (tmp_path / "second.go").touch()
        assert started(spark, client, tmp_path, "second").awaitTermination(STEP_SECONDS)
        assert written(client) == all_of(files=2)


@pytest.mark.campaign
@pytest.mark.timeout(4 * KILLS * STEP_SECONDS)
def test_each_row_is_there_once(cluster: LocalCluster, tmp_path: Path) -> None:
    chosen, files = random.Random(SEED), FILES_A_LIFE * (KILLS + 1)
    lay_out(tmp_path, files)
    with connect(cluster) as client:
        create(client)
        for number in range(KILLS):
            name, before = f"life-{number}", batches(tmp_path)
            (tmp_path / f"{name}.go").touch()
            with driver(cluster, tmp_path, name) as running:
                wait_until(
                    lambda run=running, seen=before: batches(tmp_path) > seen or run.poll() is not None,  # type: ignore[misc]
                    f"{name} has committed a batch",
                    STEP_SECONDS,
                )
                cluster.kill(node := chosen.choice(list(cluster.configs)))
                with suppress(subprocess.TimeoutExpired):
                    running.wait(chosen.uniform(0, MOST_SECONDS))
                kill(running)
            start_again(cluster, node)
        (tmp_path / "last.go").touch()
        with driver(cluster, tmp_path, "last") as last:
            await_end(last, tmp_path, "last")
        assert written(client) == all_of(files)


def lay_out(directory: Path, files: int) -> None:
    (directory / "in").mkdir()
    for number in range(files):
        ids = pa.array(range(number * FILE_ROWS, (number + 1) * FILE_ROWS), pa.int64())
        pq.write_table(pa.table({"id": ids}), directory / "in" / f"{number:03}.parquet")


def create(client: Client) -> None:
    client.create_table(IDS, "id bigint")
    client.create_table(BATCHES, "batch int, rows bigint")


def all_of(files: int) -> tuple[list[int], list[tuple[int, int]]]:
    return list(range(files * FILE_ROWS)), [(number, FILE_ROWS) for number in range(files)]


def start_again(cluster: LocalCluster, node: str) -> None:
    cluster.start_node(node)
    cluster.wait_ready(STEP_SECONDS)


def await_end(running: subprocess.Popen[bytes], directory: Path, name: str) -> None:
    """Until a driver has nothing more to take, however long, as long as it commits batches."""
    while running.poll() is None:
        before = batches(directory)
        wait_until(
            lambda seen=before: batches(directory) > seen or running.poll() is not None,  # type: ignore[misc]
            f"{name} commits a batch, or ends",
            STEP_SECONDS,
        )
    assert running.returncode == 0, story(directory, name)


def story(directory: Path, name: str) -> str:
    return (directory / f"{name}.log").read_text()[-5000:]


def batches(directory: Path) -> int:
    """How many have committed, as Spark knows it."""
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*")))
