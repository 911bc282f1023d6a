"""Writes without a transaction of one's own, against real nodes: they are transactions like all others."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.support import FAST_TXN, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import Client, Conflict, InvalidArgument, NotFound, RowsRefused, RowsWritten, TxnAborted, TxnState
from txndeploy.ctl import commands
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]
KEY = ["id"]


def test_files_and_rows_are_visible_when_the_call_returns(client: Client, new_table: NewTable) -> None:
    plain, keyed = new_table(), new_table(primary_key=KEY)
    receipt = client.write(rows(1, 2), plain)
    assert visible(client, plain) == [[1, 2]]
    assert (receipt.tables, receipt.rows) == ((plain,), None)
    client.write(rows(3), plain, mode="overwrite")
    assert visible(client, plain) == [[3]]
    client.truncate(plain)
    assert client.insert(keyed, rows(1, 2)).rows == RowsWritten(2)
    assert client.insert_ignore(keyed, rows(2, 3)).rows == RowsWritten(1, 1)
    client.upsert(keyed, rows(4))
    client.update(keyed, pa.table({"id": [4], "note": ["new"]}))
    client.delete(keyed, pa.table({"id": [1]}))
    assert visible(client, plain, keyed) == [[], [2, 3, 4]]
    at = client.snapshot(receipt.commit_timestamp)
    assert sorted(at.to_arrow(plain)["id"].to_pylist()) == [1, 2]


def test_part_of_a_table_is_replaced(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int", partition_by=["month"])
    months = pa.table({"id": [1, 2, 3], "month": pa.array([1, 1, 2], pa.int32())})
    client.write(months, table)
    client.write(months.slice(0, 1), table, "overwrite_partitions")
    assert visible(client, table) == [[1, 3]]
    client.truncate(table, partition={"month": 2})
    assert visible(client, table) == [[1]]


def test_a_conflict_is_one_and_nothing_of_the_loser_is_left(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=KEY)
    txn = client.begin()
    txn.insert(table, rows(1))
    winner = client.insert(table, rows(1)).txn_id
    with pytest.raises(Conflict) as caught:
        txn.commit()
    assert caught.value.winner == winner
    with pytest.raises(RowsRefused, match="1 of 2 rows"):
        client.insert(table, rows(1, 2))
    with pytest.raises(NotFound):
        client.write(rows(1), "t.nobody_made_it")
    with pytest.raises(InvalidArgument, match="column"):
        client.write(pa.table({"nothing": [1]}), table)
    assert visible(client, table) == [[1]]


def test_listings_show_it_as_what_it_is(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table = new_table()
    receipt = client.write(rows(1), table)
    (found,) = [txn for txn in client.transactions(label="auto-commit") if txn.txn_id == receipt.txn_id]
    assert (found.owner, found.participants) == (client.owner, (table,))
    listed = (
        CliRunner().invoke(commands.app, ["txn", "list", "--cluster", cluster.addresses], env={"COLUMNS": "200"}).output
    )
    (line,) = [line for line in listed.splitlines() if line.strip("│ ").startswith(f"{receipt.txn_id} ")]
    assert "auto-commit" in line


def test_what_is_written_once_is_written_once(client: Client, new_table: NewTable) -> None:
    table = new_table()
    first = client.write(rows(1), table, request_id=f"load {table}")
    again = client.write(rows(1), table, request_id=f"load {table}")
    assert (again.txn_id, again.commit_timestamp, again.tables) == (first.txn_id, first.commit_timestamp, first.tables)
    assert visible(client, table) == [[1]]


@pytest.mark.parametrize("last", ["manifest.put", "make_durable", "fits_a_commit"])
def test_a_process_that_dies_in_the_middle_leaves_nothing(
    cluster: LocalCluster, client: Client, new_table: NewTable, last: str
) -> None:
    """`last`: what it comes to: its files are there, or with a manifest, or durable and about to be committed."""
    table = new_table()
    program = f"""
import os, pyarrow, txnclient
from txnclient.write import files as file_writes
file_writes.{last} = lambda *_, **__: os._exit(9)
with txnclient.connect({cluster.addresses!r}, owner="dies at {last}") as client:
    client.write(pyarrow.table({{"id": [1], "note": ["x"]}}), {table!r})
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 9
    (txn,) = [txn for txn in client.transactions(label="auto-commit") if txn.owner == f"dies at {last}"]
    wait_until(lambda: client.get(txn.txn_id).state is TxnState.ABORTED, "it expires")
    assert visible(client, table) == [[]]
    directory = Path(client.table(table).location.removeprefix("file://"))
    wait_until(lambda: not list(directory.glob("delta_*")), "its files are removed")


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Whoever writes on after an abort has time to hear of it before its files go, on a busy host, too."""
    txn = FAST_TXN.model_copy(update={"zombie_grace_seconds": 60.0})
    with fast_cluster(tmp_path_factory.mktemp("auto"), participant_shards=1, txn=txn) as running:
        yield running


def entries(cluster: LocalCluster) -> dict[str, int]:
    """How many each group has committed."""
    wait_until(lambda: settled(cluster), "all is applied everywhere")
    status = cluster.status(next(iter(cluster.configs)))
    assert status is not None
    return {group.group: group.commit_index for group in status.groups}


def test_it_costs_what_a_transaction_costs(own_cluster: LocalCluster) -> None:
    """Entries of the log, as durable rounds are made of them: none more than a transaction's own.

    They are the begin, what it writes, and the commit, which carries the files of a write by itself. Each table's claim
    goes before its files.
    """
    with connect(own_cluster) as client:
        client.create_table("a.t", "id bigint, note string", primary_key=KEY)
        for table in ("a.free", "a.other"):
            client.create_table(table, "id bigint, note string")

        numbers = itertools.count(100)

        def explicit(table: str, tables: Sequence[str]) -> int:
            with client.transaction(tables=tables) as txn:
                txn.write(rows(next(numbers)), table)
            return txn.id

        def cost(work: Callable[[], int]) -> int:
            """Entries of the group that has all: a busy machine may give the catalog another leader, with an entry."""
            before = entries(own_cluster)
            txn_id = work()
            wait_until(lambda: client.get(txn_id).state is TxnState.COMMITTED, "every participant has heard")
            return entries(own_cluster)["group-0"] - before["group-0"]

        for work, of_the_table in (
            (lambda: client.write(rows(2), "a.t").txn_id, 1),
            (lambda: explicit("a.t", ["a.t"]), 2),
            (lambda: explicit("a.t", ()), 2),
            (lambda: client.write(rows(2), "a.free").txn_id, 0),
            (lambda: client.write_all({"a.free": rows(3), "a.other": rows(3)}).txn_id, 0),
            (lambda: explicit("a.free", ["a.free"]), 1),
            (lambda: explicit("a.free", ()), 2),
            (lambda: client.upsert("a.t", rows(3)).txn_id, 1),
        ):
            assert cost(work) == 2 + of_the_table


def test_of_calls_at_once_with_one_request_id_one_at_most_takes_effect(own_cluster: LocalCluster) -> None:
    with connect(own_cluster) as client, ThreadPoolExecutor(4) as pool:
        client.create_table("a.once", "id bigint, note string")

        def attempt(name: str) -> int:
            try:
                return client.write(rows(1), "a.once", request_id=name).txn_id
            except TxnAborted:
                return -1

        took_effect = 0
        for number in range(5):
            txn_ids = set(pool.map(attempt, [f"once {number}"] * 4)) - {-1}
            assert len(txn_ids) <= 1
            took_effect += len(txn_ids)
        assert visible(client, "a.once") == [[1] * took_effect]


def test_it_outlives_the_leaders(own_cluster: LocalCluster) -> None:
    with connect(own_cluster, timeout=60.0) as client:
        client.create_table("a.through", "id bigint, note string")
        killed = threading.Thread(target=lambda: own_cluster.kill(own_cluster.leader("shard-0")))
        for number in range(10):
            if number == 3:
                killed.start()
            client.write(rows(number), "a.through", timeout=60.0)
        killed.join()
        assert visible(client, "a.through") == [list(range(10))]
