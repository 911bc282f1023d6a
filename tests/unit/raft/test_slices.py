"""What takes long is done a slice at a time: no replica is away while it applies, or restores, a lot."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.harness.raft import SMALL_SNAPSHOTS, Cluster
from txnstatus.raft.replica import MAX_BATCH_COMMANDS
from txnstatus.raft.settings import SLICE_SECONDS


def longest_step(cluster: Cluster, condition: Callable[[], object]) -> float:
    """The longest step until the condition holds, by the group's clock."""
    longest, end = 0.0, cluster.now + 120
    while not condition():
        assert cluster.now < end, "it never came about"
        before = cluster.now
        cluster.step()
        longest = max(longest, cluster.now - before)
    return longest


def test_what_is_committed_at_a_start_is_applied_in_slices_while_the_leader_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pins: `_applyLogEntries` ends after a while. pysyncobj would apply 200 entries, 4 s, in one tick of the leader,
    and the others elect the next one, who does the same."""
    cluster = Cluster(monkeypatch)
    cluster.commit(200)
    term = cluster[cluster.leader()].live.term
    for node_id in cluster.ids:
        cluster.crash(node_id)
    cluster.work_seconds = 0.02
    for node_id in cluster.ids:
        cluster.start(node_id)
    assert longest_step(cluster, cluster.converged) < 4 * (0.02 + SLICE_SECONDS)
    assert cluster[cluster.leader()].live.term == term + 1, "one election is enough"
    cluster.settle()


def test_an_entry_holds_so_many_commands_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    leader = cluster.leader()
    before = cluster[leader].live.journal[-1].idx
    cluster.commit(2 * MAX_BATCH_COMMANDS + 1, via=leader, batch=2 * MAX_BATCH_COMMANDS + 1)
    assert cluster[leader].live.journal[-1].idx == before + 3


def test_a_snapshot_that_arrives_is_restored_in_slices_beside_the_state_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    follower = cluster.followers()[0]
    cluster.commit(3)
    cluster.run_until(cluster.converged)
    cluster.crash(follower)
    cluster.commit(300)
    cluster.work_seconds = 0.02
    cluster.start(follower)
    machine = cluster[follower].machine
    assert machine is not None
    seen: set[int] = set()

    def installed() -> bool:
        seen.add(len(machine.applied))
        return machine.restored > 0

    assert longest_step(cluster, installed) < 4 * (0.02 + SLICE_SECONDS)
    assert seen <= {0, 3, len(machine.applied)}, "never a part of it"
    cluster.settle()


def test_a_leader_that_changes_in_the_middle_of_an_installation_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    leader, follower = cluster.leader(), cluster.followers()[0]
    cluster.crash(follower)
    cluster.commit(300, via=leader)
    cluster.work_seconds = 0.02
    cluster.start(follower)
    cluster.run_until(lambda: not cluster[follower].live.idle_seconds())
    cluster.crash(leader)
    cluster.run_until(lambda: cluster[follower].live.leader not in ("", leader))
    machine = cluster[follower].machine
    assert machine is not None
    assert machine.restored == 0
    cluster.settle()
