"""Which tests need what, and which of them one process runs when several run side by side."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

HERE = Path(__file__).parent
CLUSTERS = ("badinput", "benchmarks", "faults", "integration", "postgres", "spark")
TOGETHER = ("postgres", "spark")
"""Folders whose tests share what was started for the first of them."""
HOST = ("test_nemesis", "test_disks", "test_soak", "test_isolation", "test_power_cut", "test_network")
"""Files that mount, cut networks and turn clocks, and are the longest: one after the other."""
OWN = ("test_demo", "test_readme")
"""Files in those folders that start all they need themselves."""
APART = ("test_packaging", "test_seeds")
"""Files without a cluster that are one piece of work."""
LONGEST = (
    "spark",
    "host",
    "postgres",
    "test_failpoints",
    "test_demo",
    "test_readme",
    "test_compaction",
    "test_requests",
    "test_catalog_changes",
    "test_bad_input",
    "test_doctor",
    "test_largest",
    "test_documents",
    "test_drops",
    "test_rows",
    "test_packaging",
    "test_seeds",
)
"""Tests that begin first, the longest in front, so that none is left alone in the end."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java's: a test's session ends before the code that it would compile best has paid for that."""
PORTS = range(10_240, 32_000)
WORKERS = 8


def pytest_configure(config: pytest.Config) -> None:
    """Each of the processes that run tests side by side has ports of its own: a dead node's are not taken meanwhile."""
    os.environ.pop("COLUMNS", None)  # some set it for their workers; the command line goes by it
    os.environ["JDK_JAVA_OPTIONS"] = f"{SHORT_LIVED} {os.environ.get('JDK_JAVA_OPTIONS', '')}".rstrip()
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    share = len(PORTS) // WORKERS
    os.environ["TXN_LOCAL_PORTS"] = f"{PORTS[number * share]}-{PORTS[(number + 1) * share - 1]}"


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """What a test needs follows from its folder."""
    for item in items:
        folder = item.path.relative_to(HERE).parts[0]
        if folder in CLUSTERS:
            item.add_marker(pytest.mark.cluster)
        if folder == "spark":
            item.add_marker(pytest.mark.spark)
    yield
    items.sort(key=lambda item: _turn(together(item.nodeid)))


def _turn(group: str) -> int:
    return LONGEST.index(group) if group in LONGEST else len(LONGEST)


def together(nodeid: str) -> str:
    """The name of those tests that one process runs, one after the other; without a cluster, each goes alone."""
    path = Path(nodeid.partition("::")[0])
    folder = path.parts[1]
    if folder in CLUSTERS:
        shares = folder in TOGETHER and path.stem not in OWN
        return folder if shares else "host" if path.stem in HOST else path.stem
    return path.stem if path.stem in APART else nodeid


class Together(LoadScopeScheduling):
    """By rules of ours: the newest pytest hides the marks by which xdist itself would group."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """A process starts a test when it knows the next one, and keeps what it was given: a group is given late."""
        if not self.workqueue or node.shutting_down or self._is_alone(next(iter(self.workqueue))):
            super()._reschedule(node)
        elif self._pending_of(self.assigned_work[node]) < 2:
            if all(len(tests) == 1 for tests in self._running(node)):
                self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)  # waits, so one of the shortest
            self._assign_work_unit(node)

    def _running(self, node: WorkerController) -> Iterator[dict[str, bool]]:
        return (tests for tests in self.assigned_work[node].values() if not all(tests.values()))

    @staticmethod
    def _is_alone(group: str) -> bool:
        return "::" in group


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return Together(config, log)
