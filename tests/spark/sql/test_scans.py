"""What a scan of the catalog's does not read, and what is told of it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.sql.plan_metrics import metrics, shown
from tests.support import wait_until
from txnclient import Client
from txnclient.formats import arrow
from txnclient.read import filtered
from txnclient.sparksql import bridge
from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
FILES, ROWS = 12, 10
"""Files of a table, and rows of each of them."""


@pytest.fixture
def table(client: Client, new_table: NewTable) -> str:
    """Files of ids that follow each other; in each month there are three."""
    table = new_table("id bigint, v string, at timestamp, day date, x double, month int", partition_by=["month"])
    ids = range(FILES * ROWS)
    data = pa.table({
        "id": pa.array(ids, pa.int64()),
        "v": [f"v{n:03}" for n in ids],
        "at": pa.array([datetime(2024, 1, 1 + n // ROWS, tzinfo=UTC) for n in ids], pa.timestamp("us", "UTC")),
        "day": [date(2024, 1, 1 + n // ROWS) for n in ids],
        "x": [float(n) for n in ids],
        "month": pa.array([1 + n // ROWS // 3 for n in ids], pa.int32()),
    })  # fmt: skip
    with client.transaction() as txn:
        for file in range(FILES):
            txn.write(data.slice(file * ROWS, ROWS), table)
    return table


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


@pytest.mark.parametrize(
    ("where", "files", "count"),
    [
        ("month = 2", 3, 30),
        ("month IN (1, 4) AND id > 100", 2, 19),
        ("id = 57", 1, 1),
        ("v LIKE 'v03%' OR at = TIMESTAMP '2024-01-09 00:00:00'", 2, 20),
        ("day BETWEEN DATE '2024-01-05' AND DATE '2024-01-06'", 2, 20),
        ("x < 5 AND NOT (id = 3)", 1, 4),
        ("month IS NULL", 0, 0),
        ("id % 40 = 7", 12, 3),
    ],
)
def test_files_without_rows_that_are_wanted_are_skipped(
    sql: Sql, table: str, where: str, files: int, count: int
) -> None:
    frame = sql(f"SELECT id, v FROM txn.{table} WHERE {where}")
    assert len(frame.collect()) == count
    assert metrics(frame) == [{"filesRead": files, "filesSkipped": FILES - files, "rowsDeleted": 0}]


def test_sparks_ui_tells_how_many_files_were_skipped(spark: SparkSession, sql: Sql, table: str) -> None:
    """It looks for the classes of metrics in the driver's class loader: of a jar that was added to a session it found
    none, and each statement left that in the driver's log.
    """
    sql(f"SELECT id FROM txn.{table} WHERE month = 2").collect()
    told = {"files read": "3", "files skipped": "9", "deleted rows in files read": "0", "number of output rows": "30"}
    wait_until(lambda: shown(spark) == [told], "the statement's numbers are added up", 60)


def test_fractions_are_compared_as_the_doubles_that_they_are(sql: Sql, new_table: NewTable) -> None:
    table = new_table("id bigint, f float")
    sql(f"INSERT INTO txn.{table} VALUES (1, 0.1F)")
    sql(f"INSERT INTO txn.{table} VALUES (2, 16777216F), (3, double('NaN'))")
    for where, expected, skipped in (
        ("f = 0.1F", [(1,)], 1),
        ("f IN (0.1F, 5F)", [(1,)], 1),
        ("f <= 0.1F", [(1,)], 1),
        ("f > 0.1F", [(2,), (3,)], 0),
        ("f = 16777217F", [(2,)], 1),
        ("f = double('NaN')", [(3,)], 0),
    ):
        found = sql(f"SELECT id FROM txn.{table} WHERE {where} ORDER BY id")
        assert rows(found) == expected, where
        assert [each["filesSkipped"] for each in metrics(found)] == [skipped], where
    sql(f"DELETE FROM txn.{table} WHERE f = 0.1F")
    assert rows(sql(f"SELECT count(*) FROM txn.{table}")) == [(2,)]


def test_fractions_that_parquet_compares_otherwise_are_found(sql: Sql, client: Client, new_table: NewTable) -> None:
    """A NaN is in no range that pyarrow writes, and a dictionary holds -0.0 for another value than 0.0."""
    table = new_table("id bigint, x double, f float")
    for first, values in ((1, [5.0, float("nan")]), (3, [-0.0, -0.0]), (5, [0.0, 0.0])):
        ids = pa.array([first, first + 1], pa.int64())
        client.write(pa.table({"id": ids, "x": values, "f": pa.array(values, pa.float32())}), table)
    for column, kind in (("x", "double"), ("f", "float")):
        for where, expected in (
            (f"{column} > 5", [2]),
            (f"{column} <> 5 AND id < 3", [2]),
            (f"{column} = {kind}('NaN')", [2]),
            (f"{column} IN (0, 7)", [3, 4, 5, 6]),
            (f"{column} >= 0 AND {column} < 5", [3, 4, 5, 6]),
            (f"{column} <= {kind}('-0.0')", [3, 4, 5, 6]),
        ):
            assert rows(sql(f"SELECT id FROM txn.{table} WHERE {where} ORDER BY id")) == [(id_,) for id_ in expected], (
                where
            )
    sql(f"DELETE FROM txn.{table} WHERE x > 5 OR f = 0")
    assert rows(sql(f"SELECT id FROM txn.{table}")) == [(1,)]


def test_times_that_statements_have_written_skip_files(spark: SparkSession, sql: Sql, new_table: NewTable) -> None:
    """Whatever a session would write: of INT96, Spark's default, there are no ranges."""
    table = new_table("at timestamp")
    with setting(spark, "spark.sql.parquet.outputTimestampType", "INT96"):
        for day in (1, 2):
            sql(f"INSERT INTO txn.{table} VALUES (TIMESTAMP '2024-01-0{day} 00:00:00')")
    found = sql(f"SELECT * FROM txn.{table} WHERE at = TIMESTAMP '2024-01-02 00:00:00'")
    assert len(rows(found)) == 1
    assert [each["filesSkipped"] for each in metrics(found)] == [1]


@pytest.mark.parametrize("java8", ["false", "true"])
def test_days_that_the_julian_calendar_has_not_are_found(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, java8: str
) -> None:
    """In October of 1582 it goes from the 4th to the 15th, and so do days and times of java.sql."""
    ddl = "id int, day date, at timestamp, split_by date"
    table, other = new_table(ddl, partition_by=["split_by"]), new_table("n int, wanted date")
    days = [date(1582, 10, 1 + n) for n in range(20)]
    times = [datetime(1582, 10, 1 + n, 12, tzinfo=UTC) for n in range(20)]
    ids = pa.array(range(1, 21), pa.int32())
    at = pa.array(times, pa.timestamp("us", "UTC"))
    client.write(pa.table({"id": ids, "day": days, "at": at, "split_by": [days[n // 4 * 4] for n in range(20)]}), table)
    client.write(pa.table({"n": pa.array([9], pa.int32()), "wanted": [date(1582, 10, 9)]}), other)
    tenth, many = "1582-10-10", ", ".join(f"DATE'1582-10-{n:02}'" for n in range(4, 17))
    with setting(spark, "spark.sql.datetime.java8API.enabled", java8):
        for where, found, read in (
            (f"day = '{tenth}'", [10], 1),
            (f"day <=> DATE'{tenth}'", [10], 1),
            (f"day > '{tenth}'", range(11, 21), 3),
            (f"DATE'{tenth}' > day", range(1, 10), 3),
            (f"NOT day >= '{tenth}'", range(1, 10), 3),
            (f"day <> '{tenth}'", [n for n in range(1, 21) if n != 10], 5),
            (f"day IN ('{tenth}', '1582-10-06')", [6, 10], 2),
            (f"day IN ({many})", range(4, 17), 4),
            (f"day = '{tenth}' AND id > 3 OR day = '1582-10-20'", [10, 20], 2),
            (f"at = TIMESTAMP'{tenth} 12:00:00+00:00'", [10], 1),
            (f"at BETWEEN TIMESTAMP'1582-10-06 00:00:00+00:00' AND TIMESTAMP'{tenth} 00:00:00+00:00'", range(6, 10), 2),
            ("split_by = '1582-10-09'", range(9, 13), 1),
            ("split_by < '1582-10-09' OR split_by IS NULL", range(1, 9), 2),
        ):
            frame = sql(f"SELECT id FROM txn.{table} WHERE {where} ORDER BY id")
            assert rows(frame) == [(n,) for n in found], where
            assert [each["filesRead"] for each in metrics(frame)] == [read], where
        joined = sql(f"SELECT id FROM txn.{table} JOIN txn.{other} ON split_by = wanted WHERE n > 8 ORDER BY id")
        assert rows(joined) == [(n,) for n in range(9, 13)]
        sql(f"DELETE FROM txn.{table} WHERE day = '{tenth}'")
        assert rows(sql(f"SELECT count(*) FROM txn.{table}")) == [(19,)]


def test_a_plan_looks_once_for_the_files_of_each_scan(sql: Sql, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, may_hold = list[object](), filtered.may_hold

    def counted(*asked: Any) -> list[bool]:
        looks.append(asked)
        return may_hold(*asked)

    monkeypatch.setattr(filtered, "may_hold", counted)
    assert rows(sql(f"SELECT a.v, b.v FROM txn.{table} a CROSS JOIN txn.{table} b WHERE a.id = 57 AND b.id = 3")) == [
        ("v057", "v003")
    ]
    assert len(looks) == 2


def test_what_a_join_finds_skips_files(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, table: str
) -> None:
    months = new_table("m int, quarter string")
    names = pa.table({"m": pa.array(range(1, 5), pa.int32()), "quarter": ["first", "first", "first", "second"]})
    client.write(names, months)
    frame = sql(f"SELECT sum(id) FROM txn.{table} JOIN txn.{months} ON month = m WHERE quarter = 'second'")
    assert rows(frame) == [(sum(range(90, 120)),)]
    read = sorted(each["filesRead"] for each in metrics(frame))
    assert read == [1, 3], frame._jdf.queryExecution().executedPlan().toString()
    # One plan's finding is nothing to another one of the same table.
    assert rows(sql(f"SELECT sum(id) FROM txn.{table} JOIN txn.{months} ON month = m")) == [(sum(range(120)),)]


def test_of_many_values_that_a_join_finds_the_range_is_told(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of a million values was told, which took longer than the scan."""
    many, few = new_table("id bigint, v string"), new_table("n bigint, kind string")
    for first in (0, 5_000, 10_000):
        client.write(pa.table({"id": range(first, first + 3_000), "v": ["x"] * 3_000}), many)
    client.write(pa.table({"n": range(4_000, 9_000), "kind": ["wanted"] * 5_000}), few)
    told, may_hold = list[Any](), filtered.may_hold

    def noted(filters: Any, *asked: Any) -> list[bool]:
        told.append(filters)
        return may_hold(filters, *asked)

    monkeypatch.setattr(filtered, "may_hold", noted)
    frame = sql(f"SELECT count(*) FROM txn.{many} JOIN txn.{few} ON id = n WHERE kind = 'wanted'")
    assert rows(frame) == [(3_000,)]
    lowest, highest = ({"is": how, "column": "id", "value": n} for how, n in ((">=", "4000"), ("<=", "8999")))
    assert {"is": "and", "of": [lowest, highest]} in [each for filters in told for each in filters]
    assert sorted(each["filesRead"] for each in metrics(frame)) == [1, 1]


def test_a_run_of_a_plan_asks_now_and_then_whether_its_snapshot_is_kept(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark writes the readers of a scan for each stage and each part of the plan, and asked each time."""
    tables = [new_table("id bigint, v bigint") for _ in range(4)]
    for table in tables:
        client.write(pa.table({"id": range(10), "v": range(10)}), table)
    asked, answered = {table: [0.0] for table in tables}, bridge._answered

    def noted(line: bytes, *others: Any) -> dict[str, Any]:
        call = json.loads(line)
        if call["method"] == "require":
            asked[call["request"]["table"]].append(time.monotonic())
        return answered(line, *others)

    monkeypatch.setattr(bridge, "_answered", noted)
    joins = " ".join(f"JOIN txn.{each} USING (id)" for each in tables[1:])
    assert rows(sql(f"SELECT count(*) FROM txn.{tables[0]} {joins}")) == [(10,)]
    assert all(later - earlier >= 0.1 for times in asked.values() for earlier, later in pairwise(times))


def test_rows_are_counted_without_a_look(sql: Sql, client: Client, new_table: NewTable, table: str) -> None:
    frame = sql(f"SELECT count(*) AS a, count(1) + 1 AS b FROM txn.{table}")
    assert rows(frame) == [(120, 121)]
    assert "LocalTableScan" in frame._jdf.queryExecution().executedPlan().toString()
    client.delete_where(table, "id % 7 = 0")
    assert rows(sql(f"SELECT count(*) FROM txn.{table}")) == [(102,)]
    assert rows(sql(f"SELECT count(*) FROM txn.{table} WHERE month = 4")) == [(sum(n % 7 > 0 for n in range(90, 120)),)]
    assert rows(sql(f"SELECT month, count(*) FROM txn.{table} GROUP BY month HAVING month = 1")) == [(1, 25)]
    keyed = new_table("id bigint, v string", primary_key=["id"])
    assert rows(sql(f"SELECT count(*) FROM txn.{keyed}")) == [(0,)]
    client.write(pa.table({"id": range(50), "v": ["old"] * 50}), keyed)
    client.upsert(keyed, pa.table({"id": range(40, 60), "v": ["new"] * 20}))
    client.delete(keyed, pa.table({"id": range(5)}))
    assert rows(sql(f"SELECT count(*) FROM txn.{keyed}")) == [(55,)]
    assert rows(sql(f"SELECT count(*) FROM (SELECT * FROM txn.{keyed} LIMIT 52)")) == [(52,)]


def test_a_limit_reads_enough_files(sql: Sql, client: Client, table: str) -> None:
    client.delete_where(table, "id < 15")
    frame = sql(f"SELECT id FROM txn.{table} LIMIT 12")
    assert len(frame.collect()) == 12
    (told,) = metrics(frame)
    assert told["filesRead"] < 5
    assert len(sql(f"SELECT id FROM txn.{table} LIMIT 500").collect()) == 105
    assert len(sql(f"SELECT id FROM txn.{table} WHERE id % 40 = 7 LIMIT 10").collect()) == 2


def test_the_optimizer_knows_what_is_scanned(sql: Sql, table: str) -> None:
    def size(text: str) -> int:
        leaves = sql(text)._jdf.queryExecution().optimizedPlan().collectLeaves()
        assert leaves.size() == 1
        leaf = leaves.apply(0)
        return int(leaf.stats().sizeInBytes())

    whole = size(f"SELECT * FROM txn.{table}")
    assert size(f"SELECT * FROM txn.{table} WHERE month = 2") == pytest.approx(whole * 3 / FILES, rel=0.1)
    assert size(f"SELECT id FROM txn.{table}") < whole / 3


def test_joins_are_planned_as_over_files_of_the_same_size(sql: Sql, spark: SparkSession, table: str) -> None:
    """Rows were reckoned smaller, so that a join sent to all executors what it does not of Spark's own files."""

    def size(of: str) -> int:
        plan = sql(f"SELECT id FROM {of} WHERE v LIKE '%7'")._jdf.queryExecution().optimizedPlan()
        return int(plan.stats().sizeInBytes())

    def whole(of: str) -> int:
        return int(sql(f"SELECT * FROM {of}")._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())

    spark.table(f"txn.{table}").write.saveAsTable("spark_catalog.default.plain")
    plain, ours = "spark_catalog.default.plain", f"txn.{table}"
    try:
        assert size(ours) / whole(ours) == pytest.approx(size(plain) / whole(plain), rel=0.01)
    finally:
        sql(f"DROP TABLE {plain}")


def test_many_files_in_one_task_are_each_judged_by_their_own_filter(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    """One configuration serves all files of a task, in batches and by rows."""
    table = new_table("id bigint, v string")
    with client.transaction() as txn:
        for first in range(0, 400, 20):
            txn.write(pa.table({"id": range(first, first + 20), "v": ["x"] * 20}), table)
    client.delete_where(table, "id % 5 = 0")
    expected = [(n,) for n in range(400) if n % 5 and n % 3 == 1 and n > 130]
    found = f"SELECT id FROM txn.{table} WHERE id % 3 = 1 AND id > 130 ORDER BY id"
    assert rows(sql(found)) == expected
    with setting(spark, "spark.sql.parquet.enableVectorizedReader", "false"):
        assert rows(sql(found)) == expected


def test_tasks_that_would_read_nothing_are_refused(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    """Pieces of no bytes are never all of a file: the driver made them until its memory was full."""
    table = new_table("id bigint")
    client.write(pa.table({"id": range(20)}), table)
    for bytes_of_a_task in ("0", "-1"):
        with (
            setting(spark, "spark.sql.files.maxPartitionBytes", bytes_of_a_task),
            pytest.raises(InvalidArgument, match=f"maxPartitionBytes is {bytes_of_a_task}: tasks would read nothing"),
        ):
            sql(f"SELECT id FROM txn.{table}").collect()
    with setting(spark, "spark.sql.files.openCostInBytes", "0"):
        assert len(rows(sql(f"SELECT id FROM txn.{table}"))) == 20


def test_metadata_tells_where_rows_lie(sql: Sql, client: Client, new_table: NewTable, spark: SparkSession) -> None:
    """As Spark's own scans of files have it; a changed row is in no file."""
    table = new_table("id bigint, v string, _x struct<a: bigint>", primary_key=["id"])
    client.write(pa.table({"id": range(50), "v": ["old"] * 50, "_x": [{"a": n} for n in range(50)]}), table)
    client.delete_where(table, "id < 10")
    client.upsert(table, pa.table({"id": [20], "v": ["new"], "_x": [{"a": 1}]}))
    (file,) = client.snapshot().table_files(table).files
    wanted = [(n, None, None, None) if n == 20 else (n, file.path, file.bytes, n) for n in range(10, 50)]
    query = f"SELECT id, _metadata.file_path, _metadata.file_size, _metadata.row_index FROM txn.{table} ORDER BY id"
    whole = f"SELECT _metadata FROM txn.{table} WHERE _metadata.row_index = 33"
    block = {"file_name": file.path.rsplit("/", 1)[1], "file_block_start": 0, "file_block_length": file.bytes}
    place = {"file_path": file.path, "file_size": file.bytes, "row_index": 33}
    for vectorized in ("true", "false"):
        with setting(spark, "spark.sql.parquet.enableVectorizedReader", vectorized):
            assert rows(sql(query)) == wanted
            (found,) = sql(whole).collect()
            assert found[0].asDict() == block | place
            assert rows(sql(f"SELECT count(DISTINCT _metadata.file_name) FROM txn.{table}")) == [(1,)]
    assert [field.name for field in sql(f"SELECT * FROM txn.{table}").schema] == ["id", "v", "_x"]


def test_a_frame_is_read_as_its_own_session_says(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    """Settings were those of whichever session was the thread's active one."""
    table = new_table("id bigint")
    chance = random.Random(1)
    client.write(pa.table({"id": [chance.getrandbits(60) for _ in range(10_000)]}), table)
    sessions: Any = spark._jvm.org.apache.spark.sql.SparkSession
    before = sessions.active()
    with setting(spark, "spark.sql.files.maxPartitionBytes", "5000"):
        sessions.setActiveSession(spark.newSession()._jsparkSession)
        try:
            assert sql(f"SELECT id FROM txn.{table}").rdd.getNumPartitions() > 4
        finally:
            sessions.setActiveSession(before)


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_rows_have_their_numbers_in_parts_of_files(
    sql: Sql, client: Client, new_table: NewTable, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, vectorized: str
) -> None:
    """Be they counted, or told by the reader, which skips row groups that a filter rules out."""
    monkeypatch.setattr(arrow, "ROWS_PER_GROUP", 64)
    table = new_table("id bigint, v string")
    for first in (0, 2_000):
        ids = range(first, first + 2_000)
        client.write(pa.table({"id": ids, "v": [str(n % 7) for n in ids]}), table)
    client.delete_where(table, "id % 10 = 3")
    left = [n for n in range(4_000) if n % 10 != 3]
    number = f"SELECT id, _metadata.row_index FROM txn.{table}"
    with (
        setting(spark, "spark.sql.parquet.enableVectorizedReader", vectorized),
        setting(spark, "spark.sql.files.maxPartitionBytes", "5000"),
    ):
        assert sql(number).rdd.getNumPartitions() > 4
        for where, wanted in {
            "": left,
            " WHERE id IS NOT NULL": left,
            " WHERE id % 7 = 1": [n for n in left if n % 7 == 1],
            " WHERE id > 2700": [n for n in left if n > 2_700],
        }.items():
            assert sorted(rows(sql(number + where))) == [(n, n % 2_000) for n in wanted], where
        sql(f"DELETE FROM txn.{table} WHERE id % 7 = 1")
        sql(f"UPDATE txn.{table} SET v = 'new' WHERE id > 2700")
        found = rows(sql(f"SELECT id, v FROM txn.{table} ORDER BY id"))
    assert found == [(n, "new" if n > 2_700 else str(n % 7)) for n in left if n % 7 != 1]


def test_small_files_leave_tasks_alike(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    """What to open them is reckoned at left room for all the large files in the first task."""
    table = new_table("id bigint, v string")
    with client.transaction() as txn:
        for _ in range(4):
            txn.write(pa.table({"id": range(5_000), "v": [f"{n:040}" for n in range(5_000)]}), table)
        for _ in range(12):
            txn.write(pa.table({"id": range(10), "v": ["x"] * 10}), table)
    large = max(file.bytes for file in client.snapshot().table_files(table).files)
    with setting(spark, "spark.sql.files.openCostInBytes", str(large)):
        found = sql(f"SELECT spark_partition_id(), count(*) FROM txn.{table} GROUP BY 1")
        counts = [count for _, count in rows(found)]
    assert sum(counts) == 20_120
    assert max(counts) - min(counts) < 5_000


def test_a_column_that_is_called_metadata_is_what_it_is(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, _metadata struct<row_index: bigint>")
    data = pa.table({"id": range(20), "_metadata": [{"row_index": 100 + n} for n in range(20)]})
    client.write(data, table)
    client.delete_where(table, "id = 0")
    assert rows(sql(f"SELECT _metadata.row_index FROM txn.{table} WHERE id < 3 ORDER BY id")) == [(101,), (102,)]


def test_what_is_too_wide_for_batches_is_read_by_rows(sql: Sql, client: Client, new_table: NewTable) -> None:
    """More columns than Spark has code for at once, some of them nested, with deleted rows and a changed one."""
    kinds = [
        "bigint",
        "string",
        "struct<a: int, b: array<struct<c: string>>>",
        "map<string, array<int>>",
        "decimal(20,3)",
    ]
    table = new_table(
        ", ".join(["id bigint", *(f"c{n} {kinds[n % len(kinds)]}" for n in range(299))]), primary_key=["id"]
    )
    values: list[Callable[[int], Any]] = [
        lambda n: n,
        lambda n: None if n % 4 == 0 else f"text {n}",
        lambda n: {"a": n, "b": [{"c": str(n)}] * (n % 3)},
        lambda n: [(str(n), [n, None])],
        lambda n: Decimal(n) / 8,
    ]
    schema = client.snapshot().to_arrow(table).schema

    def some(ids: range) -> pa.Table:
        columns = [pa.array([values[n % len(values)](i) for i in ids], schema.field(f"c{n}").type) for n in range(299)]
        return pa.Table.from_arrays([pa.array(ids, pa.int64()), *columns], schema=schema)

    client.write(some(range(30)), table)
    client.delete_where(table, "id % 7 = 3")
    client.upsert(table, some(range(29, 31)))
    frame = sql(f"SELECT * FROM txn.{table}")
    assert "ColumnarToRow" not in frame._jdf.queryExecution().executedPlan().toString()
    expected = client.snapshot().to_arrow(table).sort_by("id").to_pylist()
    assert len(expected) == 27
    found = [row.asDict(recursive=True) for row in frame.orderBy("id").collect()]
    assert [row | {f"c{n}": list(row[f"c{n}"].items()) for n in range(3, 299, 5)} for row in found] == expected
    narrow = sql(f"SELECT c2.b, c298, shiftright(_txn_place, 32) = 0 FROM txn.{table} WHERE id IN (8, 30)")
    assert "ColumnarToRow" in narrow._jdf.queryExecution().executedPlan().toString()
    assert sorted(rows(narrow), key=lambda row: row[2]) == [
        ([("8",)] * 2, {"8": [8, None]}, False),
        ([], {"30": [30, None]}, True),
    ]
