"""What tables have done before their shards go to other groups is told, undone and restored afterwards, and a database
takes part beside them."""

from __future__ import annotations

from pathlib import Path

from tests.integration.operating.replicas import ctl
from tests.postgres.rig import Host
from tests.postgres.server import PostgresServer
from tests.support import SCHEMA, connect, fast_cluster, rows, visible, wait_until
from txnclient import Client, TxnState
from txnstatus.types import TERMINAL

NAME = "moved"
"""A name of its own: the server was the usual one's of another cluster, if another test was before this one."""
TABLES = [f"{database}.t{number}" for database in "pk" for number in range(3)]


def past(client: Client, at: int | str) -> list[list[int]]:
    with client.snapshot(at) as snapshot:
        return [sorted(snapshot.to_arrow(name)["id"].to_pylist()) for name in TABLES]


def test_tables_have_their_past_and_a_database_beside_them(server: PostgresServer, tmp_path: Path, bill: int) -> None:
    with fast_cluster(tmp_path / "cluster", nodes=1) as cluster, connect(cluster) as client:
        for name in TABLES:
            client.create_table(name, SCHEMA, primary_key=["id"] if name.startswith("k") else [])
        with client.transaction() as first:
            first.mark("source", 1, expected=None)
            first.write_all({name: rows(1, 2) for name in TABLES})
        client.savepoint("before", TABLES)
        second = client.write_all({name: rows(3) for name in TABLES})
        shown, then = client.snapshot(), client.last_commit()
        timelines = {name: [each.txn_id for each in client.timeline(table=name)] for name in TABLES}
        with Host(tmp_path, cluster, server, NAME) as host:
            host.start()
            txn = client.begin(keepalive_millis=60_000)
            txn.write_all({name: rows(4) for name in TABLES})
            with txn.postgres(NAME, server.conninfo) as connection:
                connection.execute("INSERT INTO bills VALUES (%s, 'of both')", (bill,))
            assert client.add_group() == "group-1"
            for shard in (0, 1):
                ctl(cluster, "shard", "move", str(shard), "group-1")
            assert f"@{NAME}" in str(client.explain(txn.id))
            txn.commit()
            assert len(server.query("SELECT 1 FROM bills WHERE id = %s", bill)) == 1
            lost = client.begin()
            lost.write_all({name: rows(5) for name in TABLES})
            with lost.postgres(NAME, server.conninfo) as connection:
                connection.execute("INSERT INTO bills VALUES (%s, 'of none')", (bill + 1,))
            lost.abort()
            assert not server.query("SELECT 1 FROM bills WHERE id = %s", bill + 1)
            wait_until(lambda: not client.transactions(set(TxnState) - TERMINAL), "all is over")
        every = len(TABLES)
        assert visible(client, *TABLES) == [[1, 2, 3, 4]] * every
        assert [sorted(shown.to_arrow(name)["id"].to_pylist()) for name in TABLES] == [[1, 2, 3]] * every
        assert (past(client, "before"), past(client, then)) == ([[1, 2]] * every, [[1, 2, 3]] * every)
        for name, before in timelines.items():
            assert [each.txn_id for each in client.timeline(table=name)][: len(before)] == before
        client.undo(second.txn_id)
        assert visible(client, *TABLES) == [[1, 2, 4]] * every
        client.restore("before")
        assert visible(client, *TABLES) == [[1, 2]] * every
        with client.transaction() as txn:
            txn.mark("source", 2, expected=1)
        for shard in (0, 1):
            ctl(cluster, "shard", "move", str(shard), "group-0")
        client.undo(client.write_all({name: rows(6) for name in TABLES}).txn_id)
        assert (visible(client, *TABLES), past(client, then)) == ([[1, 2]] * every, [[1, 2, 3]] * every)
        assert [each.position for each in client.marks()] == [2]
        ctl(cluster, "doctor")
