"""Tables that are dropped: what readers and writers of before and after see, and what becomes of the files."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from tests.support import FAST_TXN, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import (
    Client,
    Conflict,
    IllegalState,
    Locked,
    NotFound,
    SnapshotTooOld,
    Transaction,
    TxnAborted,
    TxnError,
    TxnState,
)
from txndeploy.ctl.commands import app
from txndeploy.local.cluster import LocalCluster
from txnstatus.proto import table_pb2

NewTable = Callable[..., str]
SCHEMA = "id bigint, note string"
RETENTION_SECONDS = 2


def committed(client: Client, table: str, *ids: int) -> None:
    with client.transaction() as txn:
        txn.write(rows(*ids), table)


def path_of(client: Client, table: str) -> Path:
    return Path(unquote(urlparse(client.table(table).location).path))


def files_below(directory: Path) -> list[Path]:
    """Files there, whatever goes meanwhile."""
    return [Path(place, name) for place, _, names in os.walk(directory) for name in names]


def test_a_dropped_table_is_gone_at_once(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    committed(client, table, 1, 2)
    client.drop_table(table)
    said = rf"{table} was dropped by transaction \d+ of '.+' on \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
    for call in (
        lambda: client.table(table),
        lambda: client.snapshot().to_arrow(table),
        lambda: client.begin().write(rows(3), table),
        lambda: client.begin().truncate(table),
        lambda: client.begin().stage(rows(3), table),
        lambda: client.begin().lock(table, "S"),
        lambda: client.write(rows(3), table),
        lambda: client.truncate(table),
        lambda: client.upsert(table, rows(3)),
        lambda: client.drop_table(table),
    ):
        with pytest.raises(NotFound, match=said):
            call()
    client.drop_table(table, ignore_missing=True)
    told = CliRunner().invoke(app, ["table", "drop", table, "--cluster", cluster.addresses])
    assert told.exit_code == 1
    assert f"{table} was dropped by transaction" in told.output
    assert table not in [info.name for info in client.tables()]
    assert visible(client, other) == [[]]


def test_a_table_that_never_was(client: Client) -> None:
    with pytest.raises(NotFound, match=r"t\.never does not exist"):
        client.drop_table("t.never")
    client.drop_table("t.never", ignore_missing=True)


def test_txnctl_drops_a_table(cluster: LocalCluster, client: Client, new_table: NewTable) -> None:
    table = new_table()
    told = CliRunner().invoke(app, ["table", "drop", table, "--cluster", cluster.addresses])
    assert (told.exit_code, told.output) == (0, f"{table} is dropped.\n")
    again = CliRunner().invoke(app, ["table", "drop", table, "--ignore-missing", "--cluster", cluster.addresses])
    assert again.exit_code == 0
    assert table not in [info.name for info in client.tables()]


def test_readers_of_before_go_on_reading(client: Client, new_table: NewTable) -> None:
    table = new_table()
    committed(client, table, 1)
    with client.snapshot() as read, client.snapshot() as unread:
        assert read.to_arrow(table)["id"].to_pylist() == [1]
        client.drop_table(table)
        assert read.to_arrow(table)["id"].to_pylist() == [1]
        assert unread.to_arrow(table)["id"].to_pylist() == [1]
        assert client.snapshot(at=unread.timestamp).to_arrow(table)["id"].to_pylist() == [1]
    assert client.snapshot().timestamp > unread.timestamp


@pytest.mark.parametrize("act", ["write", "overwrite", "stage", "join", "rows"])
def test_what_was_written_before_a_drop_is_refused_at_its_commit(client: Client, new_table: NewTable, act: str) -> None:
    table, other = new_table(primary_key=["id"]), new_table()
    committed(client, table, 1)
    txn = client.begin()
    _write(client, txn, table, act)
    txn.write(rows(5), other)
    client.drop_table(table)
    with pytest.raises(Conflict, match=f"{table} was dropped by transaction") as caught:
        txn.commit()
    assert list(caught.value.objects) == [table]
    assert txn.state() in (TxnState.ABORTED, TxnState.ABORT_IN_PROGRESS)
    assert visible(client, other) == [[]]


def _write(client: Client, txn: Transaction, table: str, act: str) -> None:
    match act:
        case "write" | "overwrite":
            txn.write(rows(7), table, mode="append" if act == "write" else "overwrite")
        case "stage":
            txn.add([txn.stage(rows(7), table)], table)
        case "join":
            client.join(txn.token()).write(rows(7), table)
        case "rows":
            txn.upsert(table, rows(7))


def test_staged_files_do_not_reach_the_table_of_the_same_name(client: Client, new_table: NewTable) -> None:
    """An executor has written for the old table; the driver adds what it wrote when there is a new one."""
    table = new_table()
    txn = client.begin()
    staged = txn.stage(rows(1), table)
    client.drop_table(table)
    client.create_table(table, SCHEMA)
    with pytest.raises(NotFound, match=f"{table} was dropped"):
        txn.add([staged], table)
    with pytest.raises(IllegalState, match=f"{table} was dropped"):
        txn.commit()
    assert visible(client, table) == [[]]


def test_an_older_transaction_stays_out_of_the_new_table(client: Client, new_table: NewTable) -> None:
    table = new_table()
    old = client.begin()
    token = old.token()
    client.drop_table(table)
    client.create_table(table, SCHEMA)
    joined = client.join(token)
    for act in (
        lambda: old.lock(table, "X"),
        lambda: joined.lock(table, "X"),
        lambda: joined.write(rows(1), table),
    ):
        with pytest.raises(IllegalState, match=rf"transaction {old.id} began before the table {table}"):
            act()
    with pytest.raises(TxnAborted, match=f"a write to {table} failed"):
        old.commit()
    committed(client, table, 2)
    assert visible(client, table) == [[2]]


def test_the_new_table_has_nothing_of_the_old_one(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=["id"])
    with client.transaction() as txn:
        txn.upsert(table, rows(1, 2))
    before, old = client.snapshot(), client.table(table)
    assert sorted(before.to_arrow(table)["id"].to_pylist()) == [1, 2]
    client.drop_table(table)
    new = client.create_table(table, "id bigint, size double", primary_key=["id"])
    assert new.table_id != old.table_id
    assert new.location != old.location
    assert client.snapshot().to_arrow(table).num_rows == 0
    with client.transaction() as txn:
        txn.insert(table, pa.table({"id": pa.array([1], pa.int64()), "size": [0.5]}))
    assert client.snapshot().to_arrow(table).to_pylist() == [{"id": 1, "size": 0.5}]
    assert sorted(before.to_arrow(table)["note"].to_pylist()) == ["row 1", "row 2"]


def test_a_lock_is_waited_for(client: Client, new_table: NewTable) -> None:
    table = new_table()
    holder = client.begin()
    holder.lock(table, "S")
    with pytest.raises(Locked, match=str(holder.id)):
        client.drop_table(table, timeout=0.3)
    holder.write(rows(1), table)
    holder.commit()
    client.drop_table(table)


@pytest.mark.parametrize("by_row", [False, True])
def test_a_drop_waits_for_writes_that_lock_by_themselves(client: Client, new_table: NewTable, by_row: bool) -> None:
    """In a table that settles conflicts by locks, a writer is not refused at its commit: the drop waits its turn."""
    table = new_table(conflicts="wait", primary_key=["id"])
    writer = client.begin()
    if by_row:
        writer.upsert(table, rows(1))
    else:
        writer.write(rows(1), table)
    with pytest.raises(Locked, match=str(writer.id)):
        client.drop_table(table, timeout=0.3)
    writer.commit()
    assert visible(client, table) == [[1]]
    client.drop_table(table)
    with pytest.raises(NotFound, match="was dropped"):
        client.table(table)


def test_only_whoever_holds_the_lock_can_drop(client: Client, new_table: NewTable) -> None:
    table = new_table()
    txn = client.begin()
    request = table_pb2.DropTableRequest(txn_id=txn.id, owner=client.owner, table=table)

    def ask() -> None:
        client.call("txnstatus.Table/DropTable", request, table_pb2.DropTableResponse)

    with pytest.raises(IllegalState, match="must be locked in X"):
        ask()
    txn.lock(table, "X")
    txn.write(rows(1), table)
    with pytest.raises(IllegalState, match="has written to"):
        ask()
    txn.commit()
    assert visible(client, table) == [[1]]


def test_a_drop_that_is_given_up_leaves_the_table_as_it_was(client: Client, new_table: NewTable) -> None:
    table = new_table()
    committed(client, table, 1)
    drop, other = client.begin(), client.begin()
    other.write(rows(2), table)
    drop.lock(table, "X")
    request = table_pb2.DropTableRequest(txn_id=drop.id, owner=client.owner, table=table)
    client.call("txnstatus.Table/DropTable", request, table_pb2.DropTableResponse)
    with pytest.raises(Conflict, match="is being dropped by transaction"):
        other.commit()
    assert visible(client, table) == [[1]]
    with pytest.raises(IllegalState, match="nothing else can be done to it"):
        drop.write(rows(9), table)
    drop.abort()
    committed(client, table, 3)
    assert visible(client, table) == [[1, 3]]


def test_commits_beside_a_drop_are_before_it_or_refused(client: Client, new_table: NewTable) -> None:
    """Appends take no lock: they race the drop, and it must not starve either."""
    table = new_table()
    acknowledged: list[int] = []
    numbers = itertools.count()
    started = threading.Barrier(5)

    def append() -> type[TxnError]:
        started.wait()
        while True:
            number = next(numbers)
            try:
                with client.transaction() as txn:
                    txn.write(rows(number), table)
            except (Conflict, NotFound) as error:
                return type(error)
            acknowledged.append(number)
            enough.set()

    enough = threading.Event()
    with ThreadPoolExecutor(4) as pool:
        ends = [pool.submit(append) for _ in range(4)]
        started.wait()
        assert enough.wait(30)
        client.drop_table(table)
        assert {end.result(60) for end in ends} <= {Conflict, NotFound}
    (drop,) = client.transactions(label=f"drop table {table}")
    just_before = client.snapshot(at=drop.commit_timestamp - 1)
    assert sorted(just_before.to_arrow(table)["id"].to_pylist()) == sorted(acknowledged)


@pytest.fixture(scope="module")
def hasty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that keeps nothing for long."""
    txn = FAST_TXN.model_copy(
        update={
            "snapshot_retention_seconds": RETENTION_SECONDS,
            "snapshot_lease_seconds": 1.0,
            "zombie_grace_seconds": 0.2,
            "retention_ms": 0,
            "row_flush_bytes": 1_000,
        }
    )
    roots = [tmp_path_factory.getbasetemp().as_uri()]
    with fast_cluster(tmp_path_factory.mktemp("hasty"), txn=txn, table_roots=roots) as running:
        yield running


def test_the_files_go_and_the_directory_too_once_nobody_can_read_them(hasty: LocalCluster) -> None:
    table = "t.going"
    with connect(hasty) as client:
        client.create_table(table, SCHEMA, primary_key=["id"])
        directory = path_of(client, table)
        committed(client, table, 1)
        with client.transaction() as txn:
            txn.upsert(table, rows(*range(100)))
        wait_until(lambda: any("rows" in str(path) for path in files_below(directory)), "a flush")
        open_txn = client.begin()
        open_txn.write(rows(107), table)
        with client.snapshot() as before:
            assert before.to_arrow(table).num_rows == 100
            client.drop_table(table)
            client.create_table(table, SCHEMA, primary_key=["id"])
            new = path_of(client, table)
            committed(client, table, 5)
            wait_until(lambda: client.last_commit() >> 12 > (before.timestamp >> 12), "a later commit")
            open_txn.abort()
            assert before.to_arrow(table).num_rows == 100
        wait_until(lambda: not directory.exists(), f"{directory} to go", 60)
        assert files_below(new)
        assert visible(client, table) == [[5]]

        def is_forgotten() -> bool:
            """As long as the shard has a record of it, it says that the snapshot is too old."""
            with pytest.raises((NotFound, SnapshotTooOld)) as refused:
                client.snapshot(at=before.timestamp).to_arrow(table)
            return refused.type is NotFound

        wait_until(is_forgotten, "the table of before is forgotten")


def test_what_somebody_else_put_into_the_directory_stays(hasty: LocalCluster) -> None:
    table = "t.shared"
    with connect(hasty) as client:
        client.create_table(table, SCHEMA)
        directory = path_of(client, table)
        committed(client, table, 1)
        mine = directory / "notes.txt"
        mine.write_text("not yours")
        client.drop_table(table)
        wait_until(lambda: files_below(directory) == [mine], "the table's own files to go", 60)
    assert mine.read_text() == "not yours"


def test_a_new_table_at_the_old_ones_location_keeps_its_files(hasty: LocalCluster, tmp_path: Path) -> None:
    table, location = "t.same", tmp_path.as_uri()
    with connect(hasty) as client:
        client.create_table(table, SCHEMA, location=location)
        committed(client, table, 1)
        old = set(files_below(tmp_path))
        client.drop_table(table)
        client.create_table(table, SCHEMA, location=location)
        assert visible(client, table) == [[]]
        committed(client, table, 2)
        new = set(files_below(tmp_path)) - old
        assert new
        wait_until(lambda: not old & set(files_below(tmp_path)), "the old table's files to go", 60)
        assert set(files_below(tmp_path)) == new
        assert visible(client, table) == [[2]]


def test_a_drop_outlives_every_node(tmp_path: Path) -> None:
    with fast_cluster(tmp_path) as cluster, connect(cluster) as client:
        for table in ("t.gone", "t.again"):
            client.create_table(table, SCHEMA)
            committed(client, table, 1)
        before = client.snapshot()
        open_txn = client.begin(keepalive_millis=60_000)
        open_txn.write(rows(2), "t.gone")
        for table in ("t.gone", "t.again"):
            client.drop_table(table)
        client.create_table("t.again", SCHEMA)
        for name in cluster.configs:
            cluster.kill(name)
        for name in cluster.configs:
            cluster.start_node(name)
        with pytest.raises(NotFound, match="was dropped by"):
            client.table("t.gone")
        with pytest.raises(Conflict, match=r"t\.gone was dropped"):
            open_txn.commit()
        assert visible(client, "t.again") == [[]]
        assert [before.to_arrow(table)["id"].to_pylist() for table in ("t.gone", "t.again")] == [[1], [1]]
        wait_until(lambda: settled(cluster), "replicas that agree")


def test_the_doctor_finds_nothing_wrong_with_a_table_that_is_going(client: Client, cluster: LocalCluster) -> None:
    """Its files wait to be cleaned, and a new table has its name: neither is a loss, or a left-over."""
    table = "t.examined"
    client.create_table(table, SCHEMA, primary_key=["id"])
    committed(client, table, 1)
    open_txn = client.begin()
    open_txn.write(rows(2), table)
    client.drop_table(table)
    client.create_table(table, SCHEMA)
    committed(client, table, 3)
    result = CliRunner().invoke(app, ["doctor", "--cluster", cluster.addresses, "--json"])
    said = [each for each in json.loads(result.output)["findings"] if each["where"].startswith(table)]
    assert not [each for each in said if each["severity"] != "note"]
    open_txn.abort()
    assert visible(client, table) == [[3]]
