"""Which tests need what, and which of them one process runs when several run side by side."""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.terminal import TerminalReporter
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.minors import EXECUTORS

HERE = Path(__file__).parent
CLUSTERS = ("badinput", "benchmarks", "faults", "integration", "postgres", "spark")
TOGETHER = ("postgres", "spark")
"""Folders whose tests share what was started for the first of them, as those of each folder within do."""
HOST = ("test_nemesis", "test_disks", "test_soak", "test_isolation", "test_power_cut", "test_network")
"""Files that mount, cut networks and turn clocks, and are the longest: one after the other."""
OWN = ("test_demo", "test_readme")
"""Files in those folders that start all they need themselves."""
APART = ("test_packaging", "test_seeds", "test_layering", "test_tidy")
"""Files without a cluster that are one piece of work."""
LONGEST = (
    "spark/sql",
    "spark",
    "host",
    "postgres",
    "test_seeds",
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
)
"""Tests that begin first, the longest in front, so that none is left alone in the end; the fourth has no cluster."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java's: a test's session ends before the code that it would compile best has paid for that."""
UNVERIFIED = "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""Options that spare a session a quarter of its start, in which Java verifies Spark's classes. Our jar's are verified
in each night's run of tests/spark, and with each other minor, with which they may be at odds: EXECUTORS is set there.
"""
CLUSTERS_AT_ONCE = 3
"""Groups of tests with clusters that run at once: more would be late for their deadlines."""
PORTS = range(10_240, 32_000)
WORKERS = 8


def pytest_configure(config: pytest.Config) -> None:
    """Each of the processes that run tests side by side has ports of its own: a dead node's are not taken meanwhile."""
    os.environ.pop("COLUMNS", None)  # some set it for their workers; the command line goes by it
    options = [SHORT_LIVED, *([] if EXECUTORS in os.environ else [UNVERIFIED]), os.environ.get("JDK_JAVA_OPTIONS", "")]
    os.environ["JDK_JAVA_OPTIONS"] = " ".join(filter(None, options))
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % WORKERS
    share = len(PORTS) // WORKERS
    os.environ["TXN_LOCAL_PORTS"] = f"{PORTS[number * share]}-{PORTS[(number + 1) * share - 1]}"


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """The first of several processes compiles what all import, and the others wait for that: on a fresh clone each
    would compile all of it. What is made meanwhile stays, so nothing is looked for that does not."""
    with _after_the_first() if hasattr(session.config, "workerinput") else contextlib.nullcontext():
        gc.disable()
        try:
            return (yield)
        finally:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _after_the_first() -> Iterator[None]:
    """A turn: who comes first goes by itself, the others together when it is through, or has ended."""
    with Path(__file__).open("rb") as here:
        try:
            fcntl.flock(here, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(here, fcntl.LOCK_SH)
        yield


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
    if group in LONGEST:
        return LONGEST.index(group)
    return len(LONGEST) + _is_alone(group)


def _is_alone(group: str) -> bool:
    return "::" in group


def together(nodeid: str) -> str:
    """The name of those tests that one process runs, one after the other; without a cluster, each goes alone."""
    path = Path(nodeid.partition("::")[0])
    folder = path.parts[1]
    if folder in CLUSTERS:
        shares = folder in TOGETHER and path.stem not in OWN
        rooms = "/".join(path.parent.parts[1:])
        return rooms if shares else "host" if path.stem in HOST else path.stem
    return path.stem if path.stem in APART else nodeid


# ---- how many tests are left to campaigns


_CAMPAIGNS = pytest.StashKey[int]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("campaign"):
            item.config.stash[_CAMPAIGNS] = item.config.stash.get(_CAMPAIGNS, 0) + 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process that runs tests beside others tells the one that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["campaigns"] = session.config.stash.get(_CAMPAIGNS, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Each has left out the same; one that has died tells nothing."""
    known = node.config.stash.get(_CAMPAIGNS, 0)
    node.config.stash[_CAMPAIGNS] = max(known, getattr(node, "workeroutput", {}).get("campaigns", 0))


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    if campaigns := config.stash.get(_CAMPAIGNS, 0):
        terminalreporter.write_line(f"{campaigns} tests of campaigns")


# ---- side by side


class Together(LoadScopeScheduling):
    """By rules of ours: the newest pytest hides the marks by which xdist itself would group."""

    def _split_scope(self, nodeid: str) -> str:
        return together(nodeid)

    def _reschedule(self, node: WorkerController) -> None:
        """A process starts a test when it knows the next one, and keeps what it was given: a group is given late.

        Tests that are alone fill what those with clusters leave of the machine. They stand at the queue's end.
        """
        if not self.workqueue or node.shutting_down:
            super()._reschedule(node)
            return
        work = self.assigned_work[node]
        for group in [group for group, tests in work.items() if all(tests.values())]:
            del work[group]  # thousands are over soon, and everybody's work is gone through after each test
        pending, last = self._pending_of(work), next(reversed(self.workqueue))
        waits = self._waits_for_group(node) or self._clusters_beside(node) >= CLUSTERS_AT_ONCE
        if waits and (_is_alone(last) or pending < 2):
            self.workqueue.move_to_end(last, last=False)
        if pending < 2 or (pending == 2 and _is_alone(next(iter(self.workqueue)))):
            self._assign_work_unit(node)

    def _waits_for_group(self, node: WorkerController) -> bool:
        """Whether what the process runs is one long test, behind which nothing else that is long should wait."""
        return all(len(tests) == 1 and not _is_alone(group) for group, tests in self.assigned_work[node].items())

    def _clusters_beside(self, node: WorkerController) -> int:
        """The number of other processes that run, or are to run, a group of tests with clusters."""
        return sum(
            any(not _is_alone(group) and group not in APART for group in self.assigned_work[other])
            for other in self.nodes
            if other is not node
        )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    config.option.loadscopereorder = False
    return Together(config, log)
