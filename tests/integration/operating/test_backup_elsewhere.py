"""Backups that become clusters whose tables are elsewhere, and one that is of no one moment."""

from __future__ import annotations

import json
import shutil
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.integration.operating.another_cluster import examined, new_nodes, txnctl
from tests.support import SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txnclient import Client
from txnclient.compact.worker import Worker
from txndeploy.backup import files, manifest
from txndeploy.backup.files import Backup
from txndeploy.ctl.commands import app

pytestmark = pytest.mark.cluster


def compacted(client: Client, table: str) -> None:
    (asked,) = client.compact(table, kind="major", wait=False)
    assert Worker(client.session, "here", threading.Event(), table).run_once()
    assert client.compactions(table, state="succeeded"), asked


def restored(backup: Path, config: Path, *options: str) -> None:
    txnctl("node", "restore", str(backup), "--config", str(config), *options)


def refused(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 1, done.output
    return " ".join(done.output.split())


def filled(client: Client, lake: Path) -> int:
    """Tables with all that names files: dead rows, rows that were compacted, what was overwritten, rows by key."""
    client.create_table("a.one", SCHEMA, location=(lake / "deep" / "one").as_uri())
    client.create_table("b.two", SCHEMA, primary_key=["id"])
    client.create_table("c.three", SCHEMA, partition_by=["id"])
    client.write(rows(1, 2, 3, 4), "a.one")
    client.write(rows(5, 6), "a.one")
    with client.transaction() as txn:
        txn.upsert("b.two", rows(1, 2))
        txn.write(rows(1, 2), "c.three")
    before = client.snapshot().timestamp
    with client.transaction() as txn:
        txn.delete_where("a.one", "id in (2, 5)")
        txn.upsert("b.two", rows(3))
        txn.write(rows(7), "c.three", "overwrite")
    compacted(client, "a.one")
    with client.transaction() as txn:
        txn.delete_where("a.one", "id = 3")
        txn.delete_where("c.three", "id = 1")
    return before


def test_tables_come_back_in_other_places(tmp_path: Path) -> None:
    lake, backup, moved, names = (
        tmp_path / "lake",
        tmp_path / "backup",
        tmp_path / "moved",
        ("a.one", "b.two", "c.three"),
    )
    with fast_cluster(tmp_path / "old", nodes=1, table_roots=[lake.as_uri()]) as old, connect(old) as client:
        before = filled(client, lake)
        now = visible(client, *names)
        past = client.snapshot(before)
        then = [sorted(past.to_arrow(name)["id"].to_pylist()) for name in names]
        txnctl("backup", "-c", old.addresses, "--data", str(backup))
    assert (now, then) == ([[1, 4, 6], [1, 2, 3], [7]], [[1, 2, 3, 4, 5, 6], [1, 2], [1, 2]])
    warehouse = next(iter(old.configs.values())).warehouse
    new_lake, new_warehouse = tmp_path / "other place" / "lake", tmp_path / "elsewhere"
    roots = ("--root", f"{lake.as_uri()}={new_lake.as_uri()}", "--root", f"{warehouse}={new_warehouse.as_uri()}")
    assert "files of tables" in txnctl("relocate", str(backup), str(moved), *roots)
    assert "is there already" in refused("relocate", str(backup), str(moved), *roots)
    shutil.rmtree(lake)
    shutil.rmtree(tmp_path / "old" / "warehouse")
    (config,) = new_nodes(tmp_path / "new", old, ("n9",), warehouse=new_warehouse.as_uri())
    restored(moved, config, "--data")
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        assert visible(client, *names) == now
        earlier = client.snapshot(before)
        assert [sorted(earlier.to_arrow(name)["id"].to_pylist()) for name in names] == then
        assert examined(new) == ([], [])
        with client.transaction() as txn:
            txn.delete_where("a.one", "id = 4")
            txn.upsert("b.two", rows(9))
            txn.write(rows(8), "c.three")
        compacted(client, "a.one")
        client.create_table("d.four", SCHEMA)
        client.write(rows(1), "d.four")
        assert visible(client, *names, "d.four") == [[1, 6], [1, 2, 3, 9], [7, 8], [1]]
        wait_until(lambda: examined(new) == ([], []), "the doctor finds nothing", 60)
    assert not lake.exists(), "nothing is written where tables were"


def test_what_cannot_be_in_another_place_is_named(tmp_path: Path) -> None:
    lake, without, backup, moved = (tmp_path / name for name in ("lake", "without", "backup", "moved"))
    with fast_cluster(tmp_path / "old", nodes=1, table_roots=[lake.as_uri()]) as old, connect(old) as client:
        client.create_table("a.one", SCHEMA, location=(lake / "one").as_uri())
        client.write(rows(1), "a.one")
        landing = lake / "landing"
        shutil.copytree(lake / "one", landing, ignore=shutil.ignore_patterns("_*"))
        client.import_files("a.one", landing.as_uri())
        txnctl("backup", "-c", old.addresses, str(without))
        txnctl("backup", "-c", old.addresses, "--data", str(backup))
    root = ("--root", f"{lake.as_uri()}={(tmp_path / 'new lake').as_uri()}")
    assert "without the tables' files" in refused("relocate", str(without), str(moved), *root)
    assert f"{landing.as_uri()}/" in (said := refused("relocate", str(backup), str(moved), *root))
    assert "lies outside of its table's place" in said
    assert "no table of the backup is in file:///nowhere" in refused(
        "relocate", str(backup), str(moved), "--root", "file:///nowhere=file:///new"
    )
    assert not moved.exists()
    assert not list(tmp_path.glob("moved*"))
    txnctl("relocate", str(backup), str(moved), "--root", f"{lake.as_uri()}/one={(tmp_path / 'new one').as_uri()}")
    (config,) = new_nodes(tmp_path / "new", old, ("n9",))
    restored(moved, config, "--data")
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        assert visible(client, "a.one") == [[1, 1]], "what lies elsewhere is read where it was"


def without(old: Path, directory: Path, group: str) -> None:
    """A backup that has nothing of one group, as of a node that had no replica of it."""
    shutil.copytree(old, directory)
    (directory / manifest.file_of(group)).unlink()
    (directory / manifest.NAME).unlink()
    said = Backup(old).manifest
    files.seal(directory, replace(said, groups=tuple(each for each in said.groups if each.group != group)))


def torn_of(old: Path, new: Path, directory: Path, group: str) -> None:
    """A backup with the newer state of one group, and the older of all others."""
    shutil.copytree(old, directory)
    shutil.copy(new / manifest.file_of(group), directory)
    older, newer = Backup(old).manifest, Backup(new).manifest
    groups = tuple(
        theirs if ours.group == group else ours for ours, theirs in zip(older.groups, newer.groups, strict=True)
    )
    (directory / manifest.NAME).unlink()
    files.seal(directory, replace(older, groups=groups))


def test_nodes_are_made_of_a_torn_backup_only_when_that_is_said(tmp_path: Path) -> None:
    with fast_cluster(tmp_path / "old", nodes=1, groups=2, participant_shards=2) as old, connect(old) as client:
        for number, table in enumerate(("a.one", "b.two")):
            client.create_table(table, SCHEMA, placement=f"group-{number}")

        def both(number: int) -> int:
            with client.transaction() as txn:
                txn.write(rows(number), "a.one")
                txn.write(rows(number), "b.two")
            return txn.id

        both(1)
        txnctl("backup", "-c", old.addresses, str(tmp_path / "first"))
        torn = both(2)
        wait_until(lambda: client.get(torn).state.name == "COMMITTED", "it is over in both groups", 30)
        txnctl("backup", "-c", old.addresses, str(tmp_path / "second"))
    backup = tmp_path / "torn"
    torn_of(tmp_path / "first", tmp_path / "second", backup, "group-1")
    (config,) = new_nodes(tmp_path / "new", old, ("n9",))
    said = refused("node", "restore", str(backup), "--config", str(config))
    assert "is of no one moment: transaction" in said
    assert not (tmp_path / "new" / "n9" / "data").exists()
    restored(backup, config, "--torn")
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        one, two = visible(client, "a.one", "b.two")
        assert one == [1]
        assert two in ([1], [1, 2]), "one table has more of it than the other"
        with client.transaction() as txn:
            txn.write(rows(3), "a.one")
            txn.write(rows(3), "b.two")
        assert visible(client, "a.one", "b.two") == [[1, 3], [1, 2, 3]]
        kinds = json.loads(CliRunner().invoke(app, ["doctor", "-c", new.addresses, "--json"]).stdout)["findings"]
        assert {each["kind"] for each in kinds} <= {"whole write", "orphan"}


def test_a_group_of_which_nothing_is_left_is_lost_with_its_tables(tmp_path: Path) -> None:
    with fast_cluster(tmp_path / "old", nodes=1, groups=2, participant_shards=2) as old, connect(old) as client:
        for number, table in enumerate(("a.one", "b.two")):
            client.create_table(table, SCHEMA, placement=f"group-{number}")
            client.write(rows(number), table)
        ids = {client.begin(tables=["a.one"]).id for _ in range(3)}
        txnctl("backup", "-c", old.addresses, str(tmp_path / "whole"))
    backup = tmp_path / "torn"
    without(tmp_path / "whole", backup, "group-1")
    (config,) = new_nodes(tmp_path / "new", old, ("n9",))
    assert "group-1 is in the catalog, and not in the cut" in refused(
        "node", "restore", str(backup), "--config", str(config)
    )
    restored(backup, config, "--torn")
    with fast_cluster(tmp_path / "new") as new, connect(new) as client:
        assert [each.name for each in client.tables()] == ["a.one"]
        client.create_table("b.two", SCHEMA, placement="group-1", location=f"{new.warehouse}/b/another")
        with client.transaction() as txn:
            txn.write(rows(2), "a.one")
            txn.write(rows(2), "b.two")
        assert txn.id not in ids
        assert visible(client, "a.one", "b.two") == [[0, 2], [2]]
