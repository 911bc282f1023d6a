"""Transactions over tables of three groups, one of whose shards leaves for another group at any step of the commit,
whoever dies then."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.operating.replicas import RAFT, ctl, is_served
from tests.support import SCHEMA, commit_until_known, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import Client
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import shard_group
from txnstatus.proto import admin_pb2

GROUPS = ("group-0", "group-1", "group-2")
PLAIN = [f"p.t{group[-1]}" for group in GROUPS]
KEYED = [f"k.t{group[-1]}" for group in GROUPS]
TABLES = (*PLAIN, *KEYED)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    options = {"groups": 3, "participant_shards": 6, "raft": RAFT}
    with fast_cluster(tmp_path_factory.mktemp("cluster"), **options) as running:
        with connect(running) as client:
            for table in TABLES:
                key = ["id"] if table in KEYED else []
                client.create_table(table, SCHEMA, primary_key=key, placement=f"group-{table[-1]}")
        yield running


def goes(client: Client, table: str) -> int:
    """The table's shard leaves for the next group; returns its number."""
    info = client.table(table)
    shard, now = int(info.table_id.partition(".")[0]), GROUPS.index(str(info.placement))
    asked = admin_pb2.MigrateShardRequest(shard=shard, group=GROUPS[(now + 1) % 3])
    client.call("txnstatus.Admin/MigrateShard", asked, admin_pb2.MigrateShardResponse)
    return shard


@pytest.mark.parametrize(
    ("number", "point"),
    list(
        enumerate(
            [
                "status.before_participate=crash",
                "status.after_participate=crash",
                "status.before.FinalizeCommit=error",
                "shard.before.BeginCommit=error",
                "shard.before.FinalizeCommit=error",
            ]
        )
    ),
)
def test_one_is_in_all_tables_wherever_their_shards_go_as_it_commits(
    cluster: LocalCluster, tmp_path: Path, number: int, point: str
) -> None:
    with connect(cluster) as client:
        txn = client.begin(keepalive_millis=30_000)
        for table in TABLES:
            txn.write(rows(number), table)
        first = tmp_path / "first"
        for node in cluster.configs:
            cluster.arm(node, f"{point}@{first}" if "crash" in point else point)
        committing = threading.Thread(target=txn.start_commit, daemon=True)
        committing.start()
        if "crash" in point:
            wait_until(first.exists, "one dies")
        else:
            wait_until(lambda: client.get(txn.id).state.name != "OPEN", "it commits")
        leaving = TABLES[number % len(TABLES)]
        shard = goes(client, leaving)
        coordinates = cluster.leader("status-0")
        cluster.kill(coordinates)
        for node in cluster.configs:
            if cluster.running(node):
                cluster.arm(node, "")
        for node in cluster.configs:
            if not cluster.running(node):
                cluster.start_node(node)
        committing.join(60)
        commit_until_known(txn)
        assert all(number in seen for seen in visible(client, *TABLES))
        wait_until(lambda: is_served(cluster, shard), f"{shard_group(shard)} has come")


def test_all_is_well_afterwards(cluster: LocalCluster) -> None:
    with connect(cluster) as client:
        first, *others = visible(client, *TABLES)
        assert others == [first] * 5
    wait_until(lambda: settled(cluster), "the replicas are alike")
    ctl(cluster, "doctor")
