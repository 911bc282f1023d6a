"""Savepoints on a real cluster, where what is overwritten goes within a second or two."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support import FAST_TXN, fast_cluster, is_retired, rows, wait_until
from txnclient import AlreadyExists, Client, InvalidArgument, NotFound, SnapshotTooOld
from txndeploy.local.cluster import LocalCluster
from txnstatus.catalog.catalog import shard_group

pytestmark = pytest.mark.cluster
NewTable = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    short = {"snapshot_retention_seconds": 1, "snapshot_lease_seconds": 1.0}
    with fast_cluster(tmp_path_factory.mktemp("savepoints"), txn=FAST_TXN.model_copy(update=short)) as running:
        yield running


def ids(client: Client, table: str, at: int | str | None = None) -> list[int]:
    with client.snapshot(at) as snapshot:
        return sorted(snapshot.to_arrow(table)["id"].to_pylist())


def overwrite(client: Client, table: str, *numbers: int) -> None:
    client.write(rows(*numbers), table, mode="overwrite")


def directories(client: Client, table: str) -> int:
    return len(list(Path(client.table(table).location.removeprefix("file://")).glob("delta_*")))


def test_it_is_read_long_after_all_else_of_its_time_is_gone(
    cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    """Over a change of leaders, and restarts of all nodes, too."""
    kept, other = new_table(), new_table()
    overwrite(client, kept, 1, 2)
    overwrite(client, other, 1, 2)
    made = client.savepoint("before load", [kept])
    assert (made.name, made.tables, made.owner) == ("before load", (kept,), client.owner)
    assert made.expires is not None
    assert timedelta(days=30) - (made.expires - made.created) < timedelta(minutes=1)
    for table in (kept, other):
        overwrite(client, table, 3)
    wait_until(lambda: is_retired(client, other, made.timestamp), "the other table's past is gone")
    leader = cluster.leader(shard_group(0))
    cluster.kill(leader)
    cluster.start_node(leader)
    wait_until(lambda: directories(client, other) == 1, "it is cleaned")
    assert ids(client, kept, "before load") == [1, 2]
    (listed,) = client.savepoints()
    assert (listed.name, listed.timestamp, listed.unfinished) == ("before load", made.timestamp, False)
    assert listed.held_bytes > 0
    client.release_savepoint("before load")
    assert client.savepoints() == []
    wait_until(lambda: directories(client, kept) == 1, "what it kept is cleaned")
    with pytest.raises(NotFound, match="no savepoint 'before load'; there are: none"):
        client.snapshot("before load")


def test_what_is_made_after_it_is_not_restored(client: Client, new_table: NewTable) -> None:
    """It was emptied where nothing had been committed in between: by timestamps it was there, without a row."""
    old = new_table()
    overwrite(client, old, 1)
    client.savepoint("before all")
    then = datetime.now(UTC)
    later = new_table()
    for to in ("before all", then):
        client.write_all({old: rows(2), later: rows(3)})
        there = ids(client, later)
        assert later not in client.restore(to).tables
        assert (ids(client, old), ids(client, later)) == ([1], there)
    client.release_savepoint("before all")


def test_what_is_made_before_it_is_restored_to_nothing(client: Client, new_table: NewTable) -> None:
    old, empty = new_table(), new_table()
    client.savepoint("of an empty one")
    client.write_all({old: rows(2), empty: rows(3)})
    client.restore("of an empty one")
    assert (ids(client, old), ids(client, empty)) == ([], [])
    client.release_savepoint("of an empty one")


def test_one_of_all_tables_is_one_timestamp_and_releases_itself(client: Client, new_table: NewTable) -> None:
    tables = [new_table() for _ in range(5)]
    client.write_all({table: rows(1) for table in tables})
    made = client.savepoint("all", keep=3)
    for table in tables:
        overwrite(client, table, 2)
    assert [ids(client, table, "all") for table in tables] == [[1]] * 5
    assert [ids(client, table, made.timestamp) for table in tables] == [[1]] * 5
    wait_until(lambda: not client.savepoints(), "its time is over")
    wait_until(lambda: is_retired(client, tables[0], made.timestamp), "what it kept is gone")


def test_what_cannot_be_is_told(client: Client, new_table: NewTable) -> None:
    table = new_table()
    overwrite(client, table, 1)
    old = client.last_commit()
    client.savepoint("taken", [table])
    with pytest.raises(AlreadyExists, match="savepoint 'taken' exists already, of "):
        client.savepoint("taken")
    with pytest.raises(NotFound, match=r"t\.nowhere"):
        client.savepoint("of nothing", [table, "t.nowhere"])
    for wrong in ("", " x", "a\nb", "x" * 129, 7):
        with pytest.raises(InvalidArgument):
            client.savepoint(wrong)  # type: ignore[arg-type]
    for keep in ("", "30", "30y", 0, -1, True, "99999999999d"):
        with pytest.raises(InvalidArgument, match="keep = "):
            client.savepoint("kept wrongly", keep=keep)
    for tables in ([], table):
        with pytest.raises(InvalidArgument):
            client.savepoint("of what?", tables)
    with pytest.raises(InvalidArgument, match="is in the future"):
        client.savepoint("later", at=old + (1 << 40))
    with pytest.raises(NotFound):
        client.release_savepoint("never made")
    client.release_savepoint("taken")
    overwrite(client, table, 2)
    overwrite(client, table, 3)
    wait_until(lambda: directories(client, table) == 1, "the past is gone")
    with pytest.raises(SnapshotTooOld, match=table):
        client.savepoint("too late", [table], at=old)
    assert client.savepoints() == [], "what was refused is held nowhere"
