"""Statements about partitions: there are those in which there are rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tests.spark.sql.looking import there
from txnclient import Client
from txnclient.sparksql import last_commit
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


def listed(frame: DataFrame) -> list[str]:
    return [row.partition for row in frame.collect()]


def rows(days: list[int], htable: list[int]) -> pa.Table:
    columns = {"day": pa.array(days, pa.int32()), "hour": pa.array(htable, pa.int32())}
    return pa.table({"id": pa.array(range(len(days)), pa.int64()), **columns})


def test_partitions_are_those_that_have_rows(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, day int, hour int", partition_by=["day", "hour"])
    show = f"SHOW PARTITIONS txn.{table}"
    assert listed(sql(show)) == []
    client.write(rows([1, 1, 2], [1, 2, 1]), table)
    assert listed(sql(show)) == ["day=1/hour=1", "day=1/hour=2", "day=2/hour=1"]
    assert listed(sql(f"{show} PARTITION (DAY = 1)")) == ["day=1/hour=1", "day=1/hour=2"]
    assert listed(sql(f"{show} PARTITION (hour = 1)")) == ["day=1/hour=1", "day=2/hour=1"]
    assert listed(sql(f"{show} PARTITION (hour = 9)")) == []
    sql(f"DELETE FROM txn.{table} WHERE id = 1")
    assert listed(sql(show)) == ["day=1/hour=1", "day=2/hour=1"], "all rows of one are dead, in a file that is there"
    with client.transaction() as txn, txn.spark(spark):
        assert listed(sql(show)) == ["day=1/hour=1", "day=2/hour=1"]
        client.write(rows([7], [7]), table)
        sql(f"INSERT INTO txn.{table} VALUES (9, 3, 3)")
        assert listed(sql(show)) == ["day=1/hour=1", "day=2/hour=1", "day=3/hour=3"]
    assert listed(sql(show)) == ["day=1/hour=1", "day=2/hour=1", "day=3/hour=3", "day=7/hour=7"]


def test_rows_in_no_file_count(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, day int, hour int", partition_by=["day", "hour"], primary_key=["id"])
    client.write(rows([1, 2], [1, 1]), table)
    client.upsert(table, rows([3], [1]))
    assert listed(sql(f"SHOW PARTITIONS txn.{table}")) == ["day=2/hour=1", "day=3/hour=1"]
    client.delete(table, rows([3], [1]).select(["id"]))
    assert listed(sql(f"SHOW PARTITIONS txn.{table}")) == ["day=2/hour=1"]


def test_values_are_told_as_spark_writes_them(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    ddl, split_by = "id int, s string, d decimal(12,10), day date, b boolean, n bigint, t tinyint", "s, d, day, b, n, t"
    values = [
        (1, None, None, None, None, None, None),
        (2, "a b*c/ö=%~", Decimal("-12.5"), date(1582, 10, 10), True, -(2**63), -128),
        (3, "x" * 300, Decimal("0E-10"), date(1, 1, 1), False, 2**63 - 1, 127),
        (4, "x" * 300, Decimal("1E-10"), date(9999, 12, 31), False, 0, 0),
    ]
    table = new_table(ddl, partition_by=split_by.split(", "))
    spark.createDataFrame(values, ddl).writeTo(f"txn.{table}").append()
    found = listed(sql(f"SHOW PARTITIONS txn.{table}"))
    escaped = "s=a b%2Ac%2Fö%3D%25~"
    assert [each.partition("/d=")[0] for each in found] == [escaped, "s=null", f"s={'x' * 300}", f"s={'x' * 300}"]
    assert found[0].endswith("/d=-12.5000000000/day=1582-10-10/b=true/n=-9223372036854775808/t=-128")
    assert found[1] == "/".join(f"{column}=null" for column in split_by.split(", "))
    assert found[2].endswith("/d=0.0000000000/day=0001-01-01/b=false/n=9223372036854775807/t=127")
    one = f"s = '{'x' * 300}', day = '9999-12-31'"
    assert listed(sql(f"SHOW PARTITIONS txn.{table} PARTITION ({one})")) == [found[3]]


def test_a_partition_is_described(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, day int, hour int", partition_by=["day", "hour"])
    client.write(rows([1], [2]), table)
    (told,) = sql(f"SHOW TABLE EXTENDED IN txn.s LIKE '{table[2:]}' PARTITION (day = 1, hour = 2)").collect()
    assert "[day=1, hour=2]" in told.information
    statement = f"DESCRIBE TABLE EXTENDED txn.{table} PARTITION (day = 1, hour = 2)"
    if tuple(map(int, spark.version.split(".")[:2])) < (4, 2):
        with pytest.raises(Exception, match="DESCRIBE does not support partition"):
            sql(statement)
    else:
        assert ("Partition Values", "[day=1, hour=2]", "") in map(tuple, sql(statement).collect())


def test_partitions_are_emptied(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, day int, hour int", partition_by=["day", "hour"])
    client.write(rows([1, 1, 2, 2, 3, 3], [1, 2, 1, 2, 1, 2]), table)
    sql(f"TRUNCATE TABLE txn.{table} PARTITION (day = 1, hour = 1)")
    assert there(client, table) == [1, 2, 3, 4, 5]
    assert (done := last_commit(spark)) is not None
    assert done.rows is None
    sql(f"TRUNCATE TABLE txn.{table} PARTITION (day = 2)")
    assert there(client, table) == [1, 4, 5]
    for nothing in ("day = 2", "day = 2, hour = 2", "day = 9"):
        sql(f"TRUNCATE TABLE txn.{table} PARTITION ({nothing})")
    assert there(client, table) == [1, 4, 5], "what is empty can be emptied; nothing else goes"
    sql(f"ALTER TABLE txn.{table} DROP PARTITION (day = 1, hour = 2)")
    assert there(client, table) == [4, 5]
    with pytest.raises(Exception, match="PARTITIONS_NOT_FOUND"):
        sql(f"ALTER TABLE txn.{table} DROP PARTITION (day = 1, hour = 2)")
    sql(f"ALTER TABLE txn.{table} DROP IF EXISTS PARTITION (day = 1, hour = 2)")
    with client.transaction() as txn, txn.spark(spark):
        sql(f"ALTER TABLE txn.{table} DROP PARTITION (day = 3, hour = 1), PARTITION (day = 3, hour = 2)")
        assert listed(sql(f"SHOW PARTITIONS txn.{table}")) == []
        assert there(client, table) == [4, 5]
    assert there(client, table) == []
    assert not client.transactions([TxnState.OPEN])


def test_what_partitions_are_not(sql: Sql, client: Client, new_table: NewTable) -> None:
    table, whole = new_table("id bigint, day int", partition_by=["day"]), new_table("id bigint")
    client.write(pa.table({"id": [1], "day": pa.array([1], pa.int32())}), table)
    for statement, why in (
        (f"ALTER TABLE txn.{table} ADD PARTITION (day = 2)", "ADD PARTITION is not possible: a partition"),
        (f"ALTER TABLE txn.{table} PARTITION (day = 1) RENAME TO PARTITION (day = 2)", "RENAME PARTITION is not poss"),
        (f"ALTER TABLE txn.{table} DROP PARTITION (day = 1) PURGE", "leave PURGE away"),
        (f"ALTER TABLE txn.{table} PARTITION (day = 1) SET LOCATION '/x'", "does not support partition"),
        (f"SHOW PARTITIONS txn.{table} PARTITION (nope = 1)", "nope"),
        (f"SHOW PARTITIONS txn.{whole}", "PARTITION_SCHEMA_IS_EMPTY"),
        (f"TRUNCATE TABLE txn.{whole} PARTITION (day = 1)", "PARTITIONS_NOT_FOUND"),
    ):
        with pytest.raises(Exception, match=why):
            sql(statement).collect()
    assert there(client, table) == [1]
