"""Every failpoint, with every action, on a leader and on a follower, under load: the history stays good.

The whole matrix is `make failpoints`. A run of the tests takes each point once, the action and the role in turn.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.faults.nemesis import CANNOT_GO_ON
from tests.faults.points import POINTS, Point
from tests.faults.rig import Rig, running
from tests.support import wait_until
from txnstatus import failpoints

SEED = int(os.environ.get("TXN_SEED", "1"))
WHOLE_MATRIX = "TXN_FAILPOINT_MATRIX" in os.environ
PARTS = 2
"""Each with a cluster of its own."""
ACTIONS = ("crash", "error", "delay:0.5")
ROLES = ("leader", "follower")
FIRE_SECONDS = 60.0


class Cell(NamedTuple):
    point: Point
    action: str
    role: str

    def __str__(self) -> str:
        return f"{self.point.name}={self.action} on a {self.role}"


def _cells() -> list[Cell]:
    whole = [Cell(*cell) for cell in itertools.product(POINTS, ACTIONS, ROLES)]
    if WHOLE_MATRIX:
        return whole
    kinds = len(ACTIONS) * len(ROLES)
    return [whole[number * kinds + (number + SEED) % kinds] for number in range(len(POINTS))]


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(6_000 if WHOLE_MATRIX else 300)
def test_every_point_fails_under_load(part: int, tmp_path: Path) -> None:
    cells = _cells()[part::PARTS]
    with running(tmp_path / "cluster", SEED, min_faults=len(cells)) as rig:
        for number, cell in enumerate(cells):
            _fire(rig, cell, tmp_path / f"fired-{number}")
            rig.faults[cell.action.partition(":")[0] + " at a failpoint"] += 1


def _fire(rig: Rig, cell: Cell, mark: Path) -> None:
    """Arms the point where the role says, waits until somebody came there, and sees to it that all is well again."""
    cluster, point = rig.cluster, cell.point
    specification = f"{point.name}={cell.action}@{mark}"
    leader = cluster.leader("shard-0" if point.name.startswith(("shard", "cleaner")) else "status-0")
    followers = [node for node in cluster.configs if node != leader]
    if point.without_files:
        node = leader if cell.role == "leader" else followers[0]
        cluster.node_environment[node][failpoints.VARIABLE] = specification
        cluster.stop_node(node)
        shutil.rmtree(cluster.configs[node].data_dir / "raft" / "status-0")
        cluster.start_node(node)
    elif cell.role == "leader" and point.replicas:
        cluster.arm(leader, specification)
    elif cell.role == "leader":
        _arm(rig, cluster.configs, specification)
    else:
        _arm(rig, followers, specification)
        if not point.replicas:
            # Only who leads comes there: the leaders go, and one of the armed takes over.
            cluster.restart(leader)
    wait_until(mark.exists, f"somebody came to {cell}", FIRE_SECONDS)
    _check_what_became_of(rig, cell, int(mark.read_text()))
    for environment in cluster.node_environment.values():
        environment.pop(failpoints.VARIABLE, None)
    for node in cluster.configs:
        if not cluster.running(node):
            cluster.start_node(node)
    rig.await_nodes()
    _arm(rig, cluster.configs, "")
    rig.await_progress(1)


def _arm(rig: Rig, nodes: Sequence[str], specification: str) -> None:
    for node in nodes:
        rig.cluster.arm(node, specification)


def _check_what_became_of(rig: Rig, cell: Cell, pid: int) -> None:
    """A crash is one, an error after which nothing can be trusted ends the process; of all else it survives."""
    node = next(node for node in rig.cluster.configs if rig.cluster.pid(node) == pid)
    if cell.action == "crash":
        expected = -signal.SIGKILL
    elif cell.action == "error" and cell.point.ends_process:
        expected = CANNOT_GO_ON
    else:
        assert rig.cluster.running(node), f"{node} ended by {cell}"
        return
    wait_until(lambda: not rig.cluster.running(node), f"{node} ends by {cell}")
    assert rig.cluster.exit_code(node) == expected, cell
    assert expected < 0 or cell.point.name in rig.cluster.log_path(node).read_text(), "it ends with its story"
