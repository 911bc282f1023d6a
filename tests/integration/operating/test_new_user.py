"""What somebody meets who has just come: any names, tables that are there already, data as pandas has it."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support import connect
from txnclient import AlreadyExists, Client, InvalidArgument, TxnState
from txndeploy.local.cluster import LocalCluster

NewTable = Callable[..., str]


def test_tables_and_columns_are_called_as_people_call_them(client: Client) -> None:
    """Letters, digits and _ were possible, and nothing else."""
    table = "my shop.größe-日 2"
    ddl = "`Unit Price (€)` double NOT NULL COMMENT 'net', `a.b` bigint, a struct<b:bigint>, `größe ж` string"
    client.create_table(table, ddl, partition_by=["GRÖSSE Ж"])
    rows = {
        "unit price (€)": pa.array([1.5, 2.5], pa.float32()),
        "A.B": [1, 100],
        "a": [{"b": 5}, {"b": 6}],
        "größe ж": ["p/q", "ü"],
    }
    client.write(pa.table(rows), table)
    snapshot = client.snapshot()
    assert snapshot.to_arrow(table, ["größe ж", "A.b"]).to_pylist() == [
        {"größe ж": "p/q", "a.b": 1},
        {"größe ж": "ü", "a.b": 100},
    ]
    # The statistics of the struct's field, which the footer calls a.b, too, must not be taken for the column's.
    assert snapshot.to_arrow(table, where=pc.field("a.b") == 100).num_rows == 1
    client.truncate(table, partition={"GRÖSSE ж": "ü"})
    with client.transaction() as txn:
        txn.lock(table, "X", partition="größe ж=p~2Fq")
        assert client.locks(table)[-1].object == f"{table}/größe ж=p~2Fq"
    assert client.snapshot().to_arrow(table).num_rows == 1
    assert [column.comment for column in client.table(table).schema.columns] == ["net", "", "", ""]
    client.drop_table(table)


def test_rows_by_a_key_of_several_words(client: Client) -> None:
    table = "k.ключи"
    client.create_table(table, "`mein key` bigint, `näme x` string, `v.w` double", primary_key=["MEIN KEY", "näme x"])
    keys = {"Mein Key": pa.array([1, 2], pa.int16()), "NÄME X": ["a", "b"]}
    client.insert(table, pa.table({**keys, "v.w": [1.0, 2.0]}))
    client.update(table, pa.table({**keys, "V.W": pa.array([9, 8], pa.float32())}))
    client.delete(table, pa.table(keys).slice(1))
    assert client.snapshot().to_arrow(table).to_pylist() == [{"mein key": 1, "näme x": "a", "v.w": 9.0}]


def test_a_table_that_is_there_already_as_it_is_wanted(client: Client) -> None:
    made = client.create_table("t.once", "id bigint NOT NULL, note string COMMENT 'x'", primary_key=["id"])
    again = client.create_table("t.once", "id long NOT NULL, note string", primary_key=["ID"], if_not_exists=True)
    assert again == made
    with pytest.raises(AlreadyExists):
        client.create_table("t.once", "id bigint NOT NULL, note string", primary_key=["id"])


@pytest.mark.parametrize(
    ("ddl", "options", "said"),
    [
        ("id bigint NOT NULL, day int", {}, "column 2 is 'day' string, not 'day' int"),
        ("id bigint, day string", {}, "column 1 is 'id' bigint NOT NULL, not 'id' bigint"),
        ("id bigint NOT NULL", {}, "column 2 is 'day' string, not nothing"),
        ("id bigint NOT NULL, day string, x int", {}, "column 3 is nothing, not 'x' int"),
        ("id bigint NOT NULL, day string", {"partition_by": ["day"]}, "partition_by is"),
        ("id bigint NOT NULL, day string", {"primary_key": ["id"]}, "primary_key is"),
        ("id bigint NOT NULL, day string", {"conflicts": "wait"}, "conflicts is first-committer-wins, not wait"),
        ("id bigint NOT NULL, day string", {"location": "WAREHOUSE/other"}, "location is .*, not file:.*/other"),
    ],
)
def test_a_table_that_is_there_already_and_differs(
    client: Client, ddl: str, options: dict[str, object], said: str
) -> None:
    made = client.create_table("t.different", "id bigint NOT NULL, day string", if_not_exists=True)
    if "location" in options:
        options = {"location": f"{made.location.removesuffix('/t/different')}/other"}
    with pytest.raises(AlreadyExists, match=said):
        client.create_table("t.different", ddl, if_not_exists=True, **options)  # type: ignore[arg-type]


def test_many_create_one_table_at_once(cluster: LocalCluster) -> None:
    def create(number: int) -> str:
        with connect(cluster) as own:
            return own.create_table("t.race", "id bigint", if_not_exists=True).table_id

    with ThreadPoolExecutor(8) as programs:
        assert len(set(programs.map(create, range(8)))) == 1


def test_data_as_pandas_has_it(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, price double, kind string, at timestamp_ntz, none array<int>")
    rows = {
        "ID": pa.array([1, 2], pa.int32()),
        "Price": pa.array([1.5, None], pa.float32()),
        "kind": pa.array(["a", "a"], pa.dictionary(pa.int8(), pa.large_string())),
        "at": pa.array([1_000, 2_000], pa.timestamp("ns")),
        "none": pa.nulls(2),
    }
    client.write(pa.table(rows), table)
    assert client.snapshot().to_arrow(table, ["id", "price", "kind"]).to_pylist() == [
        {"id": 1, "price": 1.5, "kind": "a"},
        {"id": 2, "price": None, "kind": "a"},
    ]
    with pytest.raises(InvalidArgument, match=r"column 'at' .*2001"):
        client.write(pa.table({**rows, "at": pa.array([1_000, 2_001], pa.timestamp("ns"))}), table)
    with pytest.raises(InvalidArgument, match=r"'id' of table .* is bigint; in the data it is double"):
        client.write(pa.table({**rows, "ID": [1.0, 2.0]}), table)


@pytest.mark.parametrize("what", ["txn", "client", "snapshot", "handle"])
def test_a_handle_in_a_closure_says_what_to_send(client: Client, what: str) -> None:
    """Spark said that it could not pickle a lock of some thread."""
    with client.transaction() as txn:
        made = {"txn": txn, "client": client, "snapshot": client.snapshot(), "handle": txn.handle}
        with pytest.raises(InvalidArgument, match=r"stays in its process") as refusal:
            pickle.dumps(made[what])
        assert {"snapshot": "client.snapshot(at="}.get(what, "txn.token()") in refusal.value.hint


DRIVER = """
import sys, time, txnclient
with txnclient.connect(sys.argv[1]) as client:
    with client.transaction(keepalive_millis=60_000) as txn:
        print(txn.id, flush=True)
        time.sleep(600)
"""


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_driver_that_is_ended_aborts(cluster: LocalCluster, client: Client, signum: signal.Signals) -> None:
    """SIGTERM left the transaction open, and its locks held, until it expired."""
    driver = subprocess.Popen([sys.executable, "-c", DRIVER, cluster.addresses], stdout=subprocess.PIPE, text=True)
    try:
        assert driver.stdout is not None
        txn_id = int(driver.stdout.readline())
        driver.send_signal(signum)
        assert driver.wait(60) == (143 if signum is signal.SIGTERM else -signal.SIGINT)
    finally:
        driver.kill()
        driver.wait()
    found = client.get(txn_id)
    assert found.state in (TxnState.ABORT_IN_PROGRESS, TxnState.ABORTED)
    assert found.cause is not None
    assert ("SIGTERM" if signum is signal.SIGTERM else "KeyboardInterrupt") in found.cause.message
