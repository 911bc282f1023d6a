"""The timeline on a real cluster, where records are forgotten within seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support import FAST_TXN, fast_cluster, rows, visible, wait_until
from txnclient import Client, Conflict, Forgotten, IllegalState, Past, TableChange
from txndeploy.local.cluster import LocalCluster
from txnstatus.lake import timeline

pytestmark = pytest.mark.cluster
RETENTION_MS = 4_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    short = {"retention_ms": RETENTION_MS}
    with fast_cluster(tmp_path_factory.mktemp("timeline"), txn=FAST_TXN.model_copy(update=short)) as running:
        yield running


def found(client: Client, txn_id: int) -> Past:
    (past,) = [each for each in client.timeline() if each.txn_id == txn_id]
    return past


def is_forgotten(client: Client, txn_id: int) -> bool:
    try:
        client.get(txn_id)
    except Forgotten:
        return True
    return False


def test_what_is_forgotten_is_there_with_what_it_did(client: Client) -> None:
    """Also what the leader of a time has written that is no more."""
    client.create_table("air.plain", "id bigint, note string")
    client.create_table("air.keyed", "id bigint NOT NULL, note string", primary_key=["id"])
    client.write(rows(1, 2), "air.plain")
    begun = datetime.now(UTC) - timedelta(seconds=1)
    with client.transaction("nightly") as done:
        done.write(rows(3, 4, 5), "air.plain")
        done.delete_where("air.plain", "id = 1")
        done.upsert("air.keyed", pa.table({"id": pa.array([1], pa.int64()), "note": ["x"]}))
    winner, loser = client.begin("first"), client.begin("second")
    for txn in (winner, loser):
        assert txn.snapshot.to_arrow("air.plain").num_rows == 4
        txn.write(rows(9), "air.plain", mode="overwrite")
    winner.commit()
    with pytest.raises(Conflict):
        loser.commit()
    assert found(client, done.id).label == "nightly", "it is told at once, too"
    for txn in (done, winner, loser):
        wait_until(lambda txn=txn: is_forgotten(client, txn.id), "it is forgotten")
    past = found(client, done.id)
    assert (past.state, past.owner, past.label) == ("COMMITTED", client.owner, "nightly")
    assert done.receipt is not None
    assert past.commit_timestamp == done.receipt.commit_timestamp
    assert begun < past.began <= past.ended < datetime.now(UTC) + timedelta(seconds=1)
    assert past.tables == (TableChange("air.keyed", 0, 0, 0, 1), TableChange("air.plain", 3, 1, 1, 0))
    lost = found(client, loser.id)
    assert (lost.state, lost.abort_code, lost.winner, lost.conflicts) == (
        "ABORTED",
        "CONFLICT",
        winner.id,
        ("air.plain",),
    )
    assert {each.txn_id for each in client.timeline(label="second")} == {loser.id}
    assert {each.txn_id for each in client.timeline(table="air.keyed")} == {done.id}
    assert {done.id, winner.id, loser.id} <= {each.txn_id for each in client.timeline(since=begun)}
    assert client.timeline(until=begun - timedelta(hours=1)) == []
    assert client.timeline(since=datetime.now(UTC) + timedelta(hours=1)) == []


def test_what_is_forgotten_is_undone_by_what_is_written_down(cluster: LocalCluster, client: Client) -> None:
    """An aborted one, and one that nobody wrote down, are told as such; who is in the way is known from there, too."""
    tables = ("air.undone", "air.undone_by_key")
    client.create_table(tables[0], "id bigint, note string")
    client.create_table(tables[1], "id bigint NOT NULL, note string", primary_key=["id"])
    client.write_all({table: rows(1, 2, 3) for table in tables})
    with client.transaction() as load:
        for table in tables:
            load.write(rows(4, 5), table)
            load.delete_where(table, "id = 1")
    beside = client.write_all({table: rows(6) for table in tables}).txn_id
    clean = client.delete_where(tables[1], "id = 2").txn_id
    changed = client.update_where(tables[1], {"note": "'changed'"}, "id = 3").txn_id
    (aborted := client.begin()).abort()
    for txn_id in (load.id, beside, clean, changed, aborted.id):
        wait_until(lambda txn_id=txn_id: is_forgotten(client, txn_id), "it is forgotten")
    undo = client.undo(load.id)
    assert undo.tables == tables
    assert visible(client, *tables) == [[1, 2, 3, 6], [1, 3, 6]]
    with pytest.raises(Conflict, match=f"transaction {load.id} cannot be undone") as refused:
        client.undo(load.id)
    assert refused.value.winner == undo.txn_id
    client.undo(undo.txn_id)
    assert visible(client, *tables) == [[2, 3, 4, 5, 6], [3, 4, 5, 6]]
    again = client.update_where(tables[1], {"note": "'again'"}, "id = 3").txn_id
    wait_until(lambda: is_forgotten(client, again), "it is forgotten")
    with pytest.raises(Conflict) as refused:
        client.undo(changed)
    assert refused.value.winner == again
    with pytest.raises(IllegalState, match="is ABORTED"):
        client.undo(aborted.id)
    uris = timeline.files(cluster.warehouse, 0, 1 << 62)
    files = [Path(uri.removeprefix("file://")) for uri in uris if timeline.find(uri, clean)]
    for file in files:
        file.rename(file.with_suffix(".aside"))
    with pytest.raises(Forgotten):
        client.undo(clean)
    for file in files:
        file.with_suffix(".aside").rename(file)
    client.undo(clean)
    assert visible(client, *tables) == [[2, 3, 4, 5, 6], [2, 3, 4, 5, 6]]


def test_nothing_is_forgotten_while_the_storage_takes_no_file(cluster: LocalCluster, client: Client) -> None:
    """Also once another leader has come, which does not know how far the former one was; then all is written down."""
    client.create_table("air.kept", "id bigint, note string")
    folder = Path(cluster.warehouse.removeprefix("file://")) / timeline.FOLDER
    aside, first = folder.with_name("aside"), client.write(rows(0), "air.kept").txn_id
    wait_until(folder.exists, "something is written down")
    folder.rename(aside)
    folder.write_text("in the way")
    kept = [client.write(rows(number), "air.kept").txn_id for number in range(1, 4)]
    cluster.kill(leader := cluster.leader())
    cluster.start_node(leader)
    cluster.wait_ready()
    log = cluster.log_path(cluster.leader())
    told = "how far what has ended is written down is not known yet"
    wait_until(lambda: told in log.read_text(), "the new leader tells")
    ended = max(each.last_transition_micros for each in client.transactions(ids=kept))
    wait_until(lambda: time.time_ns() // 1_000 > ended + 2 * RETENTION_MS * 1_000, "their time is over", 60)
    assert not any(is_forgotten(client, txn_id) for txn_id in kept)
    folder.unlink()
    aside.rename(folder)
    for txn_id in kept:
        wait_until(lambda txn_id=txn_id: is_forgotten(client, txn_id), "it is forgotten")
    assert {each.txn_id for each in client.timeline(table="air.kept")} == {first, *kept}


def test_no_leader_that_dies_leaves_a_gap(cluster: LocalCluster, client: Client) -> None:
    client.create_table("air.many", "id bigint, note string")
    receipts = []
    for number in range(3):
        receipts += [client.write(rows(number), "air.many", label=f"round {number}") for _ in range(3)]
        leader = cluster.leader()
        cluster.kill(leader)
        cluster.start_node(leader)
        cluster.wait_ready()
    ids = {each.txn_id for each in receipts}
    for txn_id in ids:
        wait_until(lambda txn_id=txn_id: is_forgotten(client, txn_id), "it is forgotten")
    told = [each.txn_id for each in client.timeline(table="air.many")]
    assert sorted(told) == sorted(ids)
