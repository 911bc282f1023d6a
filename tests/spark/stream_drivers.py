"""Drivers of one stream, each a process with a Spark of its own, and what they have written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.spark.two_streams_job import BATCHES, IDS
from txnclient import Client
from txndeploy.local.cluster import LocalCluster

ROOT = Path(__file__).parent.parent.parent
FILE_ROWS = 10


@contextmanager
def driver(cluster: LocalCluster, directory: Path, name: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tests.spark.two_streams_job", cluster.addresses, str(directory), name]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with (
        (directory / f"{name}.log").open("wb") as log,
        subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment, start_new_session=True) as running,
    ):
        try:
            yield running
        finally:
            kill(running)


def kill(running: subprocess.Popen[bytes]) -> None:
    """Kills the driver and its JVM."""
    with suppress(ProcessLookupError):  # both are through
        os.killpg(running.pid, signal.SIGKILL)


def written(client: Client) -> tuple[list[int], list[tuple[int, int]]]:
    with client.snapshot() as snapshot:
        ids, batches = map(snapshot.to_arrow, (IDS, BATCHES))
    return sorted(ids["id"].to_pylist()), sorted(
        zip(batches["batch"].to_pylist(), batches["rows"].to_pylist(), strict=True)
    )
