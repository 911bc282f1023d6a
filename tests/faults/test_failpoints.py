"""Every failpoint, with every action, on a leader and on a follower, under load: the history stays good.

A run of the tests takes one point of every kind, a campaign each point once, with the action and the role in turn. The
whole matrix is `make failpoints`.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.faults.history import now
from tests.faults.moves import come_and_go, migrate_one
from tests.faults.nemesis import CANNOT_GO_ON
from tests.faults.points import POINTS, Point
from tests.faults.rig import Rig, running
from tests.support import FAST_TXN, connect, fast_cluster, settled, wait_until
from txnclient import Client
from txndeploy.node.config import TxnSection
from txndeploy.terminal.listings import catalog
from txnstatus.process import failpoints
from txnstatus.proto import admin_pb2, table_pb2

SEED = int(os.environ.get("TXN_SEED", "1"))
WHOLE_MATRIX = "TXN_FAILPOINT_MATRIX" in os.environ
SHORT_LEASES = FAST_TXN.model_copy(update={"snapshot_retention_seconds": 1, "snapshot_lease_seconds": 1.0})
SMALL_RANGES = SHORT_LEASES.model_copy(update={"range_span": 100, "retention_ms": 3_000})
PARTS = {
    "one range": SHORT_LEASES,
    "small ranges": SMALL_RANGES,
    "replacements": SHORT_LEASES,
    "additions": SHORT_LEASES,
}
"""Parts, each with a cluster; points that only small ranges, replacements or new groups reach are in theirs."""
ACTIONS = ("crash", "error", "delay:0.5")
ROLES = ("leader", "follower")
SAMPLE = [
    ("status.after.BeginCommit", "crash", "leader"),
    ("shard.before.OpenWrite", "error", "follower"),
    ("catalog.before.SetOption", "crash", "leader"),
    ("flush.after_write", "error", "leader"),
    ("raft.before_send", "delay:0.5", "leader"),
    ("journal.before_sync", "error", "follower"),
    ("raft.before_install", "crash", "follower"),
    ("status.before.Forget", "delay:0.5", "leader"),
    ("catalog.after.MoveReplica", "crash", "leader"),
    ("catalog.after.AddGroup", "crash", "follower"),
    ("catalog.after.DrainNode", "crash", "leader"),
    ("shard.before.PlaceTable", "crash", "leader"),
    ("catalog.after.RaiseLevel", "crash", "leader"),
    ("catalog.before.Revoke", "error", "leader"),
]
"""Points of each kind of group, of leaders and of all replicas, that end a process, come late, or with rare events."""
FIRE_SECONDS = 60.0
LATE_COMMITS = 60
ATTEMPTS = 5


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


def _cells_of(part: str) -> list[Cell]:
    cells = [cell for cell in _cells() if not cell.point.founding]
    replacements = [cell for cell in cells if cell.point.needs_replacement or cell.point.needs_membership]
    if part == "replacements":
        return replacements
    additions = [cell for cell in cells if cell.point.needs_addition]
    if part == "additions":
        return additions
    ranges = [cell for cell in cells if cell.point.needs_ranges]
    others = [cell for cell in cells if cell not in replacements + additions + ranges]
    small = part == "small ranges"
    return [*others[small::2], *(ranges if small else [])]


def _founding_cells() -> list[Cell]:
    """Whoever comes there leads."""
    points = [point for point in POINTS if point.founding]
    whole = [[Cell(point, action, "leader") for action in ACTIONS] for point in points]
    return [
        cell
        for number, cells in enumerate(whole)
        for cell in (cells if WHOLE_MATRIX else [cells[(number + SEED) % len(cells)]])
    ]


def test_a_point_of_every_kind_fails_under_load(tmp_path: Path) -> None:
    points = {point.name: point for point in POINTS}
    _fail([Cell(points[name], action, role) for name, action, role in SAMPLE], SMALL_RANGES, tmp_path)


@pytest.mark.campaign
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.timeout(6_000 if WHOLE_MATRIX else 900)
def test_every_point_fails_under_load(part: str, tmp_path: Path) -> None:
    _fail(_cells_of(part), PARTS[part], tmp_path)


def _fail(cells: Sequence[Cell], txn: TxnSection, tmp_path: Path) -> None:
    with running(tmp_path / "cluster", SEED, min_faults=len(cells), txn=txn) as rig:
        for number, cell in enumerate(cells):
            fire = _fire
            if cell.point.needs_replacement:
                fire = _fire_in_replacement
            elif cell.point.needs_membership:
                fire = _fire_in_membership
            elif cell.point.needs_addition:
                fire = _fire_in_addition
            fire(rig, cell, tmp_path / f"fired-{number}")
            rig.faults[cell.action.partition(":")[0] + " at a failpoint"] += 1


_FIRST, *_OTHERS = _founding_cells()


@pytest.mark.parametrize("cell", [_FIRST, *(pytest.param(c, marks=pytest.mark.campaign) for c in _OTHERS)], ids=str)
def test_a_cluster_is_founded_whatever_fails(cell: Cell, tmp_path: Path) -> None:
    """Once for all: before it, nobody can be asked to do anything, so there is no load."""
    mark = tmp_path / "mark"
    cluster = fast_cluster(tmp_path / "cluster")
    cluster.environment[failpoints.VARIABLE] = f"{cell.point.name}={cell.action}@{mark}"
    try:
        for node in cluster.configs:
            cluster.start_node(node)
        wait_until(lambda: mark.exists() and mark.read_text(), f"somebody came to {cell}", FIRE_SECONDS)
        if cell.action == "crash":
            (dead,) = wait_until(lambda: [n for n in cluster.configs if not cluster.running(n)], f"{cell} ends a node")
            cluster.start_node(dead)
        cluster.wait_ready()
        with connect(cluster) as client:
            wait_until(lambda: catalog(client).version, "the catalog is founded", FIRE_SECONDS)
            client.begin().commit()
        wait_until(lambda: settled(cluster), "all replicas hold the same state", FIRE_SECONDS)
    finally:
        cluster.stop()


def _fire(rig: Rig, cell: Cell, mark: Path) -> None:
    """Arms the point where the role says, waits until somebody came there, and sees to it that all is well again."""
    cluster, point = rig.cluster, cell.point
    specification = f"{point.name}={cell.action}@{mark}" + (f";{point.after}=error" if point.after else "")
    leader = rig.leader(point.kind)
    followers = [node for node in cluster.configs if node != leader]
    if point.late:
        _come_late(rig, leader if cell.role == "leader" else followers[0], specification, mark)
    elif cell.role == "leader" and point.replicas:
        cluster.arm(leader, specification)
    elif cell.role == "follower" and point.replicas:
        _arm(rig, followers, specification)
    else:
        _arm_leaders(rig, cell, specification)
    _recover(rig, cell, mark)


def _arm_leaders(rig: Rig, cell: Cell, specification: str) -> None:
    """Only who leads comes there: for the role of a follower the leaders go, and one of the armed takes over."""
    if cell.role == "leader":
        _arm(rig, rig.cluster.configs, specification)
        return
    leader = rig.leader(cell.point.kind)
    _arm(rig, [node for node in rig.cluster.configs if node != leader], specification)
    rig.cluster.restart(leader)


def _fire_in_addition(rig: Rig, cell: Cell, mark: Path) -> None:
    """The point is armed while a group is added, and a table comes to be in it; once more, where whoever had been made
    to go leads again by then."""
    with connect(rig.cluster, timeout=FIRE_SECONDS) as client, ThreadPoolExecutor(1) as caller:
        for attempt in range(ATTEMPTS):
            _arm_leaders(rig, cell, f"{cell.point.name}={cell.action}@{mark}")
            called = caller.submit(_add_and_place, client, f"{mark.name.replace('-', '_')}_{attempt}")
            wait_until(lambda by=called: mark.exists() or by.done(), f"{cell}, or nothing", FIRE_SECONDS)  # type: ignore[misc]
            if mark.exists():
                break
            called.result()
        _recover(rig, cell, mark)
        name, group = called.result()
        assert client.table(name).placement == group


def _add_and_place(client: Client, database: str) -> tuple[str, str]:
    """Returns the name of the new table, and the group that it is to be in. Of several names one is another shard's."""
    group = client.add_group()
    client.place_database(database, group)
    made = [client.create_table(f"{database}.t{number}", "id bigint").name for number in range(8)]
    location = client.table(made[0]).location.replace(f"{database}/t0", f"{database}_places/t")
    # Places are reserved for users, whom requests name where there is no TLS.
    request = table_pb2.CreateTableRequest(name=f"{database}_places.t", location=location, request_id=database)
    request.owner = "alice"
    request.schema.CopyFrom(client.table(made[0]).schema.to_wire())
    client.call("txnstatus.Table/CreateTable", request, table_pb2.CreateTableResponse)
    client.grant("reader", "alice", on=made[0])
    client.grant("reader", "alice", on=database)
    client.revoke("reader", "alice", on=database)
    client.drop_table(made[0])
    wait_until(lambda: all(each.on != made[0] for each in client.grants()), "what was granted on it is forgotten")
    migrate_one(client, group)
    return made[-1], group


def _fire_in_replacement(rig: Rig, cell: Cell, mark: Path) -> None:
    """The point is armed while a new node takes the place of the newest: the clients know the addresses of the oldest.

    The node that dies leads the catalog if a follower, who takes over, is to come to the point.
    """
    cluster = rig.cluster
    *_, old = cluster.configs
    while ((leader := rig.leader("catalog")) == old) == (cell.role == "leader"):
        cluster.stop_node(leader)
        cluster.start_node(leader)
        rig.await_nodes()
    new = f"n{int(old.removeprefix('n')) + 1}"
    request = admin_pb2.ReplaceNodeRequest(old_node=old, new_node=new, address=cluster.add_node(new))
    cluster.kill(old)
    cluster.forget_node(old)
    rig.await_nodes()
    _arm(rig, cluster.configs, f"{cell.point.name}={cell.action}@{mark}")
    with connect(cluster, timeout=FIRE_SECONDS) as client, ThreadPoolExecutor(1) as caller:
        called = caller.submit(client.call, "txnstatus.Admin/ReplaceNode", request, admin_pb2.ReplaceNodeResponse)
        _recover(rig, cell, mark, called)
        called.result()
        wait_until(lambda: set(catalog(client).nodes) == set(cluster.configs), f"{old} has left", FIRE_SECONDS)


def _fire_in_membership(rig: Rig, cell: Cell, mark: Path) -> None:
    """The point is armed while a node joins and gets replicas, and the newest one of the others leaves; once more,
    where whoever had been made to go leads again by then."""
    cluster = rig.cluster
    with connect(cluster, timeout=FIRE_SECONDS) as client, ThreadPoolExecutor(1) as caller:
        for _ in range(ATTEMPTS):
            *_, old = cluster.configs
            new = f"n{int(old.removeprefix('n')) + 1}"
            address = cluster.add_node(new)
            rig.await_nodes()
            _arm_leaders(rig, cell, f"{cell.point.name}={cell.action}@{mark}")
            called = caller.submit(come_and_go, client, new, address, old)
            wait_until(lambda by=called: mark.exists() or by.done(), f"{cell}, or nothing", FIRE_SECONDS)  # type: ignore[misc]
            if mark.exists():
                _recover(rig, cell, mark, leaves=old)
            called.result()
            cluster.kill(old)
            cluster.forget_node(old)
            rig.await_nodes()
            if mark.exists():
                return
    pytest.fail(f"nobody came to {cell} in {ATTEMPTS} attempts")


def _recover(rig: Rig, cell: Cell, mark: Path, called: Future[Any] | None = None, leaves: str = "") -> None:
    """When somebody has come to the point; `called`: what leads there, which tells why nobody does. `leaves`: who ends
    as soon as it hears that it is gone."""
    cluster = rig.cluster

    def came() -> str:
        assert not rig.work.unexpected, "\n".join(rig.work.unexpected)
        if called is not None and called.done():
            called.result()
        return mark.read_text() if mark.exists() else ""

    wait_until(came, f"somebody came to {cell}", FIRE_SECONDS)
    _check_what_became_of(rig, cell, int(mark.read_text()))
    for environment in cluster.node_environment.values():
        environment.pop(failpoints.VARIABLE, None)
    for node in cluster.configs:
        if not cluster.running(node):
            cluster.start_node(node)
    rig.await_nodes(leaves)
    _arm(rig, [node for node in cluster.configs if node != leaves], "")
    rig.await_progress(1)


def _come_late(rig: Rig, node: str, specification: str, mark: Path) -> None:
    """The node is away until the others have dropped what it lacks, and is armed when it comes back."""
    deadline = now() + FIRE_SECONDS
    while not mark.exists() and now() < deadline:
        rig.cluster.kill(node)
        rig.await_progress(LATE_COMMITS)
        rig.cluster.node_environment[node][failpoints.VARIABLE] = specification
        rig.cluster.start_node(node)
        wait_until(lambda: mark.exists() or rig.cluster.status(node) is not None, f"{node} answers", FIRE_SECONDS)


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
