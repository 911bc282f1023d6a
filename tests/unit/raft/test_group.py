"""RaftGroup on pysyncobj: each hazard that the adapter closes, and what a nemesis must not be able to break."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from tests.sim.world.disk import SimDisk
from tests.unit.harness.raft import FAST, GROUP, SMALL_SNAPSHOTS, STEP, Cluster, PowerCut, ProcessStopped, Recorder
from txnstatus.errors import NotTheLeader, OutcomeUnknown
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import messages
from txnstatus.raft.group import RaftGroup
from txnstatus.raft.journal import Journal
from txnstatus.raft.proposals import Proposal
from txnstatus.raft.replica import MAX_BATCH_BYTES
from txnstatus.raft.segments import JournalCorrupt
from txnstatus.raft.settings import RaftSettings
from txnstatus.raft.snapshot import SnapshotCorrupt
from txnstatus.raft.transfer import PART_BYTES


@pytest.fixture
def compacting(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A cluster whose nodes write a snapshot every few entries."""
    return Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)


def kinds(sent: list[tuple[str, pb.RaftMessage]]) -> list[str | None]:
    return [message.WhichOneof("body") for _, message in sent]


# ---- ordinary running


def test_a_cluster_elects_one_leader_and_replicates(cluster: Cluster) -> None:
    made = cluster.commit(20, batch=3)
    assert [sent.outcome for sent in made] == list(range(1, 21))
    cluster.run_until(cluster.converged)
    assert [node.applied for node in cluster.up] == [[s.command for s in made]] * 3


def test_a_group_of_one_leads_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, size=1)
    cluster.commit(5)
    cluster.restart("n0")
    cluster.commit(5)
    cluster.settle()


def test_large_commands_make_a_snapshot_before_many_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal is in memory until a snapshot holds it: a count of entries alone does not bound it."""
    cluster = Cluster(monkeypatch, settings=replace(FAST, snapshot_bytes=20_000))
    for number in range(40):
        sent = cluster.propose(cluster.leader(), b"%d" % number + b"x" * 4_000)
        cluster.run_until(lambda sent=sent: sent.outcome is not None and cluster.converged())  # type: ignore[misc]
        assert all(node.live.journal.bytes <= 20_000 + 3 * 4_100 for node in cluster.up)
    assert all(node.has_snapshot for node in cluster.up)
    cluster.restart(cluster.leader())
    cluster.settle()


def test_what_only_repeats_a_majority_can_wait(cluster: Cluster) -> None:
    cluster.commit(5)
    cluster.run(0.2)
    leader = cluster.leader()
    group = cluster[leader].live
    echo = max(group.elections._echoes.values())

    def can_wait(**changes: object) -> bool:
        fields: dict[str, object] = {"next_index": group.commit_index + 1, "success": True, "echo_micros": echo}
        reply = pb.RaftMessage.AppendReply(**{**fields, **changes})  # type: ignore[arg-type]
        return group.can_wait(pb.RaftMessage(group=GROUP, term=group.term, append_reply=reply))

    assert can_wait()
    assert can_wait(next_index=2, echo_micros=0)
    assert not can_wait(next_index=group.commit_index + 2), "it may commit an entry"
    assert not can_wait(echo_micros=echo + 1), "it may renew the lease"
    assert not can_wait(success=False), "the follower wants something"
    assert not can_wait(reset=True)
    acknowledged = pb.RaftMessage.AppendReply(next_index=2, success=True)
    assert not group.can_wait(pb.RaftMessage(group=GROUP, term=group.term + 1, append_reply=acknowledged))
    assert not group.can_wait(pb.RaftMessage(group=GROUP, term=group.term, stale_term={}))
    follower = cluster[cluster.followers()[0]].live
    assert not follower.can_wait(pb.RaftMessage(group=GROUP, term=follower.term, append_reply=acknowledged))


def test_what_is_proposed_together_is_one_entry(cluster: Cluster) -> None:
    leader = cluster.leader()
    before = cluster[leader].live.journal[-1].idx
    cluster.commit(50, via=leader, batch=50)
    assert cluster[leader].live.journal[-1].idx == before + 1


def test_a_batch_is_cut_below_the_limit_of_an_entry(cluster: Cluster) -> None:
    leader = cluster.leader()
    before = cluster[leader].live.journal[-1].idx
    for number in range(4):
        cluster.propose(leader, b"%d" % number + bytes(MAX_BATCH_BYTES // 2 - 100))
    cluster.run_until(lambda: all(sent.acknowledged for sent in cluster.sent))
    assert cluster[leader].live.journal[-1].idx == before + 2


def test_a_command_that_no_entry_can_hold_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="at most"):
        cluster[cluster.leader()].live.propose(Proposal([bytes(MAX_BATCH_BYTES + 1)]))


@pytest.mark.parametrize("size", [131_011, 131_012, 131_014, 131_016, 131_017])
def test_r19_commands_around_pysyncobjs_chunk_size_go_through(cluster: Cluster, size: int) -> None:
    """Pins: `appendEntriesBatchSizeBytes` far above any entry of ours. At 131,072 some sizes would fail."""
    cluster.propose(cluster.leader(), b"x" * size)
    cluster.settle()
    assert cluster.history[0] == b"x" * size


def test_the_largest_command_goes_through_whole(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.propose(leader, b"x" * MAX_BATCH_BYTES)
    cluster.settle()
    assert cluster.history[0] == b"x" * MAX_BATCH_BYTES


def test_an_empty_command_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch, size=1)
    cluster.run_until(cluster.leaders)
    proposal = Proposal([b""])
    cluster["n0"].live.propose(proposal)
    cluster.step()
    cluster["n0"].live.tick()
    assert proposal in cluster["n0"].live.take_done()
    assert cluster["n0"].applied == [b""]


def test_a_group_of_one_shows_nothing_before_its_own_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a majority at once: whoever read from memory would see what a power cut takes back, or lead by it."""
    cluster = Cluster(monkeypatch, size=1)
    group, node = cluster["n0"].live, cluster["n0"]
    while not group.is_leader:
        cluster.now += STEP
        group.tick()
    for _ in range(3):
        group.tick()
        assert not group.is_ready, "the entry with which it began to lead, and its vote, are on no disk"
    group.journal.sync()
    assert group.idle_seconds() == 0.0, "it goes on at once"
    group.tick()
    assert group.is_ready
    proposal = Proposal([b"command"])
    group.propose(proposal)
    for _ in range(3):
        group.tick()
        assert (node.applied, group.take_done()) == ([], [])
    group.journal.sync()
    assert group.idle_seconds() == 0.0
    group.tick()
    assert (node.applied, group.take_done()) == ([b"command"], [proposal])


@pytest.mark.parametrize("seed", range(5))
def test_a_group_of_one_loses_nothing_that_was_acknowledged(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The power fails between any two steps of a cycle."""
    cluster = Cluster(monkeypatch, seed=seed, size=1)
    cluster.crash_chance = 0.02
    for _ in range(300):
        while cluster["n0"].group is None:
            cluster.start("n0")
        cluster.propose("n0")
        cluster.step()
    assert sum(sent.acknowledged for sent in cluster.sent) >= 30
    cluster.settle()


def test_settings_that_cannot_work_are_refused() -> None:
    for heartbeat, promise, lowest, highest, says in (
        (0.3, 0.8, 0.8, 1.6, "must be less than a third"),
        (0.1, 1.1, 1.0, 2.0, "at most election_min_seconds"),
        (0.1, 0.5, 1.0, 1.0, "must be less than election_max_seconds"),
        (0.1, 0.5, 2.0, 1.0, "must be less than election_max_seconds"),
    ):
        with pytest.raises(ValueError, match=says):
            RaftSettings(heartbeat, promise, lowest, highest)


def test_leadership_is_handed_over_without_waiting_for_a_time_out(cluster: Cluster) -> None:
    leader = cluster.leader()
    cluster.commit(3)
    cluster.run_until(cluster.converged)
    cluster[leader].live.hand_over()
    assert not cluster[leader].live.has_lease, "its lease ends with the hand-over"
    since = cluster.now
    others = [node_id for node_id in cluster.ids if node_id != leader]
    cluster.run_until(lambda: any(cluster[node_id].live.is_ready for node_id in others))
    assert cluster.now - since < FAST.election_min_seconds
    cluster.settle()


def test_a_closed_group_answers_all_it_was_given(cluster: Cluster) -> None:
    leader = cluster.leader()
    taken, queued = cluster.propose(leader), cluster.propose(leader)
    cluster[leader].live.tick()
    waiting = cluster.propose(leader)
    cluster[leader].live.close()
    assert [type(sent.proposal.error) for sent in (taken, queued, waiting)] == [OutcomeUnknown] * 3


# ---- hazards


@pytest.mark.parametrize("seed", range(6))
def test_r1_a_snapshot_does_not_commit_a_divergent_tail(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Pins: commit index 0 in snapshot parts. The cut-off leader has entries that the others compacted away."""
    cluster = Cluster(monkeypatch, seed=seed, settings=SMALL_SNAPSHOTS)
    cluster.commit(3)
    old = cluster.leader()
    cluster.isolate(old)
    divergent = [cluster.propose(old) for _ in range(3)]
    for _ in divergent:
        cluster.step()
    new = cluster.leader([node_id for node_id in cluster.ids if node_id != old])
    cluster.commit(60, via=new)
    assert cluster[new].live.journal[0].idx > cluster[old].live.journal[-1].idx, "the entries it needs are gone"
    cluster.settle()
    assert cluster[old].machine is not None
    assert cluster[old].machine.restored >= 1
    for sent in divergent:
        assert isinstance(sent.proposal.error, OutcomeUnknown)
        assert sent.command not in cluster.history


@pytest.mark.parametrize("seed", range(4))
def test_r2_a_power_cut_between_snapshot_and_trimming_loses_nothing(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Pins: journal and snapshot are aligned at start; pysyncobj would clear a journal that begins before its snapshot.

    The follower's journal is then the only one with the last acknowledged entries: of those who had them, it alone
    comes back.
    """
    cluster = Cluster(monkeypatch, seed=seed, settings=SMALL_SNAPSHOTS)
    leader, (follower, other) = cluster.leader(), cluster.followers()
    cluster.isolate(other)
    node = cluster[follower]
    node.holds_jobs = True

    def acknowledged_beyond_the_snapshot() -> int:
        if node.live.journal[0].idx > 1 or not node.has_snapshot:
            return 0
        return sum(sent.acknowledged for sent in cluster.sent) - len(node.applied)

    while acknowledged_beyond_the_snapshot() <= 0:
        cluster.propose(leader)
        cluster.step()
        assert node.live.journal[0].idx == 1, "it trimmed its journal before it could be stopped"
    tail, node.holds_jobs = node.live.journal[-1], False
    for node_id in (leader, follower):
        cluster.crash(node_id)
    cluster.heal()
    cluster.start(follower)
    assert node.live.journal[-1] == tail
    cluster.leader([follower, other])
    cluster.settle()


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("operation", ["create", "rename", "sync_directory", "unlink"])
def test_r3_a_power_cut_while_the_journal_is_trimmed_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, size: int, operation: str
) -> None:
    """Pins: trimming drops whole segments; pysyncobj would clear the file and add the rest one by one."""
    cluster = Cluster(monkeypatch, size=size, settings=SMALL_SNAPSHOTS)
    leader = cluster.leader()
    cluster.commit(30)

    def before(asked: str, path: Path) -> None:
        if asked == operation and "journal" in str(path):
            raise PowerCut

    for node in cluster.up:
        node.disk.before = before
    while cluster[leader].group is not None and 2 * len(cluster.up) > size:  # without most of them nothing is trimmed
        cluster.propose(leader)
        cluster.step()
    assert sum(sent.acknowledged for sent in cluster.sent) >= 30
    for node in cluster.nodes.values():
        node.disk.before = lambda _operation, _path: None
        if node.group is not None:
            cluster.crash(node.node_id)
    cluster.settle()


def test_r4_a_compaction_keeps_the_state(compacting: Cluster) -> None:
    """Pins: our Serializer. pysyncobj with a journal and no dump file discards the state in its first compaction."""
    compacting.commit(60)
    compacting.run_until(lambda: all(node.live.journal[0].idx > 1 for node in compacting.up))
    for node_id in compacting.ids:
        compacting.crash(node_id)
    for node_id in compacting.ids:
        compacting.start(node_id)
    compacting.settle()
    assert len(compacting.history) == 61


def test_a_snapshot_is_told_with_its_size_and_age(compacting: Cluster) -> None:
    node = compacting[compacting.leader()]
    written = node.live.compaction
    opened = written.age
    compacting.commit(60)
    compacting.run_until(lambda: written.completed > 0)
    assert written.age < opened + written.seconds
    assert written.bytes == node.disk.size(node.directory / "snapshot")


def test_r5_an_append_that_comes_late_takes_nothing_back(cluster: Cluster) -> None:
    """Pins: truncation on a real conflict only. pysyncobj cuts at every AppendEntries, matching or not."""
    leader, (follower, _) = cluster.leader(), cluster.followers()
    captured: list[pb.RaftMessage] = []

    def tap(sender: str, receiver: str, message: pb.RaftMessage) -> bool:
        if (sender, receiver) == (leader, follower) and message.append_entries.entries:
            captured.append(message)
        return True

    cluster.tap = tap
    cluster.commit(10, via=leader)
    cluster.run_until(cluster.converged)
    node = cluster[follower]
    before = node.live.journal[:]
    assert len(captured) >= 5
    for message in captured:
        node.live.receive(leader, message)
        assert node.live.journal[:] == before
    assert not node.live.journal.dirty
    cluster.restart(follower)
    assert node.live.journal[:] == before
    cluster.settle()


def test_r6_an_exception_in_the_state_machine_ends_the_process(cluster: Cluster) -> None:
    """Pins: fail-stop. pysyncobj would apply the entry again at every tick, for ever."""
    cluster.may_stop = True
    leader = cluster.leader()
    cluster.propose(leader, b"poison")
    with pytest.raises(ProcessStopped):
        cluster.run(1.0)
    assert len(cluster.stopped) == 1
    assert "a fault in the state machine" in cluster.stopped[0]
    assert GROUP in cluster.stopped[0]


def test_r7_a_deposed_leader_has_no_lease_while_another_one_has(cluster: Cluster) -> None:
    """Pins: the lease that answered messages give. The harness checks after every cycle that no two hold one."""
    old = cluster.leader()
    cluster.isolate(old)
    others = [node_id for node_id in cluster.ids if node_id != old]
    new = cluster.leader(others)
    assert cluster[new].live.has_lease
    assert not cluster[old].live.has_lease
    cluster.settle()


def test_r7_a_lease_ends_before_anybody_else_can_be_elected(cluster: Cluster) -> None:
    """Pins: the lease runs from when the answered message was sent, and is shorter than the promise it rests on."""
    leader = cluster.leader()
    cluster.run(1.0)
    cluster.isolate(leader)
    since = cluster.now
    cluster.run_until(lambda: not cluster[leader].live.has_lease)
    assert cluster.now - since < FAST.election_min_seconds
    assert not any(cluster[node_id].live.is_leader for node_id in cluster.ids if node_id != leader)


def test_r7_a_leader_that_nobody_answers_steps_down(cluster: Cluster) -> None:
    """Pins: the fallback time is an election time-out, and not pysyncobj's 30 s."""
    leader = cluster.leader()
    cluster.isolate(leader)
    cluster.run(2 * FAST.election_max_seconds)
    assert not cluster[leader].live.is_leader


def test_r7_one_way_cuts_give_no_lease_either(cluster: Cluster) -> None:
    """Pins: the lease counts answers. What the leader sends and nobody receives proves nothing."""
    leader = cluster.leader()
    cluster.run(0.5)
    for other in cluster.ids:
        if other != leader:
            cluster.cut.add((other, leader))
    cluster.run(FAST.election_min_seconds)
    assert not cluster[leader].live.has_lease
    cluster.settle()


@pytest.mark.parametrize("damage", [b"", b"not a snapshot", None])
def test_r9_a_node_whose_snapshot_does_not_read_refuses_to_start(compacting: Cluster, damage: bytes | None) -> None:
    """Pins: alignment reads the snapshot before Raft does. pysyncobj would log it, and run empty."""
    follower = compacting.followers()[0]
    compacting.commit(40)
    compacting.run_until(lambda: compacting[follower].has_snapshot)
    compacting.crash(follower)
    path = compacting[follower].directory / "snapshot"
    disk = compacting[follower].disk
    disk.overwrite(path, disk.read(path)[:-40] if damage is None else damage)
    with pytest.raises(SnapshotCorrupt, match="remove its data directory"):
        compacting.start(follower)


def test_r9_a_node_that_lost_its_snapshot_refuses_to_start(compacting: Cluster) -> None:
    """Pins: a journal that was trimmed needs its snapshot."""
    follower = compacting.followers()[0]
    compacting.commit(40)
    compacting.run_until(lambda: compacting[follower].live.journal[0].idx > 1)
    compacting.crash(follower)
    compacting[follower].disk.unlink(compacting[follower].directory / "snapshot")
    with pytest.raises((SnapshotCorrupt, JournalCorrupt), match="missing"):
        compacting.start(follower)


class Alone:
    """One member of a group of three, whose messages the test writes itself."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        self.disk = SimDisk(random.Random(0))
        monkeypatch.setattr("pysyncobj.syncobj.monotonicTime", lambda: self.now)
        self.start()

    def start(self) -> None:
        self.group = RaftGroup(
            GROUP,
            "b",
            ["a", "b", "c"],
            Recorder("b", [], lambda: None),
            Path("/raft"),
            FAST,
            lambda: self.now,
            self.disk,
            never_here=True,
        )

    def crash(self) -> None:
        self.disk.lose_power()
        self.start()

    def receive(self, sender: str, **body: object) -> None:
        self.group.receive(sender, pb.RaftMessage(group=GROUP, **body))  # type: ignore[arg-type]

    def cycle(self) -> list[tuple[str, pb.RaftMessage]]:
        self.group.tick()
        early = self.group.take_early()
        self.group.journal.sync()
        return early + self.group.take_late()


def vote_request(term: int, index: int = 1, log_term: int = 0, *, transfer: bool = False) -> dict[str, object]:
    request = pb.RaftMessage.RequestVote(last_log_index=index, last_log_term=log_term, leadership_transfer=transfer)
    return {"term": term, "request_vote": request}


def append(term: int, *entries: pb.LogEntry, prev: tuple[int, int] = (1, 0), commit: int = 1) -> dict[str, object]:
    body = pb.RaftMessage.AppendEntries(
        commit_index=commit, prev_log_index=prev[0], prev_log_term=prev[1], entries=entries, sent_micros=123
    )
    return {"term": term, "append_entries": body}


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Alone:
    return Alone(monkeypatch)


def test_r1_a_part_of_a_snapshot_says_nothing_of_the_receivers_own_entries(alone: Alone) -> None:
    """Pins: to pysyncobj a part is a message with commit index 0. It would commit the receiver's own tail."""
    alone.receive("a", **append(5, pb.LogEntry(index=2, term=5, command=b"\1")))
    alone.cycle()
    part = pb.RaftMessage.SnapshotPart(last_index=90, last_term=6, size=1000, data=b"x", sent_micros=1)
    alone.receive("c", term=6, snapshot_part=part)
    alone.cycle()
    assert (alone.group.term, alone.group.leader) == (6, "c")
    assert alone.group.commit_index == 1


def test_r10_term_and_vote_survive_a_crash(alone: Alone) -> None:
    """Pins: term and vote are in the journal. With them forgotten, a node votes twice in one term."""
    alone.now += FAST.election_min_seconds
    alone.receive("a", **vote_request(5))
    assert kinds(alone.cycle()) == ["response_vote"]
    alone.crash()
    assert alone.group.term == 5
    alone.now += FAST.election_min_seconds
    alone.receive("c", **vote_request(5))
    assert alone.cycle() == [], "its vote of this term is given"


def test_r10_a_vote_leaves_only_after_the_sync(alone: Alone) -> None:
    """Pins: votes are late messages; and the term and the vote wait for the sync that comes before those."""
    alone.now += FAST.election_min_seconds
    alone.receive("a", **vote_request(5))
    alone.group.tick()
    assert alone.group.take_early() == []
    assert alone.group.journal.dirty
    alone.crash()
    assert alone.group.term == 0, "the vote was not durable, and nobody has heard of it"


def test_r16_an_acknowledgement_leaves_only_after_the_sync(alone: Alone) -> None:
    """Pins: acknowledgements are late messages. pysyncobj syncs nothing, ever."""
    alone.receive("a", **append(1, pb.LogEntry(index=2, term=1, command=b"\0")))
    alone.group.tick()
    assert alone.group.take_early() == []
    assert alone.group.journal.dirty
    found = Journal(alone.disk, alone.group.journal.directory, GROUP)
    assert found[:] == alone.group.journal[:1], "what a process that started now would find"
    alone.group.journal.sync()
    assert kinds(alone.group.take_late()) == ["append_reply"]


def test_r15_nothing_is_ever_unpickled(compacting: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins: our messages, entries and snapshots. pysyncobj unpickles what reaches its port."""

    def refuse(*_arguments: object) -> None:
        raise AssertionError("a pickle")

    for name in ("loads", "load", "dumps", "dump"):
        monkeypatch.setattr(f"pysyncobj.syncobj.pickle.{name}", refuse)
    follower = compacting.followers()[0]
    compacting.crash(follower)
    compacting.commit(60)
    compacting.replace(follower, "new")
    compacting.settle()


def test_r7_a_node_does_not_vote_soon_after_it_heard_from_a_leader(alone: Alone) -> None:
    """Pins: the promise that the leader's lease rests on; also right after a start, when it may have been given."""
    alone.receive("a", **append(4))
    alone.cycle()
    alone.crash()
    alone.receive("c", **vote_request(5))
    assert alone.cycle() == [], "it has just started"
    alone.receive("a", **append(6))
    alone.cycle()
    alone.now += FAST.election_min_seconds * 0.9
    alone.receive("c", **vote_request(7))
    assert alone.cycle() == []
    assert alone.group.term == 6, "the request did not even raise the term"
    alone.now += FAST.election_min_seconds * 0.2
    alone.receive("c", **vote_request(7))
    assert "response_vote" in kinds(alone.cycle())


def test_a_leader_that_hands_over_is_no_reason_not_to_vote(alone: Alone) -> None:
    alone.receive("a", **append(6))
    alone.cycle()
    alone.receive("c", **vote_request(7, transfer=True))
    assert kinds(alone.cycle()) == ["response_vote"]


def test_a_late_request_to_take_over_does_not_break_the_promise_of_others(alone: Alone) -> None:
    """A voter ignores its promise for a hand-over, so only a hand-over of the present leader may call itself one.

    The request is one of a leader of an earlier term; this node's own election time-out ends in the same tick.
    """
    alone.group.connected("a")
    alone.group.connected("c")
    alone.receive("a", **append(6))
    alone.cycle()
    alone.now += 2 * FAST.election_max_seconds
    assert kinds(alone.cycle()) == ["pre_vote", "pre_vote"]
    alone.receive("a", term=7, pre_vote_reply=pb.RaftMessage.PreVoteReply(granted=True))
    alone.receive("c", term=3, timeout_now=pb.RaftMessage.TimeoutNow())
    requests = [message.request_vote for _, message in alone.cycle() if message.WhichOneof("body") == "request_vote"]
    assert len(requests) == 2
    assert not any(request.leadership_transfer for request in requests)


def test_r12_what_a_follower_is_given_fails_there_and_goes_nowhere(cluster: Cluster) -> None:
    """Pins: no forwarding. pysyncobj's answers to forwarded commands go astray after a restart, or never come."""
    follower = cluster.followers()[0]
    leader = cluster.leader()
    sent = cluster.propose(follower, b"through a follower")
    cluster.run(1.0)
    assert sent.ended
    assert isinstance(sent.proposal.error, NotTheLeader)
    assert sent.proposal.error.leader == leader
    for node in cluster.up:
        assert all(b"through a follower" not in entry.command for entry in node.live.journal[:])
    cluster.settle()


def test_r12_a_forwarded_command_is_dropped_and_has_no_wire_form(alone: Alone) -> None:
    """Pins: only messages that the adapter knows cross the wire."""
    alone.group._queue_message("a", {"type": "apply_command", "command": b"x"})
    assert alone.cycle() == []
    for kind in ("apply_command", "apply_command_response"):
        with pytest.raises(ValueError, match=kind):
            messages.encode(GROUP, {"type": kind, "command": b"x"}, 1)
    with pytest.raises(ValueError, match="does not know"):
        messages.decode(pb.RaftMessage(group=GROUP, term=1))


@pytest.mark.parametrize("term_offset", [-1, 1])
def test_r13_an_acknowledgement_of_another_term_counts_for_nothing(cluster: Cluster, term_offset: int) -> None:
    """Pins: acknowledgements carry the term. A stale one would commit entries that its sender never saw."""
    leader, followers = cluster.leader(), cluster.followers()
    cluster.run_until(cluster.converged)
    cluster.isolate(leader)
    group = cluster[leader].live
    cluster.propose(leader)
    cluster.step()
    uncommitted, commit_index = group.journal[-1].idx, group.commit_index
    for follower in followers:
        reply = pb.RaftMessage.AppendReply(next_index=uncommitted + 1, success=True, echo_micros=int(cluster.now * 1e6))
        group.receive(follower, pb.RaftMessage(group=GROUP, term=group.term + term_offset, append_reply=reply))
    cluster.step()
    assert group.commit_index == commit_index
    cluster.settle()


def test_r20_a_former_leader_with_a_long_tail_catches_up_at_once_also_under_load(cluster: Cluster) -> None:
    """Pins: a follower tells where the term began that contradicts. pysyncobj tells of one entry at a time, and is put
    back by what was sent meanwhile."""
    former = cluster.leader()
    cluster.commit(5)
    cluster.isolate(former)
    while cluster[former].live.is_leader:
        cluster.propose(former)
        cluster.step()
    tail = cluster[former].live.journal[-1].idx
    assert tail > 30
    others = [node_id for node_id in cluster.ids if node_id != former]
    leader = cluster.leader(others)
    cluster.commit(tail, via=leader)
    for node_id in others:
        cluster[node_id].paused = node_id != leader  # so that nothing commits without the former one
    cluster.heal()
    for _ in range(12):  # a message takes up to two
        cluster.propose(leader)
        cluster.step()
    assert cluster[former].live.journal.has(tail + 1, cluster[leader].live.term)
    cluster.settle()


@pytest.mark.parametrize("seed", range(5))
def test_r16_a_power_cut_of_all_nodes_loses_nothing_that_was_acknowledged(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Pins: sync before acknowledging. The harness truncates each journal to what was synced, and tears the rest."""
    cluster = Cluster(monkeypatch, seed=seed)
    for _ in range(3):
        leader = cluster.leader()
        for _ in range(20):
            cluster.propose(leader)
            cluster.step()
        for node_id in cluster.ids:
            cluster.crash(node_id)
        for node_id in cluster.ids:
            cluster.start(node_id)
    assert sum(sent.acknowledged for sent in cluster.sent) >= 30
    cluster.settle()


# ---- more that went wrong, or could


def test_r8_what_a_deposed_leader_was_given_ends_unknown_and_never_hangs(cluster: Cluster) -> None:
    """Pins: only SUCCESS means applied; all else is OutcomeUnknown. pysyncobj says "changed" of what commits."""
    leader = cluster.leader()
    cluster.isolate(leader)
    made = []
    for _ in range(5):
        made.append(cluster.propose(leader))
        cluster.step()
    cluster.run_until(lambda: all(sent.ended for sent in made))
    assert {type(sent.proposal.error) for sent in made} == {OutcomeUnknown}
    cluster.settle()


def test_what_a_deposed_leader_was_given_ends_once(cluster: Cluster) -> None:
    """Its entries are committed by the next leader, and applied here too: by then the proposer has been answered."""
    leader = cluster.leader()
    cluster.run_until(cluster.converged)
    for node_id in cluster.followers():
        cluster.cut.add((node_id, leader))
    sent = cluster.propose(leader)
    cluster.run_until(lambda: sent.ended)
    cluster.settle()
    assert sent.command in cluster.history
    assert isinstance(sent.proposal.error, OutcomeUnknown)
    assert sent.outcome is None
    assert sent.endings == 1


def test_a_node_with_an_inflated_term_comes_back(cluster: Cluster) -> None:
    """Its leader does not hear of it by way of votes: those are refused as long as there is a leader."""
    follower = cluster.followers()[0]
    cluster.isolate(follower)
    cluster[follower].live.receive("n0", pb.RaftMessage(group=GROUP, term=50, stale_term={}))
    cluster.commit(5)
    cluster.heal()
    cluster.run_until(cluster.converged, limit=5.0)
    assert cluster[cluster.leader()].live.term > 50
    cluster.settle()


def test_a_leader_that_hears_of_a_later_term_steps_down(cluster: Cluster) -> None:
    leader, (follower, _) = cluster.leader(), cluster.followers()
    group = cluster[leader].live
    later = group.term + 7
    group.receive(follower, pb.RaftMessage(group=GROUP, term=later, stale_term={}))
    assert not group.is_leader
    assert group.term == later
    cluster.settle()


def test_news_of_an_earlier_term_changes_nothing(cluster: Cluster) -> None:
    leader, (follower, _) = cluster.leader(), cluster.followers()
    group = cluster[leader].live
    group.receive(follower, pb.RaftMessage(group=GROUP, term=group.term, stale_term={}))
    assert group.is_leader


def test_a_follower_whose_log_is_longer_is_brought_back(cluster: Cluster) -> None:
    """Pins: what a follower asks for is cut to what the leader has. pysyncobj would send entries after none at all."""
    leader, (follower, _) = cluster.leader(), cluster.followers()
    group = cluster[leader].live
    asks = pb.RaftMessage.AppendReply(next_index=group.journal[-1].idx + 50, reset=True)
    group.receive(follower, pb.RaftMessage(group=GROUP, term=group.term, append_reply=asks))
    cluster.commit(3, via=leader)
    cluster.settle()


def test_a_stale_leader_is_told_so(alone: Alone) -> None:
    alone.receive("a", **append(6))
    alone.cycle()
    alone.receive("c", **append(5))
    ((receiver, message),) = alone.cycle()
    assert (receiver, message.WhichOneof("body"), message.term) == ("c", "stale_term", 6)


def test_a_node_that_is_far_behind_gets_a_snapshot(compacting: Cluster) -> None:
    follower = compacting.followers()[0]
    compacting.crash(follower)
    compacting.commit(100)
    compacting.start(follower)
    compacting.run_until(compacting.converged)
    machine = compacting[follower].machine
    assert machine is not None
    assert machine.restored >= 1
    assert machine.applied == compacting.history
    compacting.settle()


def test_a_snapshot_that_was_received_survives_a_power_cut(compacting: Cluster) -> None:
    follower = compacting.followers()[0]
    compacting.crash(follower)
    compacting.commit(100)
    compacting.start(follower)
    compacting.run_until(compacting.converged)
    compacting.restart(follower)
    compacting.settle()


def test_a_new_node_with_an_empty_disk_gets_everything(compacting: Cluster) -> None:
    """What the refusals to start tell people to do."""
    follower = compacting.followers()[0]
    compacting.commit(60)
    compacting.crash(follower)
    compacting[follower].disk.wipe(compacting[follower].directory)
    compacting.settle()


def test_a_snapshot_sent_twice_takes_back_nothing_that_was_acknowledged(compacting: Cluster) -> None:
    """A follower that lags answers several heartbeats with "send from here"; each may start the transfer anew.

    The second copy arrives when the follower has acknowledged entries beyond it, which the leader has counted.
    """
    leader, (follower, _) = compacting.leader(), compacting.followers()
    compacting.crash(follower)
    compacting.commit(100, via=leader)
    compacting.start(follower)
    parts: list[pb.RaftMessage] = []

    def tap(sender: str, receiver: str, message: pb.RaftMessage) -> bool:
        if receiver == follower and message.WhichOneof("body") == "snapshot_part":
            parts.append(message)
        return True

    compacting.tap = tap
    compacting.run_until(compacting.converged)
    compacting.commit(3, via=leader)
    compacting.run_until(compacting.converged)
    node, acknowledged = compacting[follower], compacting[follower].live.journal[-1].idx
    assert parts[0].snapshot_part.offset == 0
    for part in parts:
        if part.term == node.live.term:
            node.inbox.append((leader, part))
    compacting.cycle(follower)
    assert node.live.journal[-1].idx == acknowledged
    compacting.settle()


@pytest.mark.parametrize("which", ["first", "middle", "last"])
@pytest.mark.parametrize("lost", ["snapshot_part", "snapshot_reply"])
def test_a_part_of_a_snapshot_that_got_lost_does_no_harm(
    monkeypatch: pytest.MonkeyPatch, which: str, lost: str
) -> None:
    """Links may drop messages: a transfer with a hole must neither end the process nor replace a good snapshot."""
    cluster = Cluster(monkeypatch, settings=SMALL_SNAPSHOTS)
    leader, (follower, _) = cluster.leader(), cluster.followers()
    cluster.crash(follower)
    for number in range(20):
        cluster.propose(leader, b"%d " % number + b"x" * 50_000)
        cluster.step()
    cluster.run_until(lambda: all(sent.acknowledged for sent in cluster.sent))
    cluster.start(follower)
    dropped: list[pb.RaftMessage] = []
    sent: list[int] = []
    size = 0

    def drop_one(_sender: str, _receiver: str, message: pb.RaftMessage) -> bool:
        nonlocal size
        part, reply = message.snapshot_part, message.snapshot_reply
        size = part.size or size
        if part.data:
            sent.append(part.offset)
        end = part.offset + len(part.data) if part.data else reply.offset
        first = part.offset == 0 if part.data else 0 < reply.offset <= PART_BYTES
        kind = "first" if first else "last" if end == size else "middle"
        if message.WhichOneof("body") == lost and (part.data or reply.offset) and kind == which and not dropped:
            dropped.append(message)
            return False
        return True

    cluster.tap = drop_one
    cluster.run_until(cluster.converged)
    assert len(dropped) == 1
    assert len(set(sent)) >= 4
    cluster.settle()


def test_entries_lost_on_the_way_are_sent_again(cluster: Cluster) -> None:
    """Pins: nextIndex is not moved back at every acknowledgement, and still follows what a follower asks for."""
    leader, (follower, _) = cluster.leader(), cluster.followers()
    lost = 0

    def drop_every_other(sender: str, receiver: str, message: pb.RaftMessage) -> bool:
        nonlocal lost
        if receiver == follower and message.append_entries.entries:
            lost += 1
            return lost % 2 == 0
        return True

    cluster.tap = drop_every_other
    cluster.commit(30, via=leader)
    cluster.run_until(cluster.converged)
    assert lost > 5
    cluster.settle()


def test_a_commit_has_no_messages_of_its_own(cluster: Cluster) -> None:
    cluster.commit(1)
    cluster.settle()
    appends: list[int] = []

    def count(_sender: str, _receiver: str, message: pb.RaftMessage) -> bool:
        if message.HasField("append_entries"):
            appends.append(len(message.append_entries.entries))
        return True

    cluster.tap = count
    began, heartbeats = cluster.now, 0.0
    for _ in range(20):
        cluster.commit(1)
    heartbeats = (cluster.now - began) / FAST.heartbeat_seconds
    assert sum(appends) == 20 * 2, "every entry went to both followers, once"
    assert len(appends) <= 2 * (20 + heartbeats + 1), "and no message was sent but entries and heartbeats"


def test_a_replica_is_idle_until_its_next_heartbeat_or_election(alone: Alone, monkeypatch: pytest.MonkeyPatch) -> None:
    """pysyncobj's clock is CLOCK_MONOTONIC_RAW, which may be seconds away from `time.monotonic`."""
    for offset in (-7.0, 7.0):
        monkeypatch.setattr("pysyncobj.syncobj.monotonicTime", lambda offset=offset: alone.now + offset)
        alone.crash()
        alone.cycle()
        idle = alone.group.idle_seconds()
        assert FAST.election_min_seconds - 0.01 <= idle <= FAST.election_max_seconds
        alone.now += idle - 0.01
        assert alone.group.idle_seconds() == pytest.approx(0.01)


def test_an_entry_is_sent_to_a_follower_once(cluster: Cluster) -> None:
    """Pins: an acknowledgement does not move nextIndex back to what it acknowledges."""
    leader, (follower, _) = cluster.leader(), cluster.followers()
    cluster.run_until(cluster.converged)
    seen: list[int] = []

    def tap(sender: str, receiver: str, message: pb.RaftMessage) -> bool:
        if (sender, receiver) == (leader, follower):
            seen.extend(entry.index for entry in message.append_entries.entries)
        return True

    cluster.tap = tap
    made = []
    for _ in range(50):
        made.append(cluster.propose(leader))
        cluster.step()
    cluster.run_until(lambda: all(sent.acknowledged for sent in made))
    assert len(seen) == len(set(seen)) == 50
