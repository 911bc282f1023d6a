"""Which followers a leader asks at once, and which it spares for a while."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.harness.raft import STEP, Cluster
from txnstatus.proto import raft_pb2 as pb
from txnstatus.raft import replica

GATHERED = 20 * STEP
ENTRIES = 30


@pytest.fixture(params=[3, 5])
def cluster(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(replica, "SPARE_SECONDS", GATHERED)
    return Cluster(monkeypatch, size=request.param)


class Count:
    """Messages with entries, by their receiver."""

    def __init__(self, cluster: Cluster) -> None:
        self.messages: Counter[str] = Counter()
        cluster.tap = self._see

    def _see(self, _sender: str, receiver: str, message: pb.RaftMessage) -> bool:
        if message.append_entries.entries:
            self.messages[receiver] += 1
        return True

    def asked(self) -> set[str]:
        """The members that got most entries one by one."""
        return {receiver for receiver, count in self.messages.items() if count > ENTRIES / 2}


def steady(cluster: Cluster) -> str:
    """The leader, once everybody has everything."""
    cluster.settle()
    return cluster.leader()


def test_as_many_get_an_entry_at_once_as_a_majority_needs_and_the_others_what_has_gathered(cluster: Cluster) -> None:
    leader = steady(cluster)
    count = Count(cluster)
    cluster.commit(ENTRIES, via=leader)
    assert len(count.asked()) == len(cluster.ids) // 2
    spared = set(cluster.ids) - count.asked() - {leader}
    assert all(count.messages[node] <= ENTRIES * STEP / GATHERED + 2 for node in spared)
    cluster.run(GATHERED + 5 * STEP)  # no heartbeat of the leader's brings it: it was sent something meanwhile
    assert all(cluster[node].live.journal[-1].idx == cluster[leader].live.journal[-1].idx for node in spared)


def test_when_those_who_were_asked_keep_silent_the_others_are_asked_in_time_and_from_then_on_first(
    cluster: Cluster,
) -> None:
    leader = steady(cluster)
    count = Count(cluster)
    cluster.commit(ENTRIES, via=leader)
    silent = sorted(count.asked())[0]
    cluster.isolate(silent)
    began = cluster.now
    cluster.commit(1, via=leader)
    assert cluster.now - began < GATHERED + 10 * STEP
    count.messages.clear()
    began = cluster.now
    cluster.commit(ENTRIES, via=leader, batch=1)
    assert cluster.now - began < (ENTRIES + 10) * STEP, "nobody waits for those who are asked late"
    cluster.heal()
    cluster.settle()
