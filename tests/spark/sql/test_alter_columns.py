"""Columns that change under Spark: what each reader and writer of Spark's makes of files from before."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from tests.spark.sql.looking import WANTS_ALL_COLUMNS
from txnclient import Client
from txnclient.compact.worker import Worker

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


@pytest.mark.parametrize(
    ("keyed", "vectorized"),
    [
        (True, True),
        pytest.param(False, False, marks=pytest.mark.campaign),
        pytest.param(True, False, marks=pytest.mark.campaign),
        pytest.param(False, True, marks=pytest.mark.campaign),
    ],
)
def test_statements_go_on_over_files_from_before(
    spark: SparkSession,
    sql: Sql,
    client: Client,
    new_table: NewTable,
    keyed: bool,
    vectorized: bool,
    request: pytest.FixtureRequest,
) -> None:
    if not vectorized:
        request.getfixturevalue("by_row")
    table = new_table("id bigint NOT NULL, v string", **({"primary_key": ["id"]} if keyed else {}))
    client.write(pa.table({"id": range(10), "v": [str(n) for n in range(10)]}), table)
    client.delete_where(table, "id = 9")
    before = client.snapshot()
    if keyed:
        client.upsert(table, pa.table({"id": [8], "v": ["loose"]}))
    sql(f"ALTER TABLE txn.{table} ADD COLUMNS (n int COMMENT 'a number' FIRST, s struct<a: int, b: string> AFTER id)")
    sql(f"ALTER TABLE txn.{table} ALTER COLUMN v COMMENT 'a text'")
    assert sql(f"TABLE txn.{table}").columns == ["n", "id", "s", "v"]
    there = f"SELECT id, n, s.b, v FROM txn.{table} ORDER BY id"
    old = [(n, None, None, "loose" if keyed and n == 8 else str(n)) for n in range(9)]
    assert rows(sql(there)) == old
    assert rows(sql(f"SELECT count(*) FROM txn.{table} WHERE n IS NULL AND s IS NULL")) == [(9,)]
    assert rows(sql(f"SELECT * FROM txn.{table} WHERE n > 0")) == []

    few, filled = ("id, v, n, s", ", NULL") if WANTS_ALL_COLUMNS else ("id, v, n", "")
    sql(f"INSERT INTO txn.{table} ({few}) VALUES (10, 'x', 1{filled})")
    sql(f"INSERT INTO txn.{table} VALUES (2, 11, named_struct('a', 1, 'b', 'y'), 'x')")
    sql(f"UPDATE txn.{table} SET n = id * 10 WHERE id % 4 = 0 AND n IS NULL")
    sql(f"DELETE FROM txn.{table} WHERE n IS NULL AND id < 3")
    sql(
        f"MERGE INTO txn.{table} AS t USING (SELECT explode(array(3, 4, 20)) AS id) AS s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = coalesce(t.n, 0) + 1 "
        "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 7)"
    )
    client.write(spark.createDataFrame([(21, "frame")], "id bigint, v string"), table)
    expected = [
        (0, 0, None, "0"),
        (3, 1, None, "3"),
        (4, 41, None, "4"),
        (5, None, None, "5"),
        (6, None, None, "6"),
        (7, None, None, "7"),
        (8, 80, None, "loose" if keyed else "8"),
        (10, 1, None, "x"),
        (11, 2, "y", "x"),
        (20, 7, None, None),
        (21, None, None, "frame"),
    ]
    for _ in range(2):
        assert rows(sql(there)) == expected
        read = client.snapshot().read(spark, table)
        assert rows(read.selectExpr("id", "n", "s.b", "v").orderBy("id")) == expected
        assert rows(sql(f"SELECT * FROM txn.{table} VERSION AS OF {before.timestamp} WHERE id = 8")) == [(8, "8")]
        for _ in client.compact(table, kind="major", wait=False):
            assert Worker(client.session, "here", threading.Event(), table).run_once()
    changed = client.diff(table, since=before.timestamp, spark=spark)
    assert changed.columns == ["n", "id", "s", "v", "_change_kind"]
    assert rows(changed.where("id = 10").select("n", "_change_kind")) == [(1, "insert")]


@pytest.mark.parametrize(
    ("keyed", "vectorized"),
    [
        (True, True),
        (False, False),
        pytest.param(True, False, marks=pytest.mark.campaign),
        pytest.param(False, True, marks=pytest.mark.campaign),
    ],
)
def test_statements_go_on_over_files_that_know_columns_by_other_names(
    spark: SparkSession,
    sql: Sql,
    client: Client,
    new_table: NewTable,
    keyed: bool,
    vectorized: bool,
    request: pytest.FixtureRequest,
) -> None:
    """Two columns change names with each other, so that who goes by the names in files shows the other one's values."""
    if not vectorized:
        request.getfixturevalue("by_row")
    table = new_table("id bigint NOT NULL, a bigint, b bigint, c string", **({"primary_key": ["id"]} if keyed else {}))
    client.write(pa.table({"id": range(10), "a": range(10), "b": range(100, 110), "c": ["c"] * 10}), table)
    client.delete_where(table, "id = 9")
    before = client.snapshot()
    if keyed:
        client.upsert(table, pa.table({"id": [8], "a": [8], "b": [108], "c": ["loose"]}))
    prepared = spark.table(f"txn.{table}").where("a < 3")
    sql(f"ALTER TABLE txn.{table} RENAME COLUMN a TO t")
    sql(f"ALTER TABLE txn.{table} RENAME COLUMN b TO a")
    sql(f"ALTER TABLE txn.{table} RENAME COLUMN t TO b")
    sql(f"ALTER TABLE txn.{table} DROP COLUMNS (c)")
    sql(f"ALTER TABLE txn.{table} ADD COLUMN c int FIRST")
    assert sql(f"TABLE txn.{table}").columns == ["c", "id", "b", "a"]
    there = f"SELECT id, a, b, c FROM txn.{table} ORDER BY id"
    assert rows(sql(there)) == [(n, 100 + n, n, None) for n in range(9)]
    assert rows(sql(f"SELECT id FROM txn.{table} WHERE a >= 105 AND b < 8 ORDER BY id")) == [(5,), (6,), (7,)]
    assert rows(sql(f"SELECT id FROM txn.{table} WHERE c IS NULL AND a IN (101, 108) ORDER BY id")) == [(1,), (8,)]
    assert rows(prepared.select("id", "a", "b").orderBy("id")) == [(n, n, 100 + n) for n in range(3)]

    sql(f"INSERT INTO txn.{table} (id, a, b, c) VALUES (10, 110, 10, 1)")
    sql(f"UPDATE txn.{table} SET c = a - b WHERE b = 3")
    sql(f"DELETE FROM txn.{table} WHERE a = 104")
    sql(
        f"MERGE INTO txn.{table} AS t USING (SELECT explode(array(105, 120)) AS a) AS s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = -t.b WHEN NOT MATCHED THEN INSERT (id, a, c) VALUES (20, s.a, 7)"
    )
    client.write(spark.createDataFrame([(21, 121, 21, 3)], "id bigint, a bigint, b bigint, c int"), table)
    client.update_where(table, {"c": "77"}, "a = 106", spark=spark)
    prepared.selectExpr("id + 30 AS id", "b AS a", "a AS b", "cast(null AS int) AS c").writeTo(f"txn.{table}").append()
    expected = [
        (0, 100, 0, None),
        (1, 101, 1, None),
        (2, 102, 2, None),
        (3, 103, 3, 100),
        (5, 105, -5, None),
        (6, 106, 6, 77),
        (7, 107, 7, None),
        (8, 108, 8, None),
        (10, 110, 10, 1),
        (20, 120, None, 7),
        (21, 121, 21, 3),
        (30, 100, 0, None),
        (31, 101, 1, None),
        (32, 102, 2, None),
    ]
    for _ in range(2):
        assert rows(sql(there)) == expected
        read = client.snapshot().read(spark, table)
        assert rows(read.select("id", "a", "b", "c").orderBy("id")) == expected
        assert rows(read.where("a > 106 AND b < 9").select("id").orderBy("id")) == [(7,), (8,)]
        old = sql(f"SELECT id, a, b, c FROM txn.{table} VERSION AS OF {before.timestamp} WHERE b = 108")
        assert rows(old) == [(8, 8, 108, "c")]
        for _ in client.compact(table, kind="major", wait=False):
            assert Worker(client.session, "here", threading.Event(), table).run_once()
    changed = client.diff(table, since=before.timestamp, spark=spark)
    assert rows(changed.where("id = 10").select("a", "b", "c", "_change_kind")) == [(110, 10, 1, "insert")]
    if keyed:
        assert rows(changed.where("id = 5").select("a", "b").orderBy("b")) == [(105, -5), (105, 5)]


@pytest.mark.parametrize("vectorized", [True, False])
def test_values_that_had_no_room_before_are_beside_those_of_before(
    sql: Sql, client: Client, new_table: NewTable, vectorized: bool, request: pytest.FixtureRequest
) -> None:
    if not vectorized:
        request.getfixturevalue("by_row")
    table, large = new_table("id bigint, v int, f float, d decimal(5,2)"), 5_000_000_000
    sql(f"INSERT INTO txn.{table} VALUES (1, 1, 0.5, 1.25), (2, 2, 0.1, NULL), (3, NULL, NULL, 2)")
    before = client.snapshot()
    for column, kind in (("v", "bigint"), ("f", "double"), ("d", "decimal(20,2)")):
        sql(f"ALTER TABLE txn.{table} ALTER COLUMN {column} TYPE {kind}")
    sql(f"INSERT INTO txn.{table} VALUES (4, {large}, 0.1, 123456789.25)")
    sql(f"UPDATE txn.{table} SET v = v + {large} WHERE v = 2 AND f > 0.1")
    sql(f"DELETE FROM txn.{table} WHERE d = 2 OR v > {1 << 40}")
    there = [(1, 1, 0.5, "1.25"), (2, large + 2, 0.10000000149011612, None), (4, large, 0.1, "123456789.25")]
    assert rows(sql(f"SELECT id, v, f, string(d) FROM txn.{table} ORDER BY id")) == there
    for where, ids in (("v > 3000000000", [2, 4]), ("v < 3000000000", [1]), ("f = 0.1D", [4]), ("d < 2", [1])):
        assert rows(sql(f"SELECT id FROM txn.{table} WHERE {where} ORDER BY id")) == [(each,) for each in ids]
    old = sql(f"SELECT id, v FROM txn.{table} VERSION AS OF {before.timestamp} ORDER BY id")
    assert rows(old) == [(1, 1), (2, 2), (3, None)]


def test_what_a_table_is_told_to_be_makes_it_again(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint NOT NULL, v bigint NOT NULL, s struct<a: int>", primary_key=["id"])
    sql(f"ALTER TABLE txn.{table} ADD COLUMN `odd name` array<string> COMMENT 'it\\'s'")
    sql(f"ALTER TABLE txn.{table} ALTER COLUMN v DROP NOT NULL")
    sql(f"ALTER TABLE txn.{table} ALTER COLUMN v AFTER `odd name`")
    told = [(row.col_name, row.data_type, row.comment or "") for row in sql(f"DESCRIBE txn.{table}").collect()]
    assert told[:2] == [("id", "bigint", ""), ("s", "struct<a:int>", "")]
    assert told[2:4] == [("odd name", "array<string>", "it's"), ("v", "bigint", "")]
    (created,) = rows(sql(f"SHOW CREATE TABLE txn.{table}"))
    assert created[0].index("odd name") < created[0].index("COMMENT") < created[0].index("v BIGINT")
    assert [column.nullable for column in client.table(table).schema.columns] == [False, True, True, True]
    for change, why in (
        ("DROP COLUMN id", "part of the primary key"),
        ("RENAME COLUMN id TO w", "part of the primary key"),
        ("RENAME COLUMN v TO id", "already exists|FIELD_ALREADY_EXISTS"),
        ("REPLACE COLUMNS (id bigint, v bigint)", "REPLACE COLUMNS is not possible"),
        (
            "ALTER COLUMN v TYPE decimal(20,0)",
            "cannot become decimal|ALTER COLUMN v TYPE is not possible|NOT_SUPPORTED_CHANGE_COLUMN",
        ),
        ("ALTER COLUMN v SET NOT NULL", "ALTER COLUMN v SET NOT NULL is not possible|NOT_NULL|nullable"),
        ("ALTER COLUMN id DROP NOT NULL", "part of the primary key"),
        ("ADD COLUMN id int", "already exists|FIELD_ALREADY_EXISTS"),
        ("ADD COLUMN w int NOT NULL", "NOT NULL: the rows that there are have nulls in it"),
        ("ADD COLUMN w int DEFAULT current_user()", "a default is a literal|DEFAULT"),
        ("ADD COLUMN s.field int FIRST", r"ADD COLUMN s\.field is not possible"),
    ):
        with pytest.raises(Exception, match=why):
            sql(f"ALTER TABLE txn.{table} {change}")
    sql("BEGIN")
    try:
        with pytest.raises(Exception, match="cannot be part of transaction"):
            sql(f"ALTER TABLE txn.{table} ADD COLUMN w int")
    finally:
        sql("ROLLBACK")


@pytest.mark.parametrize("by_batches", [True, False])
def test_structs_get_fields_over_files_from_before(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, by_batches: bool, request: pytest.FixtureRequest
) -> None:
    if not by_batches:
        request.getfixturevalue("by_row")
    table = new_table("id bigint, s struct<x:int>, l array<struct<x:int>>, m map<string,struct<x:int>>")
    old = spark.range(1, 3).selectExpr(
        "id",
        "IF(id = 1, named_struct('x', 1), NULL) s",
        "array(named_struct('x', 2)) l",
        "map('k', named_struct('x', 3)) m",
    )
    client.write(old, table)
    for field in ("s.z", "l.element.z", "m.value.z"):
        sql(f"ALTER TABLE txn.{table} ADD COLUMN {field} string")
    client.write(old.selectExpr("id + 2 AS id", "s", "l", "m"), table)
    sql(f"INSERT INTO txn.{table} SELECT 5, named_struct('x', 5, 'z', 'new'), array(), map()")
    expected = [(1, 1, None), (2, None, None), (3, 1, None), (4, None, None), (5, 5, "new")]
    with client.snapshot() as now:
        for frame in (sql(f"SELECT * FROM txn.{table}"), now.read(spark, table)):
            assert rows(frame.orderBy("id").selectExpr("id", "s.x", "s.z")) == expected
            inside = frame.where("id < 5").selectExpr("l[0].x", "l[0].z", "m['k'].x", "m['k'].z")
            assert rows(inside) == [(2, None, 3, None)] * 4
            assert sorted(rows(frame.where("s IS NOT NULL").selectExpr("s.z")), key=str) == [("new",), (None,), (None,)]
            assert rows(frame.where("s.z IS NULL AND s IS NOT NULL").select("id").orderBy("id")) == [(1,), (3,)]
        assert now.to_arrow(table).sort_by("id")["s"].to_pylist()[:2] == [{"x": 1, "z": None}, None]
    sql(f"UPDATE txn.{table} SET s.z = 'set' WHERE id = 1")
    assert rows(sql(f"SELECT s.x, s.z FROM txn.{table} WHERE id = 1")) == [(1, "set")]
    for statement, why in (
        (f"ALTER TABLE txn.{table} DROP COLUMN s.x", "DROP COLUMN s.x is not possible .*UPDATE it from this one"),
        (
            f"ALTER TABLE txn.{table} RENAME COLUMN s.x TO y",
            "RENAME COLUMN s.x is not possible .*UPDATE it from this one",
        ),
    ):
        with pytest.raises(Exception, match=why):
            sql(statement)
