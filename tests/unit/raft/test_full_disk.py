"""A disk that is full, and one that is broken: the first is waited for, the second ends the process."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.unit.harness.raft import FAST, SMALL_SNAPSHOTS, Cluster
from txnstatus.errors import NotTheLeader, OutcomeUnknown
from txnstatus.proto import raft_pb2 as pb


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch, seed=3)


def fill(cluster: Cluster, node_id: str) -> None:
    disk = cluster[node_id].disk
    disk.capacity = disk.used + 10


def test_a_leader_without_room_hands_over_and_refuses_and_comes_back(cluster: Cluster) -> None:
    """Pins: `stand_still`. The journal's frame is cut away, and nobody takes the leader for one any more."""
    made = cluster.commit(5)
    leader = cluster.leader()
    fill(cluster, leader)
    under_way = cluster.propose(leader)
    since = cluster.now
    cluster.run_until(lambda: cluster[leader].live.no_room)
    group = cluster[leader].live
    assert (group.is_leader, group.is_ready, group.has_lease) == (False, False, False)
    refused = cluster.propose(leader)
    cluster.step()
    assert isinstance(refused.proposal.error, NotTheLeader)
    assert refused.proposal.error.retriable
    assert "its disk is full" in str(refused.proposal.error)
    others = [node_id for node_id in cluster.ids if node_id != leader]
    new = cluster.leader(others)
    assert cluster.now - since < FAST.election_min_seconds, "it asked another one to take over"
    made += cluster.commit(5, via=new)
    assert isinstance(under_way.proposal.error, OutcomeUnknown)
    cluster[leader].disk.capacity = None
    cluster.run_until(lambda: not cluster[leader].live.no_room)
    cluster.settle()
    assert cluster[leader].applied[-len(cluster.history) :] == cluster.history
    assert all(sent.command in cluster.history for sent in made)


def test_a_follower_without_room_acknowledges_and_votes_for_nothing(cluster: Cluster) -> None:
    """Pins: nothing late leaves a replica whose journal was not written, and nothing that comes is looked at."""
    leader, (follower, other) = cluster.leader(), cluster.followers()
    cluster.commit(3)
    cluster.run_until(cluster.converged)
    fill(cluster, follower)
    durable, kinds = cluster[follower].live.journal[-1].idx, set()
    acknowledged = {durable}

    def tap(sender: str, _receiver: str, message: pb.RaftMessage) -> bool:
        if sender == follower:
            acknowledged.add(message.append_reply.next_index - 1)
            if cluster[follower].live.no_room:
                kinds.add(message.WhichOneof("body"))
        return True

    cluster.tap = tap
    cluster.commit(1, via=leader)
    cluster.run_until(lambda: cluster[follower].live.no_room)
    cluster.isolate(other)
    unsafe = cluster.propose(leader)
    cluster.run(3.0)
    assert max(acknowledged) <= durable, "it acknowledged what is on no disk"
    assert not kinds, "it said something"
    assert not unsafe.acknowledged
    assert not cluster.leaders(), "one of three can do nothing"
    cluster.settle()


def test_the_whole_group_without_room_waits_and_loses_nothing(cluster: Cluster) -> None:
    made = cluster.commit(10)
    for node_id in cluster.ids:
        fill(cluster, node_id)
    for _ in range(100):
        for node in cluster.up:
            cluster.propose(node.node_id)
        cluster.step()
    assert not any(node.live.is_leader for node in cluster.up)
    for node in cluster.nodes.values():
        node.disk.capacity = None
    cluster.settle()
    assert all(sent.command in cluster.history for sent in made)


@pytest.mark.parametrize("room", [0, 5, 40, 100])
def test_a_power_cut_while_there_is_no_room_loses_nothing(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Pins: the part of a frame that had room is cut away; what a power cut leaves of it passes for a torn tail."""
    cluster = Cluster(monkeypatch, seed=room)
    cluster.commit(10)
    for node in cluster.nodes.values():
        node.disk.capacity = node.disk.used + room
    for _ in range(20):
        for node in cluster.up:
            cluster.propose(node.node_id)
        cluster.step()
    for node in cluster.nodes.values():
        cluster.crash(node.node_id)
        node.disk.capacity = None
    cluster.settle()


def test_a_snapshot_without_room_is_tried_again_and_nobody_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: a snapshot is not worth a leader. Here the disk has room for the journal only."""
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    leader = cluster.leader()
    node = cluster[leader]

    def before(operation: str, path: Path) -> None:
        if operation == "write" and path.name == "snapshot.new":
            raise OSError(errno.ENOSPC, "No space left on device")

    node.disk.before = before
    cluster.commit(40, via=leader)
    assert node.live.is_leader
    assert not node.has_snapshot
    assert node.disk.size(node.directory / "snapshot.new") is None
    node.disk.before = lambda _operation, _path: None
    cluster.run_until(lambda: node.has_snapshot)
    cluster.settle()


def test_a_snapshot_that_has_no_room_to_arrive_comes_once_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    follower = cluster.followers()[0]
    cluster.crash(follower)
    cluster.commit(60)
    node = cluster[follower]

    def before(operation: str, path: Path) -> None:
        if operation == "write" and path.name == "snapshot.incoming":
            raise OSError(errno.ENOSPC, "No space left on device")

    node.disk.before = before
    cluster.start(follower)
    cluster.run(2.0)
    assert node.group is not None
    assert not node.applied
    node.disk.before = lambda _operation, _path: None
    cluster.run_until(lambda: node.applied, limit=2.0)  # a group that has lost another member waits for this one
    cluster.settle()


@pytest.mark.parametrize("operation", ["write", "sync", "truncate", "rename", "sync_directory", "create"])
def test_any_other_error_of_the_disk_ends_the_process(monkeypatch: pytest.MonkeyPatch, operation: str) -> None:
    """Pins: only a full disk is waited for. After a failed sync nobody knows what the disk holds, also if the next
    one succeeds; so the process must not write on."""
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    cluster.may_stop = True
    leader = cluster.leader()

    def before(asked: str, _path: Path) -> None:
        if asked == operation:
            raise OSError(errno.EIO, "the disk is broken")
        if asked == "write" and operation == "truncate":
            raise OSError(errno.ENOSPC, "No space left on device")

    cluster[leader].disk.before = before
    for _ in range(200):
        if cluster[leader].group is None:
            break
        cluster.propose(leader)
        cluster.step()
    assert len(cluster.stopped) == 1
    assert "the disk is broken" in cluster.stopped[0]
    cluster[leader].disk.before = lambda _operation, _path: None
    cluster.settle()


def test_a_full_disk_that_a_sync_tells_of_ends_the_process(cluster: Cluster) -> None:
    """Pins: a failed sync is not waited for, whatever it says; what it was to make durable may be gone already."""
    cluster.may_stop = True
    leader = cluster.leader()

    def before(operation: str, _path: Path) -> None:
        if operation == "sync":
            raise OSError(errno.ENOSPC, "No space left on device")

    cluster[leader].disk.before = before
    cluster.propose(leader)
    cluster.run_until(lambda: cluster[leader].group is None)
    cluster[leader].disk.before = lambda _operation, _path: None
    cluster.settle()
