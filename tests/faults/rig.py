"""A cluster under load, and what a run must have shown in the end: no promise broken, and enough of everything.

A run without enough load or without enough faults says nothing, so it fails: it is void.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar
from unittest import mock

from tests.faults.clocks import Clocks
from tests.faults.disks import Disk, mounted
from tests.faults.history import now, problems, shortfalls
from tests.faults.load import Load, Recorder
from tests.support import FAST_RAFT, connect, fast_cluster, settled, visible, wait_until
from txnclient import Client, Unavailable
from txndeploy.doctor.examination import Examination, Wishes
from txndeploy.local.cluster import LocalCluster
from txndeploy.local.network import Network
from txnstatus.findings import Kind
from txnstatus.security.tls import VARIABLE
from txnstatus.types import TERMINAL

RECOVERY_SECONDS = 60.0
DISK_MEGABYTES = 64
LATE = (Kind.ORPHAN, Kind.WHOLE_WRITE, Kind.UNLISTED_FILES)
"""What clients leave behind that go on writing when their transactions are over, and what a doctor says of it."""
SNAPSHOT_ENTRIES = 150
"""Small, so that snapshots are taken, installed and started from all the time."""


class Work(Protocol):
    """What clients do meanwhile."""

    @property
    def commits(self) -> int:
        """Acknowledged so far."""

    @property
    def unexpected(self) -> Sequence[str]:
        """Answers that no fault excuses."""

    def counts(self) -> Counter[str]:
        """What was done, for floors and reports."""


WorkT = TypeVar("WorkT", bound=Work)


@dataclass
class Rig:
    """One run. Everything that is drawn, is drawn from `dice`; `seed` makes the same choices again."""

    cluster: LocalCluster
    work: Work
    seed: int
    dice: random.Random
    network: Network | None = None
    clocks: Clocks | None = None
    disks: Mapping[str, Disk] = field(default_factory=dict)
    faults: Counter[str] = field(default_factory=Counter)
    taken: set[str] = field(default_factory=set)
    """Nodes whose processes and disks belong to a fault that is there."""
    under_way: int = 0
    """Faults that are there."""
    started: float = field(default_factory=now)

    def leader(self, kind: str = "status") -> str:
        """The node that leads the newest of the kind: `status`, `shard` or `catalog`."""
        statuses = filter(None, (self.cluster.status(node) for node in self.cluster.configs))
        names = {name for status in statuses for entry in status.groups for name in (entry.group, *entry.parts)}
        found = {name for name in names if name.startswith(kind)}
        newest = max(found, key=lambda name: int(name.rpartition("-")[2] or 0) if "-" in name else 0)
        return self.cluster.leader(newest)

    def hold(self, shortest: float, longest: float) -> None:
        """The length of a fault; nothing is waited for."""
        threading.Event().wait(self.dice.uniform(shortest, longest))

    def await_progress(self, commits: int = 3) -> None:
        """Until more commits are acknowledged: what was broken works again. Raises TimeoutError."""
        before = self.work.commits
        wait_until(
            lambda: self.work.commits >= before + commits or bool(self.work.unexpected),
            f"commits after {dict(self.faults)}",
            RECOVERY_SECONDS,
        )
        assert not self.work.unexpected, "\n".join(self.work.unexpected)

    def await_enough(self) -> None:
        """Until there was as much work as so many faults ask for: they may have followed each other fast."""
        self.await_progress()
        faults = sum(self.faults.values())
        wait_until(
            lambda: not shortfalls(self.work.counts(), faults, faults) or bool(self.work.unexpected),
            f"enough work for {faults} faults",
            RECOVERY_SECONDS,
        )

    def await_nodes(self, without: str = "") -> None:
        """Until every node answers, but for one that is to leave. Raises TimeoutError."""
        for node in self.cluster.configs.keys() - {without}:
            wait_until(lambda node=node: self.cluster.status(node) is not None, f"{node} answers", RECOVERY_SECONDS)  # type: ignore[misc]

    def await_rest(self, client: Client) -> None:
        """Until all that was begun has ended, without further faults. Raises TimeoutError."""
        wait_until(lambda: all(txn.state in TERMINAL for txn in client.transactions()), "all end", RECOVERY_SECONDS)
        wait_until(lambda: settled(self.cluster), "all replicas hold the same state", RECOVERY_SECONDS)
        wait_until(lambda: not _left_over(self.cluster), "no files of groups that are gone", RECOVERY_SECONDS)

    def report(self) -> str:
        seconds = now() - self.started
        words = ", ".join(f"{number} {name}" for name, number in sorted(self.work.counts().items()))
        faults = ", ".join(f"{number} {name}" for name, number in sorted(self.faults.items()))
        return f"seed {self.seed}, {seconds:.0f} s; faults: {faults or 'none'}; {words}"


@contextlib.contextmanager
def running(directory: Path, seed: int, *, min_faults: int, **options: object) -> Iterator[Rig]:
    """A cluster and its load. When the block ends, the history is checked, and whether the run counts.

    `options` as for `working`.
    """
    with working(directory, seed, Load, **options) as (rig, load):  # type: ignore[arg-type]
        with load:
            rig.await_progress()
            yield rig
            rig.cluster.start()
            rig.await_enough()
        _finish(rig, load)
        print(rig.report())
        _judge(rig, load, min_faults)


@contextlib.contextmanager
def working(
    directory: Path,
    seed: int,
    make: Callable[[LocalCluster, int], WorkT],
    *,
    network: Network | None = None,
    clocks: Sequence[int] = (),
    disks: bool = False,
    **options: object,
) -> Iterator[tuple[Rig, WorkT]]:
    """A cluster, and the work on it that `make` makes, not begun.

    `network`: what the nodes reach each other by; it is closed in the end. `clocks`: by how many seconds their wall
    clocks are ahead at first; they can jump. `disks`: the data of each lies on a disk that can fail. Skips the test
    where these cannot be had.
    """
    print(f"\nseed {seed}" + (f", {type(network).__name__.lower()}" if network else ""))
    with contextlib.ExitStack() as stack:
        if network is not None:
            stack.enter_context(network)
        raft = FAST_RAFT.model_copy(update={"snapshot_entries": SNAPSHOT_ENTRIES, "segment_bytes": 8_192})
        settings: dict[str, object] = {"raft": raft, "network": network, "groups": 2, **options}
        cluster = fast_cluster(directory, **settings)
        nodes = list(cluster.configs)
        own_clocks = Clocks(directory / "clocks", dict(zip(nodes, clocks, strict=True))) if clocks else None
        for node in nodes:
            cluster.node_environment[node] = own_clocks.environment(node) if own_clocks else {}
        paths = [cluster.configs[node].data_dir for node in nodes]
        mounts = stack.enter_context(mounted(Disk, paths, DISK_MEGABYTES)) if disks else []
        stack.callback(cluster.stop)
        cluster.start()
        if cluster.credentials is not None:  # nodes that are not on loopback have TLS
            shown = {VARIABLE: str(cluster.credentials)}
            stack.enter_context(mock.patch.dict(os.environ, shown))
        own_disks = dict(zip(nodes, mounts, strict=bool(mounts)))
        work = make(cluster, seed)
        yield Rig(cluster, work, seed, random.Random(seed), network, own_clocks, own_disks), work


def _finish(rig: Rig, load: Load) -> None:
    """Everything ends without further faults, and everything is read once more."""
    with connect(rig.cluster) as client:
        rig.await_rest(client)
        recorder = Recorder(client, load.history)
        recorder.read_all()
        for pair in load.pairs:
            assert recorder.scan(pair) is not None
            listed = load.history.scans[-1].tables
            assert visible(client, *pair) == [sorted(listed[table]) for table in pair], "the files hold other rows"
        _examine(client, rig)


def _examine(client: Client, rig: Rig) -> None:
    """Nothing is unclaimed and nothing is missing, but for what clients wrote long after their transactions' end. The
    load's compactions have no worker any more: by how long all else took since, some wait for too long."""
    usual = {Kind.WAITING_COMPACTION} | ({Kind.NODE_SILENT, Kind.NO_LEADER} if rig.network is not None else set())
    first = Examination(client, Wishes(fix=True, whole_writes=True)).run()
    assert {each.kind for each in first.findings} <= {*usual, *LATE}, first.to_json()
    second = Examination(client, Wishes()).run()
    assert {each.kind for each in second.findings} <= {*usual, Kind.UNLISTED_FILES}, second.to_json()
    assert not first.not_seen + second.not_seen, first.to_json() + second.to_json()


def _left_over(cluster: LocalCluster) -> list[Path]:
    """Directories of groups of which the node holds no replica."""
    found = []
    for node, config in cluster.configs.items():
        status = cluster.status(node)
        held = {entry.group for entry in status.groups} if status else set()
        found += [path for path in (config.data_dir / "raft").iterdir() if path.name not in held]
    return found


def _judge(rig: Rig, load: Load, min_faults: int) -> None:
    found = problems(load.history)
    assert not found, f"{len(found)} problems, seed {rig.seed}:\n" + "\n".join(found[:20])
    lacking = shortfalls(load.counts(), sum(rig.faults.values()), min_faults)
    assert not lacking, f"the run is void: {'; '.join(lacking)}"


def unavailable(rig: Rig) -> bool:
    """Whether a begin is not answered now, within a moment."""
    with connect(rig.cluster, timeout=1.0) as client:
        try:
            client.begin().abort()
        except Unavailable:
            return True
    return False
