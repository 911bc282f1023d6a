"""A stream whose driver is killed, with its JVM, at whatever it does, and nodes below it: each row is there once."""

from __future__ import annotations

import os
import random
import subprocess
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.spark.stream_drivers import FILE_ROWS, driver, kill, written
from tests.spark.two_streams_job import BATCHES, IDS
from tests.support import connect, fast_cluster, wait_until

SEED = int(os.environ.get("TXN_SEED", "1"))
SECONDS = 400
"""Longest time for a driver to start, and to write: on a busy machine Spark alone takes minutes."""
MOST_SECONDS = 3.0
"""Longest time for which a driver goes on, once it has written something."""


@pytest.mark.parametrize("kills", [1, pytest.param(8, marks=pytest.mark.campaign)])
@pytest.mark.timeout(9 * SECONDS)
def test_each_row_is_there_once(kills: int, tmp_path: Path) -> None:
    chosen, files = random.Random(SEED), 3 * kills + 3
    (tmp_path / "in").mkdir()
    for number in range(files):
        ids = pa.array(range(number * FILE_ROWS, (number + 1) * FILE_ROWS), pa.int64())
        pq.write_table(pa.table({"id": ids}), tmp_path / "in" / f"{number:03}.parquet")
    with fast_cluster(tmp_path / "cluster") as cluster, connect(cluster) as client:
        client.create_table(IDS, "id bigint")
        client.create_table(BATCHES, "batch int, rows bigint")
        for number in range(kills + 1):
            name, before = f"life-{number}", batches(tmp_path)
            (tmp_path / f"{name}.go").touch()
            with driver(cluster, tmp_path, name) as running:
                if number == kills:
                    assert running.wait(SECONDS) == 0, (tmp_path / f"{name}.log").read_text()[-5000:]
                    break
                wait_until(
                    lambda run=running, seen=before: run.poll() is not None or batches(tmp_path) > seen,  # type: ignore[misc]
                    f"{name} has written a batch",
                    SECONDS,
                )
                cluster.kill(node := chosen.choice(list(cluster.configs)))
                with suppress(subprocess.TimeoutExpired):
                    running.wait(chosen.uniform(0, MOST_SECONDS))
                kill(running)
            cluster.start_node(node)
            cluster.wait_ready()
        assert written(client) == (list(range(files * FILE_ROWS)), [(number, FILE_ROWS) for number in range(files)])


def batches(directory: Path) -> int:
    """How many have committed, as Spark knows it."""
    return len(list((directory / "checkpoint" / "commits").glob("[0-9]*")))
