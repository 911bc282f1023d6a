"""`txnctl up`: of a directory in use it said that it had started a cluster, which ran already; and nothing at all of a
node, or of the compactor, that ended by itself.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import txnclient
from tests.support import wait_until

SECONDS = 60
Start = Callable[..., "Up"]


class Up:
    """`txnctl up` as a process of its own."""

    def __init__(self, directory: Path, output: Path, nodes: int) -> None:
        self._output = output
        command = [sys.executable, "-m", "txndeploy.ctl.cli", "up", "--nodes", str(nodes), "--dir", str(directory)]
        with output.open("wb") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)

    @property
    def said(self) -> str:
        return self._output.read_text()

    @property
    def serves(self) -> bool:
        return "Ctrl-C ends the nodes" in self.said

    def addresses(self) -> str:
        found = wait_until(lambda: re.search(r"export TXN_CLUSTER=(\S+)\n", self.said), "it says where", SECONDS)
        return found[1]

    def credentials(self) -> str:
        found = re.search(r"export TXN_CREDENTIALS=(\S+)\n", self.said)
        assert found is not None, self.said
        return found[1]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Up] = []

    def one(nodes: int = 1) -> Up:
        started.append(Up(tmp_path / "cluster", tmp_path / f"{len(started)}.log", nodes))
        return started[-1]

    yield one
    for each in started:
        each.process.kill()
        each.process.wait()


def test_the_second_says_who_has_it_and_where(start: Start) -> None:
    first = start()
    addresses = first.addresses()
    second = start()
    assert second.process.wait(SECONDS) == 0
    assert f"in use by process {first.process.pid}, with nodes at {addresses}" in second.said
    assert (second.addresses(), second.credentials()) == (addresses, first.credentials())
    with txnclient.connect(addresses, credentials=first.credentials()) as client:
        client.create_table("t.t", "id bigint")
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(SECONDS) == 0


def test_one_that_was_killed_holds_nothing(start: Start) -> None:
    first = start()
    addresses = first.addresses()
    with txnclient.connect(addresses, credentials=first.credentials()) as client:
        client.create_table("t.kept", "id bigint")
    first.process.kill()
    first.process.wait()
    again = start()
    assert again.addresses() == addresses
    assert again.serves
    with txnclient.connect(addresses, credentials=first.credentials()) as client:
        assert client.table("t.kept").name == "t.kept"


def test_of_several_at_once_one_runs_it_and_all_say_where(start: Start) -> None:
    several = [start() for _ in range(3)]
    assert len({each.addresses() for each in several}) == 1
    wait_until(lambda: sum(each.process.poll() == 0 for each in several) == 2, "all but one are done", SECONDS)
    (runs,) = [each for each in several if each.process.poll() is None]
    wait_until(lambda: runs.serves, "one runs it", SECONDS)
    assert all(f"in use by process {runs.process.pid}" in each.said for each in several if each is not runs)


def test_a_node_that_ends_by_itself_is_told_with_what_to_do(start: Start, tmp_path: Path) -> None:
    up = start(nodes=3)
    wait_until(lambda: up.serves, "it serves", SECONDS)

    def told(node: str) -> bool:
        return f"node {node} has ended by itself: killed by SIGKILL" in up.said

    def kill(node: str) -> None:
        config = f"{tmp_path / 'cluster' / node / 'node.toml'}"
        found = subprocess.run(["pgrep", "-P", str(up.process.pid), "-f", config], capture_output=True, check=True)
        os.kill(int(found.stdout), signal.SIGKILL)
        wait_until(lambda: told(node), f"{node} is told of", SECONDS)

    kill("n2")
    assert f"Its log: {tmp_path / 'cluster' / 'n2' / 'node.log'}\nn1, n3 go on: each group has a majority" in up.said
    assert f"Ctrl-C, then txnctl up --dir {tmp_path / 'cluster'}\n" in up.said
    kill("n1")
    assert "n3 goes on: groups that have lost their majority do not serve." in up.said
    assert up.process.poll() is None
    kill("n3")
    assert up.process.wait(SECONDS) == 1
    assert up.said.count("has ended by itself") == 3
    assert "No node runs any more.\nStart them again: txnctl up" in up.said


def test_a_compactor_that_ends_by_itself_is_told_with_what_to_do(start: Start, tmp_path: Path) -> None:
    up = start()
    wait_until(lambda: up.serves, "it serves", SECONDS)
    search = ["pgrep", "-P", str(up.process.pid), "-f", "node.compactor"]
    found = subprocess.run(search, capture_output=True, check=True)
    os.kill(int(found.stdout), signal.SIGKILL)
    wait_until(lambda: "the compactor has ended by itself: killed by SIGKILL" in up.said, "it is told of", SECONDS)
    assert f"Its log: {tmp_path / 'cluster' / 'compactor.log'}\nThe nodes go on" in up.said
    assert f"Start one: txnctl compactor --cluster {up.addresses()}\n" in up.said
    assert up.process.poll() is None
    up.process.send_signal(signal.SIGTERM)
    assert up.process.wait(SECONDS) == 0
    assert up.said.count("has ended by itself") == 1
