"""Disks that fail, are full, or are slow, under load: a node ends or steps back, and never goes on as if nothing were.

That a failing sync alone ends the process, too, is in test_failpoints: `journal.before_sync=error`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.disks import SmallDisk, mounted
from tests.faults.nemesis import torment
from tests.faults.rig import Rig, running, unavailable
from tests.support import wait_until

SEED = int(os.environ.get("TXN_SEED", "1"))
NODES = ("n1", "n2", "n3")
KILOBYTES = 4_096


def test_a_disk_that_fails_ends_the_process(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", SEED, min_faults=2, disks=True) as rig:
        torment(rig, [("failed disk",)] * 2)


def test_a_slow_disk_is_only_slow(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", SEED, min_faults=2) as rig:
        torment(rig, [("slow disk",), ("slow disks",)], shortest=1.0, longest=3.0)


@pytest.mark.parametrize("role", ["leader", "follower", "all"])
def test_a_full_disk_makes_a_node_step_back_until_there_is_room(role: str, tmp_path: Path) -> None:
    with (
        mounted(SmallDisk, [tmp_path / "cluster" / node / "data" for node in NODES], KILOBYTES) as disks,
        running(tmp_path / "cluster", SEED, min_faults=1) as rig,
    ):
        by_node = dict(zip(NODES, disks, strict=True))
        leader = rig.cluster.leader()
        full = {"leader": [leader], "follower": [node for node in NODES if node != leader][:1], "all": list(NODES)}[
            role
        ]
        for node in full:
            by_node[node].fill()
        for node in full:
            wait_until(lambda node=node: _says_full(rig, node), f"{node} says that its disk is full")  # type: ignore[misc]
        rig.faults[f"full disk: {role}"] += 1
        if role == "all":
            assert unavailable(rig), "a promise that nobody can keep"
        else:
            rig.await_progress()
        for node in full:
            assert rig.cluster.running(node), f"{node} ended"
            by_node[node].make_room()
        rig.await_nodes()
        rig.await_progress()


def _says_full(rig: Rig, node: str) -> bool:
    return "stands still until there is room" in rig.cluster.log_path(node).read_text()
