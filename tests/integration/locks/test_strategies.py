"""Conflict strategies of a user's own, loaded by real nodes: the one of the documentation, and broken ones."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import pytest

from tests import blocks
from tests.support import connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import Client, InternalError, InvalidArgument, Transaction, TxnAborted
from txndeploy.local.cluster import LocalCluster
from txndeploy.node import config

BROKEN = """
import sys
from txnparticipant.locks.strategies import Wait

class Raises:
    def settle(self, asking, in_the_way):
        return 1 / 0

class Exits:
    def settle(self, asking, in_the_way):
        sys.exit(3)

class Nonsense:
    def settle(self, asking, in_the_way):
        return Wait(abort=(10**9,))

RAISES, EXITS, NONSENSE = Raises(), Exits(), Nonsense()
"""
OURS = {
    "priority": "my_strategies:PRIORITY",
    "raises": "my_broken:RAISES",
    "exits": "my_broken:EXITS",
    "nonsense": "my_broken:NONSENSE",
}


def configure(cluster: LocalCluster, node: str, strategies: Mapping[str, str]) -> None:
    changed = cluster.configs[node].model_copy(update={"conflict_strategies": dict(strategies)})
    cluster.configs[node] = changed
    cluster.config_path(node).write_text(config.dump(changed))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    modules = tmp_path_factory.mktemp("modules")
    (modules / "my_strategies.py").write_text(blocks.block("docs/protocol.md", "class Priority"))
    (modules / "my_broken.py").write_text(BROKEN)
    directory = tmp_path_factory.mktemp("strategies")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(modules), prepend=":")
        made = fast_cluster(directory, participant_shards=1)
        for node in list(made.configs):
            configure(made, node, OURS)
        with made as running:
            yield running


def in_background(work: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def waits(client: Client, txn: Transaction) -> bool:
    return any(lock.txn_id == txn.id and not lock.acquired for lock in client.locks())


def test_the_higher_priority_goes_first_and_equals_take_turns(cluster: LocalCluster, client: Client) -> None:
    client.create_table("p.t", "id bigint, note string", conflicts="priority")
    low, high, other = client.begin("hourly"), client.begin("nightly p3"), client.begin("monthly p3")
    low.write(rows(1), "p.t", "overwrite")
    high.write(rows(2), "p.t", "overwrite")
    with pytest.raises(TxnAborted, match=r"wants what it has of p\.t: priority"):
        low.commit()
    late = client.begin("hourly p1")
    threads = [in_background(lambda: other.write(rows(3), "p.t", "overwrite"))]
    wait_until(lambda: waits(client, other), "one of the same priority waits")
    threads.append(in_background(lambda: late.write(rows(4), "p.t")))
    wait_until(lambda: waits(client, late), "so does one of a lower")
    high.commit()
    threads[0].join(20)
    other.commit()
    threads[1].join(20)
    late.commit()
    assert visible(client, "p.t") == [[3, 4]]
    assert client.table("p.t").conflicts == "priority"


def test_it_goes_on_when_the_leader_dies(cluster: LocalCluster, client: Client) -> None:
    client.create_table("p.dies", "id bigint, note string", conflicts="priority")
    low, late, high = (client.begin(label, keepalive_millis=30_000) for label in ("one", "two", "three p9"))
    low.write(rows(1), "p.dies", "overwrite")

    def loses() -> None:
        with pytest.raises(TxnAborted):
            late.write(rows(2), "p.dies", "overwrite")

    thread = in_background(loses)
    wait_until(lambda: waits(client, late), "it waits")
    cluster.kill(cluster.leader("shard-0"))
    high.write(rows(3), "p.dies", "overwrite")
    high.commit()
    thread.join(30)
    assert not thread.is_alive()
    assert visible(client, "p.dies") == [[3]]
    cluster.start()
    wait_until(lambda: settled(cluster), "all replicas have the same state")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("raises", "'raises' raised ZeroDivisionError: division by zero"),
        ("exits", "'exits' raised SystemExit: 3"),
        ("nonsense", "'nonsense' answered with a Wait that is no answer"),
    ],
)
def test_a_broken_one_harms_nobody(cluster: LocalCluster, client: Client, name: str, says: str) -> None:
    table = f"p.{name}"
    client.create_table(table, "id bigint, note string", conflicts=name)
    client.create_table(f"{table}_beside", "id bigint, note string")
    holder, txn = client.begin(), client.begin()
    holder.write(rows(1), table, "overwrite")  # nobody is in the way: it is not asked
    for _ in range(2):
        with pytest.raises(InternalError, match=says) as caught:
            txn.lock_for("insert overwrite", table, strategy=name)
    assert "to be mended" in caught.value.hint
    with pytest.raises(InternalError, match=says):
        client.write(rows(2), table, "overwrite")
    assert not waits(client, txn)
    txn.write(rows(3), f"{table}_beside")
    holder.commit()
    wait_until(lambda: all(lock.txn_id != holder.id for lock in client.locks(table)), "it is free")
    txn.write(rows(2), table)
    txn.commit()
    assert visible(client, table, f"{table}_beside") == [[1, 2], [3]]
    assert all(map(cluster.running, cluster.configs))
    wait_until(lambda: settled(cluster), "all replicas have the same state")


def test_nodes_that_have_it_no_more_say_so_and_hold_the_table_all_the_same(
    cluster: LocalCluster, client: Client
) -> None:
    client.create_table("p.gone", "id bigint, note string", conflicts="priority")
    client.write(rows(1), "p.gone")
    try:
        for node in list(cluster.configs):
            cluster.kill(node)
            configure(cluster, node, {})
        cluster.start()
        with pytest.raises(InvalidArgument, match="no conflict strategy 'priority'; there are") as caught:
            client.write(rows(2), "p.gone")
        assert "[conflict_strategies]" in caught.value.hint
        with pytest.raises(InvalidArgument, match="no conflict strategy 'priority'"):
            client.create_table("p.more", "id bigint", conflicts="priority")
        assert visible(client, "p.gone") == [[1]]
        log = cluster.log_path(cluster.leader("shard-0")).read_text()
        assert "the locks of p.gone cannot be settled: this node has no conflict strategy 'priority'" in log
    finally:
        for node in list(cluster.configs):
            cluster.kill(node)
            configure(cluster, node, OURS)
        cluster.start()
    client.write(rows(3), "p.gone")
    wait_until(lambda: settled(cluster), "all replicas have the same state")


def test_one_node_without_it_does_not_diverge(cluster: LocalCluster, client: Client) -> None:
    client.create_table("p.one", "id bigint, note string", conflicts="priority")
    follower = next(node for node in cluster.configs if node != cluster.leader("shard-0"))
    try:
        cluster.kill(follower)
        configure(cluster, follower, {})
        cluster.start_node(follower)
        low, high = client.begin(), client.begin("now p1")
        low.write(rows(1), "p.one", "overwrite")
        high.write(rows(2), "p.one", "overwrite")
        high.commit()
        cluster.wait_ready()
        wait_until(lambda: settled(cluster), "all replicas have the same state")
    finally:
        cluster.kill(follower)
        configure(cluster, follower, OURS)
        cluster.start()


def test_a_node_does_not_start_with_what_it_cannot_load(cluster: LocalCluster) -> None:
    node = next(node for node in cluster.configs if node != cluster.leader("shard-0"))
    cluster.kill(node)
    try:
        for target, says in (
            ("my_nothing:X", "cannot be loaded: ModuleNotFoundError"),
            ("my_broken:NOTHING", "cannot be loaded: AttributeError"),
            ("my_broken:Raises", "is no strategy"),
        ):
            configure(cluster, node, {**OURS, "priority": target})
            cluster.start_node(node)
            wait_until(lambda: cluster.exit_code(node) is not None, "it ends")
            assert cluster.exit_code(node) == 2
            last = cluster.log_path(node).read_text().splitlines()[-1]
            assert f"conflict_strategies.priority = '{target}' {says}" in last
    finally:
        configure(cluster, node, OURS)
        cluster.start()


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    with connect(cluster) as connected:
        yield connected
