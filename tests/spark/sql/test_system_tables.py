"""What the cluster knows of itself, as tables of the catalog."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from txnclient import Client
from txnclient.control import system_tables
from txnclient.control.system_tables import Wanted
from txnclient.sparksql import system
from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DEADLINE = 30.0
NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


def test_each_is_read_as_without_spark(sql: Sql, client: Client, new_table: NewTable) -> None:
    name = new_table("id bigint, p string", partition_by=["p"])
    client.write(pa.table({"id": range(4), "p": ["a", "b"] * 2}), name)
    client.delete_where(name, "id = 2")
    client.savepoint("seen by spark", keep="1h")
    with client.transaction("held") as txn:
        txn.lock(name, "X")
        for each in system_tables.names():
            await_same(sql, client, each)
    client.release_savepoint("seen by spark")


def await_same(sql: Sql, client: Client, name: str) -> None:
    """Rows come meanwhile: a compaction that is wanted, or what a transaction did."""
    deadline, found, expected = time.monotonic() + DEADLINE, [{"never": 0}], list[dict[str, Any]]()
    while found != expected and time.monotonic() < deadline:
        found = [_plain(row.asDict(recursive=True)) for row in sql(f"SELECT * FROM txn.system.{name}").collect()]
        expected = [_plain(row) for row in system_tables.read(name, client, Wanted()).to_pylist()]
    assert found == expected, name
    assert found or name == "compactions", name


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Without zones: Spark's driver tells times in its own."""
    return {key: value.timestamp() if isinstance(value, datetime) else value for key, value in row.items()}


def test_they_join_with_tables_and_tell_what_they_are(sql: Sql, client: Client, new_table: NewTable) -> None:
    name = new_table("id bigint, p string", partition_by=["p"])
    sql(f"INSERT INTO txn.{name} VALUES (1, 'a'), (2, 'b'), (3, 'b')")
    joined = sql(
        f"SELECT t.id, s.rows FROM txn.{name} t JOIN txn.SYSTEM.Partitions s ON s.partition = concat('p=', t.p) "
        f"WHERE s.table_name = '{name}' ORDER BY id"
    )
    assert [tuple(row) for row in joined.collect()] == [(1, 1), (2, 2), (3, 2)]
    assert sql(f"SELECT count(*) FROM txn.system.files WHERE table_name = '{name}'").first() == (2,)
    assert [row.tableName for row in sql("SHOW TABLES IN txn.system").collect()] == system_tables.names()
    parts = "SELECT explode(tables.changed_rows) AS n FROM txn.system.timeline"
    assert {row.n for row in sql(f"{parts} WHERE array_contains(tables.table_name, '{name}')").collect()} <= {None, 0}
    described = {row.col_name: row.data_type for row in sql("DESCRIBE txn.system.snapshots").collect()}
    assert described["version"] == "bigint"


def test_what_a_query_is_about_is_told(sql: Sql, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, read = list[Wanted](), system_tables.read

    def noted(name: str, client: Client, wanted: Wanted) -> pa.Table:
        asked.append(wanted)
        return read(name, client, wanted)

    monkeypatch.setattr(system.system_tables, "read", noted)
    sql(
        "SELECT txn_id FROM txn.system.timeline WHERE ended >= TIMESTAMP '2026-01-02 00:00:00+00:00' "
        "AND ended <= TIMESTAMP '2026-01-03 00:00:00+00:00' AND label IN ('a', 'b') AND owner = 'c'"
    ).collect()
    (found,) = asked
    assert found.equal == {"label": {"a", "b"}, "owner": {"c"}}
    assert found.since == {"ended": datetime(2026, 1, 2, tzinfo=UTC)}
    assert found.before == {"ended": datetime(2026, 1, 3, 0, 0, 0, 1, tzinfo=UTC)}


def test_they_are_not_written_and_have_no_versions(sql: Sql, client: Client) -> None:
    with pytest.raises(Exception, match="does not support"):
        sql("INSERT INTO txn.system.locks SELECT * FROM txn.system.locks")
    with pytest.raises(Exception, match="shows what is so now, and has no versions"):
        sql("SELECT * FROM txn.system.locks VERSION AS OF 7").collect()
    with pytest.raises(InvalidArgument, match="is what the cluster knows of itself"):
        sql("CREATE TABLE txn.system.mine (a int)")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM txn.system.nothing")
    with pytest.raises(InvalidArgument, match="is what the cluster knows of itself"):
        sql("DROP TABLE txn.system.locks")
