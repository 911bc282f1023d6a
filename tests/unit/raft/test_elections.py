"""Elections: no more of them than are needed, and the first one at once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from tests.unit.harness.raft import FAST, GROUP, SMALL_SNAPSHOTS, STEP, Cluster
from txnstatus.errors import NotTheLeader
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft.elections import Elections
from txnstatus.raft.journal import Entry, Journal
from txnstatus.raft.replica import Replica


@pytest.mark.parametrize("size", [1, 3, 5])
def test_a_new_group_elects_at_once(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    cluster = Cluster(monkeypatch, size=size)
    since = cluster.now
    assert cluster.leader() == "n0"
    assert cluster.now - since < FAST.election_min_seconds, "nobody waited for a time-out"


def test_a_group_with_a_past_waits(cluster: Cluster) -> None:
    """Pins: a lease may rest on promises that were made before the restart."""
    cluster.commit(3)
    for node_id in cluster.ids:
        cluster.crash(node_id)
    for node_id in cluster.ids:
        cluster.start(node_id)
    since = cluster.now
    cluster.leader()
    assert cluster.now - since >= FAST.election_min_seconds - STEP


@pytest.mark.parametrize("seed", range(10))
def test_r17_a_node_that_was_cut_off_returns_without_an_election(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Pins: pre-votes. pysyncobj raises its term all the while, and forces an election on its return."""
    cluster = Cluster(monkeypatch, seed=seed)
    leader, term = cluster.leader(), cluster[cluster.leader()].live.term
    cut_off = cluster.followers()[seed % 2]
    cluster.isolate(cut_off)
    cluster.run(5.0)
    cluster.heal()
    cluster.run(2.0)
    assert cluster.leaders() == [leader]
    assert {node.live.term for node in cluster.up} == {term}


@pytest.mark.parametrize("incoming", [True, False])
def test_r17_a_one_way_cut_forces_no_elections(cluster: Cluster, incoming: bool) -> None:
    """Pins: pre-votes. A follower that hears nothing, or is not heard, leaves the others alone."""
    leader, term = cluster.leader(), cluster[cluster.leader()].live.term
    follower = cluster.followers()[0]
    for other in cluster.ids:
        if other != follower:
            cluster.cut.add((other, follower) if incoming else (follower, other))
    cluster.run(5.0)
    assert cluster.leaders() == [leader]
    assert cluster[leader].live.term == term
    cluster.settle()


def test_r18_a_replica_that_waits_for_a_snapshot_costs_a_message_a_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: peers that need a snapshot are kept out of pysyncobj's send loop. It goes round and round there, a whole
    heartbeat long: 20,010 messages in 1.5 s."""
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    leader, (follower, _) = cluster.leader(), cluster.followers()
    cluster.crash(follower)
    cluster.commit(60, via=leader)
    cluster.start(follower)
    cluster[follower].holds_jobs = True
    cluster.run_until(lambda: cluster[follower].job is not None)
    sent = []

    def tap(_sender: str, receiver: str, message: pb.RaftMessage) -> bool:
        if receiver == follower:
            sent.append(message.WhichOneof("body"))
        return True

    cluster.tap = tap
    since = cluster.now
    for _ in range(100):
        cluster.step()
    assert cluster.now - since < 100 * STEP * 1.1, "the time went by in a loop"
    assert len(sent) <= 2 * (cluster.now - since) / SMALL_SNAPSHOTS.heartbeat_seconds
    cluster[follower].holds_jobs = False
    cluster.settle()


def test_a_hand_over_waits_for_a_follower_that_has_everything(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until(cluster.converged)
    for _ in range(5):
        cluster.propose(leader)
    cluster.step()
    cluster[leader].live.hand_over()
    since = cluster.now
    cluster.run_until(lambda: cluster.leaders() not in ([], [leader]))
    assert cluster.now - since < FAST.election_min_seconds
    cluster.settle()


def test_a_hand_over_that_nobody_takes_ends_in_an_election(cluster: Cluster) -> None:
    """Pins: a leader that gave up its lease does not lead on without one."""
    leader = cluster.leader()

    def tap(_sender: str, _receiver: str, message: pb.RaftMessage) -> bool:
        return message.WhichOneof("body") != "timeout_now"

    cluster.tap = tap
    term = cluster[leader].live.term
    cluster[leader].live.hand_over()
    cluster.leader()
    assert cluster[cluster.leader()].live.term > term
    cluster.settle()


PATIENT = replace(FAST, election_min_seconds=2.0, election_max_seconds=4.0)
"""Whoever waits for a time-out is seen to."""
SIX_MESSAGES = 6 * 4 * STEP
"""Time for a pre-vote, a vote and an entry, and their answers."""


def time_to_replace(cluster: Cluster, leader: str) -> float:
    """Seconds until another one leads, from now."""
    since = cluster.now
    cluster.run_until(lambda: cluster.leaders() not in ([], [leader]))
    return cluster.now - since


@pytest.mark.parametrize("seed", range(20))
def test_a_leader_whose_process_has_ended_is_replaced_when_the_promises_are_over(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Whoever of the followers is behind: no time-out is waited for, and no votes are split."""
    cluster = Cluster(monkeypatch, seed=seed, settings=PATIENT)
    leader = cluster.leader()
    for _ in range(5 + seed):
        cluster.propose(leader)
        cluster.step()
    term = cluster[leader].live.term
    cluster.kill(leader)
    assert time_to_replace(cluster, leader) < PATIENT.promise_seconds + PATIENT.heartbeat_seconds + SIX_MESSAGES
    assert {node.live.term for node in cluster.up} == {term + 1}
    cluster.settle()


@pytest.mark.parametrize("lost", ["request_vote", "response_vote"])
@pytest.mark.parametrize("seed", range(6))
def test_an_election_that_comes_to_nothing_is_followed_by_another_at_once(
    monkeypatch: pytest.MonkeyPatch, seed: int, lost: str
) -> None:
    """Votes that were split, or came too late: the leader's process is gone still, and no time-out is waited for."""
    cluster = Cluster(monkeypatch, seed=seed, settings=PATIENT)
    leader = cluster.leader()
    cluster.commit(3)
    term = cluster[leader].live.term
    cluster.tap = lambda _sender, _receiver, message: (
        not (message.WhichOneof("body") == lost and message.term <= term + 2)
    )
    cluster.kill(leader)
    rounds = 3 * (PATIENT.heartbeat_seconds * 2 + SIX_MESSAGES)
    assert time_to_replace(cluster, leader) < PATIENT.promise_seconds + rounds
    cluster.settle()


@pytest.mark.parametrize("seed", range(6))
def test_a_connection_that_breaks_elects_nobody(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """It is made again, or the other follower still hears the leader."""
    cluster = Cluster(monkeypatch, seed=seed)
    leader, term = cluster.leader(), cluster[cluster.leader()].live.term
    one, other = cluster.followers()
    for follower in (one, other):
        cluster.reconnect(leader, follower)
    cluster.run(1.0)
    cluster.cut |= {(leader, one), (one, leader)}
    cluster[one].live.disconnected(leader)
    cluster[leader].live.disconnected(one)
    cluster.run(3.0)
    assert cluster.leaders() == [leader]
    assert {node.live.term for node in cluster.up} == {term}


@pytest.mark.parametrize("seed", range(6))
def test_a_leader_that_pauses_for_less_than_a_time_out_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    cluster = Cluster(monkeypatch, seed=seed)
    leader, term = cluster.leader(), cluster[cluster.leader()].live.term
    for _ in range(5):
        cluster[leader].paused = True
        cluster.run(FAST.election_min_seconds - FAST.heartbeat_seconds - 3 * STEP)
        cluster[leader].paused = False
        cluster.run(2 * FAST.heartbeat_seconds)
    assert cluster.leaders() == [leader]
    assert {node.live.term for node in cluster.up} == {term}


@pytest.mark.parametrize("seed", range(10))
def test_whoever_is_asked_and_has_more_asks_at_once(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Its own time-out may have long to go, and nobody else can be elected."""
    cluster = Cluster(monkeypatch, seed=seed)
    leader = cluster.leader()
    behind, _ = cluster.followers()
    cluster.cut.add((leader, behind))
    cluster.propose(leader)
    cluster.run(2 * STEP)
    cluster.isolate(leader)
    first: list[float] = []

    def tap(sender: str, _receiver: str, message: pb.RaftMessage) -> bool:
        if message.WhichOneof("body") == "pre_vote" and sender == behind:
            first.append(cluster.now)
        return True

    cluster.tap = tap
    cluster.run_until(lambda: first or cluster.leaders() not in ([], [leader]))
    if first:
        cluster.run_until(lambda: cluster.leaders() not in ([], [leader]))
        # Within its own promise it refuses, and is asked again; or its time-out ends meanwhile.
        assert cluster.now - first[0] < FAST.heartbeat_seconds + FAST.election_max_seconds / 2
    cluster.settle()


def test_who_is_asked_to_take_over_and_hears_a_later_leader_breaks_no_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: one that had paused took up both in one cycle, and was elected past a lease that was held."""
    cluster = Cluster(monkeypatch)
    leader = cluster.leader()
    cluster.commit(3)
    one, _ = cluster.followers()
    live = cluster[one].live
    term = live.term
    live.receive(leader, pb.RaftMessage(group=GROUP, term=term, timeout_now={}))
    assert live.elections.asked_over_term == term
    other = next(each for each in cluster.ids if each not in (one, leader))
    last = live.journal[-1]
    vote = pb.RaftMessage.RequestVote(last_log_index=last.idx, last_log_term=last.term, leadership_transfer=True)
    live.receive(other, pb.RaftMessage(group=GROUP, term=term + 1, request_vote=vote))
    assert live.term == term + 1
    assert not live.elections.should_campaign()
    assert not live.elections.taking_over


def test_a_leader_that_hands_over_proposes_nothing_more(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.tap = lambda _sender, _receiver, message: message.WhichOneof("body") != "timeout_now"
    cluster.run_until(cluster.converged)
    cluster[leader].live.hand_over()
    last = cluster[leader].live.journal[-1].idx
    refused = cluster.propose(leader)
    cluster.run_until(lambda: refused.ended)
    assert isinstance(refused.proposal.error, NotTheLeader)
    assert cluster[leader].live.journal[-1].idx == last
    cluster.settle()


def test_whoever_hands_over_names_its_successor(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until(cluster.converged)
    cluster[leader].live.hand_over()
    cluster.step()
    successor = cluster[leader].live.not_the_leader().leader
    cluster.run_until(lambda: cluster.leaders() not in ([], [leader]))
    assert cluster.leaders() == [successor]


SLOW_BEATS = replace(PATIENT, heartbeat_seconds=0.6, promise_seconds=2.0)


def test_all_hear_at_once_that_a_new_leader_is_ready_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: whoever waits is sent to a leader that answers, and that is not told by its next heartbeat alone."""
    cluster = Cluster(monkeypatch, settings=SLOW_BEATS)
    old = cluster.leader()
    cluster.run_until(cluster.converged)
    cluster[old].live.hand_over()
    ready_at = 0.0

    def all_know() -> bool:
        nonlocal ready_at
        ready = [node.node_id for node in cluster.up if node.live.is_ready and node.node_id != old]
        told = [node.live.elections.ready_leader for node in cluster.up]
        assert set(told) <= {"", old, *ready}
        if ready and not ready_at:
            ready_at = cluster.now
        return told == ready * len(told)

    cluster.run_until(all_know)
    assert cluster.now - ready_at < SLOW_BEATS.heartbeat_seconds / 4
    assert {node.live.elections.ready_leader for node in cluster.up} == set(cluster.leaders())


def test_a_former_leader_names_no_successor(cluster: Cluster) -> None:
    """Pins: its word may come late, when a lease rests on what it would have the others forget."""
    old = cluster.leader()
    told = pb.RaftMessage(group=GROUP, term=cluster[old].live.term, timeout_now={})
    cluster[old].live.hand_over()
    cluster.run_until(lambda: cluster.leaders() not in ([], [old]))
    leader = cluster.leader()
    term = cluster[leader].live.term
    (follower,) = set(cluster.ids) - {old, leader}
    for late in (told, pb.RaftMessage(group=GROUP, term=term, timeout_now={})):
        cluster[follower].live.receive(old, late)
        cluster.run(FAST.election_max_seconds)
    assert cluster.leaders() == [leader]
    assert cluster[leader].live.term == term


@pytest.mark.parametrize("seed", range(20))
def test_a_hand_over_that_ends_in_the_middle_ends_in_one_leader(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Whoever dies in it, at whatever step: nothing that was acknowledged is lost, and somebody leads."""
    cluster = Cluster(monkeypatch, seed=seed)
    leader = cluster.leader()
    for _ in range(5):
        cluster.propose(leader)
    cluster.step()
    cluster[leader].live.hand_over()
    for _ in range(seed % 7):
        cluster.step()
    cluster.crash([leader, *(node_id for node_id in cluster.ids if node_id != leader)][seed % 3])
    cluster.leader()
    cluster.settle()


def test_how_another_one_came_to_lead_is_told(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.run_until(cluster.converged)
    cluster.kill(leader)
    cluster.run_until(cluster.leaders)
    took = cluster[cluster.leaders()[0]].live.elections.takeover()
    assert FAST.promise_seconds <= took.silence < FAST.promise_seconds + 2 * FAST.heartbeat_seconds
    assert 0 < took.election < 0.1
    assert 0 < took.catching_up < 0.1
    cluster[cluster.leaders()[0]].live.hand_over()
    (other,) = set(cluster.ids) - {leader, *cluster.leaders()}
    cluster.run_until(lambda: cluster.leaders() == [other])
    assert cluster[other].live.elections.takeover().silence == 0


def test_the_time_without_a_leader_begins_when_this_one_led_last(cluster: Cluster) -> None:
    """It is told whenever one takes over: of one that led before it must not be the time for which it did."""
    leader = cluster.leader()
    cluster.run(10.0)
    assert cluster.leaders() == [leader]
    for node in cluster.up:
        node.live.elections.drained = frozenset(cluster.followers())
    cluster[leader].live._replica.step_down()
    cluster.run_until(lambda: cluster.leaders() == [leader] and cluster[leader].live.is_ready)
    assert 0 < cluster[leader].live.elections.takeover().silence < 5.0


class Log(list[Entry]):
    """Stands for a journal that counts these members."""

    abstaining = False

    def __init__(self, *members: str) -> None:
        super().__init__([Entry(b"", 5, 1)])
        self.members = SimpleNamespace(current=members)


def elections(log: Log, now: float) -> Elections:
    replica = SimpleNamespace(leading=True, raftCurrentTerm=1)
    return Elections("a", FAST, cast(Journal, log), cast(Replica, replica), lambda: now, lambda _to, _message: None)


@pytest.mark.parametrize("members", [(), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "c"), ("a", "b", "c", "d")])
def test_a_lease_is_what_most_members_have_answered(members: tuple[str, ...]) -> None:
    """Whoever has not, or is no member, does not count; the replica itself always does."""
    now = 100.0
    late, early = int((now - 0.001) * 1e6), int((now - FAST.election_min_seconds) * 1e6)
    for answers in itertools.product((None, early, late), repeat=4):
        asked = elections(Log(*members), now)
        for peer, echo in zip("bcdx", answers, strict=True):
            if echo is not None:
                asked.answered(peer, echo)
        fresh = {"a", *(peer for peer, echo in zip("bcdx", answers, strict=True) if echo == late)}
        assert asked.has_lease() is (2 * len(fresh & set(members)) > len(members)), answers


def test_a_lease_follows_the_members_and_the_answers() -> None:
    log, now = Log("a", "b", "c"), 100.0
    asked, late = elections(log, now), int((now - 0.001) * 1e6)
    assert not asked.has_lease()
    asked.answered("b", late)
    assert asked.has_lease()
    log.members.current = ("a", "c", "d")
    assert not asked.has_lease()
    asked.answered("d", late)
    assert asked.has_lease()
    asked.answered("d", late - 1_000_000)
    assert asked.has_lease(), "an answer that was overtaken takes nothing back"
