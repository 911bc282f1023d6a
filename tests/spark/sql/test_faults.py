"""The catalog when the client, the snapshot of a plan, the bridge or an executor goes; and all types and names."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.sql.plan_metrics import metrics
from tests.support import connect
from txnclient import Client, Snapshot
from txnclient.sparksql import attach, bridge, detach
from txndeploy.local.cluster import LocalCluster
from txnstatus.errors import (
    CommitUnknown,
    Conflict,
    IllegalState,
    InvalidArgument,
    SnapshotTooOld,
    TxnError,
    Unavailable,
)
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DEADLINE = 30.0
NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


def there(client: Client, table: str) -> list[int]:
    """Read without Spark."""
    return sorted(client.snapshot().to_arrow(table, ["id"])["id"].to_pylist())


# ---- what goes


def refused(frame: DataFrame, error: type[TxnError], says: str) -> None:
    """A plan that has run may run once more within a moment."""

    def until_it_raises() -> None:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            frame.collect()

    with pytest.raises(error, match=says):
        until_it_raises()


def test_a_plan_whose_snapshot_is_gone_and_a_client_that_is_closed(
    spark: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, session, mine = new_table("id bigint"), spark.newSession(), connect(cluster)
    client.write(pa.table({"id": [1]}), table)
    held, see = list[Snapshot](), mine.snapshot

    def noted(*at: Any) -> Snapshot:
        held.append(see(*at))
        return held[-1]

    monkeypatch.setattr(mine, "snapshot", noted)
    attach(session, mine, name="mine")
    try:
        lazy, run = session.table(f"mine.{table}"), session.table(f"mine.{table}").where("id > 0")
        assert run.collect() == [(1,)]
        client.write(pa.table({"id": [2]}), table, "overwrite")
        for each in held:
            each._leases[table][1].heartbeat_refused(SnapshotTooOld("it was not renewed"))
        for frame in (run, lazy):
            refused(frame, SnapshotTooOld, "not renewed")
        again = session.table(f"mine.{table}")
        assert again.collect() == again.collect() == [(2,)]
        mine.close()
        refused(again, IllegalState, "the client is closed")
        for late in (
            lambda: session.sql(f"SELECT * FROM mine.{table}"),
            lambda: session.sql(f"INSERT INTO mine.{table} VALUES (3)"),
        ):
            with pytest.raises(IllegalState, match="the client is closed"):
                late()
    finally:
        detach(session, name="mine")
    refused(again, IllegalState, "detached")
    assert there(client, table) == [2]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO txn.{0} VALUES (7)",
        "INSERT OVERWRITE txn.{0} SELECT id + 1 FROM txn.{0}",
        "MERGE INTO txn.{0} t USING (SELECT 7L AS id) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
        "TRUNCATE TABLE txn.{0}",
    ],
)
def test_another_table_of_the_same_name_is_not_written_to(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """What a statement had not seen got the rows of what it had, or lost its own."""
    table, answered = new_table("id bigint"), bridge._answered
    client.write(pa.table({"id": [1]}), table)

    def made_anew(line: bytes, *rest: Any) -> Any:
        if b'"method":"open"' in line or b'"method":"truncate"' in line:
            monkeypatch.setattr(bridge, "_answered", answered)
            client.drop_table(table)
            client.create_table(table, "id bigint")
            client.write(pa.table({"id": [100]}), table)
        return answered(line, *rest)

    monkeypatch.setattr(bridge, "_answered", made_anew)
    with pytest.raises(Conflict, match="was dropped, and made anew"):
        sql(statement.format(table))
    assert there(client, table) == [100]
    assert not client.transactions([TxnState.OPEN])


def test_who_does_not_answer_is_named(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, answered = new_table("id bigint"), bridge._answered
    silent, answers_first = "load", False

    def hang_up(line: bytes, *rest: Any) -> Any:
        if f'"method":"{silent}"'.encode() not in line:
            return answered(line, *rest)
        if answers_first:
            answered(line, *rest)
        raise ConnectionResetError("the process is gone")

    monkeypatch.setattr(bridge, "_answered", hang_up)
    with pytest.raises(Unavailable, match=r"serves catalog txn .* did not answer to load: the connection ended"):
        sql(f"SELECT * FROM txn.{table}")
    silent, unknown = "commit", "did not answer to commit: the connection ended; whether .* committed is not known"
    with pytest.raises(CommitUnknown, match=unknown):
        sql(f"INSERT INTO txn.{table} VALUES (1)")
    assert there(client, table) == []
    answers_first = True
    with pytest.raises(CommitUnknown, match=unknown):
        sql(f"INSERT INTO txn.{table} VALUES (2)")
    assert there(client, table) == [2]
    assert not client.transactions([TxnState.OPEN]), "Spark gives up what it does not know to be committed"


@pytest.mark.campaign
def test_an_executor_that_dies_as_it_writes(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, attempts: Path
) -> None:
    table, marks = new_table("id bigint"), str(attempts)

    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            mark = Path(marks) / "killed"
            if batch.column(0)[0].as_py() >= 50 and not mark.exists():
                mark.touch()
                daemon = Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()
                os.kill(int(daemon[1]), signal.SIGKILL)  # the executor, whose child Python's daemon is

    spark.range(0, 100, 1, 4).mapInArrow(each, "id bigint").writeTo(f"txn.{table}").append()
    assert (attempts / "killed").exists()
    assert there(client, table) == list(range(100))
    assert sorted(row.id for row in sql(f"SELECT * FROM txn.{table}").collect()) == list(range(100))
    assert not client.transactions([TxnState.OPEN])


# ---- which values


SPLIT_BY = {
    "bo": ("boolean", "true", "false"),
    "by": ("tinyint", "1Y", "-128Y"),
    "Länge 2": ("smallint", "2S", "32767S"),
    "i": ("int", "3", "-2147483648"),
    "l": ("bigint", "4L", "9223372036854775807L"),
    "de": ("decimal(20,4)", "1.5", "-9999999999999999.9999"),
    "s": ("string", "'ü / %~'", "''"),
    "день": ("date", "DATE'2024-02-29'", "DATE'0001-01-01'"),
}
"""Types that a table can be partitioned by, with two values of each."""
FLAT = {
    "f": ("float", "0.1F", "CAST('NaN' AS float)"),
    "d": ("double", "0.25D", "CAST('-Infinity' AS double)"),
    "d9": ("decimal(9,2)", "1.5", "-9999999.99"),
    "d38": ("decimal(38,38)", "0.5", "-0.99999999999999999999999999999999999999"),
    "bi": ("binary", "X'00FF'", "X''"),
    "t s": ("timestamp", "TIMESTAMP'2024-01-01 00:00:00.123456'", "TIMESTAMP'1000-01-01 12:00:00'"),
    "tn": ("timestamp_ntz", "TIMESTAMP_NTZ'2024-01-01 00:00:00.123456'", "TIMESTAMP_NTZ'9999-12-31 23:59:59'"),
}
PART = "struct<`x y`: int, z: map<string, decimal(38,2)>>"
NESTED = {
    "grö `ße.": (f"array<{PART}>", "array(named_struct('x y', 1, 'z', map('k', 2)))", "array()"),
    "st": ("struct<a: array<date>>", "named_struct('a', array(DATE'2024-01-01', NULL))", "NULL"),
    "m": ("map<int, array<string>>", "map(1, array('x', NULL), 2, NULL)", "map(3, NULL)"),
}


@pytest.mark.campaign
def test_all_types_come_back(spark: SparkSession, sql: Sql, client: Client) -> None:
    table, columns = "s.all_types", {**NESTED, **FLAT, **SPLIT_BY}
    names = {name: f"`{name.replace('`', '``')}`" for name in columns}
    listed = ", ".join(f"{names[name]} {kind}" for name, (kind, *_) in columns.items())
    sql(f"CREATE TABLE txn.{table} ({listed}) PARTITIONED BY ({', '.join(names[name] for name in SPLIT_BY)})")
    nothing = {name: (kind, "NULL") for name, (kind, *_) in columns.items()}
    typed = [
        ", ".join(f"CAST({each[which]} AS {each[0]}) AS {names[name]}" for name, each in given.items())
        for given, which in ((columns, 1), (columns, 2), (nothing, 1))
    ]
    wanted = " UNION ALL ".join(f"SELECT {row}" for row in typed)
    sql(f"INSERT INTO txn.{table} {wanted}")
    expected = sorted(map(str, sql(wanted).collect()))
    for vectorized in ("true", "false"):
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", vectorized)
        try:
            assert sorted(map(str, sql(f"SELECT * FROM txn.{table}").collect())) == expected
        finally:
            spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
    for which in (1, 2):
        same = " AND ".join(f"{names[name]} = {each[which]}" for name, each in {**FLAT, **SPLIT_BY}.items())
        found = sql(f"SELECT i FROM txn.{table} WHERE {same}")
        assert found.collect() == [(int(SPLIT_BY["i"][which]),)]
        assert [(each["filesRead"], each["filesSkipped"]) for each in metrics(found)] == [(1, 2)]
    sql(f"INSERT INTO txn.{table} SELECT * FROM txn.{table}")
    assert client.snapshot().to_arrow(table, ["i"]).num_rows == 6
    assert sorted(set(map(str, sql(f"SELECT * FROM txn.{table}").collect()))) == expected
    sql(f"DROP TABLE txn.{table}")


def test_a_day_that_names_no_partition(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, `the day` date", partition_by=["the day"])
    with pytest.raises(
        InvalidArgument, match=rf"'the day' of table {table} .*0001-01-01 to 9999-12-31.* \+10000-01-01"
    ):
        sql(f"INSERT INTO txn.{table} SELECT 1, date_add(DATE'9999-12-31', 1)")
    assert there(client, table) == []
    assert not client.transactions([TxnState.OPEN])


def test_bytes_that_are_no_text_name_no_partition(sql: Sql, client: Client, new_table: NewTable) -> None:
    """Decoded, several of them are one text, and would be one partition: what replaces one would replace the others."""
    table = new_table("id bigint, s string", partition_by=["s"])
    sql(f"INSERT INTO txn.{table} VALUES (1, 'ü\ufffd')")
    with pytest.raises(InvalidArgument, match=rf"'s' of table {table} .* UTF-8.* ff41"):
        sql(f"INSERT INTO txn.{table} SELECT 2, CAST(X'FF41' AS string)")
    with pytest.raises(InvalidArgument, match="UTF-8"):
        sql(f"INSERT INTO txn.{table} REPLACE WHERE s = CAST(X'FF41' AS string) SELECT 3, 'x'")
    assert there(client, table) == [1]
    assert not client.transactions([TxnState.OPEN])


def test_names_in_any_letters(sql: Sql, client: Client) -> None:
    table = "`ö b`.`t-ü x`"
    sql(f"CREATE TABLE txn.{table} (id bigint, st struct<a: int>, `st.a` int, `a``b` int, `grö ße` int) "
        "PARTITIONED BY (`grö ße`)")  # fmt: skip
    sql(f"INSERT INTO txn.{table} VALUES (1, named_struct('a', 1), 7, 5, 1), (2, named_struct('a', 2), 8, 6, 2)")
    for where, skipped in (("st.a = 1 AND `st.a` = 7", 0), ("`a``b` < 6", 1), ("`grö ße` IN (1, 3)", 1)):
        frame = sql(f"SELECT id FROM txn.{table} WHERE {where}")
        assert frame.collect() == [(1,)], where
        assert [each["filesSkipped"] for each in metrics(frame)] == [skipped], where
    sql(f"INSERT OVERWRITE txn.{table} PARTITION (`grö ße` = 1) SELECT 3, named_struct('a', 3), 9, 7")
    sql(f"MERGE INTO txn.{table} t USING (SELECT 9 AS `st.a`) s ON t.`st.a` = s.`st.a` "
        "WHEN MATCHED THEN UPDATE SET `a``b` = 0")  # fmt: skip
    found = client.snapshot().to_arrow("ö b.t-ü x", ["id", "st.a", "a`b"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [(2, 8, 6), (3, 9, 0)]
    assert ("t-ü x",) in [(row.tableName,) for row in sql("SHOW TABLES IN txn.`ö b`").collect()]
    sql(f"DROP TABLE txn.{table}")
