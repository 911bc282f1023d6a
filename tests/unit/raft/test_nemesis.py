"""Clusters under faults by chance: nothing acknowledged is lost, nobody disagrees. The harness checks every cycle."""

from __future__ import annotations

import pytest

from tests.support import rest_in_campaigns
from tests.unit.harness.raft import FAST, SMALL_SNAPSHOTS, Cluster
from txnstatus.errors import TxnError
from txnstatus.raft.settings import SLICE_SECONDS

MAX_NODES = 9


def break_something(cluster: Cluster) -> None:
    """One fault more. A partition, a one-way cut, a pause, a power cut, kill -9, a full disk, a new connection."""
    rng = cluster.rng
    node = cluster[rng.choice(cluster.ids)]
    other = cluster[rng.choice([i for i in cluster.ids if i != node.node_id])]
    match rng.randrange(8):
        case 0:
            cluster.isolate(node.node_id)
        case 1:
            cluster.cut.add((node.node_id, other.node_id))
        case 2:
            cluster.cut |= {(node.node_id, other.node_id), (other.node_id, node.node_id)}
        case 3:
            if node.group is not None:
                cluster.crash(node.node_id)
        case 4:
            if node.group is not None:
                cluster.kill(node.node_id)
        case 5:
            node.paused = True
        case 6:
            node.disk.capacity = node.disk.used + rng.randrange(400)
        case 7:
            cluster.reconnect(node.node_id, other.node_id)


def mend(cluster: Cluster) -> None:
    cluster.heal()
    for node in cluster.nodes.values():
        node.paused = False
        node.disk.capacity = None
        if node.group is None:
            cluster.start(node.node_id)


def change_members(cluster: Cluster) -> None:
    """A step of replacing a member by a new node, through whoever says that it leads: the new one learns first."""
    rng = cluster.rng
    for leader in cluster.leaders():
        members = cluster[leader].live.members
        spare = [i for i in cluster.ids if i.startswith("new") and i not in members]
        for node in cluster.up:
            node.live.follow((*members, *spare[:1]), frozenset())
        try:
            if len(members) > 3:
                cluster.change(leader, remove=rng.choice(members))
            elif spare:
                cluster[leader].live.learners.check_caught_up(spare[0])
                cluster.change(leader, add=spare[0])
        except TxnError:
            continue


def run(cluster: Cluster, steps: int = 500, *, members: bool = False) -> None:
    cluster.leader()
    cluster.crash_chance = 0.0002
    for number in range(steps):
        for node in cluster.up:
            if node.live.is_leader or cluster.rng.random() < 0.02:
                cluster.propose(node.node_id)
        if number % 100 == 80:
            mend(cluster)
        elif number % 20 == 0:
            break_something(cluster)
        if members and number % 60 == 30 and len(cluster.ids) < MAX_NODES:
            cluster.join(f"new{number}")
        if members and number % 10 == 5:
            change_members(cluster)
        cluster.step()
    mend(cluster)
    cluster.settle()
    assert sum(sent.acknowledged for sent in cluster.sent) >= 20, "the run proved nothing"


@pytest.mark.parametrize("seed", range(30))
def test_under_a_nemesis_nothing_is_lost_and_nobody_disagrees(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    cluster = Cluster(monkeypatch, seed=seed, settings=SMALL_SNAPSHOTS if seed % 2 else FAST)
    if seed % 3 == 0:
        cluster.work_seconds = SLICE_SECONDS / 2  # so what takes long is in the middle of it when something breaks
    run(cluster)


@pytest.mark.parametrize("seed", rest_in_campaigns(range(100, 130), range(100, 108)))
def test_while_members_are_replaced_nothing_is_lost_and_nobody_disagrees(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Removed nodes go on running, and ask for votes if they may."""
    cluster = Cluster(monkeypatch, seed=seed, settings=SMALL_SNAPSHOTS if seed % 2 else FAST)
    run(cluster, 1000, members=True)
    changed = sum(sent.acknowledged and sent.proposal.members is not None for sent in cluster.sent)
    assert changed >= 2, "the run proved nothing"


@pytest.mark.parametrize("seed", range(200, 204))
def test_five_nodes_under_a_nemesis(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    run(Cluster(monkeypatch, size=5, seed=seed, settings=SMALL_SNAPSHOTS), 300)
