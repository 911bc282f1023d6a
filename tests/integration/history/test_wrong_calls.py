"""Calls about the past that cannot be: each is told by the error that says what to do, and nothing has changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import FAST_TXN, fast_cluster, is_retired, rows, visible, wait_until
from txnclient import Client, Conflict, IllegalState, InvalidArgument, NotFound, SnapshotTooOld, TxnError
from txnclient.streams.batches import Batch, is_next
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """What is overwritten goes within a second or two."""
    short = {"snapshot_retention_seconds": 1, "snapshot_lease_seconds": 1.0}
    with fast_cluster(tmp_path_factory.mktemp("wrong"), txn=FAST_TXN.model_copy(update=short)) as running:
        yield running


@pytest.mark.parametrize("key", [(), ("id",)], ids=["without a key", "with a key"])
def test_what_is_retired_is_neither_restored_nor_undone(
    client: Client, new_table: NewTable, key: tuple[str, ...]
) -> None:
    """The error names the table, and the other one, whose past is there, is not restored either."""
    gone, there = new_table("id bigint NOT NULL, note string", primary_key=key), new_table()
    client.write_all({gone: rows(1), there: rows(1)})
    before = client.last_commit()
    client.write(rows(2), there)
    lost = client.write(rows(2), gone, mode="overwrite")
    client.write(rows(3), gone, mode="overwrite")
    wait_until(lambda: is_retired(client, gone, before), "its past is gone")
    wait_until(lambda: is_retired(client, gone, lost.commit_timestamp), "more of its past is gone")
    with pytest.raises(SnapshotTooOld, match=gone):
        client.restore(before, [there, gone])
    with pytest.raises((SnapshotTooOld, Conflict), match=gone):
        client.undo(lost.txn_id)
    assert visible(client, gone, there) == [[3], [1, 2]]


def test_a_savepoint_that_is_over_is_none(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.savepoint("short", [table], keep=3)
    wait_until(lambda: not client.savepoints(), "its time is over")
    for call in (client.restore, client.snapshot, client.release_savepoint):
        with pytest.raises(NotFound, match="no savepoint 'short'"):
            call("short")


def test_places_and_tables_of_a_restore_that_there_are_not(client: Client, new_table: NewTable) -> None:
    before = client.last_commit()
    client.write(rows(1), new_table())
    table = new_table()
    client.write(rows(1), table)
    now = client.last_commit()
    for to in (None, True, -1, 1.5, now + (1 << 40), datetime.now(), datetime.now(UTC) + timedelta(days=1)):
        with pytest.raises(InvalidArgument):
            client.restore(to, [table])  # type: ignore[arg-type]
    for name in ("", "nowhere"):
        with pytest.raises(NotFound, match="there is no savepoint"):
            client.restore(name, [table])
    for tables in ([], table, [table, 7], ["x"], ["@bills"]):
        with pytest.raises(InvalidArgument):
            client.restore(now, tables)  # type: ignore[arg-type]
    for tables, at in ((["t.nowhere"], now), ([table, "t.nowhere"], now), ([table], before)):
        with pytest.raises(NotFound, match=tables[-1].replace(".", r"\.")):
            client.restore(at, tables)
    assert visible(client, table) == [[1]]


def test_transactions_that_there_are_not(client: Client) -> None:
    """Nothing is no transaction: it was taken for the one with the id 0."""
    calls: list[Callable[[Any], object]] = [client.undo, client.get, lambda txn_id: client.abort(txn_id, "not needed")]
    for txn_id, call in itertools.product((None, True, "7", 1.5, 1 << 70), calls):
        with pytest.raises(InvalidArgument):
            call(txn_id)
    for txn_id in (-1, 1 << 40):
        with pytest.raises(NotFound):
            client.undo(txn_id)


def test_an_undone_one_is_not_undone_again_and_labels_have_an_end(client: Client, new_table: NewTable) -> None:
    keyed = new_table("id bigint NOT NULL, note string", primary_key=["id"])
    for table in (new_table(), keyed):
        load = client.write(rows(1), table)
        with pytest.raises(InvalidArgument, match="label"):
            client.undo(load.txn_id, label="x" * 10_000)
        undo = client.undo(load.txn_id)
        with pytest.raises(Conflict, match=f"transaction {load.txn_id} cannot be undone") as refused:
            client.undo(load.txn_id)
        assert refused.value.winner == undo.txn_id
        assert visible(client, table) == [[]]


def test_restore_of_another_table_of_that_name(client: Client, new_table: NewTable) -> None:
    table = new_table()
    client.write(rows(1), table)
    at = client.last_commit()
    client.savepoint("of the first", [table])
    client.drop_table(table)
    with pytest.raises(NotFound, match=table):
        client.restore("of the first")
    client.create_table(table, pa.schema([("id", pa.int64()), ("note", pa.string())]))
    with pytest.raises(IllegalState, match="was dropped or renamed since, and another one has its name"):
        client.restore(at, [table])
    client.release_savepoint("of the first")


def test_times_of_a_timeline(client: Client) -> None:
    for wrong in ("yesterday", 7, datetime.now(), datetime(1960, 1, 1, tzinfo=UTC)):
        with pytest.raises(InvalidArgument):
            client.timeline(since=wrong)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            client.timeline(until=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="'2h' is no datetime"):
        client.timeline(since="2h")  # type: ignore[arg-type]


def is_removed(client: Client, table: str, at: int) -> bool:
    """Whether no savepoint can keep what the table was then: a while after new readers are refused."""
    try:
        client.savepoint("not yet", [table], at=at)
    except SnapshotTooOld:
        return True
    client.release_savepoint("not yet")
    return False


def last_line(call: Callable[[], object]) -> str:
    with pytest.raises(TxnError) as refused:
        call()
    return str(refused.value).splitlines()[-1].strip()


def test_the_last_line_of_an_error_says_what_to_do(client: Client, new_table: NewTable, tmp_path: Path) -> None:
    table, other = new_table(), new_table()
    client.savepoint("taken", [table])
    before = client.last_commit()
    load = client.write(rows(1), table, mode="overwrite")
    undo = client.undo(load.txn_id)
    client.write(rows(2), other)
    at = client.last_commit()
    client.write(rows(3), other, mode="overwrite")
    wait_until(lambda: is_retired(client, other, at), "its past is gone for readers")
    wait_until(lambda: is_removed(client, other, at), "its past is gone")
    for number, name in enumerate(("id", "number")):
        pq.write_table(pa.table({name: [number]}), tmp_path / f"part-{number}.parquet")
    position = {"query": "q", "batch": 7, "run": "r"}
    with client.transaction() as txn:
        txn.mark("source", position, expected=None)
    mark = client.mark("source")

    def copied(name: str) -> object:
        return client.import_files(name, str(tmp_path), create=True, copy=True)

    assert last_line(lambda: client.savepoint("taken")) == "what to do: take another name, or release that one first"
    assert "of a later time" in last_line(lambda: client.savepoint("late", [other], at=at))
    assert "a savepoint keeps what is to stay" in last_line(lambda: client.restore(at, [other]))
    assert f"undo transaction {undo.txn_id} first" in last_line(lambda: client.undo(load.txn_id))
    assert "take_over='q@7') goes on" in last_line(lambda: is_next(mark, Batch("another", 0, "r"), None))
    assert "import it with copy=True" in last_line(lambda: client.import_files("in.place", str(tmp_path), create=True))
    assert "import files of each schema" in last_line(lambda: copied("in.copied"))
    assert visible(client, table) == [[]]
    with pytest.raises(NotFound):
        client.table("in.copied")
    client.restore(before, [table])
    client.release_savepoint("taken")
