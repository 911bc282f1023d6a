"""Statements that make tables, replace them, and change and tell what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from txnclient import Client, outcome
from txnclient.outcome import CommitReceipt
from txnclient.sparksql import definitions
from txnclient.transaction.ending import Ending
from txnstatus.errors import CommitUnknown, Conflict, InvalidArgument
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


def there(client: Client, table: str) -> list[int]:
    """Read without Spark."""
    return sorted(client.snapshot().to_arrow(table)["id"].to_pylist())


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


# ---- replaced


def test_a_table_is_replaced_at_once(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, day int NOT NULL", partition_by=["day"], properties={"compact_delta_num": 5})
    before = client.table(table)
    first = client.write(pa.table({"id": [1, 2], "day": pa.array([1, 2], pa.int32())}), table).commit_timestamp
    sql(f"CREATE OR REPLACE TABLE txn.{table} PARTITIONED BY (day) AS SELECT id + 10 AS id, day FROM txn.{table}")
    assert there(client, table) == [11, 12]
    rows = spark.createDataFrame([(21, 1), (22, 3)], "id bigint, day int")
    rows.writeTo(f"txn.{table}").partitionedBy("day").createOrReplace()
    assert there(client, table) == [21, 22]
    rows.where("id = 21").write.mode("overwrite").partitionBy("day").saveAsTable(f"txn.{table}")
    assert there(client, table) == [21]
    sql(f"REPLACE TABLE txn.{table} PARTITIONED BY (day) AS SELECT * FROM txn.{table} VERSION AS OF {first}")
    assert there(client, table) == [1, 2]
    sql(f"REPLACE TABLE txn.{table} (id bigint, day int) PARTITIONED BY (day) TBLPROPERTIES (compact_delta_num = 5)")
    assert there(client, table) == []
    assert client.table(table) == before, "it is the same table, with its history"
    assert client.snapshot(first).to_arrow(table).num_rows == 2
    assert not client.transactions([TxnState.OPEN])


def test_a_replacement_that_names_no_key_keeps_it(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, v bigint", primary_key=["id"])
    before = client.table(table)
    sql(f"INSERT INTO txn.{table} VALUES (1, 1), (2, 2)")
    sql(f"CREATE OR REPLACE TABLE txn.{table} AS SELECT id + 1 AS id, v FROM txn.{table}")
    assert there(client, table) == [2, 3]
    spark.range(4, 6).selectExpr("id", "id AS v").write.mode("overwrite").saveAsTable(f"txn.{table}")
    assert there(client, table) == [4, 5]
    with pytest.raises(InvalidArgument, match=r"more than once in the rows for table .*7"):
        sql(f"REPLACE TABLE txn.{table} AS SELECT 7L AS id, id AS v FROM range(2)")
    for statement, why in (
        ("TBLPROPERTIES (primary_key = 'v') AS SELECT 7L AS id, 7L AS v", "column 2 is"),
        ("AS SELECT 7L AS v", "column 1 is 'id' bigint NOT NULL, not 'v' bigint"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            sql(f"REPLACE TABLE txn.{table} {statement}")
    assert there(client, table) == [4, 5]
    assert client.table(table) == before


def test_a_replacement_that_fails_leaves_what_was_there(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    from pyspark.errors import AnalysisException

    table = new_table("id bigint")
    client.write(ids(1), table)
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql(f"CREATE OR REPLACE TABLE txn.{table} AS SELECT 1 DIV (id - id) AS id FROM range(2)")
    for statement, why in (
        (f"AS SELECT id, 1 AS more FROM txn.{table}", "column 2 is nothing, not 'more' int"),
        ("AS SELECT 'x' AS id", "column 1 is 'id' bigint, not 'id' string"),
        ("PARTITIONED BY (id) AS SELECT 1L AS id", "partition_by"),
        ("TBLPROPERTIES (primary_key = 'id') AS SELECT 1L AS id", "column 1 is|primary_key is"),
        ("TBLPROPERTIES (NO_AUTO_COMPACTION = true) AS SELECT 1L AS id", "property NO_AUTO_COMPACTION is None"),
        ("USING orc AS SELECT 1L AS id", "USING orc"),
    ):
        with pytest.raises(InvalidArgument, match=why):
            sql(f"CREATE OR REPLACE TABLE txn.{table} {statement}")
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        sql("REPLACE TABLE txn.s.nowhere AS SELECT 1L AS id")
    assert there(client, table) == [1]
    assert not client.transactions([TxnState.OPEN])


def test_rows_that_a_replacement_has_not_read_are_a_conflict(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its reading and its writing somebody overwrites the table."""
    table, asked = new_table("id bigint"), definitions._asked
    client.write(ids(1), table)

    def late(request: definitions.Request) -> definitions._Asked:
        client.write(ids(5), table, "overwrite")
        return asked(request)

    with monkeypatch.context() as patch:
        patch.setattr(definitions, "_asked", late)
        with pytest.raises(Conflict, match=table):
            sql(f"CREATE OR REPLACE TABLE txn.{table} AS SELECT id + 1 AS id FROM txn.{table}")
    assert there(client, table) == [5]


def test_a_table_whose_rows_may_be_there_is_not_dropped(
    sql: Sql, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Ending.commit

    def silent(self: Ending, timeout: float) -> CommitReceipt:
        found = commit(self, timeout)
        raise outcome.unknown(found.txn_id, "the answer was lost")

    with monkeypatch.context() as patch:
        patch.setattr(Ending, "commit", silent)
        with pytest.raises(CommitUnknown):
            sql("CREATE TABLE txn.s.unknown AS SELECT 1L AS id")
    assert there(client, "s.unknown") == [1]
    client.drop_table("s.unknown")


# ---- changed and told


def test_properties_are_changed_and_told(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint", primary_key=["id"])
    sql(f"ALTER TABLE txn.{table} SET TBLPROPERTIES (compact_delta_num = 7, NO_AUTO_COMPACTION = true)")
    sql(f"ALTER TABLE txn.{table} UNSET TBLPROPERTIES (NO_AUTO_COMPACTION)")
    assert client.table(table).properties == {"compact_delta_num": "7"}
    told = {row.key: row.value for row in sql(f"SHOW TBLPROPERTIES txn.{table}").collect()}
    assert told == {"compact_delta_num": "7", "conflicts": "first-committer-wins", "primary_key": "`id`"}
    for change, why in (
        ("SET TBLPROPERTIES (whatever = 1)", "no table property 'whatever'"),
        ("SET TBLPROPERTIES (compact_delta_num = 'x')", "compact_delta_num"),
        ("SET TBLPROPERTIES (primary_key = 'id')", "primary_key cannot be changed"),
        ("UNSET TBLPROPERTIES (conflicts)", "conflicts cannot be changed"),
        ("DROP COLUMN id", "'id' of table .* is part of the primary key: it cannot be dropped"),
        ("RENAME COLUMN id TO it", "'id' of table .* is part of the primary key: it keeps its name"),
        ("ALTER COLUMN id TYPE string", "part of the primary key: it keeps its type|NOT_SUPPORTED_CHANGE_COLUMN"),
        ("RENAME TO txn.elsewhere.other", "stays in its database"),
    ):
        with pytest.raises(Exception, match=why):
            sql(f"ALTER TABLE txn.{table} {change}")
    assert client.table(table).properties == {"compact_delta_num": "7"}


def test_a_table_gets_another_name(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    client.write(pa.table({"id": [1]}), table)
    frame, at = spark.table(f"txn.{table}"), client.last_commit()
    assert frame.count() == 1
    for to in (f"txn.{table}_a", f"{table}_b", f"{table.partition('.')[2]}_c"):
        sql(f"ALTER TABLE txn.{client.table(renamed(client, table)).name} RENAME TO {to}")
        assert sql(f"SELECT * FROM txn.{table}_{to[-1]}").count() == 1
        with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(f"SELECT * FROM txn.{table}")
    assert sql(f"SELECT * FROM txn.{table}_c VERSION AS OF {at}").count() == 1
    sql(f"INSERT INTO txn.{table}_c VALUES (2)")
    assert there(client, f"{table}_c") == [1, 2]
    sql(f"CREATE TABLE txn.{table} (id bigint)")
    for wrong, why in (
        (table, "TABLE_OR_VIEW_ALREADY_EXISTS|already exists"),
        (f"{table}_c", "called so already|exist"),
    ):
        with pytest.raises(Exception, match=why):
            sql(f"ALTER TABLE txn.{table}_c RENAME TO {wrong}")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql(f"ALTER TABLE txn.{table}_a RENAME TO {table}_d")
    assert there(client, f"{table}_c") == [1, 2]


def renamed(client: Client, table: str) -> str:
    """What a table is called by now."""
    return next(each.name for each in client.tables() if each.name.startswith(table))


def test_what_show_create_table_says_makes_the_table_again(sql: Sql, client: Client, new_table: NewTable) -> None:
    columns = (
        "`grö ``ße` bigint NOT NULL COMMENT 'it\\'s', v array<struct<a: int, b: map<string, decimal(9,2)>>>, day date"
    )
    table = new_table(columns, partition_by=["day"], primary_key=["grö `ße", "day"], conflicts="wait")
    before = client.table(table)
    (said,) = sql(f"SHOW CREATE TABLE txn.{table}").collect()
    client.drop_table(table)
    sql(said[0])
    again = client.table(table)
    assert (again.schema, again.conflicts, again.location) == (before.schema, before.conflicts, before.location)


def test_what_a_table_cannot_have_is_named(sql: Sql, client: Client) -> None:
    for described, why in (
        ("(a int DEFAULT current_user())", "a default is a literal|DEFAULT"),
        ("(a int, b int GENERATED ALWAYS AS (a + 1))", "generated columns"),
        ("(a bigint GENERATED ALWAYS AS IDENTITY)", "identity column"),
        ("(a int, CONSTRAINT c CHECK (a > 0))", "table constraint|PARSE_SYNTAX"),
        ("(a char(5))", r"'char\(5\)' is none that a table can have"),
        ("(a varchar(5))", r"'varchar\(5\)' is none that a table can have"),
        ("(a variant)", "'variant' is none that a table can have"),
        ("(a interval day to second)", "'interval day to second' is none"),
        ("(a int) COMMENT 'x'", "COMMENT of a table"),
        ("(a int) OPTIONS (x = 1)", "OPTIONS: a table cannot have"),
        ("(a int) STORED AS PARQUET", "STORED AS and ROW FORMAT, for which there is USING parquet"),
        ("(a int) USING orc", "USING orc"),
    ):
        with pytest.raises(Exception, match=why):
            sql(f"CREATE TABLE txn.s.cannot {described}")
    assert "s.cannot" not in {table.name for table in client.tables()}


def test_statements_that_are_other_lakes_own_are_named(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, day int", partition_by=["day"])
    before = client.table(table)
    for statement, why in (
        ("OPTIMIZE txn.{}", "PARSE_SYNTAX_ERROR.*OPTIMIZE"),
        ("CALL txn.system.expire_snapshots('{}')", "there is no procedure system.expire_snapshots"),
        ("SELECT txn.system.bucket(4, id) FROM txn.{}", "txn does not support functions"),
        ("CREATE VIEW txn.s.seen AS SELECT * FROM txn.{}", "txn does not support views"),
        ("SELECT * FROM txn.{}.snapshots", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM txn.{} VERSION AS OF 'branch'", "VERSION AS OF 'branch': a version is a timestamp"),
        ("CREATE TABLE txn.s.cannot PARTITIONED BY (days(day)) AS TABLE txn.{}", r"PARTITIONED BY \(days\(day\)\)"),
        ("ALTER TABLE txn.{} CLUSTER BY (id)", "CLUSTER BY is not possible"),
        ("ALTER TABLE txn.{} ADD CONSTRAINT c CHECK (id > 0)", "table constraint|PARSE_SYNTAX"),
        ("ALTER TABLE txn.{} SET LOCATION '/elsewhere'", "location cannot be changed"),
        ("COMMENT ON TABLE txn.{} IS 'x'", "comment cannot be changed"),
        ("ALTER TABLE txn.{} ADD PARTITION (day = 1)", "ADD PARTITION is not possible: a partition is there"),
        ("MSCK REPAIR TABLE txn.{}", "not supported for v2 tables"),
    ):
        with pytest.raises(Exception, match=why):
            sql(statement.format(table))
    assert client.table(table) == before
