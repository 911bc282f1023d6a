"""A shard is split by its tables while the cluster serves: ids, past, locks, open transactions and savepoints stay."""

from __future__ import annotations

import json
import shlex
import threading
from pathlib import Path

from tests import blocks
from tests.integration.operating.replicas import RAFT, Load, ctl, shards
from tests.support import SCHEMA, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient.compact.worker import Worker

TABLES = [f"shop.t{number}" for number in range(6)]


def test_the_one_shard_of_a_cluster_becomes_several(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, raft=RAFT, participant_shards=1) as cluster, connect(cluster) as client:
        for name in (*TABLES, "t.one", "t.two"):
            client.create_table(name, SCHEMA)
        client.write_all({name: rows(1) for name in TABLES})
        ids = {name: client.table(name).table_id for name in TABLES}
        then = client.snapshot()
        client.savepoint("before", TABLES)
        writes, locks, late = client.begin(), client.begin(), client.begin()
        for name in TABLES:
            writes.write(rows(2), name)
        for name in TABLES:
            locks.lock(name, "X")
        with Load(client) as load:
            load.more(5)
            for line in blocks.block("docs/operations.md", "txnctl shard split").splitlines():
                ctl(cluster, *shlex.split(line, comments=True)[1:])
            ctl(cluster, "shard", "split", "0")
            ctl(cluster, "group", "split", "group-0")
            load.more(5)
        assert load.error is None
        found = shards(cluster)
        assert {shard: row["split_off"] for shard, row in found.items() if shard < 3} == {0: None, 1: 0, 2: 0}
        assert found[1]["group"] != found[0]["group"]
        placements = {client.table(name).placement for name in (*TABLES, "t.one", "t.two")}
        assert placements == {"group-0", "group-1"}, "tables went to either"
        assert {name: client.table(name).table_id for name in TABLES} == ids, "a table is known by what it was known by"
        assert [then.to_arrow(name)["id"].to_pylist() for name in TABLES] == [[1]] * len(TABLES)
        locks.commit()
        for name in TABLES:
            late.write(rows(3), name)
        writes.commit()
        late.commit()
        assert visible(client, *TABLES) == [[1, 2, 3]] * len(TABLES)
        assert [client.snapshot(at="before").to_arrow(name)["id"].to_pylist() for name in TABLES] == [[1]] * len(TABLES)
        expected = list(range(len(load.committed)))
        assert [seen[: len(expected)] for seen in visible(client, "t.one", "t.two")] == [expected, expected]
        for number, name in enumerate(TABLES):
            client.rename_table(name, f"shop.n{number}")
            client.create_table(name, SCHEMA)
        assert visible(client, *TABLES) == [[]] * len(TABLES)
        client.release_savepoint("before")
        assert client.savepoints() == []
        for node in cluster.configs:
            cluster.kill(node)
        cluster.start()
        assert visible(client, *(f"shop.n{number}" for number in range(6))) == [[1, 2, 3]] * len(TABLES)
        wait_until(lambda: settled(cluster), "all is applied everywhere")
        ctl(cluster, "doctor")


def test_a_shard_is_split_whoever_dies_on_the_way(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, raft=RAFT, participant_shards=1) as cluster, connect(cluster) as client:
        for name in (*TABLES, "t.one", "t.two"):
            client.create_table(name, SCHEMA)
        with Load(client) as load:
            load.more(3)
            for point in ("before.Leaves", "after.Leaves", "before.Splits", "after.Splits"):
                leads = cluster.leader("group-0")
                cluster.arm(leads, f"part.{point}=crash")
                ctl(cluster, "shard", "split", "0")
                assert not cluster.running(leads)
                cluster.start_node(leads)
                load.more(3)
        assert load.error is None
        assert [*shards(cluster)] == [0, 1, 2, 3, 4]
        expected = list(range(len(load.committed)))
        assert [seen[: len(expected)] for seen in visible(client, "t.one", "t.two")] == [expected, expected]
        assert sorted(table.name for table in client.tables()) == sorted((*TABLES, "t.one", "t.two"))


def test_new_tables_are_in_what_was_split_off_too(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, nodes=1, participant_shards=1) as cluster, connect(cluster) as client:
        ctl(cluster, "shard", "split", "0")
        for name in TABLES:
            client.create_table(name, SCHEMA)
        assert {client.table(name).table_id.split(".")[0] for name in TABLES} == {"0", "1"}
        client.write_all({name: rows(1) for name in TABLES})
        assert visible(client, *TABLES) == [[1]] * len(TABLES)
        for name in TABLES:
            client.drop_table(name)
            client.create_table(name, SCHEMA)
        assert visible(client, *TABLES) == [[]] * len(TABLES)


def test_what_is_asked_by_a_tables_id_finds_it(tmp_path: Path) -> None:
    """Savepoints of a transaction, a compaction that a worker has begun, roles, and counts of the timeline."""
    with fast_cluster(tmp_path, participant_shards=1) as cluster, connect(cluster) as client:
        for name in TABLES:
            client.create_table(name, SCHEMA)
        for number in range(3):
            client.write_all({name: rows(number) for name in TABLES})
        client.grant("reader", "eve", on=TABLES[0])
        client.grant("reader", "eve", on=TABLES[1])
        txn = client.begin()
        txn.write_all({name: rows(7) for name in TABLES})
        txn.savepoint("here")
        asked = [client.compact(name, wait=False)[0].compaction_id for name in TABLES]
        worker = Worker(client.session, "here", threading.Event())
        ctl(cluster, "shard", "split", "0")
        before = {name: client.table(name).table_id for name in TABLES}
        assert {name: id_.split(".")[0] for name, id_ in before.items()} == dict.fromkeys(TABLES, "0")
        txn.write_all({name: rows(8) for name in TABLES})
        txn.rollback_to("here")
        txn.commit()
        assert visible(client, *TABLES) == [[0, 1, 2, 7]] * len(TABLES)
        while worker.run_once():
            pass
        done = {each.compaction_id: each.state for each in client.compactions()}
        assert [done[each] for each in asked] == ["succeeded"] * len(TABLES)
        assert visible(client, *TABLES) == [[0, 1, 2, 7]] * len(TABLES)
        assert {(grant.on, grant.identity) for grant in client.grants()} >= {(TABLES[0], "eve"), (TABLES[1], "eve")}
        client.rename_table(TABLES[0], "shop.renamed")
        wait_until(lambda: ("shop.renamed", "eve") in {(each.on, each.identity) for each in client.grants()}, "moved")
        ctl(cluster, "doctor", "--deep")


def test_which_shard_has_a_table_is_told(tmp_path: Path) -> None:
    """Its id tells where it was made: after a split an operator could not find out which shard to move."""
    with fast_cluster(tmp_path, nodes=1, participant_shards=1) as cluster, connect(cluster) as client:
        for name in TABLES:
            assert client.create_table(name, SCHEMA).shard == 0
        client.write_all({name: rows(1) for name in TABLES})
        ctl(cluster, "shard", "split", "0")
        ctl(cluster, "group", "add")
        shows = {name: json.loads(ctl(cluster, "table", "show", name, "--json"))["table"] for name in TABLES}
        assert {shown["shard"] for shown in shows.values()} == {0, 1}
        goes = next(name for name in TABLES if shows[name]["shard"] == 1)
        assert client.table(goes).table_id.startswith("0.")
        assert f"{goes} is in group-0, shard 1." in ctl(cluster, "table", "show", goes)
        ctl(cluster, "shard", "move", "1", "group-1")
        for name, shown in shows.items():
            assert client.table(name).placement == ("group-1" if shown["shard"] == 1 else "group-0")
        assert client.alter_table(goes, properties={"NO_AUTO_COMPACTION": True}).shard == 1
        assert client.rename_table(goes, "shop.renamed").shard == 1


def test_what_cannot_be_split_is_refused_by_name(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, nodes=1, participant_shards=2) as cluster:
        assert "no shard 7" in ctl(cluster, "shard", "split", "7", code=1)


def test_a_new_table_is_not_made_where_one_of_the_shard_that_was_split_is(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, nodes=1, participant_shards=1) as cluster, connect(cluster) as client:
        client.create_table("shop.busy", SCHEMA)
        location = client.table("shop.busy").location
        others = [f"shop.a{number}" for number in range(4)]
        there = [
            client.create_table(f"shop.in_{name[5:]}", SCHEMA, location=_beside(location, name)) for name in others
        ]
        for number in range(3):
            client.write_all({table.name: rows(number) for table in there})
        ctl(cluster, "shard", "split", "0")
        for name in others:
            client.create_table(name, SCHEMA)
        locations = [table.location for table in client.tables()]
        assert len(set(locations)) == len(locations) == 9
        ctl(cluster, "doctor")


def _beside(location: str, name: str) -> str:
    return f"{location.rpartition('/')[0]}/{name.partition('.')[2]}"
