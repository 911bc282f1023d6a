"""What the cluster knows of itself, as tables that SQL reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from txnclient import Client, Conflict, InvalidArgument, NotFound, TxnState
from txnclient.control import system_tables
from txnclient.control.system_tables import Wanted

NewTable = Callable[..., str]


def of(client: Client, query: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = client.sql(query).to_pylist()
    return rows


def test_files_and_partitions_are_those_of_a_snapshot(client: Client, new_table: NewTable) -> None:
    name = new_table("id bigint, p string", partition_by=["p"])
    client.write(pa.table({"id": range(10), "p": ["a", "b"] * 5}), name)
    client.write(pa.table({"id": [20], "p": ["a"]}), name)
    client.delete_where(name, "id = 4")
    with client.snapshot() as snapshot:
        there = {(each.path, each.partition, each.rows, each.bytes) for each in snapshot.table_files(name).files}
    found = of(client, f"SELECT * FROM system.files WHERE table_name = '{name}'")
    assert {(each["path"], each["partition"], each["rows"], each["bytes"]) for each in found} == there
    assert sum(each["deleted_rows"] for each in found) == 1
    query = f"SELECT partition, files, rows, deleted_rows FROM txn.system.partitions WHERE table_name = '{name}'"
    assert [tuple(each.values()) for each in of(client, query)] == [("p=a", 2, 5, 1), ("p=b", 1, 5, 0)]


def test_transactions_in_all_that_shows_them(client: Client, new_table: NewTable) -> None:
    name, began = new_table("id bigint"), datetime.now(UTC)
    client.sql(f"INSERT INTO {name} VALUES (1)")
    first, second = client.begin("first one"), client.begin("second one")
    for txn in (first, second):
        txn.write(pa.table({"id": [5]}), name, "overwrite")
    receipt = first.commit()
    with pytest.raises(Conflict):
        second.commit()
    with client.transaction("open one") as txn:
        txn.write(pa.table({"id": [6]}), name)
        (is_open,) = of(client, "SELECT * FROM system.transactions WHERE label = 'open one'")
        assert (is_open["txn_id"], is_open["state"], is_open["tables"]) == (txn.id, "OPEN", name)
    (past,) = of(client, f"SELECT * FROM system.timeline WHERE txn_id = {second.id}")
    assert (past["state"], past["abort_code"], past["winner"]) == ("ABORTED", "CONFLICT", first.id)
    assert past["commit_timestamp"] is None
    assert [each["table_name"] for each in past["tables"]] == [name]
    (version,) = of(client, f"SELECT * FROM system.snapshots WHERE txn_id = {first.id}")
    assert (version["table_name"], version["version"]) == (name, receipt.commit_timestamp)
    assert version["committed"] >= began
    assert of(client, f"SELECT count(*) AS n FROM {name} VERSION AS OF {version['version']}") == [{"n": 1}]
    records = of(client, f"SELECT * FROM system.status_table WHERE txn_id = {first.id} ORDER BY entry_type")
    assert [(each["entry_type"], each["identifier"] != "") for each in records] == [(1, False), (2, True)]
    assert json.loads(records[0]["metadata"])["state"] == TxnState.COMMITTED.name
    assert json.loads(records[1]["metadata"])["name"] == name


def test_locks_savepoints_and_compactions(client: Client, new_table: NewTable) -> None:
    name = new_table("id bigint")
    client.write(pa.table({"id": [1]}), name)
    made = client.savepoint("shown by sql", keep="1h")
    (shown,) = of(client, "SELECT * FROM system.savepoints WHERE name = 'shown by sql'")
    assert (shown["version"], shown["tables"], shown["unfinished"]) == (made.timestamp, [], False)
    assert shown["expires"] - shown["created"] == pytest.approx(timedelta(hours=1), abs=timedelta(seconds=5))
    client.release_savepoint("shown by sql")
    with client.transaction() as txn:
        txn.lock(name, "X")
        held = of(client, f"SELECT mode, acquired, txn_id FROM system.locks WHERE object = '{name}'")
        assert held == [{"mode": "X", "acquired": True, "txn_id": txn.id}]
    client.write(pa.table({"id": [2]}), name)
    client.compact(name, wait=False)
    query = f"SELECT table_name, kind FROM system.compactions WHERE table_name = '{name}'"
    assert {"table_name": name, "kind": "major"} in of(client, query)


def test_system_tables_are_told_by_show_and_describe_and_cannot_be_written(client: Client) -> None:
    with client.sql_session() as session:
        listed = [each["tableName"] for each in session.sql("SHOW TABLES IN system").to_pylist()]
        assert listed == system_tables.names()
        for each in listed:
            described = session.sql(f"DESCRIBE system.{each}").to_pylist()
            assert [row["col_name"] for row in described] == session.sql(f"SELECT * FROM system.{each}").column_names
    for wrong in (
        "INSERT INTO system.locks SELECT * FROM system.locks",
        "CREATE TABLE System.mine (a int)",
        "DROP TABLE system.locks",
        "SELECT * FROM system.locks VERSION AS OF 7",
    ):
        with pytest.raises(InvalidArgument, match="system"):
            client.sql(wrong)
    with pytest.raises(NotFound, match=r"there is no table system\.lock\n.*compactions, files, locks"):
        client.sql("SELECT * FROM system.lock")
    with pytest.raises(InvalidArgument, match="is what the cluster knows of itself"):
        client.create_table("system.mine", "a int")


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("label = 'a' AND owner = 'b'", Wanted(equal={"label": frozenset("a"), "owner": frozenset("b")})),
        ("label = 'a' AND (label = 'b' AND 1 = 1)", Wanted(equal={"label": frozenset()})),
        ("label = 'a' OR owner = 'b'", Wanted()),
        ("label = owner AND NOT label = 'a'", Wanted()),
        (
            "ended >= '2026-01-02 00:00:00+00:00' AND ended < TIMESTAMP '2026-01-01' + INTERVAL 2 DAY",
            Wanted(
                since={"ended": datetime(2026, 1, 2, tzinfo=UTC)},
                before={"ended": datetime(2026, 1, 3, 0, 0, 0, 1, tzinfo=UTC)},
            ),
        ),
        ("ended > 'yesterday'", Wanted()),
        ("began > '2026-01-02'", Wanted()),
        ("ended > (SELECT max(began) FROM system.timeline)", Wanted()),
    ],
)
def test_a_query_says_which_rows_it_is_about(
    client: Client, monkeypatch: pytest.MonkeyPatch, where: str, wanted: Wanted
) -> None:
    asked, read = list[Wanted](), system_tables.read

    def noted(name: str, client: Client, wanted: Wanted) -> pa.Table:
        asked.append(wanted)
        return read(name, client, wanted)

    monkeypatch.setattr(system_tables, "read", noted)
    try:
        client.sql(f"SELECT txn_id FROM system.timeline WHERE {where}")
    except InvalidArgument:
        assert "yesterday" in where
    assert asked[0] == wanted
