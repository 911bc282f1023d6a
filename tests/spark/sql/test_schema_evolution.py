"""Spark's statements WITH SCHEMA EVOLUTION: columns that are new are added, and what else would change is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyspark
import pytest

from txnclient import Client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
pytestmark = pytest.mark.skipif(pyspark.__version__ < "4.1", reason="Spark 4.0 passes over WITH SCHEMA EVOLUTION")
HAS_INSERTS = pyspark.__version__ >= "4.3"


def rows(client: Client, table: str) -> list[tuple[Any, ...]]:
    with client.snapshot() as snapshot:
        return [tuple(row.values()) for row in snapshot.to_arrow(table).sort_by("id").to_pylist()]


@pytest.fixture(params=[pytest.param(False, marks=pytest.mark.campaign), True], ids=["without a key", "with a key"])
def table(request: pytest.FixtureRequest, client: Client, new_table: NewTable) -> str:
    """With a row in a file, and one by key where there is one."""
    name = new_table("id bigint, v bigint", primary_key=["id"] if request.param else ())
    client.write(pa.table({"id": [1], "v": [10]}), name)
    more = pa.table({"id": [2], "v": [20]})
    if request.param:
        client.insert(name, more)
    else:
        client.write(more, name)
    return name


def test_a_merge_brings_columns(sql: Sql, client: Client, table: str) -> None:
    source = "(SELECT 1L id, 11L v, 'x' more UNION ALL SELECT 3L, 30L, 'y')"
    merge = f"MERGE WITH SCHEMA EVOLUTION INTO txn.{table} t USING {source} s ON t.id = s.id"
    sql(f"{merge} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *")
    assert rows(client, table) == [(1, 11, "x"), (2, 20, None), (3, 30, "y")]
    sql(f"UPDATE txn.{table} SET more = 'z' WHERE more IS NULL")
    assert rows(client, table) == [(1, 11, "x"), (2, 20, "z"), (3, 30, "y")]


def test_a_merge_whose_source_is_the_table_itself(sql: Sql, client: Client, table: str) -> None:
    source = f"(SELECT *, v + 1 AS w FROM txn.{table} WHERE id = 1)"
    sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO txn.{table} t USING {source} s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = t.v + 5"
    )
    assert rows(client, table) == [(1, 10, 11), (2, 25, None)]


@pytest.mark.skipif(not HAS_INSERTS, reason="INSERT WITH SCHEMA EVOLUTION comes with Spark 4.3")
def test_inserts_and_writers_bring_columns(spark: SparkSession, sql: Sql, client: Client, table: str) -> None:
    sql(f"INSERT WITH SCHEMA EVOLUTION INTO txn.{table} BY NAME SELECT 'x' AS more, 3L AS id, 30L AS v")
    frame = spark.sql("SELECT 4L AS id, 40L AS v, 'y' AS more, 0.5D AS part")
    frame._jdf.writeTo(f"txn.{table}").withSchemaEvolution().append()  # PySpark has no such call
    assert rows(client, table) == [
        (1, 10, None, None),
        (2, 20, None, None),
        (3, 30, "x", None),
        (4, 40, "y", 0.5),
    ]


def test_what_else_would_change_is_refused(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v int")
    client.write(pa.table({"id": [1], "v": pa.array([10], pa.int32())}), table)

    def merge(source: str) -> None:
        into = f"MERGE WITH SCHEMA EVOLUTION INTO txn.{table} t USING ({source}) s ON t.id = s.id"
        sql(f"{into} WHEN MATCHED THEN UPDATE SET *")

    with pytest.raises(Exception, match="WITH SCHEMA EVOLUTION, ALTER COLUMN v TYPE is not possible"):
        merge("SELECT 1L id, 2L v, 3 more")
    with (
        client.transaction() as txn,
        txn.spark(spark),
        pytest.raises(Exception, match=r"ALTER TABLE .* cannot be part"),
    ):
        merge("SELECT 1L id, 2 v, 3 more")
    assert rows(client, table) == [(1, 10)]
    assert len(client.table(table).schema.columns) == 2
