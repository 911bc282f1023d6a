"""SELECT and its like through the catalog that Spark plans with."""

from __future__ import annotations

import gc
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.support import wait_until
from txnclient import Client, Snapshot
from txnclient.sparksql import attach, attaching, detach
from txnclient.sparksql.tables import Tables
from txnstatus.errors import AlreadyExists, DataDamaged, IllegalState, InvalidArgument, NotFound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


@pytest.fixture
def by_row(spark: SparkSession) -> Iterator[None]:
    """Spark's reader of Parquet that gives rows, not batches."""
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    yield
    spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


# ---- which rows


def test_deleted_rows_are_left_out_in_batches_and_in_parts(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, v string, day date", partition_by=["day"])
    assert rows(sql(f"SELECT * FROM txn.{table}")) == []
    days = [datetime(2024, 1, 1 + n % 2, tzinfo=UTC).date() for n in range(20_000)]
    data = pa.table({"id": range(20_000), "v": [str(n % 7) for n in range(20_000)], "day": days})
    client.write(data, table)
    client.delete_where(table, "id % 10 = 3 OR id BETWEEN 9000 AND 9100")
    left = [n for n in range(20_000) if n % 10 != 3 and not 9_000 <= n <= 9_100]
    spark.conf.set("spark.sql.files.maxPartitionBytes", "9000")
    try:
        assert sorted(rows(sql(f"SELECT id FROM txn.{table}"))) == [(n,) for n in left]
        found = rows(
            sql(f"SELECT v, count(*), sum(id) FROM txn.{table} WHERE id > 500 AND day = '2024-01-02' GROUP BY v")
        )
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    wanted = [n for n in left if n > 500 and n % 2 == 1]
    assert {v: count for v, count, _ in found} == Counter(str(n % 7) for n in wanted)
    assert sum(total for _, _, total in found) == sum(wanted)


def test_rows_changed_by_key_are_read_beside_files(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v string, at timestamp, d decimal(9,2)", primary_key=["id"])
    at = datetime(2024, 5, 6, 7, 8, 9, tzinfo=UTC)

    def some(ids: range, v: str) -> pa.Table:
        n = len(ids)
        kinds = {"at": pa.timestamp("us", "UTC"), "d": pa.decimal128(9, 2)}
        columns = {"at": pa.array([at] * n, kinds["at"]), "d": pa.array([Decimal("1.25")] * n, kinds["d"])}
        return pa.table({"id": ids, "v": [v] * n, **columns})

    client.write(some(range(100), "old"), table)
    client.upsert(table, some(range(90, 120), "new"))
    client.delete(table, pa.table({"id": range(10)}))
    expected = [(n, "old" if n < 90 else "new") for n in range(10, 120)]
    assert sorted(rows(sql(f"SELECT id, v FROM txn.{table}"))) == expected
    late = sql(f"SELECT v, id, d, at FROM txn.{table} WHERE id IN (20, 118) ORDER BY id")
    assert [(row.v, row.id, row.d, row.at.hour) for row in late.collect()] == [
        ("old", 20, Decimal("1.25"), 7),
        ("new", 118, Decimal("1.25"), 7),
    ]


NESTED = "id bigint, `grö ße` struct<a: int, `b c`: array<string>>, m map<string, double>"


@pytest.mark.parametrize("vectorized", [True, False])
def test_nested_columns_names_in_any_letters_and_places(
    sql: Sql, client: Client, new_table: NewTable, vectorized: bool, request: pytest.FixtureRequest
) -> None:
    if not vectorized:
        request.getfixturevalue("by_row")
    table = new_table(NESTED, primary_key=["id"])
    kinds = pa.struct([("a", pa.int32()), ("b c", pa.list_(pa.string()))])

    def some(*ids: int) -> pa.Table:
        sizes = pa.array([{"a": n, "b c": ["x"] * (n % 3)} if n % 5 else None for n in ids], kinds)
        maps = pa.array([[(str(n), n / 2)] for n in ids], pa.map_(pa.string(), pa.float64()))
        return pa.table({"id": pa.array(ids, pa.int64()), "grö ße": sizes, "m": maps})

    client.write(some(*range(30)), table)
    client.delete_where(table, "id IN (4, 29)")
    client.upsert(table, some(31))
    found = sql(
        f"SELECT m, `grö ße`.a, `grö ße`.`b c`, id, _txn_place, _metadata.file_path FROM txn.{table} ORDER BY id"
    ).collect()
    ids = [n for n in (*range(29), 31) if n != 4]
    assert [row.id for row in found] == ids
    assert [row.m for row in found] == [{str(n): n / 2} for n in ids]
    assert [row["b c"] for row in found] == [["x"] * (n % 3) if n % 5 else None for n in ids]
    of_file, of_none = {row._txn_place >> 32 for row in found[:-1]}, found[-1]._txn_place
    assert len(of_file) == 1
    assert of_none == 0
    assert 0 not in of_file
    assert [row._txn_place & 0xFFFFFFFF for row in found[:-1]] == ids[:-1]
    (file,) = {file.path for file in client.snapshot().table_files(table).files}
    assert {row.file_path for row in found} == {file, None}


# ---- which time


def test_a_statement_sees_all_tables_at_one_time(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the loading of a join's two tables somebody commits to both."""
    one, other = new_table("id bigint"), new_table("id bigint")
    row, scan = pa.table({"id": [1]}), Snapshot.scan
    scanned = list[str]()

    def slow(self: Snapshot, table: str, *rest: Any) -> Any:
        found = scan(self, table, *rest)
        scanned.append(table)
        if len(scanned) == 1:
            with client.transaction() as txn:
                txn.write(row, one)
                txn.write(row, other)
        return found

    monkeypatch.setattr(Snapshot, "scan", slow)
    both = f"(SELECT count(*) FROM txn.{one}), (SELECT count(*) FROM txn.{other})"
    frame = sql(f"SELECT {both}")
    assert {one, other} <= set(scanned)
    assert rows(frame) == [(0, 0)]
    assert rows(sql(f"SELECT {both}")) == [(1, 1)]
    assert rows(frame) == [(0, 0)], "a DataFrame stays at its time"


def test_travel_in_time(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    first = client.write(pa.table({"id": [1]}), table).commit_timestamp
    at = client.snapshot(first).time
    client.write(pa.table({"id": [2]}), table, "overwrite")
    assert rows(sql(f"SELECT * FROM txn.{table}")) == [(2,)]
    assert rows(sql(f"SELECT * FROM txn.{table} VERSION AS OF {first}")) == [(1,)]
    assert rows(sql(f"SELECT * FROM txn.{table} TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'")) == [(1,)]
    for version, error in (("'yesterday'", "a number"), (str(first + 10**15), "in the future")):
        with pytest.raises(InvalidArgument, match=error):
            sql(f"SELECT * FROM txn.{table} VERSION AS OF {version}")
    for year in ("+294000", "-0044"):
        with pytest.raises(InvalidArgument, match="beyond the years 1 to 9999"):
            sql(f"SELECT * FROM txn.{table} TIMESTAMP AS OF '{year}-01-01'")
    with pytest.raises(NotFound, match=f"{table} did not exist at .*: it was created after"):
        sql(f"SELECT * FROM txn.{table} TIMESTAMP AS OF '1999-01-01'")


def test_a_snapshot_is_kept_as_long_as_a_frame(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = list[Snapshot]()
    see = client.snapshot

    def noted(*at: Any) -> Snapshot:
        held.append(see(*at))
        return held[-1]

    table = new_table("id bigint")
    with monkeypatch.context() as patch:
        patch.setattr(Client, "snapshot", lambda _, *at: noted(*at))
        frame = sql(f"SELECT * FROM txn.{table}")
    assert held
    assert rows(frame) == []
    assert not any(each._closed for each in held)
    del frame

    def all_closed() -> bool:
        gc.collect()
        spark._jvm.java.lang.System.gc()
        return all(each._closed for each in held)

    wait_until(all_closed, 60)


# ---- what there is


def test_what_there_is_is_told(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    name = new_table(
        "id bigint NOT NULL COMMENT 'the id', v string, day date", partition_by=["day"], primary_key=["id"]
    )
    database, table = name.split(".")
    other = spark.newSession()
    attach(other, client, name="lake")
    try:
        assert (database, table, False) in rows(other.sql(f"SHOW TABLES IN lake.{database}"))
        assert (database,) in rows(other.sql("SHOW DATABASES IN lake"))
        other.sql(f"USE lake.{database}")
        assert rows(other.sql(f"SELECT count(*) FROM {table}")) == [(0,)]
        described = {
            row.col_name: (row.data_type, row.comment) for row in other.sql(f"DESCRIBE EXTENDED {table}").collect()
        }
        assert described["id"] == ("bigint", "the id")
        assert described["Location"][0] == client.table(name).location
        assert "primary_key=`id`" in described["Table Properties"][0]
        assert [(field.name, field.nullable) for field in other.table(table).schema] == [
            ("id", False),
            ("v", True),
            ("day", True),
        ]
        assert other.catalog.tableExists(f"lake.{name}")
        assert not other.catalog.tableExists(f"lake.{name}x")
    finally:
        detach(other, name="lake")


def test_threads_of_a_program_have_it_too(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    client.write(pa.table({"id": range(10)}), table)
    found = list[Any]()
    thread = threading.Thread(target=lambda: found.append(rows(sql(f"SELECT sum(id) FROM txn.{table}"))))
    thread.start()
    thread.join(120)
    assert found == [[(45,)]]


# ---- what is refused


def test_errors_are_sparks_own_or_ours(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    from pyspark.errors import AnalysisException, ParseException

    table = new_table("id bigint")
    client.write(pa.table({"id": [1]}), table)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql("SELECT * FROM txn.nowhere.nothing")
    with pytest.raises(ParseException):
        sql(f"SELEKT * FROM txn.{table}")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        sql(f"SELECT idd FROM txn.{table}")
    with pytest.raises(AnalysisException, match="ANALYZE TABLE is not supported"):
        sql(f"ANALYZE TABLE txn.{table} COMPUTE STATISTICS")
    with pytest.raises(Exception, match="stays in its database"):
        sql(f"ALTER TABLE txn.{table} RENAME TO txn.elsewhere.renamed")
    (file,) = client.snapshot().files(table).files
    path = Path(file.path.removeprefix("file://"))
    shutil.copy(path, f"{path}.good")
    with path.open("r+b") as opened:
        opened.seek(-20, 2)
        opened.write(b"12345")
    try:
        with pytest.raises(DataDamaged, match=table):
            sql(f"SELECT * FROM txn.{table}").collect()
    finally:
        shutil.move(f"{path}.good", path)


def test_names_that_cannot_be_attached(spark: SparkSession, client: Client, catalog: str) -> None:
    for name in ("spark_catalog", "a.b", "", "1a"):
        with pytest.raises(InvalidArgument, match="catalog name"):
            attach(spark, client, name=name)
    with pytest.raises(AlreadyExists, match="'txn' is attached"):
        attach(spark, client, name="txn")
    other = spark.newSession()
    other.conf.set("spark.sql.catalog.theirs", "org.example.Theirs")
    with pytest.raises(AlreadyExists, match=r"spark\.sql\.catalog\.theirs is org\.example\.Theirs"):
        attach(other, client, name="theirs")


def test_a_detached_catalog_answers_no_more_and_its_name_is_free(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    table, session = new_table("id bigint"), spark.newSession()
    with pytest.raises(NotFound, match="'lake'"):
        detach(session, name="lake")
    attach(session, client, name="lake")
    detach(session, name="lake")
    with pytest.raises(IllegalState, match="detached"):
        session.sql(f"SELECT * FROM lake.{table}")
    attach(session, client, name="lake")
    assert rows(session.sql(f"SELECT * FROM lake.{table}")) == []
    detach(session, name="lake")


def test_without_the_jar_the_rest_goes_on(
    spark: SparkSession, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, session = new_table("id bigint"), spark.newSession()
    monkeypatch.setattr(attaching, "_is_loaded", lambda _: False)
    with pytest.raises(IllegalState, match="does not load"):
        attach(session, client, name="lake")
    monkeypatch.setattr(attaching, "jar", lambda: "/nowhere/txn-spark.jar")
    with pytest.raises(IllegalState, match="the catalog's jar is not there: /nowhere"):
        attach(session, client, name="lake")
    assert client.snapshot().read(session, table).count() == 0


def test_a_jar_of_another_release_is_refused(client: Client) -> None:
    with pytest.raises(IllegalState, match="is another, this program's is one"):
        Tables(client, "one", dict).answer("hello", {"build": "another"})
