"""Disks that fail, are full, or are slow, under load: a node ends or steps back, and never goes on as if nothing were.

That a failing sync alone ends the process, too, is in test_failpoints: `journal.before_sync=error`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from tests.faults.disks import SmallDisk, mounted
from tests.faults.nemesis import torment
from tests.faults.rig import Rig, running, unavailable
from tests.support import connect, wait_until
from txnclient import Unavailable
from txnclient.calls.channel import ManagerChannel
from txnstatus.proto import admin_pb2

SEED = int(os.environ.get("TXN_SEED", "1"))
NODES = ("n1", "n2", "n3")
KILOBYTES = 4_096


@pytest.mark.campaign
def test_a_disk_that_fails_ends_the_process(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", SEED, min_faults=2, disks=True) as rig:
        torment(rig, [("failed disk",)] * 2)


@pytest.mark.campaign
def test_a_slow_disk_is_only_slow(tmp_path: Path) -> None:
    with running(tmp_path / "cluster", SEED, min_faults=2) as rig:
        torment(rig, [("slow disk",), ("slow disks",)], shortest=1.0, longest=3.0)


def test_a_full_disk_makes_a_node_step_back_until_there_is_room(tmp_path: Path) -> None:
    with (
        mounted(SmallDisk, [tmp_path / "cluster" / node / "data" for node in NODES], KILOBYTES) as disks,
        running(tmp_path / "cluster", SEED, min_faults=3) as rig,
    ):
        for role in ("leader", "follower", "all"):
            _fill(rig, role, dict(zip(NODES, disks, strict=True)))


def _fill(rig: Rig, role: str, disks: Mapping[str, SmallDisk]) -> None:
    """Until the nodes that have the role stand still; then there is room again."""
    leader = rig.cluster.leader()
    full = {"leader": [leader], "follower": [node for node in NODES if node != leader][:1], "all": list(NODES)}[role]
    before = {node: _said_full(rig, node) for node in full}
    for node in full:
        disks[node].fill()
    # Once a majority stands still nothing reaches the last one that it would have to write.
    some = min(len(full), len(NODES) // 2 + 1)
    wait_until(
        lambda: sum(_said_full(rig, node) > before[node] for node in full) >= some,
        f"{some} of {full} say that it is full",
    )
    rig.faults[f"full disk: {role}"] += 1
    if role == "all":
        wait_until(lambda: _unavailable_when_full(rig, disks.values()), "nobody makes a promise that nobody can keep")
    else:
        rig.await_progress()
        _change_catalog(rig)
    for node in full:
        assert rig.cluster.running(node), f"{node} ended"
        disks[node].make_room()
    rig.await_nodes()
    rig.await_progress()


def _unavailable_when_full(rig: Rig, disks: Iterable[SmallDisk]) -> bool:
    """A node that drops what a snapshot covers makes room by itself: that goes, too."""
    for disk in disks:
        disk.fill()
    return unavailable(rig)


def _change_catalog(rig: Rig) -> None:
    """A node keeps what it hears of the catalog in a file of its own: there may be no room for that either."""
    request = admin_pb2.SetOptionRequest(name="max_open_transactions", value=1_000_000)
    with connect(rig.cluster) as client:
        version = client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse).catalog.version
        for node in NODES:
            wait_until(lambda node=node: _catalog_version(rig, node) >= version, f"{node} hears of it")  # type: ignore[misc]


def _catalog_version(rig: Rig, node: str) -> int:
    """As the node has heard; -1 = it does not answer."""
    with contextlib.closing(ManagerChannel([rig.cluster.address(node)])) as channel:
        request = admin_pb2.GetClusterRequest()
        try:
            answer = channel.call("txnstatus.Admin/GetCluster", request, admin_pb2.GetClusterResponse, timeout=1.0)
        except Unavailable:
            return -1
    return answer.catalog.version


def _said_full(rig: Rig, node: str) -> int:
    """How often the node has said so."""
    return rig.cluster.log_path(node).read_text().count("stands still until there is room")
