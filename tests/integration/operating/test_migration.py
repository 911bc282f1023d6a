"""Shards go from one group to another while the cluster serves: what is open, read, locked and past goes with them."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

import pyarrow as pa
from typer.testing import CliRunner

from tests import blocks
from tests.integration.operating.replicas import RAFT, Load, ctl, shards
from tests.support import SCHEMA, connect, fast_cluster, rows, settled, visible, wait_until
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster

TABLES = [f"shop.t{number}" for number in range(8)]


def groups(cluster: LocalCluster) -> dict[int, str]:
    """Shard → its group."""
    return {shard: row["group"] for shard, row in shards(cluster).items()}


def test_a_group_is_split_while_it_serves(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, raft=RAFT, participant_shards=4) as cluster, connect(cluster) as client:
        for name in (*TABLES, "t.one", "t.two"):
            client.create_table(name, SCHEMA)
        client.write_all({name: rows(1) for name in TABLES})
        ids = {name: client.table(name).table_id for name in TABLES}
        then = client.snapshot()
        client.savepoint("before", TABLES)
        writes, locks = client.begin(), client.begin()
        for name in TABLES:
            writes.write(rows(2), name)
        locks.lock(TABLES[0], "X")
        with Load(client) as load:
            load.more(5)
            # As docs/operations.md has it.
            for line in blocks.block("docs/operations.md", "txnctl group split").splitlines():
                words = shlex.split(line, comments=True)[1:]
                result = CliRunner().invoke(app, [*words, "--cluster", cluster.addresses])
                assert result.exit_code == 0, result.output
            load.more(5)
        assert load.error is None
        there = groups(cluster)
        assert {shard: there[shard] for shard in range(4)} == {0: "group-0", 1: "group-0", 2: "group-0", 3: "group-1"}
        assert {name: client.table(name).table_id for name in TABLES} == ids, "a table is known by what it was known by"
        assert client.table(next(name for name in TABLES if ids[name].startswith("3."))).placement == "group-1"
        assert [then.to_arrow(name)["id"].to_pylist() for name in TABLES] == [[1]] * len(TABLES)
        locks.commit()
        writes.commit()
        assert visible(client, *TABLES) == [[1, 2]] * len(TABLES)
        assert [client.snapshot(at="before").to_arrow(name)["id"].to_pylist() for name in TABLES] == [[1]] * len(TABLES)
        expected = list(range(len(load.committed)))
        assert [seen[: len(expected)] for seen in visible(client, "t.one", "t.two")] == [expected, expected]
        for node in cluster.configs:
            cluster.kill(node)
        cluster.start()
        assert groups(cluster) == there
        wait_until(lambda: settled(cluster), "all is applied everywhere")
        ctl(cluster, "doctor")


def test_shards_arrive_whoever_dies_on_the_way(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, raft=RAFT, participant_shards=4) as cluster, connect(cluster) as client:
        for name in (*TABLES, "t.one", "t.two"):
            client.create_table(name, SCHEMA)
        assert client.add_group() == "group-1"
        with Load(client) as load:
            load.more(3)
            for turn, (shard, group) in enumerate([(1, "group-1"), (3, "group-1"), (1, "group-0"), (2, "group-1")]):
                leads = cluster.leader("group-0" if turn % 2 else "group-1")
                cluster.arm(leads, f"part.{('before', 'after')[turn // 2]}.{('Arrives', 'Leaves')[turn % 2]}=crash")
                ctl(cluster, "shard", "move", str(shard), group)
                if not cluster.running(leads):
                    cluster.start_node(leads)
                load.more(3)
            there = groups(cluster)
            assert [there[shard] for shard in range(4)] == ["group-0", "group-0", "group-1", "group-1"]
        assert load.error is None
        expected = list(range(len(load.committed)))
        assert [seen[: len(expected)] for seen in visible(client, "t.one", "t.two")] == [expected, expected]


def test_megabytes_of_rows_in_memory_go_along(tmp_path: Path) -> None:
    """No entry of a log has room for them at once: those of an open transaction, and those that are not flushed."""
    draw = random.Random(7)

    def large(first: int) -> pa.Table:
        notes = [draw.randbytes(5_000).hex() for _ in range(100)]
        return pa.table({"id": pa.array(range(first, first + 100), pa.int64()), "note": notes})

    with fast_cluster(tmp_path, nodes=1, participant_shards=2) as cluster, connect(cluster) as client:
        for number in range(8):
            client.create_table(f"t.k{number}", "id bigint, note string", primary_key=["id"])
        name = next(name for number in range(8) if client.table(name := f"t.k{number}").table_id.startswith("1."))
        expected = list(range(300))
        with client.transaction("is not flushed") as txn:
            txn.upsert(name, large(0))
        txn = client.begin("is open")
        for first in (100, 200):
            txn.upsert(name, large(first))
        assert client.add_group() == "group-1"
        for group in ("group-1", "group-0"):
            ctl(cluster, "shard", "move", "1", group, "--timeout", "60")
            assert visible(client, name) == [expected[:100]]
        txn.commit()
        assert visible(client, name) == [expected]


def test_what_cannot_move_is_refused_by_name(tmp_path: Path) -> None:
    with fast_cluster(tmp_path, nodes=1, participant_shards=2) as cluster:
        assert "no shard 7" in ctl(cluster, "shard", "move", "7", "group-0", code=1)
        assert "group-9" in ctl(cluster, "shard", "move", "1", "group-9", code=1)
        ctl(cluster, "shard", "move", "1", "group-0")
        ctl(cluster, "group", "split", "group-0")
        assert "keeps one" in ctl(cluster, "shard", "move", "0", "group-1", code=1)
        assert "nothing to split" in ctl(cluster, "group", "split", "group-0", code=1)
        assert len(set(groups(cluster).values())) == 2, "and no group was added"
