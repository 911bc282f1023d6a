"""Members come and go one at a time, by entries of the log; what a replica that starts empty may and may not do."""

from __future__ import annotations

import pytest

from tests.unit.harness.raft import FAST, GROUP, SMALL_SNAPSHOTS, Cluster
from txnstatus.errors import InvalidArgument, NotTheLeader, Unavailable
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import snapshot


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("settings", [FAST, SMALL_SNAPSHOTS])
def test_a_dead_member_is_replaced_under_load(monkeypatch: pytest.MonkeyPatch, seed: int, settings: object) -> None:
    cluster = Cluster(monkeypatch, seed=seed, settings=settings)  # type: ignore[arg-type]
    cluster.commit(40)
    dead = cluster.ids[seed % 3]
    cluster.crash(dead)
    step, load = cluster.step, []

    def step_under_load() -> None:
        load.extend(cluster.propose(node.node_id) for node in cluster.up if node.live.is_ready)
        step()

    cluster.step = step_under_load  # type: ignore[method-assign]
    cluster.replace(dead, "new")
    cluster.run(0.5)
    cluster.step = step  # type: ignore[method-assign]
    assert sum(sent.acknowledged for sent in load) > 5
    assert sorted(cluster.members()) == sorted({"n0", "n1", "n2", "new"} - {dead})
    cluster.run_until(cluster.converged)
    assert cluster["new"].applied == cluster.history
    for node_id in cluster.members():
        cluster.restart(node_id)
    cluster.settle()
    assert "new" in cluster.members()
    assert dead not in cluster.members()


def test_the_new_member_counts(cluster: Cluster) -> None:
    """n1 is replaced; then n2 dies: the new one and n0 are the majority."""
    leader = cluster.leader()
    first, second = cluster.followers()
    cluster.replace(first, "new")
    cluster.run_until(cluster.converged)
    cluster.crash(second)
    cluster.commit(5)
    cluster.crash(cluster.leader([leader, "new"]))
    cluster.settle()


def test_one_change_at_a_time(cluster: Cluster) -> None:
    """Pins: two uncommitted changes at once could have majorities that do not overlap."""
    leader, (follower, other) = cluster.leader(), cluster.followers()
    for node_id in (follower, other):
        cluster.cut |= {(leader, node_id), (node_id, leader)}
    cluster.change(leader, remove=follower)
    with pytest.raises(Unavailable, match="under way"):
        cluster.change(leader, add="x")
    cluster.step()
    with pytest.raises(Unavailable, match="under way"):
        cluster.change(leader, add="x")
    cluster.settle()


def test_what_cannot_be_changed_is_refused(cluster: Cluster) -> None:
    leader, (follower, _) = cluster.leader(), cluster.followers()
    with pytest.raises(InvalidArgument):
        cluster.change(leader, add="x", remove=follower)
    with pytest.raises(InvalidArgument):
        cluster.change(leader)
    with pytest.raises(NotTheLeader):
        cluster.change(follower, remove=leader)
    with pytest.raises(NotTheLeader, match="hands over"):
        cluster.change(leader, remove=leader)
    cluster.run_until(lambda: cluster.leaders() not in ([], [leader]))
    cluster.settle()


def test_a_change_waits_for_an_entry_of_the_leaders_own_term(cluster: Cluster) -> None:
    """Pins: `is_ready`. Without it two leaders of successive terms may each change the members at once."""
    old = cluster.leader()
    cluster.crash(old)
    others = [node_id for node_id in cluster.ids if node_id != old]
    cluster.run_until(lambda: any(cluster[node_id].live.is_leader for node_id in others))
    (new,) = [node_id for node_id in others if cluster[node_id].live.is_leader]
    if not cluster[new].live.is_ready:
        with pytest.raises(NotTheLeader):
            cluster.change(new, remove=old)
    cluster.settle()


def test_a_change_that_was_not_committed_is_taken_back(cluster: Cluster) -> None:
    """Pins: the set in force is that of the latest entry in the log; cut off, the one before counts again."""
    old = cluster.leader()
    first, second = cluster.followers()
    cluster.isolate(old)
    lost = cluster.change(old, remove=first)
    cluster.step()
    assert cluster[old].live.members == tuple(sorted({old, second}))
    cluster.commit(5, via=cluster.leader([first, second]))
    cluster.heal()
    cluster.run_until(cluster.converged)
    assert not lost.acknowledged
    assert cluster[old].live.members == ("n0", "n1", "n2")
    cluster.settle()


def test_a_removed_node_is_left_alone_and_disturbs_nobody(cluster: Cluster) -> None:
    """Pins: pre-votes, and no election of a replica that is no member by its own log."""
    removed = cluster.followers()[0]
    cluster.isolate(removed)
    cluster.change(cluster.leader(), remove=removed)
    cluster.run_until(lambda: removed not in cluster.members())
    cluster.heal()
    leader, term = cluster.leader(), cluster[cluster.leader()].live.term
    cluster.run(5.0)
    assert cluster.leader() == leader
    assert cluster[leader].live.term == term
    assert not cluster[removed].live.is_leader
    cluster.commit(3)


def test_answers_of_a_node_that_is_no_member_count_for_nothing(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.isolate(leader)
    group = cluster[leader].live
    cluster.propose(leader)
    cluster.step()
    before = group.commit_index
    for stranger in ("x", "y"):
        reply = pb.RaftMessage.AppendReply(next_index=group.journal[-1].idx + 1, success=True, echo_micros=1 << 50)
        group.receive(stranger, pb.RaftMessage(group="test-0", term=group.term, append_reply=reply))
        group.receive(stranger, pb.RaftMessage(group="test-0", term=group.term, response_vote={}))
    cluster.step()
    assert group.commit_index == before


def test_a_node_that_joins_is_quiet_until_it_is_added(cluster: Cluster) -> None:
    cluster.commit(3)
    cluster.join("new")
    sent: list[str] = []

    def tap(sender: str, _receiver: str, _message: pb.RaftMessage) -> bool:
        sent.append(sender)
        return True

    cluster.tap = tap
    cluster.run(5.0)
    assert "new" not in sent
    assert cluster["new"].live.term == 0


def test_members_survive_in_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: the header carries them; the entry that made them is gone."""
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    cluster.replace(cluster.followers()[0], "new")
    cluster.commit(60)
    for node_id in cluster.members():
        group = cluster[node_id].live
        assert group.journal[0].idx > group.journal.members.index
        cluster.restart(node_id)
        assert cluster[node_id].live.members == group.members
    cluster.settle()


def test_members_that_are_not_committed_are_not_in_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot says who belonged to the group at its last entry. With the latest set of the log instead, a replica
    that starts from it counts a majority of members who were never agreed upon, though the entry was cut off."""
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    leader = cluster.leader()
    first, second = cluster.followers()
    cluster.commit(5)
    cluster.isolate(leader)
    group = cluster[leader].live
    change = cluster.change(leader, remove=first)
    cluster.step()
    assert group.members == tuple(sorted({leader, second}))
    completed = group.compaction.completed
    group._replica.forceLogCompaction()
    cluster.run_until(lambda: group.compaction.completed > completed)
    assert not change.acknowledged
    node = cluster[leader]
    meta = snapshot.read_meta(node.disk, node.directory / "snapshot", GROUP)
    assert meta.members == ("n0", "n1", "n2")
    cluster.heal()
    cluster.settle()


# ---- a directory that was lost


def test_a_member_that_lost_its_directory_cannot_help_to_lose_data(cluster: Cluster) -> None:
    """Pins: abstaining. It acknowledged entries that it no longer has; the node that lags must not lead by its vote."""
    leader, (lost, behind) = cluster.leader(), cluster.followers()
    cluster.run_until(cluster.converged)
    cluster.isolate(behind)
    made = cluster.commit(5, via=leader)
    cluster.crash(leader)
    cluster.lose_directory(lost)
    cluster.heal()
    cluster.start(lost)
    cluster.run(10.0)
    assert not cluster.leaders(), "the only one that has everything is down"
    cluster.start(leader)
    cluster.settle()
    assert all(sent.command in cluster.history for sent in made)
    assert not cluster[lost].live.journal.abstaining


def test_a_member_that_lost_its_directory_does_not_lead_before_it_has_all_again(cluster: Cluster) -> None:
    """Pins: abstaining from campaigns. It is ahead of the one that lags, and behind what it once acknowledged."""
    leader, (lost, behind) = cluster.leader(), cluster.followers()
    cluster.run_until(cluster.converged)
    last = {behind: cluster[behind].live.journal[-1].idx}

    def tap(_sender: str, receiver: str, message: pb.RaftMessage) -> bool:
        entries = message.append_entries.entries
        if receiver in last and entries:
            kept = [entry for entry in entries if entry.index <= last[receiver]]
            del entries[:]
            entries.extend(kept)
        return True

    cluster.tap = tap
    made = cluster.commit(6, via=leader)
    cluster.lose_directory(lost)
    enough = last[lost] = cluster[leader].live.journal[-1].idx - 3
    cluster.start(lost)
    cluster.run_until(lambda: cluster[lost].live.journal[-1].idx == enough)
    cluster.crash(leader)
    cluster.run(10.0)
    assert not cluster.leaders(), "the only one that has everything is down"
    cluster.tap = lambda _sender, _receiver, _message: True
    cluster.settle()
    assert all(sent.command in cluster.history for sent in made)


def test_a_member_that_lost_its_directory_does_not_found_the_group_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: an empty log is no proof of a new group. The third member has one too: it was away all the time."""
    cluster = Cluster(monkeypatch)
    cluster.isolate("n2")
    cluster.run_until(lambda: bool(cluster.leaders()))
    leader = cluster.leader()
    made = cluster.commit(5, via=leader)
    (lost,) = {"n0", "n1"} - {leader}
    cluster.crash(leader)
    cluster.lose_directory(lost)
    cluster.heal()
    cluster.start(lost)
    cluster.run(10.0)
    assert not cluster.leaders(), "the only one that has everything is down"
    cluster.start(leader)
    cluster.settle()
    assert all(sent.command in cluster.history for sent in made)


def test_a_group_whose_members_all_may_have_lost_theirs_begins_with_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch, never_here=False)
    for node in cluster.nodes.values():
        assert node.live.journal.abstaining
    cluster.isolate("n2")
    cluster.run(5.0)
    assert not cluster.leaders(), "nobody knows what n2 has"
    cluster.heal()
    cluster.commit(3)
    assert any(node.live.elections.founded for node in cluster.nodes.values())
    cluster.settle()
    assert not any(node.live.journal.abstaining for node in cluster.nodes.values())


def test_whoever_was_asked_before_a_group_was_founded_takes_part_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, never_here=False)
    cluster.run_until(lambda: all(node.live.leader for node in cluster.nodes.values()))
    assert all(node.live.elections.founded for node in cluster.nodes.values())
    assert cluster.now < 1000 + FAST.election_max_seconds, "nobody was silent"


def test_a_new_group_needs_a_majority_of_those_that_cannot_have_lost_anything(cluster: Cluster) -> None:
    for node_id in cluster.ids:
        cluster.lose_directory(node_id)
        cluster[node_id].never_here = node_id != "n1"
    cluster.history.clear()
    cluster.start("n0")
    cluster.start("n1")
    cluster.run(5.0)
    assert not cluster.leaders(), "n0 is one of three that cannot have lost anything"
    cluster.start("n2")
    cluster.commit(3)


def test_a_member_that_lost_its_directory_is_silent_at_first(cluster: Cluster) -> None:
    """Pins: a leader that was deposed with its help must not take its answers for a majority."""
    leader, (lost, behind) = cluster.leader(), cluster.followers()
    cluster.run_until(cluster.converged)
    cluster.isolate(behind)
    cluster.lose_directory(lost)
    cluster.start(lost)
    cluster.run(FAST.election_max_seconds)
    assert cluster[lost].live.journal[-1].idx == 1, "it has listened to nobody"
    assert not cluster[leader].live.is_leader, "for so long it had no majority"
    cluster.heal()
    cluster.settle()
    assert not cluster[lost].live.journal.abstaining


def test_abstaining_outlives_a_restart(cluster: Cluster) -> None:
    leader, (lost, behind) = cluster.leader(), cluster.followers()
    cluster.run_until(cluster.converged)
    cluster.isolate(behind)
    cluster.commit(5, via=leader)
    cluster.crash(leader)
    cluster.lose_directory(lost)
    for _ in range(3):
        cluster.restart(lost)
        cluster.step()
        assert cluster[lost].live.journal.abstaining
    cluster.heal()
    cluster.run(5.0)
    assert not cluster.leaders()
    cluster.settle()
