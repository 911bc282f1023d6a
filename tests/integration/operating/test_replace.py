"""A node is dead for good: a new one takes its place in every group, while the cluster serves."""

from __future__ import annotations

from pathlib import Path

from typer.testing import CliRunner

from tests.integration.operating.replicas import RAFT, Load, members
from tests.support import SCHEMA, connect, fast_cluster, settled, visible, wait_until
from txndeploy.ctl.commands import app


def test_a_new_node_takes_a_dead_ones_place_under_load(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, raft=RAFT) as cluster, connect(cluster) as client:
        client.create_table("t.one", SCHEMA)
        client.create_table("t.two", SCHEMA)
        with Load(client) as load:
            load.more(10)
            victim = cluster.leader()
            cluster.kill(victim)
            address = cluster.add_node("n4")
            arguments = ["node", "replace", victim, "n4", "--address", address, "--cluster", cluster.addresses]
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 0, result.output
            assert f"Stop {victim} if it runs" in result.output
            cluster.forget_node(victim)
            load.more(10)
            for group, said in members(cluster).items():
                assert said == set(cluster.configs), group
            # The new node counts: with it, one of the others may die.
            other = next(node for node in cluster.configs if node != "n4")
            cluster.kill(other)
            load.more(10)
            cluster.start_node(other)
        assert load.error is None
        expected = list(range(len(load.committed)))
        wait_until(lambda: settled(cluster), "the replicas are alike", 60)
        assert [seen[: len(expected)] for seen in visible(client, "t.one", "t.two")] == [expected, expected]


def test_a_replacement_waits_for_the_new_node(tmp_path: Path) -> None:
    with fast_cluster(tmp_path) as cluster, connect(cluster) as client:
        victim = next(node for node in cluster.configs if node != cluster.leader("catalog"))
        cluster.kill(victim)
        address = cluster.add_node("n4")
        cluster.kill("n4")
        arguments = ["node", "replace", victim, "n4", "--address", address, "--cluster", cluster.addresses]
        result = CliRunner().invoke(app, [*arguments, "--timeout", "3"])
        assert result.exit_code == 1
        assert "not within 3 s" in result.output
        assert all(victim in said for said in members(cluster).values()), "nobody has left for a node that is not there"
        client.begin().commit()
        cluster.start_node("n4")
        cluster.forget_node(victim)
        wait_until(lambda: all(said == set(cluster.configs) for said in members(cluster).values()), "n4 is in", 60)


def test_a_replacement_is_refused_with_a_reason(tmp_path: Path) -> None:
    with fast_cluster(tmp_path) as cluster:

        def refusal(old: str, new: str, address: str = "127.0.0.1:1") -> str:
            arguments = ["node", "replace", old, new, "--address", address, "--cluster", cluster.addresses]
            result = CliRunner().invoke(app, arguments)
            assert result.exit_code == 1
            return result.output

        assert "no node 'n9'" in refusal("n9", "n4")
        assert "is a node already" in refusal("n1", "n2")
        assert "another node's" in refusal("n1", "n4", cluster.configs["n2"].nodes["n2"].address)
