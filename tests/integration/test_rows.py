"""Row writes as a program makes them, against real nodes, and through the deaths of leaders."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import txnclient
from tests.support import commit_until_known, connect, fast_cluster, rows, settled, visible, wait_until
from txnclient import AlreadyExists, Client, Conflict, InvalidArgument, LimitReached, RowsRefused, TxnAborted
from txndeploy.local.cluster import LocalCluster
from txnstatus.errors import IllegalState

NewTable = Callable[..., str]
KEY = ["id"]


def notes(client: Client, table: str) -> dict[int, str]:
    found = client.snapshot().to_arrow(table)
    return dict(zip(found["id"].to_pylist(), found["note"].to_pylist(), strict=True))


def noted(**by_id: str) -> pa.Table:
    ids = [int(name.removeprefix("r")) for name in by_id]
    return pa.table({"id": pa.array(ids, pa.int64()), "note": list(by_id.values())})


def test_rows_are_inserted_updated_and_deleted_beside_files_of_another_table(
    client: Client, new_table: NewTable
) -> None:
    keyed, other = new_table(primary_key=KEY), new_table()
    with client.transaction() as txn:
        txn.write(rows(1, 2, 3, 4), keyed)
    with client.transaction() as txn:
        assert txn.insert(keyed, noted(r5="new")).written == 1
        assert txn.insert_ignore(keyed, noted(r1="ignored", r6="new")) == txnclient.RowsWritten(1, 1)
        txn.upsert(keyed, noted(r2="replaced", r7="new"))
        txn.update(keyed, noted(r3="updated"))
        txn.delete(keyed, rows(4).select(KEY))
        txn.write(rows(9), other)
        assert visible(client, keyed, other) == [[1, 2, 3, 4], []]
    expected = {1: "row 1", 2: "replaced", 3: "updated", 5: "new", 6: "new", 7: "new"}
    assert notes(client, keyed) == expected
    assert visible(client, other) == [[9]]
    assert client.snapshot().to_arrow(keyed, columns=["note"]).column_names == ["note"]


def test_what_is_refused_is_named_and_the_transaction_goes_on(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=KEY)
    with client.transaction() as txn:
        txn.insert(table, rows(1, 2))
    with client.transaction() as txn:
        with pytest.raises(RowsRefused, match=f"2 of 3 rows: their keys are there already in {table}: 1, 2") as error:
            txn.insert(table, rows(1, 3, 2))
        assert (error.value.rows, error.value.keys, error.value.written) == ((0, 2), ("1", "2"), 1)
        with pytest.raises(RowsRefused, match="are not there"):
            txn.update(table, rows(8))
        with pytest.raises(RowsRefused, match="are not there"):
            txn.delete(table, rows(8))
    assert visible(client, table) == [[1, 2, 3]]


def test_an_update_may_leave_columns_out(client: Client, new_table: NewTable) -> None:
    """Wherever the rest of the row is: in a file, in memory, or in a write of the transaction itself."""
    table = new_table("a bigint, b string, n bigint, note string", primary_key=["b", "a"])

    schema = client.snapshot().to_arrow(table).schema

    def whole(*found: tuple[int, str, int | None, str | None]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in found], schema=schema)

    with client.transaction() as txn:
        txn.write(whole((1, "file", 1, "one"), (2, "file", 2, None)), table)
    with client.transaction() as txn:
        txn.upsert(table, whole((1, "row", None, "ten")))
    with client.transaction() as txn:
        txn.insert(table, whole((1, "own", 100, "hundred")))
        some = pa.table(
            {"note": ["a", "b", "c", "d", "e"], "a": [9, 2, 1, 1, 1], "b": ["file", "file", "row", "x", "own"]}
        )
        with pytest.raises(RowsRefused, match=r"2 of 5 rows: their keys are not there.*: file,9, x,1") as error:
            txn.update(table, some)
        assert (error.value.rows, error.value.written) == ((0, 3), 3)
        assert txn.update(table, pa.table({"b": ["file", "own"], "a": [1, 1], "n": [5, 6]})).written == 2
    with pytest.raises(InvalidArgument, match="nothing to update"):
        client.update(table, some.select(["a", "b"]))
    with pytest.raises(InvalidArgument, match=r"column 'a' .* is missing"):
        client.update(table, some.select(["b", "note"]))
    with pytest.raises(InvalidArgument, match="'m' of the data is not a column"):
        client.update(table, pa.table({"b": ["file"], "a": [1], "m": [5]}))
    expected = whole((1, "file", 5, "one"), (1, "own", 6, "e"), (1, "row", None, "c"), (2, "file", 2, "b"))
    found = client.snapshot().to_arrow(table).sort_by([("a", "ascending"), ("b", "ascending")])
    assert found.to_pylist() == expected.to_pylist()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pa.table({"id": [1]}), "column 'note' .* is missing"),
        (pa.table({"id": ["1"], "note": ["a"]}), "is bigint; in the data it is string"),
        (pa.table({"id": [1], "note": ["a"], "more": [1]}), "'more' of the data is not a column"),
        (
            pa.table({"id": pa.array([1, None], pa.int64()), "note": ["a", "b"]}),
            "column 'id' of table .* is NOT NULL: row 1",
        ),
        (pa.table({"id": [5, 5], "note": ["a", "b"]}), "the key 5 comes more than once"),
        (pa.table({"id": [1], "note": ["x" * 500_000]}), "row 0 has .* bytes: 400000 are possible"),
        ([{"id": 1}], "expected a pyarrow Table"),
    ],
)
def test_bad_rows_are_refused_by_name(client: Client, new_table: NewTable, data: object, message: str) -> None:
    table = new_table(primary_key=KEY)
    txn = client.begin()
    txn.insert(table, rows(7))
    with pytest.raises(InvalidArgument, match=message):
        txn.insert(table, data)
    with pytest.raises(IllegalState, match=message):
        txn.commit()
    assert visible(client, table) == [[]]


def test_a_key_is_unique_whoever_writes(client: Client, new_table: NewTable) -> None:
    """`insert` 5 and `write` 5 left two rows, and so did two equal keys in one file."""
    table = new_table(primary_key=KEY)
    client.insert(table, rows(5))
    with pytest.raises(AlreadyExists, match=r"1 of 2 rows: their keys are in .*: 5") as taken:
        client.write(rows(5, 6), table)
    assert taken.value.keys == ("5",)
    with pytest.raises(InvalidArgument, match=r"more than once in the rows for .*: 7"):
        client.write(rows(7, 7), table)
    txn = client.begin()
    parts = [client.join(txn.token()).stage(rows(8), table) for _ in range(2)]
    with pytest.raises(InvalidArgument, match=r"more than once in the rows for .*: 8"):
        txn.add(parts, table)
    with pytest.raises(IllegalState, match="8"):
        txn.commit()
    first, second = client.begin(), client.begin()
    first.write(rows(9), table)
    second.insert(table, rows(9))
    first.commit()
    with pytest.raises(Conflict, match=rf"{table}\(9\) was changed by transaction {first.id}"):
        second.commit()
    client.write(rows(1, 2), table, keys_are_new=True)
    assert visible(client, table) == [[1, 2, 5, 9]]


def test_rows_and_files_of_one_table_go_in_one_transaction(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=KEY)
    with client.transaction() as txn:
        txn.write(rows(1, 2, 3), table)
        txn.delete(table, rows(2).select(KEY))
        with pytest.raises(RowsRefused):
            txn.insert(table, rows(1))
        txn.write(rows(4), table)
        assert sorted(txn.to_arrow(table)["id"].to_pylist()) == [1, 3, 4]
    assert visible(client, table) == [[1, 3, 4]]
    with client.transaction() as txn:
        txn.insert(table, rows(7))
        txn.write(rows(8), table, mode="overwrite")
        txn.insert(table, rows(1))
    assert visible(client, table) == [[1, 8]]


def test_tables_without_a_key_and_transactions_that_are_over_take_no_rows(client: Client, new_table: NewTable) -> None:
    plain, keyed = new_table(), new_table(primary_key=KEY)
    with pytest.raises(InvalidArgument, match="has no primary key"):
        client.insert(plain, rows(1))
    with pytest.raises(txnclient.NotFound):
        client.insert("t.nowhere", rows(1))
    txn = client.begin()
    txn.write(rows(1), keyed)
    txn.commit()
    with pytest.raises(IllegalState):
        txn.insert(keyed, rows(3))
    aborted = client.begin()
    aborted.insert(keyed, rows(4))
    aborted.abort()
    with pytest.raises(TxnAborted):
        aborted.insert(keyed, rows(4))
    assert visible(client, keyed) == [[1]]


def test_of_two_that_change_one_row_the_second_gets_a_conflict(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=KEY)
    first, second, third = client.begin_many(3)
    for txn in (first, second):
        txn.upsert(table, noted(r1=f"by {txn.id}"))
    third.insert(table, noted(r2="third"))
    first.commit()
    with pytest.raises(Conflict, match=r"\(1\) was changed by transaction") as conflict:
        second.commit()
    assert (conflict.value.winner, conflict.value.objects) == (first.id, (f"{table}(1)",))
    third.commit()
    assert notes(client, table) == {1: f"by {first.id}", 2: "third"}


def test_a_chain_of_commits_never_conflicts_with_itself(client: Client, new_table: NewTable) -> None:
    """Each begins after the one before was acknowledged; that one may not be finalised by then."""
    table = new_table(primary_key=KEY)
    for number in range(30):
        with client.transaction() as txn:
            txn.upsert(table, noted(r1=str(number)))
    assert notes(client, table) == {1: "29"}


def test_many_rows_go_in_parts_and_are_flushed_to_files(
    cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    table = new_table(primary_key=KEY)
    location = Path(client.table(table).location.removeprefix("file://"))
    for start in range(0, 60_000, 15_000):
        with client.transaction() as txn:
            ids = range(start, start + 15_000)
            txn.upsert(table, pa.table({"id": pa.array(ids, pa.int64()), "note": ["n" * 40] * len(ids)}))
    before = client.snapshot()
    wait_until(lambda: list(location.glob("delta_rows*/_manifest.json")), "row changes are flushed")
    with client.transaction() as txn:
        assert txn.insert_ignore(table, rows(0, 59_999, 60_000)).ignored == 2
        txn.delete(table, rows(*range(30_000)))
    assert visible(client, table) == [list(range(30_000, 60_001))]
    assert sorted(before.to_arrow(table)["id"].to_pylist()) == list(range(60_000))
    wait_until(lambda: settled(cluster), "all replicas hold the same rows")


def test_more_rows_than_a_transaction_may_hold_are_refused(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=KEY)
    txn = client.begin()
    with pytest.raises(LimitReached, match="in memory"):
        txn.upsert(table, pa.table({"id": pa.array(range(100_000), pa.int64()), "note": ["n" * 40] * 100_000}))
    txn.abort()
    assert visible(client, table) == [[]]


def test_what_changed_is_told_by_key_from_memory_and_from_files_alike(client: Client, new_table: NewTable) -> None:
    table = new_table(primary_key=KEY)
    with client.transaction() as txn:
        txn.write(rows(1, 2, 3), table)
    start = client.snapshot().timestamp
    with client.transaction() as txn:
        txn.upsert(table, noted(r2="updated", r4="new"))
        txn.delete(table, rows(3).select(KEY))
    with client.transaction() as txn:
        txn.insert(table, noted(r5="came and went"))
    middle = client.snapshot().timestamp
    with client.transaction() as txn:
        txn.delete(table, rows(5).select(KEY))
    end = client.snapshot().timestamp

    def changes(since: int, until: int) -> set[tuple[str, int, str]]:
        found = client.diff(table, since, until)
        assert found.column_names == ["id", "note", "_change_kind"]
        return {(row["_change_kind"], row["id"], row["note"]) for row in found.to_pylist()}

    both = {("update_before", 2, "row 2"), ("update_after", 2, "updated"), ("insert", 4, "new"), ("delete", 3, "row 3")}
    expected = {
        (start, end): both,
        (start, middle): both | {("insert", 5, "came and went")},
        (middle, end): {("delete", 5, "came and went")},
        (end, end): set(),
    }
    location = Path(client.table(table).location.removeprefix("file://"))
    assert {pair: changes(*pair) for pair in expected} == expected
    with client.transaction() as txn:
        txn.upsert(table, pa.table({"id": pa.array(range(10, 500), pa.int64()), "note": ["n" * 40] * 490}))
    wait_until(lambda: list(location.glob("delta_rows*/_manifest.json")), "row changes are flushed")
    assert {pair: changes(*pair) for pair in expected} == expected
    with client.transaction() as txn:
        txn.write(rows(2, 7), table, mode="overwrite")
    kinds = [kind for kind, row, _ in changes(end, client.snapshot().timestamp) if row < 10]
    assert sorted(kinds) == ["delete", "delete", "insert", "update_after", "update_before"]


ACCOUNTS, BALANCE = 12, 100


def test_the_money_stays_while_leaders_die(tmp_path: Path) -> None:
    """Transfers update two rows; every snapshot sums up the same, and every acknowledged commit is there at the end."""
    with fast_cluster(tmp_path / "cluster", participant_shards=1) as cluster, connect(cluster) as client:
        client.create_table("bank.accounts", "id bigint, balance bigint", primary_key=KEY)
        client.create_table("bank.log", "id bigint, amount bigint", primary_key=KEY)
        with client.transaction() as txn:
            txn.insert("bank.accounts", balances(dict.fromkeys(range(ACCOUNTS), BALANCE)))
        acknowledged: list[int] = []
        stop = threading.Event()
        with ThreadPoolExecutor(4) as pool:
            workers = [pool.submit(transfer_on, cluster, random.Random(n), stop, acknowledged) for n in range(3)]
            auditor = pool.submit(audit_on, cluster, stop)
            try:
                kill_leaders(cluster, acknowledged, times=4)
            finally:
                stop.set()
            for each in (*workers, auditor):
                each.result()
            assert auditor.result() > 5, "the auditor read too little to tell"
        logged = client.snapshot().to_arrow("bank.log")["id"].to_pylist()
        assert len(logged) == len(set(logged))
        assert set(acknowledged) <= set(logged), "an acknowledged transfer is lost"
        check_sum(client)
        wait_until(lambda: settled(cluster), "all replicas hold the same rows", 60)


def balances(accounts: dict[int, int]) -> pa.Table:
    columns = pa.array(accounts.keys(), pa.int64()), pa.array(accounts.values(), pa.int64())
    return pa.table(dict(zip(("id", "balance"), columns, strict=True)))


def transfer_on(cluster: LocalCluster, dice: random.Random, stop: threading.Event, acknowledged: list[int]) -> None:
    with connect(cluster, timeout=30.0) as client:
        while not stop.is_set():
            try:
                with client.transaction() as txn:
                    accounts = txn.snapshot.to_arrow("bank.accounts")
                    held = dict(zip(accounts["id"].to_pylist(), accounts["balance"].to_pylist(), strict=True))
                    giver, taker = dice.sample(range(ACCOUNTS), 2)
                    amount = dice.randint(1, 10)
                    moved = {giver: held[giver] - amount, taker: held[taker] + amount}
                    txn.update("bank.accounts", balances(moved))
                    txn.insert("bank.log", pa.table({"id": [txn.id], "amount": [amount]}))
                    commit_until_known(txn)
            except TxnAborted:
                continue  # a conflict, or it was silent for too long while nobody led
            acknowledged.append(txn.id)


def audit_on(cluster: LocalCluster, stop: threading.Event) -> int:
    with connect(cluster, timeout=30.0) as client:
        for count in itertools.count(1):
            check_sum(client)
            if stop.is_set():
                return count
    raise AssertionError("it counts for ever")


def check_sum(client: Client) -> None:
    found = client.snapshot().to_arrow("bank.accounts")
    assert found.num_rows == ACCOUNTS
    assert sum(found["balance"].to_pylist()) == ACCOUNTS * BALANCE


def kill_leaders(cluster: LocalCluster, acknowledged: list[int], times: int) -> None:
    """Kills the leaders of the accounts' shard, one after the other."""
    for _ in range(times):
        done = len(acknowledged)
        wait_until(lambda done=done: len(acknowledged) > done + 5, "transfers go on", 60)  # type: ignore[misc]
        victim = cluster.leader("shard-0")
        cluster.kill(victim)
        done = len(acknowledged)
        wait_until(lambda done=done: len(acknowledged) > done + 2, "transfers go on without it", 60)  # type: ignore[misc]
        cluster.start_node(victim)


def test_other_engines_read_the_table_with_its_changed_rows(client: Client, new_table: NewTable) -> None:
    """What `files` named left the changed rows out, and DuckDB and polars read it as if it were the table."""
    table = new_table(primary_key=KEY)
    client.write(rows(1, 2, 3), table)
    with client.snapshot() as before:
        assert sum(file.rows for file in before.files(table).files) == 3
        with pytest.raises(InvalidArgument, match="the connection of DuckDB is a list") as refused:
            before.to_duckdb(table, ["id"])  # type: ignore[arg-type]
        assert "project" in refused.value.hint
        relation = before.to_duckdb(table)
        for _ in range(2):  # it can be asked again
            assert sorted(relation.project("id").fetchall()) == [(1,), (2,), (3,)]
        assert relation.filter("id > 1").count("id").fetchall() == [(2,)]
    client.delete(table, rows(2))
    client.upsert(table, rows(7))
    with client.transaction() as txn:
        txn.insert(table, rows(8))
        for snapshot, ids in ((client.snapshot(), [1, 3, 7]), (txn.snapshot, [1, 3, 7, 8])):
            with pytest.raises(
                IllegalState, match=f"table {table} has row changes .*: its files alone are not"
            ) as refusal:
                snapshot.files(table)
            assert "to_polars" in refusal.value.hint
            assert sorted(snapshot.to_polars(table)["id"].to_list()) == ids
            assert sorted(snapshot.to_pandas(table, ["id"])["id"]) == ids
            assert sorted(id_ for (id_,) in snapshot.to_duckdb(table).project("id").fetchall()) == ids
            with snapshot.to_batches(table, ["id"], where=pc.field("id") < 8) as batches:
                assert sorted(batches.read_all()["id"].to_pylist()) == [id_ for id_ in ids if id_ < 8]
    nothing = new_table(primary_key=KEY)
    with client.snapshot() as snapshot:
        assert snapshot.to_duckdb(nothing).fetchall() == snapshot.to_batches(nothing).read_all().to_pylist() == []
