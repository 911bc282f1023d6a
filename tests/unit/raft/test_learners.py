"""Who is to be a member learns first: it counts for nothing until it has caught up, and nobody lets it in before."""

from __future__ import annotations

import pytest

from tests.unit.harness.raft import SMALL_SNAPSHOTS, Cluster
from txnstatus.errors import TxnError, Unavailable
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.learners import Rounds

NOBODY = frozenset[str]()


def teach(cluster: Cluster, new: str) -> str:
    """A new node learns from the leader, whose name is returned."""
    cluster.join(new)
    leader = cluster.leader()
    for node in cluster.up:
        node.live.follow((*cluster[leader].live.members, new), NOBODY)
    return leader


def caught_up(cluster: Cluster, leader: str, new: str) -> bool:
    try:
        cluster[leader].live.learners.check_caught_up(new)
    except Unavailable:
        return False
    return True


def test_a_round_that_takes_no_longer_than_an_election_is_the_last() -> None:
    rounds = Rounds(1.0)
    assert not rounds.has_caught_up("new", 0.0)
    rounds.answered("new", 0, 100, 0.0)
    rounds.answered("new", 50, 200, 0.5)
    assert not rounds.has_caught_up("new", 0.5), "it lacks what was there at first"
    rounds.answered("new", 100, 300, 3.0)
    assert not rounds.has_caught_up("new", 3.0), "meanwhile as much has come again"
    rounds.answered("new", 300, 310, 3.9)
    assert rounds.has_caught_up("new", 4.0)
    assert not rounds.has_caught_up("new", 5.0), "it is silent, or falls behind"
    rounds.answered("new", 310, 320, 5.5)
    assert not rounds.has_caught_up("new", 5.5)
    rounds.forget()
    rounds.answered("new", 320, 320, 5.6)
    assert not rounds.has_caught_up("new", 5.6), "another leadership begins anew"


@pytest.mark.parametrize("settings", [None, SMALL_SNAPSHOTS])
def test_a_learner_gets_everything_and_counts_for_nothing(monkeypatch: pytest.MonkeyPatch, settings: object) -> None:
    cluster = Cluster(monkeypatch, **({"settings": settings} if settings else {}))  # type: ignore[arg-type]
    cluster.commit(60)
    leader = teach(cluster, "new")
    cluster.run_until(lambda: cluster["new"].applied == cluster.history)
    assert "new" not in cluster.members()
    for follower in (node_id for node_id in cluster.ids if node_id not in (leader, "new")):
        cluster.crash(follower)
    lost = cluster.propose(leader)
    cluster.run(5.0)
    assert not lost.acknowledged, "a leader and a learner are no majority"
    assert not cluster[leader].live.has_lease
    cluster.settle()


def test_a_learner_knows_who_the_members_are(cluster: Cluster) -> None:
    """Pins: the log's first entry, which names them, is never sent. A snapshot that a learner made without it named
    nobody, and whoever would have been sent that later was a member of nothing."""
    cluster.commit(3)
    leader = teach(cluster, "new")
    cluster.run_until(lambda: cluster["new"].applied == cluster.history)
    assert cluster["new"].live.members == cluster[leader].live.members
    assert cluster["new"].live.journal.members.at(cluster["new"].live.applied_index)
    cluster.settle()


def test_who_has_not_caught_up_is_not_let_in(cluster: Cluster) -> None:
    """Pins: with it among the members, one more that fails leaves no majority that has anything."""
    cluster.commit(5)
    leader = teach(cluster, "new")
    cluster.isolate("new")
    with pytest.raises(Unavailable, match=r"new has not caught up with test-0 yet: it has 0 of \d+ entries"):
        cluster.change(leader, add="new")
    cluster.run(5.0)
    with pytest.raises(Unavailable, match="not caught up"):
        cluster.change(leader, add="new")
    cluster.heal()
    cluster.run_until(lambda: caught_up(cluster, cluster.leader(), "new"))
    added = cluster.change(cluster.leader(), add="new")
    cluster.run_until(lambda: added.ended)
    assert added.acknowledged
    assert "new" in cluster.members()
    cluster.settle()


def test_a_learner_is_no_voter_and_no_candidate(cluster: Cluster) -> None:
    cluster.commit(3)
    leader = teach(cluster, "new")
    cluster.run_until(lambda: cluster["new"].applied == cluster.history)
    group = cluster[leader].live
    sent: list[str] = []

    def tap(sender: str, _receiver: str, message: pb.RaftMessage) -> bool:
        if sender == "new":
            sent.append(message.WhichOneof("body"))
        return True

    cluster.tap = tap
    assert not group.learners.may_answer("new", "response_vote")
    assert group.learners.may_answer("new", "append_reply")
    for node_id in cluster.ids:
        if node_id != "new":
            cluster.crash(node_id)
    cluster.run(5.0)
    assert not {"request_vote", "pre_vote", "response_vote"} & set(sent)
    cluster.settle()


def test_who_joins_votes_for_nobody_before_it_has_caught_up(cluster: Cluster) -> None:
    """Pins: a node that was a member, moved away and comes back has forgotten for whom it voted. Its second vote in one
    term, for a candidate that still counts it, would be one too many."""
    cluster.join("new")
    group = cluster["new"].live
    assert group.journal.abstaining
    request = pb.RaftMessage.RequestVote(last_log_index=900, last_log_term=9, leadership_transfer=True)
    group.receive("n0", pb.RaftMessage(group="test-0", term=9, request_vote=request))
    group.tick()
    assert not [message for _, message in group.take_late() if message.WhichOneof("body") == "response_vote"]
    leader = cluster.leader()
    for node in cluster.up:
        node.live.follow((*cluster[leader].live.members, "new"), NOBODY)
    cluster.run_until(lambda: not group.journal.abstaining)
    cluster.settle()


def test_a_drained_leader_hands_over_and_does_not_come_back(cluster: Cluster) -> None:
    old = cluster.leader()
    for node in cluster.up:
        node.live.follow(cluster.ids, frozenset({old}))
    cluster.run_until(lambda: cluster.leaders() not in ([], [old]))
    cluster.commit(3)
    for _ in range(3):
        second = cluster.leader()
        cluster.crash(second)
        cluster.run_until(lambda second=second: cluster.leaders() not in ([], [second]))  # type: ignore[misc]
        assert cluster.leader() != old
        cluster.start(second)
        for node in cluster.up:
            node.live.follow(cluster.ids, frozenset({old}))
        cluster.run(3.0)
    cluster.settle()


def test_a_drained_member_leads_where_nobody_else_can(cluster: Cluster) -> None:
    """The one that is left lacks what was committed: then the drained one leads until the other one has it."""
    old = cluster.leader()
    behind, other = cluster.followers()
    cluster.isolate(behind)
    cluster.commit(5)
    for node in cluster.up:
        node.live.follow(cluster.ids, frozenset({old, other}))
    cluster.crash(other)
    led: list[str] = []
    step = cluster.step

    def watched() -> None:
        step()
        led.extend(cluster.leaders())

    cluster.step = watched  # type: ignore[method-assign]
    cluster.run(3.0)
    cluster.heal()
    cluster.run_until(lambda: cluster.leaders() == [behind])
    assert old in led
    cluster.step = step  # type: ignore[method-assign]
    cluster.settle()


def test_of_all_that_could_lead_one_that_is_not_drained_is_asked(cluster: Cluster) -> None:
    old = cluster.leader()
    first, second = cluster.followers()
    for node in cluster.up:
        node.live.follow(cluster.ids, frozenset({old, first}))
    cluster.run_until(lambda: cluster.leaders() == [second])
    cluster.settle()


def test_nothing_is_handed_over_to_a_drained_member_alone(cluster: Cluster) -> None:
    leader = cluster.leader()
    for node in cluster.up:
        node.live.follow(cluster.ids, frozenset(cluster.ids))
    term = cluster[leader].live.term
    cluster.commit(5)
    cluster.run(5.0)
    assert (cluster.leader(), cluster[leader].live.term) == (leader, term)


def test_a_change_under_a_crash_of_the_leader_is_done_by_the_next(cluster: Cluster) -> None:
    leader = teach(cluster, "new")
    cluster.run_until(lambda: caught_up(cluster, leader, "new"))
    cluster.crash(leader)
    cluster.replace(leader, "new")
    cluster.start(leader)
    with pytest.raises(TxnError):
        cluster.change(leader, add="x")
    assert sorted(cluster.members()) == sorted({"n0", "n1", "n2", "new"} - {leader})
