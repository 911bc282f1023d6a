"""The networks that nodes can be put into: what is broken is broken, the rest is not, and nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import wait_until
from txndeploy.local.namespaces import Namespaces, NoNamespaces
from txndeploy.local.network import Network
from txndeploy.local.proxies import Proxies

NODES = ("n1", "n2", "n3")
NOT_ANSWERED = "timed out"
LISTEN = """
import socket, sys, threading
host, port = sys.argv[1].rsplit(":", 1)
def answer(connection):
    while data := connection.recv(65536):
        connection.sendall(data)
with socket.create_server((host, int(port))) as server:
    print("listening", flush=True)
    while True:
        threading.Thread(target=answer, args=(server.accept()[0],), daemon=True).start()
"""
ASK = """
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
connection = socket.create_connection((host, int(port)), 10)
print("connected", flush=True)
for line in sys.stdin:
    connection.settimeout(float(line))
    try:
        connection.sendall(b"x")
        print("answered" if connection.recv(1) else "closed", flush=True)
    except OSError as error:
        print(error, flush=True)
"""


class Town:
    """In each node's place somebody who answers, and connections between them."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.addresses = network.addresses(NODES)
        self.doors = {node: network.attach(node, self.addresses[node]) for node in NODES}
        self._processes: list[subprocess.Popen[str]] = []
        for node in NODES:
            self._start(node, LISTEN, self.addresses[node])
        self._asking = {
            (source, target): self._start(source, ASK, network.reach(source, target, self.addresses[target]))
            for source in NODES
            for target in NODES
            if source != target
        }

    def _start(self, node: str, program: str, argument: str) -> subprocess.Popen[str]:
        process = self.network.start(
            node,
            lambda: subprocess.Popen(
                [sys.executable, "-c", program, argument],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ),
        )
        self._processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline(), "it listens, or is connected"
        return process

    def ask(self, source: str, target: str, seconds: float = 20.0) -> str:
        """What comes of a question on the connection that there is."""
        process = self._asking[source, target]
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{seconds}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


@pytest.fixture(params=[Namespaces, Proxies])
def town(request: pytest.FixtureRequest) -> Iterator[Town]:
    try:
        network = request.param(seed=1)
    except NoNamespaces as error:
        pytest.skip(str(error))
    with network:
        town = Town(network)
        yield town
        town.close()


def test_a_cut_holds_back_what_goes_that_way_and_nothing_else(town: Town) -> None:
    town.network.set([("n1", "n2")], cut=True)
    assert town.ask("n1", "n2", 0.3) == NOT_ANSWERED, "the question is lost"
    assert town.ask("n2", "n1", 0.3) == NOT_ANSWERED, "the answer is lost"
    assert town.ask("n1", "n3") == town.ask("n2", "n3") == town.ask("n3", "n1") == "answered"
    town.network.set([("n1", "n2")], cut=False)
    assert town.ask("n1", "n2") == town.ask("n2", "n1") == "answered", "TCP sends it again"


def test_what_is_healed_is_whole(town: Town) -> None:
    town.network.set([("n1", "n2"), ("n2", "n3")], cut=True)
    town.network.set([("n3", "n1")], loss=0.5, clogged=True)
    town.network.heal()
    assert {town.ask(one, other) for one in NODES for other in NODES if one != other} == {"answered"}


def test_loss_costs_time_and_nothing_else(town: Town) -> None:
    """A tenth: TCP waits twice as long each time, and has seven attempts in the time of a question."""
    town.network.set([("n1", "n2"), ("n2", "n1")], loss=0.1)
    assert {town.ask("n1", "n2") for _ in range(10)} == {"answered"}


def test_a_reset_breaks_connections(town: Town) -> None:
    assert town.ask("n1", "n2") == "answered"
    town.network.reset("n1", "n2")
    assert town.ask("n1", "n2") not in ("answered", NOT_ANSWERED)
    assert town.ask("n1", "n3") == "answered"


CLUSTER = """
import sys
from pathlib import Path
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.namespaces import best_network
with LocalCluster(Path(sys.argv[1]), network=best_network(1)) as cluster:
    cluster.pause("n2")
    print(*(cluster.pid(node) for node in cluster.configs), flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, nodes stay when their parent is killed")
def test_a_cluster_whose_owner_is_killed_leaves_nothing_behind(tmp_path: Path) -> None:
    """Not even a node that is stopped, nor an interface, nor the name of a namespace."""
    before = _interfaces()
    owner = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    pids = [int(word) for word in owner.stdout.readline().split()]
    assert len(pids) == 3
    spaces = {_namespace(pid) for pid in pids}
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    wait_until(lambda: not any(map(_runs, pids)), "the nodes end", 10)
    assert not spaces & {_namespace(int(path.name)) for path in Path("/proc").glob("[0-9]*")} - {
        _namespace(os.getpid())
    }
    assert _interfaces() == before


def _interfaces() -> list[str]:
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""  # it has ended


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
