"""A node that is stopped hands over what it leads, and no program notices; one that is killed is replaced soon."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.load import WRITERS, Load, table_of
from tests.support import SCHEMA, connect, fast_cluster, wait_until
from txndeploy.local.cluster import LocalCluster
from txndeploy.node.config import RaftSection
from txnstatus.proto import admin_pb2

PATIENT = RaftSection(election_min_seconds=8.0, election_max_seconds=12.0)
"""Whoever waits for a time-out is seen to."""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path / "cluster", raft=PATIENT) as running, connect(running) as client:
        for writer in range(WRITERS):
            client.create_table(table_of(writer), SCHEMA)
        yield running


def takeovers(cluster: LocalCluster) -> dict[str, admin_pb2.Takeover]:
    """How each group's leader came to lead."""
    statuses = [cluster.status(node) for node in cluster.configs if cluster.running(node)]
    return {group.group: group.takeover for status in statuses if status for group in status.groups if group.leader}


def test_nodes_are_stopped_under_load_without_a_failed_call(cluster: LocalCluster) -> None:
    with Load(cluster) as load:
        for node in (cluster.leader(), cluster.leader("catalog"), cluster.leader()):
            load.goes_on()
            led = {group.group for group in _status(cluster, node).groups if group.leader}
            assert cluster.stop_node(node) == 0
            cluster.wait_ready()
            assert {takeovers(cluster)[group].silence_seconds for group in led} <= {0.0}, "nobody waited for a time-out"
            load.goes_on()
            cluster.start_node(node)
            wait_until(lambda: cluster.status(node), "it serves again")  # noqa: B023 it returns before the next one
    assert not load.failed, load.failed
    load.check_nothing_is_lost()


def test_a_node_that_is_killed_is_replaced_without_waiting_for_a_time_out(cluster: LocalCluster) -> None:
    with Load(cluster) as load:
        for _ in range(2):
            load.goes_on()
            killed = cluster.leader()
            cluster.kill(killed)
            began = time.monotonic()
            load.goes_on()
            assert time.monotonic() - began < PATIENT.election_min_seconds / 2
            took = takeovers(cluster)["group-0"]
            assert PATIENT.promise_seconds <= took.silence_seconds < PATIENT.election_min_seconds / 2
            cluster.start_node(killed)
            cluster.wait_ready()
    assert not load.failed, load.failed
    load.check_nothing_is_lost()


def test_a_program_comes_to_the_node_that_leads_and_leaves_it_with_its_leadership(cluster: LocalCluster) -> None:
    with connect(cluster) as client:

        def is_beside_the_leader() -> bool:
            client.begin().abort()
            return client.session.channel.nearest == cluster.address(cluster.leader())

        wait_until(is_beside_the_leader, "the program asks the node that leads")
        led = cluster.leader()
        assert cluster.stop_node(led) == 0
        cluster.wait_ready()
        wait_until(is_beside_the_leader, "it asks the new one")
        cluster.start_node(led)


def _status(cluster: LocalCluster, node: str) -> admin_pb2.GetNodeResponse:
    status = cluster.status(node)
    assert status is not None
    return status
