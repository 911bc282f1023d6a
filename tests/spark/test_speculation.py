"""A task that Spark runs twice: speculation needs two hosts, so a standalone cluster on two loopback addresses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.support import parquet_files, wait_until
from txnclient import Client
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import free_ports

HOME = Path(pyspark.__file__).parent
JOB = Path(__file__).with_name("speculation_job.py")


@pytest.fixture
def spark_master(tmp_path: Path) -> Iterator[str]:
    """A Spark master with a worker on 127.0.0.1 and one on 127.0.0.2."""
    (port,) = free_ports(1)
    master = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": "127.0.0.1"}
    log = tmp_path / "spark.log"

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                [HOME / "bin" / "spark-class", *arguments], stdout=output, stderr=output, env=environment
            )

    with ExitStack() as stack:
        deploy = "org.apache.spark.deploy"
        processes = [start(f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")]
        stack.callback(lambda: [_end(process) for process in processes])
        wait_until(lambda: "I have been elected leader" in log.read_text(), "the Spark master is up", 180)
        for host in ("127.0.0.1", "127.0.0.2"):
            work = tmp_path / f"work-{host}"
            worker = ("--host", host, "--cores", "2", "--memory", "1g", "--webui-port", "0", "--work-dir", str(work))
            processes.append(start(f"{deploy}.worker.Worker", *worker, master))
        wait_until(lambda: log.read_text().count("Registering worker") == 2, "both workers are known", 180)
        yield master


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)


@pytest.mark.campaign
@pytest.mark.parametrize("by", ["handles", "sql"])
def test_a_task_that_spark_runs_twice_counts_once(
    spark_master: str, cluster: LocalCluster, client: Client, new_table: Callable[..., str], attempts: Path, by: str
) -> None:
    table = new_table("id bigint")
    result = subprocess.run(
        [sys.executable, JOB, spark_master, cluster.addresses, table, attempts, by],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
    )
    assert result.returncode == 0, result.stderr
    assert "added 4" in result.stdout
    assert {"0-0", "0-1"} <= {mark.name for mark in attempts.iterdir()}, "the slow task had two attempts"
    assert sorted(client.snapshot().to_arrow(table)["id"].to_pylist()) == [0, 1, 2, 3]
    location = Path(client.table(table).location.removeprefix("file://"))
    # By handles: the driver's own directory with the manifest, and one for each attempt that counts.
    directories = {"handles": 5, "sql": 1}[by]
    wait_until(lambda: len(list(location.glob("delta_*"))) == directories, "the losing attempt's directory is removed")
    wait_until(lambda: len(parquet_files(location)) == 4, "the losing attempt's file is removed")
