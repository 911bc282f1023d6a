"""Whoever asked is gone before the answer: what was asked for is acted upon all the same."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import txnclient
from tests.faults.history import History, problems
from tests.faults.load import Recorder
from tests.support import FAST_TXN, connect, fast_cluster, wait_until
from txnclient import Client, TxnError, TxnState
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import RaftSection

LABEL = "nobody's"
PATIENT = RaftSection(heartbeat_seconds=0.2, promise_seconds=2.0, election_min_seconds=2.0, election_max_seconds=3.0)
"""Nobody takes over because a disk is slow."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path / "cluster", raft=PATIENT) as running:
        yield running


def test_a_begin_whose_manager_died_expires(cluster: LocalCluster, tmp_path: Path) -> None:
    """Nobody knows its id, so nobody keeps it alive; it must not stay open until the leader changes.

    The manager is killed while the status leader makes the begin durable.
    """
    leader, mark = cluster.leader(), tmp_path / "mark"
    manager = next(node for node in cluster.configs if node != leader)
    cluster.arm(leader, f"status.before.BeginTxns=delay:0@{mark};journal.before_sync=delay:0.5")
    with txnclient.connect(cluster.address(manager), timeout=3.0) as asking:
        thread = threading.Thread(target=_begin_in_vain, args=(asking,))
        thread.start()
        wait_until(mark.exists, "the begin is proposed")
        cluster.kill(manager)
        thread.join(30)
    cluster.arm(leader, "")
    assert cluster.leader() == leader, "a new leadership would have begun anew, and shown nothing"
    with connect(cluster) as client:
        wait_until(lambda: client.transactions(label=LABEL), "it was begun")
        wait_until(lambda: client.transactions(label=LABEL)[0].state is TxnState.ABORTED, "it expires")


def _begin_in_vain(asking: Client) -> None:
    with pytest.raises(TxnError):
        asking.begin(label=LABEL)


def test_a_begin_that_is_repeated_after_its_range_was_filled_answers_the_same_id(tmp_path: Path) -> None:
    history = History()
    txn = FAST_TXN.model_copy(update={"range_span": 10})
    with fast_cluster(tmp_path / "ranges", txn=txn) as ranges, connect(ranges) as client:
        recorder = Recorder(client, history)
        for _ in range(2):
            for number in range(15):
                recorder.begin(f"request {number}")
    assert problems(history) == []
