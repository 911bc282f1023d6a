"""Two of three nodes are gone for good: a new cluster is made of what the third has."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.integration.operating.another_cluster import TABLES, Load, new_nodes, only_leftovers, restore
from tests.support import SCHEMA, connect, fast_cluster, settled, visible, wait_until
from txndeploy.ctl.commands import app

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
