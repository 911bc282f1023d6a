"""A backup is taken under load, and new nodes are made of it: their tables are those of one moment."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.faults.points import BACKUP_POINTS
from tests.integration.operating.another_cluster import (
    TABLES,
    Load,
    examined,
    new_nodes,
    only_leftovers,
    restore,
    txnctl,
)
from tests.support import SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txnclient import Client
from txndeploy.backup import taking
from txndeploy.backup.cut import Cut
from txndeploy.backup.files import Backup
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txnstatus.errors import IllegalState, TxnError

pytestmark = pytest.mark.cluster


@contextmanager
def several_groups(directory: Path) -> Iterator[tuple[LocalCluster, Client]]:
    """A cluster whose tables are in three groups, so that every transaction is in all of them."""
    with fast_cluster(directory, groups=3, participant_shards=3) as cluster, connect(cluster) as client:
        for number, table in enumerate(TABLES):
            client.create_table(table, SCHEMA, placement=f"group-{number}")
        yield cluster, client


def test_a_backup_under_load_becomes_a_cluster_of_other_nodes(tmp_path: Path) -> None:
    with several_groups(tmp_path / "old") as (old, client):
        undone = client.begin("has not committed")
        undone.write(rows(1_000_000), TABLES[0])
        with Load(client) as load:
            load.more(10)
            before = set(load.committed)
            txnctl("backup", "--cluster", old.addresses, str(tmp_path / "backup"))
            after = set(load.begun)
            load.more(10)
        old_id = client.cluster_id
        configs = new_nodes(tmp_path / "new", old, ("n4", "n5", "n6"))
    restore(tmp_path / "backup", configs)
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        assert new.configs.keys() == {"n4", "n5", "n6"}
        assert client.cluster_id.startswith("another.")
        assert client.cluster_id != old_id
        first, *others = visible(client, *TABLES)
        assert others == [first, first], "one transaction is in some tables, and not in others"
        assert before <= set(first) <= after
        wait_until(lambda: client.get(undone.id).state.name == "ABORTED", "what had not committed is aborted", 30)
        with Load(client) as load:  # a number may be there already: rows have no key
            load.more(5)
        more = visible(client, *TABLES)
        assert more[0] == more[1] == more[2]
        assert len(more[0]) >= len(first) + 5
        # What the old cluster wrote after the cut lies in the tables' places, and is nobody's here.
        wait_until(lambda: only_leftovers(new), "the doctor finds nothing else", 60)


def test_a_backup_has_tables_by_the_names_of_its_moment(tmp_path: Path) -> None:
    """A table that was renamed before it, one that has its old name since, and one that is renamed after it."""
    with fast_cluster(tmp_path / "old") as old, connect(old) as client:
        client.create_table("t.one", SCHEMA)
        client.write(rows(1), "t.one")
        client.rename_table("t.one", "t.renamed")
        client.create_table("t.one", SCHEMA)
        client.write(rows(2), "t.one")
        txnctl("backup", "--cluster", old.addresses, str(tmp_path / "backup"))
        client.rename_table("t.one", "t.later")
        client.write(rows(3), "t.later")
        configs = new_nodes(tmp_path / "new", old, ("n4", "n5", "n6"))
    restore(tmp_path / "backup", configs)
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        assert [each.name for each in client.tables()] == ["t.one", "t.renamed"]
        assert visible(client, "t.one", "t.renamed") == [[2], [1]]
        client.rename_table("t.one", "t.later")
        client.rename_table("t.renamed", "t.one")
        client.write(rows(4), "t.one")
        assert visible(client, "t.one", "t.later") == [[1, 4], [2]]
        wait_until(lambda: only_leftovers(new), "the doctor finds nothing else", 60)


def test_backups_while_leaders_die_are_whole_or_fail(tmp_path: Path) -> None:
    with several_groups(tmp_path / "old") as (cluster, client), Load(client) as load:
        for number in range(3):
            load.more(3)
            victim = cluster.leader(f"group-{number}")
            killer = threading.Timer(0.05, cluster.kill, [victim])
            killer.start()
            before = set(load.committed)
            failed = failure_of(client, tmp_path / f"backup {number}")
            assert not isinstance(failed, IllegalState), failed
            if failed is None:
                assert len(before) <= committed_in(Backup(tmp_path / f"backup {number}").cut())
            else:
                assert not (tmp_path / f"backup {number}").exists()
            killer.join()
            cluster.start_node(victim)
            cluster.wait_ready()
        taking.take(client, tmp_path / "backup at last")


def failure_of(client: Client, directory: Path) -> TxnError | None:
    try:
        taking.take(client, directory)
    except TxnError as error:
        return error
    return None


def committed_in(cut: Cut) -> int:
    """Transactions that have committed on the first of the tables."""
    (table,) = (each for shard in cut.shards() for each in shard.tables() if each.name == TABLES[0])
    return len(table.file_sets)


def test_tables_whose_files_are_gone_come_back_with_them(tmp_path: Path) -> None:
    with fast_cluster(tmp_path / "old", nodes=1) as old, connect(old) as client:
        client.create_table("a.one", SCHEMA, primary_key=["id"])
        client.create_table("b.two", SCHEMA, partition_by=["id"])
        with client.transaction() as txn:
            txn.write(rows(1, 2), "a.one")
            txn.write(rows(1, 2), "b.two")
        before = client.snapshot().timestamp
        with client.transaction() as txn:
            txn.upsert("a.one", rows(2, 3))
            txn.delete_where("b.two", "id = 1")
        with client.transaction() as txn:
            txn.write(rows(7), "b.two", "overwrite")
        said = txnctl("backup", "-c", old.addresses, "--data", str(tmp_path / "backup"))
        assert "files of tables" in said
    shutil.rmtree(tmp_path / "old" / "warehouse")
    (config,) = new_nodes(tmp_path / "new", old, ("n9",))
    done = CliRunner().invoke(app, ["node", "restore", str(tmp_path / "backup"), "--config", str(config), "--data"])
    assert done.exit_code == 0, done.output
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        assert visible(client, "a.one", "b.two") == [[1, 2, 3], [7]]
        earlier = client.snapshot(before)
        assert [sorted(earlier.to_arrow(name)["id"].to_pylist()) for name in ("a.one", "b.two")] == [[1, 2], [1, 2]]
        assert examined(new) == ([], [])


KILLED = """
import sys
from txnstatus.process import failpoints
failpoints.arm(sys.argv.pop(1) + "=crash")
from txndeploy.ctl.cli import main
main()
"""


def test_a_killed_txnctl_leaves_nothing_that_is_taken_for_a_backup(tmp_path: Path) -> None:
    with fast_cluster(tmp_path / "old", nodes=1) as cluster, connect(cluster) as client:
        client.create_table("a.one", SCHEMA)
        there = tmp_path / "backups" / "monday"
        for point in BACKUP_POINTS:
            command = [sys.executable, "-c", KILLED, point, "backup", "-c", cluster.addresses, str(there)]
            assert subprocess.run(command, timeout=240, check=False).returncode == -signal.SIGKILL
            assert not there.exists()
        left = list(there.parent.iterdir())
        assert len(left) == 3
        assert all(".unfinished-" in each.name for each in left)
        txnctl("backup", "-c", cluster.addresses, str(there))
        refused = CliRunner().invoke(app, ["backup", "-c", cluster.addresses, str(there)])
        assert refused.exit_code == 1
        assert "is there already" in refused.output
    Backup(there)
    (config,) = new_nodes(tmp_path / "new", cluster, ("n9",))
    without = [each for each in left if not (each / "backup.json").exists()]
    assert len(without) == 2, "the third has all, and had only no name yet"
    for unfinished in without:
        refused = CliRunner().invoke(app, ["node", "restore", str(unfinished), "--config", str(config)])
        assert refused.exit_code == 1
        assert "is no backup" in refused.output
    restore(there, [config])
