"""Defaults of columns in Spark's SQL: given and taken, and what INSERT, MERGE and DataFrames make of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

from txnclient import Client, IllegalState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
pytestmark = pytest.mark.skipif(pyspark.__version__ < "4.1", reason="an INSERT of Spark 4.0 names all columns")


def rows(client: Client, table: str) -> list[tuple[Any, ...]]:
    with client.snapshot() as snapshot:
        return [tuple(row.values()) for row in snapshot.to_arrow(table).sort_by("id").to_pylist()]


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.campaign)], ids=["without a key", "with a key"])
def table(request: pytest.FixtureRequest, client: Client, new_table: NewTable) -> str:
    """With a row from before there were defaults, and a column that came after it."""
    name = new_table("id bigint, v int, w string", primary_key=["id"] if request.param else ())
    client.write(pa.table({"id": [1], "v": pa.array([10], pa.int32()), "w": ["a"]}), name)
    client.alter_table(name, add="x date")
    return name


def test_statements_go_by_defaults(sql: Sql, spark: SparkSession, client: Client, table: str) -> None:
    alter = f"ALTER TABLE txn.{table} ALTER COLUMN"
    for change in ("v SET DEFAULT -5", "w SET DEFAULT 'it\\'s'", "x SET DEFAULT DATE'2024-02-29'"):
        sql(f"{alter} {change}")
    assert [each.default for each in client.table(table).schema.columns] == [None, "-5", "it's", "2024-02-29"]
    sql(f"INSERT INTO txn.{table} (id) VALUES (2)")
    sql(f"INSERT INTO txn.{table} VALUES (3, DEFAULT, NULL, DEFAULT)")
    source = "(SELECT 4L AS id, 7 AS v)"
    sql(
        f"MERGE INTO txn.{table} t USING {source} s ON t.id = s.id "
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    client.write(spark.range(5, 6), table)
    merging = client.merge(table, spark.range(7, 8).selectExpr("id", "rand() AS r"), on="target.id = source.id")
    merging.when_not_matched_insert({"id": "source.id"}).execute()
    sql(f"UPDATE txn.{table} SET v = DEFAULT WHERE id = 4")
    found = [(id_, v, w, x and str(x)) for id_, v, w, x in rows(client, table)]
    day = "2024-02-29"
    assert found == [
        (1, 10, "a", None),
        (2, -5, "it's", day),
        (3, -5, None, day),
        (4, -5, "it's", day),
        (5, -5, "it's", day),
        (7, -5, "it's", day),
    ]
    shown = [(row.id, row.x and str(row.x)) for row in sql(f"SELECT id, x FROM txn.{table} ORDER BY id").collect()]
    assert shown == [(id_, x) for id_, _, _, x in found], "a file from before has nulls: the column came without one"
    sql(f"{alter} v DROP DEFAULT")
    sql(f"INSERT INTO txn.{table} (id, w) VALUES (8, 'z')")
    assert rows(client, table)[-1][:3] == (8, None, "z")


def test_what_is_no_default_is_refused(sql: Sql, client: Client, table: str) -> None:
    for statement, why in (
        ("ALTER COLUMN v SET DEFAULT current_user()", "a default is a literal|DEFAULT"),
        ("ALTER COLUMN v SET DEFAULT 'x'", "no value|DEFAULT"),
        ("ADD COLUMN y int DEFAULT 'x'", "no value|DEFAULT"),
        ("ADD COLUMN y binary DEFAULT X'00'", "'y' of type binary cannot have a default"),
    ):
        with pytest.raises(Exception, match=why):
            sql(f"ALTER TABLE txn.{table} {statement}")
    assert all(each.default is None for each in client.table(table).schema.columns)


LATE = (
    "i int DEFAULT 5, s string DEFAULT 'it\\'s', d date DEFAULT DATE'2024-02-29', e decimal(5,2) DEFAULT 1.5, "
    "f float DEFAULT 0.1, b boolean DEFAULT true, t timestamp DEFAULT TIMESTAMP'2024-01-01 10:00:00+02:00', "
    "n timestamp_ntz DEFAULT TIMESTAMP_NTZ'2024-01-01 10:00:00'"
)


def test_rows_of_before_have_what_a_column_came_with(sql: Sql, spark: SparkSession, client: Client, table: str) -> None:
    """In files, and by key in none: by the catalog, by a native scan, and when written anew."""
    if client.table(table).schema.primary_key:
        client.upsert(table, pa.table({"id": [2], "v": pa.array([20], pa.int32()), "w": ["b"]}))
    else:
        client.write(pa.table({"id": [2], "v": pa.array([20], pa.int32()), "w": ["b"]}), table)
    sql(f"ALTER TABLE txn.{table} ADD COLUMNS ({LATE})")
    expected = client.snapshot().to_arrow(table).sort_by("id").to_pylist()
    assert [row["s"] for row in expected] == ["it's", "it's"]
    assert {row["t"].isoformat() for row in expected} == {"2024-01-01T08:00:00+00:00"}
    sql(f"ALTER TABLE txn.{table} ALTER COLUMN i SET DEFAULT 6")
    sql(f"INSERT INTO txn.{table} (id) VALUES (3)")
    client.write(spark.range(4, 5).selectExpr("id", "CAST(NULL AS INT) v", "CAST(NULL AS STRING) w"), table)
    shown = "to_json(struct(*))"
    with client.snapshot() as now:
        whole = now.to_arrow(table).sort_by("id").to_pylist()
        assert whole[:2] == expected
        assert [row["i"] for row in whole] == [5, 5, 6, 6]
        sought, texts = "i = 5 AND e < 2 AND s LIKE 'it%'", []
        for frame in (sql(f"SELECT * FROM txn.{table}"), now.read(spark, table)):
            texts.append(sorted(row[0] for row in frame.selectExpr(shown).collect()))
            assert sorted(row[0] for row in frame.where(sought).select("id").collect()) == [1, 2]
        spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
        try:
            with pytest.raises(
                Exception, match="came with a default, which Spark's reader of rows does not read right"
            ):
                sql(f"SELECT * FROM txn.{table}").collect()
            with pytest.raises(
                IllegalState, match="came with a default, which Spark's reader of rows does not read right"
            ):
                now.read(spark, table)
        finally:
            spark.conf.unset("spark.sql.parquet.enableVectorizedReader")
        assert all(each == texts[0] for each in texts)
        for told in (
            '"i":5',
            '"s":"it\'s"',
            '"d":"2024-02-29"',
            '"e":1.50',
            '"f":0.1',
            '"b":true',
            '"n":"2024-01-01T10:00',
        ):
            assert told in texts[0][0]
        assert all(not field.metadata for field in now.read(spark, table).schema)
    sql(f"UPDATE txn.{table} SET i = i + 1 WHERE i = 5 AND id = 1")
    sql(f"DELETE FROM txn.{table} WHERE i = 5")
    assert [(row["id"], row["i"], row["s"]) for row in client.snapshot().to_arrow(table).sort_by("id").to_pylist()] == [
        (1, 6, "it's"),
        (3, 6, "it's"),
        (4, 6, "it's"),
    ]


def test_a_table_is_made_with_defaults(sql: Sql, client: Client, new_table: NewTable) -> None:
    name = new_table("id int")
    client.drop_table(name)
    sql(f"CREATE TABLE txn.{name} (id bigint, v int DEFAULT 5, w string DEFAULT 'x', x int DEFAULT NULL)")
    assert [each.default for each in client.table(name).schema.columns] == [None, "5", "x", None]
    sql(f"INSERT INTO txn.{name} (id) VALUES (1)")
    sql(f"CREATE OR REPLACE TABLE txn.{name} AS SELECT 2L AS id, 7 AS v, 'y' AS w, 8 AS x")
    sql(f"INSERT INTO txn.{name} (id) VALUES (3)")
    assert rows(client, name) == [(2, 7, "y", 8), (3, 5, "x", None)]
    sql(f"ALTER TABLE txn.{name} ADD COLUMN t timestamp DEFAULT TIMESTAMP'2024-01-01 10:00:00Z'")
    said, there = sql(f"SHOW CREATE TABLE txn.{name}").collect()[0][0], client.table(name).schema.columns
    client.drop_table(name)
    sql(said)
    assert [each.default for each in client.table(name).schema.columns] == [each.default for each in there]
