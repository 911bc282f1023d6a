"""Drivers of Spark's that are run by `txnctl spark`."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyspark

from txndeploy.local.cluster import LocalCluster

HOME = Path(pyspark.__file__).parent


@contextmanager
def driver(cluster: LocalCluster, scratch: Path, command: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """`txnctl spark -- command`."""
    words = [sys.executable, "-m", "txndeploy.ctl.cli", "spark", "--cluster", cluster.addresses, "--"]
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    with subprocess.Popen(
        [*words, *command],
        cwd=scratch,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=(scratch / "stderr").open("w"),
    ) as running:
        try:
            yield running
        finally:
            running.terminate()


def listens(port: int, running: subprocess.Popen[str]) -> bool:
    """Whether somebody does at that port yet: the process, unless it has ended."""
    assert running.poll() is None, "it has ended"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 10):
        return True
    return False
