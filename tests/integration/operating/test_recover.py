"""Two of three nodes are gone for good: a new cluster is made of what the third has."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.integration.operating.another_cluster import TABLES, Load, new_nodes, only_leftovers, restore
from tests.integration.operating.replicas import ctl, is_served
from tests.support import SCHEMA, connect, fast_cluster, rows, settled, visible, wait_until
from txndeploy.ctl.commands import app
from txnstatus.proto import admin_pb2

pytestmark = pytest.mark.cluster


def test_a_cluster_without_a_majority_is_made_anew_of_one_node(tmp_path: Path) -> None:
    backup, asked = tmp_path / "backup", ["node", "recover", "--from", str(tmp_path / "old" / "n1" / "data")]
    with fast_cluster(tmp_path / "old") as old, connect(old) as client:
        for table in TABLES:
            client.create_table(table, SCHEMA)
        with Load(client) as load:
            load.more(10)
        certain = set(load.committed)
        wait_until(lambda: settled(old), "all nodes have the same", 60)
        running = CliRunner().invoke(app, [*asked, str(backup), "--yes"])
        assert (running.exit_code, "stop the node" in running.output) == (1, True)
        with Load(client) as load:
            load.more(5)
            for node in old.configs:
                old.kill(node)
            client.close()
    refused = CliRunner().invoke(app, [*asked, str(backup)], input="n\n")
    assert refused.exit_code == 1
    assert not backup.exists()
    for said in ("up to 20", "nobody can tell how much", "never acknowledged, may take effect", "may run again"):
        assert said in refused.output
    done = CliRunner().invoke(app, [*asked, str(backup), "--yes"])
    assert done.exit_code == 0, done.output
    configs = new_nodes(tmp_path / "new", old, ("n4", "n5", "n6"))
    restore(backup, configs)
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        first, *others = visible(client, *TABLES)
        assert others == [first, first]
        assert certain <= set(first) <= certain | set(load.begun)
        with Load(client) as more:
            more.more(5)
        wait_until(lambda: only_leftovers(new), "the doctor finds nothing else", 60)


@pytest.mark.parametrize("point", ["part.before.Arrives=error", "catalog.before.FinishMigration=crash"])
def test_a_shard_that_was_on_its_way_is_found_on_one_disk(tmp_path: Path, point: str) -> None:
    """It has left the one log, and has not come into the other; or has, and the catalog has not heard of it."""
    with fast_cluster(tmp_path / "old", nodes=1) as old, connect(old) as client:
        for table in TABLES:
            client.create_table(table, SCHEMA)
        shard = int(client.table(TABLES[0]).table_id.partition(".")[0])
        assert client.add_group() == "group-1"
        opened = client.begin()
        opened.write(rows(1_000_000), TABLES[0])
        with Load(client) as load:
            load.more(5)
            old.arm("n1", point)
            asked = admin_pb2.MigrateShardRequest(shard=shard, group="group-1")
            client.call("txnstatus.Admin/MigrateShard", asked, admin_pb2.MigrateShardResponse)
            wait_until(lambda: not is_served(old, shard), "it has left, or all has died")
            if old.running("n1"):
                old.kill("n1")
            client.close()
        certain = set(load.committed)
    backup = tmp_path / "backup"
    done = CliRunner().invoke(app, ["node", "recover", "--from", str(tmp_path / "old/n1/data"), str(backup), "--yes"])
    assert done.exit_code == 0, done.output
    restore(backup, new_nodes(tmp_path / "new", old, ("n4",)))
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        first, *others = visible(client, *TABLES)
        assert others == [first, first]
        assert certain <= set(first) <= certain | set(load.begun)
        with Load(client) as more:
            more.more(3)
        for group in ("group-1", "group-0", "group-1"):
            ctl(new, "shard", "move", str(shard), group)
        with Load(client) as more:
            more.more(3)
        wait_until(lambda: only_leftovers(new), "the doctor finds nothing else", 60)
