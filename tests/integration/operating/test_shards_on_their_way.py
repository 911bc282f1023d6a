"""What one hears, and what may go on, while a shard is on its way to another group, for as long as that takes."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.integration.operating.another_cluster import only_leftovers
from tests.integration.operating.replicas import ctl, is_served
from tests.support import SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txnclient import Client
from txndeploy.backup import taking
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import shard_group
from txnstatus.errors import Unavailable
from txnstatus.proto import admin_pb2

TABLES = [f"shop.t{number}" for number in range(6)]


@contextmanager
def on_its_way(cluster: LocalCluster, client: Client, shard: int, group: str) -> Iterator[None]:
    """It has left its group within the block, and arrives after it."""
    for node in cluster.configs:
        cluster.arm(node, "part.before.Arrives=error")
    asked = admin_pb2.MigrateShardRequest(shard=shard, group=group)
    client.call("txnstatus.Admin/MigrateShard", asked, admin_pb2.MigrateShardResponse)
    wait_until(lambda: not is_served(cluster, shard), "it has left")
    yield
    for node in cluster.configs:
        cluster.arm(node, "")
    wait_until(lambda: is_served(cluster, shard), "it has come")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with fast_cluster(tmp_path_factory.mktemp("cluster"), nodes=1, http=True) as running:
        with connect(running) as client:
            for name in TABLES:
                client.create_table(name, SCHEMA)
            assert client.add_group() == "group-1"
        yield running


def shard_of(client: Client, table: str) -> int:
    return int(client.table(table).table_id.partition(".")[0])


def test_one_is_told_of_it_and_of_all_else(cluster: LocalCluster) -> None:
    """An explanation took ten seconds for each table, and nothing said what was amiss."""
    with connect(cluster) as client:
        txn = client.begin(keepalive_millis=60_000)
        client.write_all({name: rows(1) for name in TABLES})
        for name in TABLES:
            txn.write(rows(2), name)
        shard = shard_of(client, TABLES[0])
        told = f"{shard_group(shard)} is on its way to group-1"
        with on_its_way(cluster, client, shard, "group-1"):
            assert f"{told}: its tables wait" in ctl(cluster, "health", code=1)
            waited = ctl(cluster, "shard", "move", str(shard), "group-1", "--timeout", "0.1", code=1)
            assert "the cluster goes on with it: txnctl shard list" in waited
            client.timeout = 2.0
            began = time.monotonic()
            explained = str(client.explain(txn.id))
            assert time.monotonic() - began < 2 * 2.0
            silent = [name for name in TABLES if f"{name} does not answer" in explained]
            told_of = {each.name: each.state for each in client.participants(txn.id)}
            assert {name for name, state in told_of.items() if state is None} == set(silent)
            client.timeout = 30.0
            address = f"http://{cluster.configs['n1'].http_address}/console/api/transactions/{txn.id}"
            with urlopen(address, timeout=30) as answer:
                shown = json.load(answer)
            assert f"{silent[0]} does not answer" in str(shown["explanation"]["story"])
            top = json.loads(ctl(cluster, "top", "--json", "--timeout", "1"))
            assert [each["id"] for each in top["live"]] == [txn.id]
            assert told in top["troubles"][0]["what"]
            assert "who waits for a lock is not known" in top["troubles"][1]["what"]
            told = f"no leader of {shard_group(shard)}, which is on its way to group-1, answered"
            assert told in ctl(cluster, "table", "show", TABLES[0], "--timeout", "1", code=1)
        assert silent == [name for name in TABLES if shard_of(client, name) == shard]
        txn.commit()
        assert visible(client, *TABLES) == [[1, 2]] * len(TABLES)


def test_a_backup_waits_for_it_or_says_so(cluster: LocalCluster, tmp_path: Path) -> None:
    with connect(cluster) as client, connect(cluster, timeout=0.5) as hurried:
        shard = shard_of(client, TABLES[1])
        group = client.table(TABLES[1]).placement
        goes = {"group-0": "group-1", "group-1": "group-0"}[group]
        with on_its_way(cluster, client, shard, goes):
            with pytest.raises(Unavailable, match=f"{shard_group(shard)} is on its way to {goes}"):
                taking.take(hurried, tmp_path / "backup")
            assert not list(tmp_path.iterdir())
        taking.take(client, tmp_path / "backup", with_data=True)
    wait_until(lambda: only_leftovers(cluster), "the doctor finds nothing")
