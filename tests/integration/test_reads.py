"""Reads on a real cluster: at old timestamps, inside transactions, between two; and what is removed under them."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest

from tests.support import FAST_TXN, connect, fast_cluster, rows, wait_until
from txnclient import Client, Conflict, IllegalState, InvalidArgument, NotFound, Snapshot, SnapshotTooOld, TxnAborted
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import shard_group

LEASE_SECONDS = 2.0
RETENTION_SECONDS = 1
pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """What is overwritten goes soon."""
    short = {"snapshot_retention_seconds": RETENTION_SECONDS, "snapshot_lease_seconds": LEASE_SECONDS}
    with fast_cluster(tmp_path_factory.mktemp("reads"), txn=FAST_TXN.model_copy(update=short)) as running:
        yield running


def ids(snapshot: Snapshot, table: str) -> list[int]:
    return sorted(snapshot.to_arrow(table)["id"].to_pylist())


def write(client: Client, table: str, *numbers: int, mode: str = "append") -> int:
    """Returns the commit's timestamp."""
    with client.transaction() as txn:
        txn.write(rows(*numbers), table, mode=mode)  # type: ignore[arg-type]
    assert txn.receipt is not None
    return txn.receipt.commit_timestamp


def directories(client: Client, table: str) -> int:
    location = Path(client.table(table).location.removeprefix("file://"))
    return len(list(location.glob("delta_*")))


def overwritten_until_refused(client: Client, table: str, snapshot: Snapshot) -> SnapshotTooOld:
    """Reads anew, as another program would, until what it needs is retired."""
    refused: list[SnapshotTooOld] = []

    def is_refused() -> bool:
        try:
            client.snapshot(at=snapshot.timestamp).to_arrow(table)
        except SnapshotTooOld as error:
            refused.append(error)
        return bool(refused)

    wait_until(is_refused, "what was overwritten is retired", 60)
    return refused[0]


# ---- at a timestamp


def test_a_table_is_read_as_it_was_at_a_timestamp_or_a_time(client: Client, new_table: NewTable) -> None:
    table = new_table()
    first = write(client, table, 1)
    second = write(client, table, 2)
    write(client, table, 3)
    assert ids(client.snapshot(), table) == [1, 2, 3]
    assert ids(client.snapshot(at=first), table) == [1]
    assert ids(client.snapshot(at=second), table) == [1, 2]
    assert ids(client.snapshot(at=second - 1), table) == [1]
    at = client.snapshot(at=second).time
    assert ids(client.snapshot(at=at), table) == [1, 2]
    assert ids(client.snapshot(at=at - timedelta(microseconds=1)), table) == [1]
    assert ids(client.snapshot(at=datetime.now(UTC)), table) == [1, 2, 3]


def test_the_future_and_what_is_no_time_are_refused(client: Client) -> None:
    now = client.snapshot().timestamp
    for at, words in (
        (now + 1, rf"{now + 1}.*in the future.*last commit.*{now}"),
        ((1 << 64) - 1, "in the future"),
        (1 << 70, "in the future"),
        (datetime.now(UTC) + timedelta(hours=1), "in the future"),
        (datetime.max.replace(tzinfo=UTC), "in the future"),
        (datetime.now(), "no time zone"),
        (datetime(1969, 12, 31, tzinfo=UTC), "before 1970"),
        (-1, "no point in time"),
        (True, "no point in time"),
        (1.5, "no point in time"),
    ):
        with pytest.raises(InvalidArgument, match=words):
            client.snapshot(at=at)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no savepoint 'yesterday'"):
        client.snapshot(at="yesterday")


def test_a_table_is_not_there_before_it_was_created(client: Client, new_table: NewTable) -> None:
    older = new_table()
    before = client.snapshot(at=write(client, older, 1) - 1)
    table = new_table()
    assert ids(client.snapshot(), table) == [], "at once"
    with pytest.raises(NotFound, match=f"{table} did not exist at {before.timestamp}"):
        before.to_arrow(table)


def test_a_snapshot_older_than_the_retention_is_readable_while_nothing_followed(
    client: Client, new_table: NewTable
) -> None:
    """The last commit may be older than any retention. What was replaced by it is gone; it itself is not."""
    table = new_table()
    first = client.snapshot(at=write(client, table, 1))
    write(client, table, 2, mode="overwrite")
    overwritten_until_refused(client, table, first)
    assert ids(client.snapshot(), table) == [2]


# ---- retention and leases


def test_what_was_overwritten_is_removed_after_the_retention_and_reading_it_says_so(
    client: Client, new_table: NewTable
) -> None:
    table = new_table()
    first = write(client, table, 1)
    second = write(client, table, 2, mode="overwrite")
    error = overwritten_until_refused(client, table, client.snapshot(at=first))
    assert str(first) in error.message
    assert str(second) in error.message
    assert "snapshot_retention_seconds" in str(error)
    wait_until(lambda: directories(client, table) == 1, "its files are removed", 30)
    assert ids(client.snapshot(), table) == [2]


def test_a_snapshot_that_was_read_is_kept_until_it_is_closed(client: Client, new_table: NewTable) -> None:
    """What is kept is of the tables that it has read, and of no others."""
    table, other = new_table(), new_table()
    first = max(write(client, table, 1), write(client, other, 1))
    with client.snapshot(at=first) as leased:
        assert ids(leased, table) == [1]
        for name in (table, other):
            write(client, name, 2, mode="overwrite")
        overwritten_until_refused(client, other, leased)
        until = time.monotonic() + 2 * LEASE_SECONDS + RETENTION_SECONDS
        while time.monotonic() < until:
            assert ids(leased, table) == [1]
        overwritten_until_refused(client, table, leased)
        assert ids(leased, table) == [1]
        assert directories(client, table) == 2
    with pytest.raises(IllegalState, match="closed"):
        leased.to_arrow(table)
    wait_until(lambda: directories(client, table) == 1, "its files are removed", 30)


def test_a_snapshot_that_is_garbage_is_released(client: Client, new_table: NewTable) -> None:
    table = new_table()
    snapshot = client.snapshot(at=write(client, table, 1))
    assert ids(snapshot, table) == [1]
    write(client, table, 2, mode="overwrite")
    del snapshot
    gc.collect()
    wait_until(lambda: directories(client, table) == 1, "its files are removed", 30)


@pytest.mark.parametrize("kept", ["relation", "made of it", "files"])
def test_what_a_snapshot_gave_keeps_its_files(client: Client, new_table: NewTable, kept: str) -> None:
    """A relation was read when its snapshot was garbage, and the cleaner had taken the files."""
    table = new_table()
    first = write(client, table, 1)
    if kept == "files":
        found = client.snapshot(at=first).files(table)
    else:
        relation = client.snapshot(at=first).to_duckdb(table, duckdb.connect())
        relation = relation.project("id") if kept == "made of it" else relation
    write(client, table, 2, mode="overwrite")
    gc.collect()
    with pytest.raises(SnapshotTooOld):
        wait_until(lambda: client.snapshot(at=first).files(table) is None, "a new reader comes too late", 30)
    if kept == "files":
        assert Path(found.files[0].path.removeprefix("file://")).exists()
        del found
    else:
        assert [row[0] for row in relation.fetchall()] == [1]
        del relation
    gc.collect()
    wait_until(lambda: directories(client, table) == 1, "its files are removed", 30)


def test_a_snapshot_whose_lease_was_lost_says_so(cluster: LocalCluster, new_table: NewTable) -> None:
    """Its program could not renew, as if it had been stopped for long."""
    with connect(cluster) as client:
        table = new_table()
        snapshot = client.snapshot(at=write(client, table, 1))
        found = snapshot.files(table)
        client.session.leases.close()
        write(client, table, 2, mode="overwrite")
        wait_until(lambda: not Path(found.files[0].path.removeprefix("file://")).exists(), "its files are removed", 30)
        with pytest.raises(SnapshotTooOld, match="snapshot_retention_seconds"):
            snapshot.to_arrow(table)


def test_a_snapshot_is_kept_through_a_failover(tmp_path: Path) -> None:
    """The new leader knows of no lease at first, and waits until all have been renewed."""
    short = {"snapshot_retention_seconds": RETENTION_SECONDS, "snapshot_lease_seconds": LEASE_SECONDS}
    txn = FAST_TXN.model_copy(update=short)
    with fast_cluster(tmp_path, txn=txn, participant_shards=1) as cluster, connect(cluster) as client:
        for table in ("f.kept", "f.other"):
            client.create_table(table, "id bigint, note string")
        with client.snapshot(at=write(client, "f.kept", 0)) as leased:
            assert ids(leased, "f.kept") == [0]
            for number in (1, 2, 3):
                write(client, "f.kept", number, mode="overwrite")
                killed = cluster.leader(shard_group(0))
                cluster.kill(killed)
                for table in ("f.kept", "f.other"):
                    write(client, table, number + 10, mode="overwrite")
                wait_until(lambda: directories(client, "f.other") == 1, "what nobody reads is removed", 60)
                assert ids(leased, "f.kept") == [0]
                assert directories(client, "f.kept") == 2 * number + 1
                cluster.start()
        wait_until(lambda: directories(client, "f.kept") == 1, "all but the last is removed", 30)


# ---- inside a transaction


def test_a_transaction_reads_one_snapshot_and_its_own_writes(client: Client, new_table: NewTable) -> None:
    table, other = new_table(), new_table()
    write(client, table, 1)
    with client.transaction() as txn:
        assert txn.to_arrow(table, columns=["id"]).to_pydict() == {"id": [1]}
        txn.write(rows(2), table)
        write(client, table, 100)
        write(client, other, 100)
        assert sorted(txn.to_arrow(table)["id"].to_pylist()) == [1, 2]
        assert txn.to_arrow(other).num_rows == 0
        assert ids(client.snapshot(), table) == [1, 100], "nobody else sees them"
        txn.write(rows(3), table, mode="overwrite")
        assert ids(txn.snapshot, table) == [3]
        txn.write(rows(4), table)
        assert ids(txn.snapshot, table) == [3, 4]
    assert ids(client.snapshot(), table) == [3, 4, 100], "what others appended meanwhile stays"
    with pytest.raises(IllegalState, match="read a snapshot"):
        txn.to_arrow(table)


def test_an_overwrite_is_based_on_what_its_transaction_has_read(client: Client, new_table: NewTable) -> None:
    """What others overwrote since was not seen: the first committer wins. What they appended since stays."""
    table = new_table()
    write(client, table, 1)
    txn = client.begin()
    assert ids(txn.snapshot, table) == [1]
    write(client, table, 2)
    txn.write(rows(3), table, mode="overwrite")
    assert ids(txn.snapshot, table) == [3]
    txn.commit()
    assert ids(client.snapshot(), table) == [2, 3]
    late = client.begin()
    assert ids(late.snapshot, table) == [2, 3]
    winner = write(client, table, 4, mode="overwrite")
    late.write(rows(5), table, mode="overwrite")
    assert ids(late.snapshot, table) == [5], "its own view"
    with pytest.raises(Conflict):
        late.commit()
    assert ids(client.snapshot(at=winner), table) == [4]
    assert ids(client.snapshot(), table) == [4]


def test_partitions_are_read_and_told_apart(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, note string", partition_by=["note"])
    start = write(client, table, 1, 2, 3)
    with client.transaction() as txn:
        txn.write(rows(2), table, mode="overwrite_partitions")
        txn.write(rows(4), table)
        assert ids(txn.snapshot, table) == [1, 2, 3, 4]
        txn.truncate(table, partition={"note": "row 3"})
        assert ids(txn.snapshot, table) == [1, 2, 4]
    changes = client.diff(table, start)
    found = sorted(zip(changes["_change_kind"].to_pylist(), changes["id"].to_pylist(), strict=True))
    assert found == [("delete", 2), ("delete", 3), ("insert", 2), ("insert", 4)]
    wait_until(lambda: directories(client, table) == 3, "nothing that is in use goes, and what is empty does", 30)
    assert ids(client.snapshot(), table) == [1, 2, 4]


def test_another_owner_reads_nothing_of_a_transaction(
    cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    from txnclient import NotAuthorized

    table = new_table()
    txn = client.begin()
    txn.write(rows(1), table)
    with connect(cluster, owner="mallory") as other:
        joined = other.join(txn.token())
        with pytest.raises(NotAuthorized):
            joined.to_arrow(table)
    assert ids(client.join(txn.token()).snapshot, table) == [1], "its owner does, in any process"
    txn.abort()
    with pytest.raises(TxnAborted):
        txn.to_arrow(table)


# ---- between two timestamps


def test_changes_between_two_timestamps(client: Client, new_table: NewTable) -> None:
    table = new_table()
    start = write(client, table, 1)
    appended = write(client, table, 2)
    overwritten = write(client, table, 2, 3, mode="overwrite")

    def changes(since: int, until: int | None = None) -> Counter[tuple[str, int]]:
        found = client.diff(table, since, until)
        assert found.column_names == ["id", "note", "_change_kind"]
        return Counter(zip(found["_change_kind"].to_pylist(), found["id"].to_pylist(), strict=True))

    assert changes(start, appended) == {("insert", 2): 1}
    assert changes(appended) == {("delete", 1): 1, ("delete", 2): 1, ("insert", 2): 1, ("insert", 3): 1}
    assert changes(start) == {("delete", 1): 1, ("insert", 2): 1, ("insert", 3): 1}, "what came and went is left out"
    assert changes(overwritten) == {}
    assert changes(start - 1, overwritten) == {("insert", 2): 1, ("insert", 3): 1}
    assert changes(0, start) == {("insert", 1): 1}, "since before the table was created"
    with pytest.raises(InvalidArgument, match=f"since {appended} is after until {start}"):
        client.diff(table, appended, start)
    with pytest.raises(NotFound):
        client.diff("t.nothing", start)


def test_changes_of_a_time_that_is_gone_say_so(client: Client, new_table: NewTable) -> None:
    table = new_table()
    first = write(client, table, 1)
    write(client, table, 2, mode="overwrite")
    overwritten_until_refused(client, table, client.snapshot(at=first))
    with pytest.raises(SnapshotTooOld):
        client.diff(table, first)
