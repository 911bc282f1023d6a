"""Scripts of Databricks: what the page says they need changed is refused here, and what stands beside it works."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyspark
import pytest

from tests.spark.sql.looking import found, ids, there
from txnclient import Client
from txnstatus.errors import Conflict, IllegalState, InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
pytestmark = pytest.mark.usefixtures("nothing_left")


def test_a_script_moves_as_it_is_with_the_catalog_before_names(sql: Sql, client: Client, new_table: NewTable) -> None:
    """Variables, conditions, loops, a block within and a handler: these are Spark's."""
    orders, audit = new_table("id bigint"), new_table("id bigint, note string")
    sql(f"""
        BEGIN ATOMIC
          DECLARE rounds INT DEFAULT 0;
          WHILE rounds < 2 DO
            SET rounds = rounds + 1;
            INSERT INTO txn.{orders} VALUES (rounds);
          END WHILE;
          BEGIN
            DECLARE EXIT HANDLER FOR SQLEXCEPTION INSERT INTO txn.{audit} VALUES (rounds, 'many');
            IF (SELECT count(*) FROM txn.{orders}) > 1 THEN SELECT raise_error('many'); END IF;
            INSERT INTO txn.{audit} VALUES (0, 'never');
          END;
        END""")
    assert (there(client, orders), there(client, audit)) == ([1, 2], [2])
    with pytest.raises(Exception, match="too few"):
        sql(f"BEGIN ATOMIC DELETE FROM txn.{orders}; SELECT raise_error('too few'); END").collect()
    assert there(client, orders) == [1, 2]


def test_names_go_without_the_catalog_after_use(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    before = spark.catalog.currentCatalog()
    sql("USE txn")
    try:
        sql(f"BEGIN ATOMIC INSERT INTO {table} VALUES (1); END")
        sql("BEGIN TRANSACTION")
        sql(f"INSERT INTO {table} VALUES (2)")
        sql("COMMIT")
    finally:
        spark.catalog.setCurrentCatalog(before)
    assert there(client, table) == [1, 2]


@pytest.mark.parametrize(
    "made",
    [
        "CREATE TABLE txn.s.moved (id bigint) USING DELTA",
        "CREATE TABLE txn.s.moved (id bigint) TBLPROPERTIES ('delta.feature.catalogManaged' = 'supported')",
        "CREATE TABLE txn.s.moved (id bigint GENERATED ALWAYS AS IDENTITY)",
        "ALTER TABLE txn.{0} SET TBLPROPERTIES ('delta.feature.catalogManaged' = 'supported')",
        "OPTIMIZE txn.{0}",
        "VACUUM txn.{0}",
        "ANALYZE TABLE txn.{0} COMPUTE STATISTICS",
        "RESTORE TABLE txn.{0} TO VERSION AS OF 1",
        "DESCRIBE HISTORY txn.{0}",
        "SELECT * FROM table_changes('txn.{0}', 1)",
        "COPY INTO txn.{0} FROM '/data' FILEFORMAT = PARQUET",
        "CREATE PROCEDURE txn.s.moved() LANGUAGE SQL AS BEGIN ATOMIC DELETE FROM txn.{0}; END",
        "BEGIN ATOMIC CREATE TABLE txn.s.moved (id bigint); END",
        "BEGIN ATOMIC DROP TABLE txn.{0}; END",
        "BEGIN ATOMIC BEGIN ATOMIC SELECT 1; END; END",
        "BEGIN ATOMIC SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'too few'; END",
        "BEGIN ATOMIC SAVEPOINT a; END",
    ],
)
def test_what_there_is_and_is_not_here_is_refused(sql: Sql, client: Client, new_table: NewTable, made: str) -> None:
    table = new_table("id bigint")
    with pytest.raises(Exception, match=r"."):
        sql(made.format(table)).collect()
    assert "s.moved" not in {each.name for each in client.tables()}
    assert client.table(table).properties == {}


def test_what_stands_beside_it_works(sql: Sql, client: Client, new_table: NewTable, tmp_path: object) -> None:
    table = new_table("id bigint")
    sql(f"INSERT INTO txn.{table} VALUES (1), (2)")
    sql(
        f"BEGIN ATOMIC DELETE FROM txn.{table} WHERE id = 1; CALL txn.system.savepoint('a'); "
        f"DELETE FROM txn.{table}; CALL txn.system.rollback_to('a'); END"
    )
    assert there(client, table) == [2]
    assert {row.kind for row in sql(f"ALTER TABLE txn.{table} COMPACT 'major'").collect()} <= {"major"}
    versions = sql(f"SELECT version FROM txn.system.snapshots WHERE table_name = '{table}' ORDER BY version").collect()
    assert len(versions) == 2
    assert found(sql(f"SELECT id FROM txn.{table} VERSION AS OF {versions[0].version}")) == [1, 2]
    sql(f"RESTORE TABLES txn.{table} TO VERSION {versions[0].version}")
    assert there(client, table) == [1, 2]
    assert client.diff(table, since=versions[0].version, until=versions[1].version).num_rows == 1
    sql(f"SELECT id FROM txn.{table}").write.parquet(f"{tmp_path}/files")
    sql(f"INSERT INTO txn.{table} SELECT * FROM parquet.`{tmp_path}/files`")
    assert there(client, table) == [1, 1, 2, 2]


def test_a_conflict_comes_as_the_script_ends_and_rows_are_what_conflicts(
    sql: Sql, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    then = client.write(ids(1, 2), table).commit_timestamp
    sql(f"UPDATE txn.{table} SET id = 10 WHERE id = 1")

    def change(key: int) -> None:
        """Changes the row as it was before the update."""
        sql(f"SET TRANSACTION SNAPSHOT {then}")
        sql(
            "BEGIN ATOMIC DECLARE EXIT HANDLER FOR SQLEXCEPTION SELECT 'taken'; "
            f"UPDATE txn.{table} SET id = id * 10 WHERE id = {key}; END"
        )

    change(2)
    assert there(client, table) == [10, 20]
    with pytest.raises(Conflict, match=table):
        change(1)
    assert there(client, table) == [10, 20]


@pytest.mark.skipif(pyspark.__version__ < "4.1", reason="scripts have no parameters")
def test_a_script_has_parameters(spark: SparkSession, client: Client, new_table: NewTable, catalog: str) -> None:
    table = new_table("id bigint")
    spark.sql(f"BEGIN ATOMIC INSERT INTO {catalog}.{table} VALUES (:one), (:other); END", {"one": 1, "other": 2})
    assert there(client, table) == [1, 2]


def test_a_transaction_within_is_refused_by_what_is_open(sql: Sql) -> None:
    sql("BEGIN TRANSACTION")
    with pytest.raises(IllegalState, match="is open in this session"):
        sql("BEGIN ATOMIC SELECT 1; END")
    sql("ROLLBACK")
    with pytest.raises(InvalidArgument, match="expected"):
        sql("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE")
