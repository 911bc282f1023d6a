"""Nodes, Spark's master, its workers and a driver, each with an address and a network of its own: several machines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from tests.support import connect, fast_cluster, wait_until
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.namespaces import Namespaces, NoNamespaces
from txnstatus.security.tls import VARIABLE

HOME = Path(pyspark.__file__).parent
JOB = Path(__file__).with_name("machines_job.py")
MASTER, WORKERS, DRIVER = "master", ("worker-1", "worker-2"), "driver"
DEPLOY = "org.apache.spark.deploy"


class Machines:
    """A cluster with TLS, and machines for Spark beside its nodes'."""

    def __init__(self, network: Namespaces, cluster: LocalCluster, directory: Path) -> None:
        self.cluster, self._network, self._log = cluster, network, directory / "spark.log"
        names = [MASTER, *WORKERS, DRIVER]
        addresses = network.addresses(names)
        for name in names:
            network.attach(name, addresses[name])
        self.hosts = {name: address.rpartition(":")[0] for name, address in addresses.items()}

    def start(self, name: str, *command: str | Path, **more: str) -> subprocess.Popen[bytes]:
        """A process on that machine."""
        environment = {key: value for key, value in os.environ.items() if key != VARIABLE}
        environment |= {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": self.hosts[name], "PYSPARK_PYTHON": sys.executable}
        with self._log.open("ab") as output:
            return self._network.start(
                name, lambda: subprocess.Popen(command, stdout=output, stderr=output, env={**environment, **more})
            )

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    try:
        network = Namespaces(seed=1)
    except NoNamespaces as error:
        pytest.skip(str(error))
    with network, fast_cluster(tmp_path / "cluster", secure=True, network=network) as cluster:
        yield Machines(network, cluster, tmp_path)


def ended(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        process.terminate()
        process.wait(30)


@pytest.mark.campaign
def test_several_machines_with_a_spark_of_their_own(machines: Machines, tmp_path: Path) -> None:
    """Nothing is shared but files: no process reaches another one by loopback."""
    with connect(machines.cluster) as client:
        client.create_table("air.parts", "id bigint")
    master = f"spark://{machines.hosts[MASTER]}:7077"
    spark = HOME / "bin" / "spark-class"
    with ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        stack.callback(ended, started)
        where = ("--host", machines.hosts[MASTER], "--port", "7077", "--webui-port", "0")
        started.append(machines.start(MASTER, spark, f"{DEPLOY}.master.Master", *where))
        wait_until(lambda: "I have been elected leader" in machines.log(), "the Spark master is up", 180)
        for name in WORKERS:
            own = ("--host", machines.hosts[name], "--cores", "1", "--memory", "1g", "--webui-port", "0")
            own = (*own, "--work-dir", str(tmp_path / name))
            started.append(machines.start(name, spark, f"{DEPLOY}.worker.Worker", *own, master))
        hosts = [machines.hosts[name] for name in WORKERS]
        wait_until(
            lambda: all(f"Registering worker {host}:" in machines.log() for host in hosts), "both are known", 180
        )
        nodes = ",".join(entry.address for entry in machines.cluster.configs["n1"].nodes.values())
        shown = {VARIABLE: str(machines.cluster.credentials)}
        job = machines.start(DRIVER, sys.executable, str(JOB), master, nodes, "air.parts", **shown)
        started.append(job)
        assert job.wait(280) == 0, machines.log()[-8000:]
    assert f"machines {' '.join(sorted(hosts))}\n" in machines.log()
    with connect(machines.cluster) as client:
        ids = client.snapshot().to_arrow("air.parts")["id"].to_pylist()
    assert sorted(ids) == list(range(-2, 100))
