"""`txnctl up` on a directory that somebody uses: it said that it had started a cluster, which ran already."""

from __future__ import annotations

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
Start = Callable[[], "Up"]


class Up:
    """`txnctl up` as a process of its own."""

    def __init__(self, directory: Path, output: Path) -> None:
        self._output = output
        command = [sys.executable, "-m", "txndeploy.ctl.cli", "up", "--nodes", "1", "--dir", str(directory)]
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


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[Up] = []

    def one() -> Up:
        started.append(Up(tmp_path / "cluster", tmp_path / f"{len(started)}.log"))
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
    assert second.addresses() == addresses
    with txnclient.connect(addresses) as client:
        client.create_table("t.t", "id bigint")
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(SECONDS) == 0


def test_one_that_was_killed_holds_nothing(start: Start) -> None:
    first = start()
    addresses = first.addresses()
    with txnclient.connect(addresses) as client:
        client.create_table("t.kept", "id bigint")
    first.process.kill()
    first.process.wait()
    again = start()
    assert again.addresses() == addresses
    assert again.serves
    with txnclient.connect(addresses) as client:
        assert client.table("t.kept").name == "t.kept"


def test_of_several_at_once_one_runs_it_and_all_say_where(start: Start) -> None:
    several = [start() for _ in range(3)]
    assert len({each.addresses() for each in several}) == 1
    wait_until(lambda: sum(each.process.poll() == 0 for each in several) == 2, "all but one are done", SECONDS)
    (runs,) = [each for each in several if each.process.poll() is None]
    wait_until(lambda: runs.serves, "one runs it", SECONDS)
    assert all(f"in use by process {runs.process.pid}" in each.said for each in several if each is not runs)
