"""Nodes come and go while the cluster serves: drained ones, one that joins and gets replicas, one that leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.operating.replicas import RAFT, Load, ctl, members
from tests.support import SCHEMA, connect, fast_cluster, settled, visible, wait_until
from txndeploy.local.cluster import LocalCluster
from txnstatus.security.tls import VARIABLE


def leaders(cluster: LocalCluster) -> dict[str, str]:
    rows = json.loads(ctl(cluster, "status", "--json"))["groups"]
    return {row["group"]: row["node"] for row in rows if row["role"] == "leader"}


@pytest.mark.parametrize("port", ["0", "65536"])
def test_no_node_is_at_a_port_that_there_is_not(tmp_path: Path, port: str) -> None:
    with fast_cluster(tmp_path, nodes=1) as cluster:
        for command in (("add", "n9"), ("replace", "n1", "n9")):
            told = ctl(cluster, "node", *command, "--address", f"127.0.0.1:{port}", code=1)
            assert f"nobody listens at port {port}" in told
        assert "n9" not in ctl(cluster, "status")


def test_a_drained_node_leads_nothing_until_it_is_undrained(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, raft=RAFT) as cluster, connect(cluster) as client:
        client.create_table("t.one", SCHEMA)
        client.create_table("t.two", SCHEMA)
        with Load(client) as load:
            load.more(5)
            node = cluster.leader()
            assert f"{node} leads nothing." in ctl(cluster, "node", "drain", node)
            assert "drained" in ctl(cluster, "status")
            assert f"node {node} is drained" in ctl(cluster, "health", code=1)
            load.more(10)
            # Not when another one goes either: the third takes over.
            other = cluster.leader()
            assert other != node
            cluster.restart(other)
            load.more(10)
            cluster.restart(node)
            load.more(5)
            wait_until(lambda: len(leaders(cluster)) == 2, "all groups are led")
            assert node not in leaders(cluster).values()
            # Where nobody else can it does, so that a drain costs no group its majority.
            third = next(each for each in cluster.configs if each not in (node, cluster.leader()))
            cluster.kill(third)
            load.more(5)
            cluster.start_node(third)
            ctl(cluster, "node", "undrain", node)
            for each in cluster.configs:
                if each != node:
                    ctl(cluster, "node", "drain", each)
            wait_until(lambda: set(leaders(cluster).values()) == {node}, f"{node} leads again", 30)
            load.more(5)
        assert load.error is None
        expected = list(range(len(load.committed)))
        assert [seen[: len(expected)] for seen in visible(client, "t.one", "t.two")] == [expected, expected]


def test_a_node_joins_gets_replicas_and_another_one_leaves(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, raft=RAFT) as cluster, connect(cluster) as client:
        client.create_table("t.one", SCHEMA)
        client.create_table("t.two", SCHEMA)
        with Load(client) as load:
            load.more(5)
            refused = ctl(cluster, "node", "drain", "n1", "--move", code=1)
            assert "n1 cannot leave" in refused
            address = cluster.add_node("n4")
            ctl(cluster, "node", "add", "n4", "--address", address)
            assert "no replica" in ctl(cluster, "status")
            for _ in range(2):
                cluster.add_group()
            planned = json.loads(ctl(cluster, "rebalance", "--dry-run", "--json"))["moves"]
            assert {move["state"] for move in planned} == {"planned"}
            assert {move["to_node"] for move in planned} <= {"n4"}
            ctl(cluster, "rebalance")
            load.more(5)
            held = [sum(node in said for said in members(cluster).values()) for node in cluster.configs]
            assert max(held) - min(held) <= 1
            assert all(len(said) == 3 for said in members(cluster).values())
            assert "holds replicas" in ctl(cluster, "node", "remove", "n1", code=1)
            ctl(cluster, "node", "drain", "n1", "--move")
            # It said nothing of it, and a node that ran on told who asked it of moves to nodes that were gone.
            assert "Stop n1 if it runs" in ctl(cluster, "node", "remove", "n1")
            wait_until(lambda: cluster.exit_code("n1") is not None, "n1 hears that it is gone, and ends")
            assert cluster.exit_code("n1") == 2
            assert "node n1 is none of cluster" in cluster.log_path("n1").read_text()
            cluster.start_node("n1")
            wait_until(lambda: not cluster.running("n1"), "it does not start again either")
            cluster.forget_node("n1")
            load.more(5)
            assert all(said == {"n2", "n3", "n4"} for said in members(cluster).values())
        assert load.error is None
        wait_until(lambda: settled(cluster), "the replicas are alike", 60)
        expected = list(range(len(load.committed)))
        assert [seen[: len(expected)] for seen in visible(client, "t.one", "t.two")] == [expected, expected]


def test_a_node_that_comes_back_after_another_one_has_its_place_hears_so_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS the others refused it for its certificate, and it went on asking, and dialling, for ever."""
    with fast_cluster(tmp_path, secure=True) as cluster:
        monkeypatch.setenv(VARIABLE, str(cluster.credentials))
        cluster.kill("n1")
        arguments = ["node", "replace", "n1", "n4", "--address", cluster.add_node("n4")]
        ctl(cluster, *arguments)
        cluster.start_node("n1")
        wait_until(lambda: not cluster.running("n1"), "n1 hears that it is gone, and ends")
        assert cluster.exit_code("n1") == 2
        assert "node n1 is none of cluster" in cluster.log_path("n1").read_text()
        cluster.forget_node("n1")
