"""Nodes die between the steps of a transaction's life: it has one outcome, in all tables, and nothing hangs.

That they die at every failpoint is in test_failpoints.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator

import pytest

from tests.support import (
    SCHEMA,
    commit_until_known,
    connect,
    fast_cluster,
    rows,
    settled,
    visible,
    wait_until,
)
from txnclient import Client, TxnAborted, TxnError, TxnState, Unavailable
from txnclient.transaction.transaction import Transaction
from txndeploy.local.cluster import LocalCluster
from txnstatus.types import DECIDED_COMMIT, TERMINAL

Tables = tuple[str, str, str]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("failover")) as running:
        yield running


@pytest.fixture
def cluster(one: LocalCluster) -> LocalCluster:
    """Whole, whatever a test before did to it."""
    for node in one.configs:
        if one.running(node):
            one.resume(node)
    one.start()
    return one


@pytest.fixture
def tables() -> tuple[str, str, str]:
    """The names of the test's own."""
    database = f"failover_{next(_numbers)}"
    return f"{database}.one", f"{database}.two", f"{database}.three"


def test_the_leader_dies_between_every_two_steps(cluster: LocalCluster, tables: Tables) -> None:
    with connect(cluster) as client:
        for table in tables:
            _create(client, table)
        _kill_and_replace(cluster)
        txn = client.begin(label="survivor")
        _kill_and_replace(cluster)
        for number, table in enumerate(tables):
            txn.write(rows(number), table)
            _kill_and_replace(cluster)
        assert visible(client, *tables) == [[], [], []]
        txn.start_commit()
        _kill_and_replace(cluster)
        receipt = commit_until_known(txn)
        assert receipt.tables == tuple(sorted(tables))
        _kill_and_replace(cluster)
        assert visible(client, *tables) == [[0], [1], [2]]
        wait_until(lambda: client.get(txn.id).state is TxnState.COMMITTED, "the commit is completed")


def test_all_nodes_die_at_once_and_nothing_acknowledged_is_lost(cluster: LocalCluster, tables: Tables) -> None:
    with connect(cluster) as client:
        for table in tables:
            _create(client, table)
        done = [_write_all(client, tables, label="", first_id=10 * number) for number in range(3)]
        receipts = [commit_until_known(txn) for txn in done]
        open_one = _write_all(client, tables, label="still open", first_id=500)
        before = client.snapshot()
        seen = visible(client, *tables)
        for node in cluster.configs:
            cluster.kill(node)
        cluster.start()
        assert visible(client, *tables) == seen
        assert client.snapshot().timestamp >= before.timestamp
        for receipt in receipts:
            assert client.get(receipt.txn_id).commit_timestamp == receipt.commit_timestamp
        commit_until_known(open_one)
        assert [len(ids) for ids in visible(client, *tables)] == [4, 4, 4]
        wait_until(lambda: settled(cluster), "all replicas hold the same state")


def test_a_paused_leader_does_not_answer_from_the_past(cluster: LocalCluster, tables: Tables) -> None:
    """SIGSTOP: the others go on; when it wakes it must not serve what it remembers."""
    with connect(cluster) as client:
        _create(client, tables[0])
        paused = cluster.leader()
        cluster.pause(paused)
        txn = client.begin()
        txn.write(rows(1), tables[0])
        commit_until_known(txn)
        cluster.resume(paused)
        for _ in range(20):
            assert visible(client, tables[0]) == [[1]]
            assert client.get(txn.id).state in DECIDED_COMMIT


def test_without_a_majority_nothing_is_promised(cluster: LocalCluster, tables: Tables) -> None:
    with connect(cluster, timeout=3.0) as client:
        _create(client, tables[0])
        txn = client.begin()
        txn.write(rows(1), tables[0])
        keep = cluster.leader()
        gone = [node for node in cluster.configs if node != keep]
        for node in gone:
            cluster.kill(node)
        with pytest.raises(TxnError) as caught:
            txn.commit(timeout=3)
        assert caught.value.code == "COMMIT_UNKNOWN"
        with pytest.raises(Unavailable):
            client.snapshot()
        for node in gone:
            cluster.start_node(node)
        cluster.wait_ready()
        commit_until_known(txn)
        assert visible(client, tables[0]) == [[1]]


def test_commit_and_abort_race_to_one_outcome(cluster: LocalCluster, tables: Tables) -> None:
    """From two handles at once: exactly one wins, and both hear the same."""
    with connect(cluster) as client:
        for table in tables:
            _create(client, table)
        expected: list[int] = []
        for number in range(25):
            txn = _write_all(client, tables, label="race", first_id=10 * number)
            other = client.join(txn.token())
            heard: dict[str, TxnError | None] = {}
            threads = [
                threading.Thread(target=_try, args=(heard, "commit", txn.commit)),
                threading.Thread(target=_try, args=(heard, "abort", other.abort)),
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            state = client.get(txn.id).state
            if state in DECIDED_COMMIT:
                expected.append(10 * number)
                assert heard["commit"] is None
                assert heard["abort"] is not None
                assert heard["abort"].code == "ILLEGAL_STATE"
            else:
                assert heard["abort"] is None
                assert isinstance(heard["commit"], TxnAborted)
        wait_until(lambda: all(txn.state in TERMINAL for txn in client.transactions()), "all end")
        assert visible(client, tables[0]) == [expected]
        assert [len(ids) for ids in visible(client, *tables)] == [len(expected)] * 3


def test_readers_see_all_or_nothing_while_leaders_die(cluster: LocalCluster, tables: Tables) -> None:
    with connect(cluster) as client, connect(cluster) as reading:
        for table in tables:
            _create(client, table)
        stop, torn, polls = threading.Event(), [], [0]

        def read() -> None:
            while not stop.is_set():
                seen = [len(ids) for ids in visible(reading, *tables)]
                polls[0] += 1
                if len(set(seen)) != 1:
                    torn.append(seen)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for number in range(4):
                txn = _write_all(client, tables, label="", first_id=10 * number)
                txn.start_commit()
                _kill_and_replace(cluster)
                commit_until_known(txn)
        finally:
            stop.set()
            reader.join(60)
        assert not torn
        assert polls[0] >= 4
        assert [len(ids) for ids in visible(client, *tables)] == [4, 4, 4]


def _create(client: Client, table: str) -> None:
    """A create whose answer was lost is answered "exists" the second time."""
    try:
        client.create_table(table, SCHEMA)
    except TxnError as error:
        if error.code != "ALREADY_EXISTS":
            raise


def _write_all(client: Client, tables: Tables, label: str, first_id: int) -> Transaction:
    txn = client.begin(label=label)
    for number, table in enumerate(tables):
        txn.write(rows(first_id + number), table)
    return txn


def _kill_and_replace(cluster: LocalCluster) -> None:
    """kill -9 of the status range's leader; it comes back once the others have a leader."""
    killed = cluster.leader()
    cluster.kill(killed)
    cluster.wait_ready()
    cluster.start_node(killed)
    wait_until(lambda: cluster.status(killed) is not None, f"{killed} answers again")


def _try(heard: dict[str, TxnError | None], name: str, act: object) -> None:
    try:
        act()  # type: ignore[operator]
        heard[name] = None
    except TxnError as error:
        heard[name] = error
