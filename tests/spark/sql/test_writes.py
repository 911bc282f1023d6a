"""Statements that write through the catalog that Spark plans with: each is a transaction of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions

from tests.spark.sql.looking import WANTS_ALL_COLUMNS
from tests.support import wait_until
from txnclient import Client, RowsAffected, Snapshot, Transaction
from txnclient.session import Session
from txnclient.sparksql import last_commit
from txnstatus import partitions
from txnstatus.errors import AlreadyExists, Conflict, IllegalState, InvalidArgument, NotFound, TxnAborted
from txnstatus.types import TxnState

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


def there(client: Client, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Read without Spark."""
    found = client.snapshot().to_arrow(table, columns or None)
    return sorted(tuple(row.values()) for row in found.to_pylist())


def is_nothing_open(client: Client) -> bool:
    return not client.transactions([TxnState.OPEN])


def test_insert_and_overwrite(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v string, day int", partition_by=["day"])
    sql(f"INSERT INTO txn.{table} VALUES (1, 'a', 1), (2, NULL, 2), (3, 'c', NULL)")
    rows = [(1, "a", 1), (2, None, 2), (3, "c", None)]
    assert there(client, table) == rows
    few, filled = ("day, id, v", ", NULL") if WANTS_ALL_COLUMNS else ("day, id", "")
    sql(f"INSERT INTO txn.{table} ({few}) SELECT day, id + 10{filled} FROM txn.{table} WHERE day = 1")
    assert there(client, table) == [*rows, (11, None, 1)]
    sql(f"INSERT OVERWRITE txn.{table} PARTITION (day = 1) SELECT 4, 'd'")
    assert there(client, table) == [*rows[1:], (4, "d", 1)]
    spark.createDataFrame([(5, "e", 2)], "id bigint, v string, day int").writeTo(f"txn.{table}").overwritePartitions()
    assert there(client, table) == [(3, "c", None), (4, "d", 1), (5, "e", 2)]
    spark.range(6, 8).selectExpr("'f' AS v", "id", "int(id) AS day").writeTo(f"txn.{table}").append()
    assert there(client, table, "id") == [(3,), (4,), (5,), (6,), (7,)]
    sql(f"INSERT OVERWRITE txn.{table} SELECT id + 1, v, day FROM txn.{table} WHERE id > 5")
    assert there(client, table) == [(7, "f", 6), (8, "f", 7)]
    sql(f"TRUNCATE TABLE txn.{table}")
    assert there(client, table) == []
    assert is_nothing_open(client)


REPLACED = """SELECT 1L AS id, 'it\\'s \\\\ ${x}' AS t, 1.25BD AS n, 0.5D AS d, DATE'2024-02-29' AS day,
    TIMESTAMP'2024-10-27 01:30:00+00:00' AS at, true AS b, named_struct('x y', 7) AS `s.t`
    UNION ALL SELECT 2L, '%', NULL, double('NaN'), NULL, TIMESTAMP'2024-10-27 00:30:00+00:00', false, NULL"""


def test_a_table_without_partitions_is_one(spark: SparkSession, sql: Sql, client: Client, new_table: NewTable) -> None:
    """A session that overwrites partitions where there are some could not overwrite other tables at all."""
    table = new_table("id bigint")
    client.write(pa.table({"id": [1]}), table)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        sql(f"INSERT OVERWRITE txn.{table} SELECT id + 1 FROM txn.{table}")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert there(client, table) == [(2,)]
    spark.range(5, 7).writeTo(f"txn.{table}").overwritePartitions()
    assert there(client, table) == [(5,), (6,)]


def test_rows_are_replaced_where_a_condition_holds(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable
) -> None:
    sql(f"CREATE TABLE txn.s.replaced AS {REPLACED}")
    everything = there(client, "s.replaced", "id")
    for where in (
        "t = 'it\\'s \\\\ ${x}'",
        "t LIKE 'it%' AND NOT n > 1.5",
        "'it' < t",
        "n = 1.25",
        "d < 1",
        "day <= '2024-02-29'",
        "at > TIMESTAMP'2024-10-27 00:30:00+00:00'",
        "b",
        "`s.t`.`x y` = 7",
        "id * 2 = 2 OR id IN (1, NULL)",
        "id < 2 AND day < current_date()",
        "NOT (n IS NULL)",
    ):
        sql(f"INSERT INTO txn.s.replaced REPLACE WHERE {where} SELECT * FROM txn.s.replaced WHERE id = 1")
        done = last_commit(spark)
        assert done is not None
        assert done.rows == RowsAffected(inserted=1, deleted=1), where
        assert there(client, "s.replaced", "id") == everything, where
    nobody = "id < 0", "d <> d", "day IS NULL AND at IS NULL", "false"
    for where in nobody:
        sql(f"INSERT INTO txn.s.replaced REPLACE WHERE {where} SELECT * FROM txn.s.replaced WHERE id = 9")
        assert there(client, "s.replaced", "id") == everything, where
    sql("DROP TABLE txn.s.replaced")

    table = new_table("id bigint, day int, hour int", partition_by=["day", "hour"])
    sql(f"INSERT INTO txn.{table} VALUES (1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2)")
    new = spark.sql("SELECT 9L AS id, 7 AS day, 7 AS hour")
    new.writeTo(f"txn.{table}").overwrite(functions.expr("hour = 2 AND id < 4"))
    assert there(client, table, "id") == [(1,), (3,), (4,), (9,)], "what comes may lie anywhere"
    sql(f"INSERT OVERWRITE txn.{table} PARTITION (hour = 1) SELECT 5, 2")
    assert there(client, table) == [(4, 2, 2), (5, 2, 1), (9, 7, 7)]
    new.limit(0).writeTo(f"txn.{table}").overwrite(functions.expr("DAY = 7"))
    assert there(client, table, "id") == [(4,), (5,)], "a name is the column's in whatever case"
    new.writeTo(f"txn.{table}").overwrite(functions.expr("Hour = 9"))
    with pytest.raises(InvalidArgument, match="is written to day=2"):
        new.writeTo(f"txn.{table}").overwrite(functions.expr("day = 2"))
    new.limit(0).writeTo(f"txn.{table}").overwrite(functions.expr("day = 2 AND day = 7"))
    assert there(client, table, "id") == [(4,), (5,), (9,)], "no row has both"
    for where, why in (("id IN (SELECT 1)", "(?i)subquer"), ("rand() < 0.5 AND id > 1", "rand"), ("nope > 1", "nope")):
        with pytest.raises(Exception, match=why):
            sql(f"INSERT INTO txn.{table} REPLACE WHERE {where} SELECT 6, 6, 6")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql(f"INSERT INTO txn.{table} REPLACE WHERE 1 / (id - 4) > 0 SELECT 6, 6, 6")
    assert there(client, table, "id") == [(4,), (5,), (9,)]
    assert is_nothing_open(client)


def test_partitions_are_called_as_by_all_others(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id int, s string, d decimal(12,10), day date, b boolean", partition_by=["s", "d", "day", "b"])
    texts = [None, "", "a b*c", "grö/ße=%~", "__x__", "x" * 300, "-._~"]
    days = [date(1, 1, 1), date(2024, 2, 29), None, date(9999, 12, 31)]
    values = [
        {
            "s": text,
            "d": [Decimal("0E-10"), Decimal("1E-10"), Decimal("-12.5000000000"), None][n % 4],
            "day": days[n % 4],
            "b": [True, False, None][n % 3],
        }
        for n, text in enumerate(texts)
    ]
    source = new_table("id int, s string, d decimal(12,10), day date, b boolean")
    kinds = pa.schema([("id", pa.int32()), ("s", pa.string()), ("d", pa.decimal128(12, 10)), ("day", pa.date32())])
    rows = [{"id": n, **each} for n, each in enumerate(values)]
    client.write(pa.Table.from_pylist(rows, kinds.append(pa.field("b", pa.bool_()))), source)
    sql(f"INSERT INTO txn.{table} SELECT * FROM txn.{source}")
    files = client.snapshot().files(table).files
    assert sorted(file.partition for file in files) == sorted(partitions.name_of(each) for each in values)
    assert there(client, table, "id") == [(n,) for n in range(len(texts))]
    assert all({"id"} <= file.columns.keys() for file in files), "files have statistics"


def test_attempts_that_fail_leave_nothing_that_counts(
    sql: Sql, client: Client, new_table: NewTable, failing: Callable[[int], DataFrame]
) -> None:
    table = new_table("id bigint")
    failing(1).writeTo(f"txn.{table}").append()
    assert there(client, table) == [(n,) for n in range(10)]
    (directory,) = {Path(file.path.removeprefix("file://")).parent for file in client.snapshot().files(table).files}
    listed = {file.path.removeprefix("file://") for file in client.snapshot().files(table).files}
    assert {str(each) for each in directory.rglob("*.parquet")} == listed
    with pytest.raises(Exception, match="this attempt fails"):
        failing(100).writeTo(f"txn.{table}").append()
    why = "ValueError: this attempt fails"
    assert why in client.timeline()[-1].abort_reason
    txn = client.begin()
    with pytest.raises(Exception, match="this attempt fails"):
        txn.write(failing(200), table)
    with pytest.raises(IllegalState, match=rf"can only be aborted: a write to {table} failed: .*this attempt fails"):
        txn.commit()
    assert there(client, table) == [(n,) for n in range(10)]
    assert is_nothing_open(client)


def test_whoever_comes_second_gets_the_conflict(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = new_table("id bigint")
    client.write(pa.table({"id": [1]}), table)
    add, met = Transaction.add_written, list[str]()

    def late(self: Transaction, *rest: Any) -> None:
        if not met:
            met.append(table)
            client.write(pa.table({"id": [2]}), table, "overwrite")
        add(self, *rest)

    monkeypatch.setattr(Transaction, "add_written", late)
    with pytest.raises(Conflict, match=table) as caught:
        sql(f"INSERT OVERWRITE txn.{table} SELECT id + 1 FROM txn.{table}")
    assert caught.value.winner
    assert there(client, table) == [(2,)]
    sql(f"INSERT OVERWRITE txn.{table} SELECT id + 1 FROM txn.{table}")
    assert there(client, table) == [(3,)]


def test_an_abort_while_spark_writes_is_told(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, attempts: Path
) -> None:
    """Its directory was gone when Spark had written, and that was all that the error said."""
    table, begun, ended = new_table("id bigint"), attempts / "begun", attempts / "ended"

    def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        begun.touch()
        wait_until(ended.exists, "the transaction is over", 120)
        yield from batches

    def abort() -> None:
        wait_until(begun.exists, "the statement writes", 120)
        (txn,) = client.transactions([TxnState.OPEN])
        client.abort(txn.txn_id, "maintenance")
        ended.touch()

    thread = threading.Thread(target=abort)
    thread.start()
    with pytest.raises(TxnAborted, match="maintenance"):
        spark.range(1).mapInArrow(slowly, "id bigint").writeTo(f"txn.{table}").append()
    thread.join(120)


def test_what_does_not_fit_is_refused(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v string NOT NULL", primary_key=["id"])
    sql(f"INSERT INTO txn.{table} VALUES (1, 'a')")
    with pytest.raises(AlreadyExists, match="1"):
        sql(f"INSERT INTO txn.{table} VALUES (2, 'b'), (1, 'b')")
    with pytest.raises(InvalidArgument, match="more than once"):
        sql(f"INSERT INTO txn.{table} VALUES (3, 'b'), (3, 'c')")
    for values in ("(4, NULL)", "('x', 'y')", "(1)"):
        with pytest.raises(Exception, match=r"(?i)null|cast|columns"):
            sql(f"INSERT INTO txn.{table} VALUES {values}")
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        sql("SELECT 9L AS id, 'x' AS v").writeTo(f"txn.{table} VERSION AS OF 1").append()
    assert there(client, table) == [(1, "a")]
    assert is_nothing_open(client)


OF_ALL_TYPES = """SELECT true AS bool, 1Y AS t, 2S AS s, 3 AS i, 4L AS l, 0.5F AS f, 0.25D AS d, 1234567890.5000 AS n,
    'ü' AS c, X'00FF' AS b, DATE'1500-01-01' AS day, TIMESTAMP'1500-01-01 12:00:00' AS at,
    TIMESTAMP_NTZ'2024-01-01 00:00:00.123456' AS ntz, array(1, null) AS a, map('k', array(2)) AS m,
    named_struct('x y', 1, 'z', CAST(null AS string)) AS st"""


def test_options_are_refused_and_not_passed_over(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    """Other lakes' tables take some that say which rows go: an overwrite that passed over these took all."""
    table = new_table("id bigint")
    client.write(pa.table({"id": [1, 2]}), table)
    three = spark.range(3, 4)
    for write, option in (
        (
            lambda: three.write.mode("overwrite").option("replaceWhere", "id = 2").saveAsTable(f"txn.{table}"),
            "replaceWhere",
        ),
        (lambda: three.writeTo(f"txn.{table}").option("mergeSchema", "true").append(), "mergeSchema"),
        (lambda: spark.read.option("snapshot-id", "5").table(f"txn.{table}").collect(), "snapshot-id"),
    ):
        with pytest.raises(InvalidArgument, match=f"option {option}: there is none for txn.{table}"):
            write()
    assert there(client, table) == [(1,), (2,)]
    assert is_nothing_open(client)
    at = client.last_commit()
    assert spark.read.option("versionAsOf", at).table(f"txn.{table}").count() == 2


@pytest.mark.parametrize("statement", ["TRUNCATE TABLE", "DELETE FROM"])
def test_what_empties_a_table_is_the_last_commit(
    spark: SparkSession, sql: Sql, client: Client, new_table: NewTable, statement: str
) -> None:
    table = new_table("id bigint")
    sql(f"INSERT INTO txn.{table} VALUES (1)")
    sql(f"{statement} txn.{table}")
    done = last_commit(spark)
    assert done is not None
    assert done.rows is None, "the rows are not counted"
    assert client.snapshot(done.commit_timestamp - 1).to_arrow(table).num_rows == 1
    assert client.snapshot(done.commit_timestamp).to_arrow(table).num_rows == 0


def test_create_table_and_as_select(sql: Sql, client: Client) -> None:
    sql(
        "CREATE TABLE txn.s.made (id bigint NOT NULL COMMENT 'the id', v string, day date) USING parquet "
        "PARTITIONED BY (day) TBLPROPERTIES (primary_key = 'id, `day`', NO_AUTO_COMPACTION = true)"
    )
    made = client.table("s.made")
    assert (made.schema.partition_by, made.schema.primary_key) == (("day",), ("id", "day"))
    assert made.schema.columns[0].comment == "the id"
    assert made.properties == {"NO_AUTO_COMPACTION": "true"}
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        sql("CREATE TABLE txn.s.made (id bigint)")
    sql("CREATE TABLE IF NOT EXISTS txn.s.made (id bigint)")
    sql(f"CREATE TABLE txn.s.copied AS {OF_ALL_TYPES}")
    assert sql("SELECT * FROM txn.s.copied").collect() == sql(OF_ALL_TYPES).collect()
    assert client.snapshot().to_arrow("s.copied")["st"].to_pylist() == [{"x y": 1, "z": None}]
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        sql("CREATE TABLE txn.s.failed AS SELECT 1 / (id - id) AS v FROM range(2)")
    with pytest.raises(NotFound):
        client.table("s.failed")
    for name in ("made", "copied"):
        sql(f"DROP TABLE txn.s.{name}")
        with pytest.raises(NotFound):
            client.table(f"s.{name}")
    sql("DROP TABLE IF EXISTS txn.s.made")
    for refused, why in (
        ("(id int) USING orc", "USING orc"),
        ("(id int) COMMENT 'x'", "COMMENT"),
        ("(id int, d date) PARTITIONED BY (years(d))", "PARTITIONED BY"),
        ("(id int) TBLPROPERTIES (primary_key = 'x')", "primary_key"),
        ("(id int) TBLPROPERTIES (anything = 1)", "anything"),
    ):
        with pytest.raises(Exception, match=why):
            sql(f"CREATE TABLE txn.s.refused {refused}")
    assert is_nothing_open(client)


def test_an_insert_asks_once_what_there_is(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer lists all files of the table, and an append has no need of them."""
    table, scan, scans = new_table("id bigint"), Snapshot.scan, list[str]()

    def counted(snapshot: Snapshot, name: str, *more: Any) -> Any:
        scans.append(name)
        return scan(snapshot, name, *more)

    monkeypatch.setattr(Snapshot, "scan", counted)
    sql(f"INSERT INTO txn.{table} VALUES (1)")
    assert scans == [table]


def test_a_statement_begins_in_the_group_of_the_table_that_it_changes(
    sql: Sql, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, near = Session.call, list[str]()

    def noted(session: Session, method: str, request: Any, *args: Any, **options: Any) -> Any:
        if method == "txnstatus.TxnManager/BeginTransaction":
            near.append(request.near)
        return call(session, method, request, *args, **options)

    table, other = new_table("id bigint, day int", partition_by=["day"]), new_table("id bigint")
    client.write(pa.table({"id": [1, 2]}), other)
    monkeypatch.setattr(Session, "call", noted)
    for statement in (
        "INSERT INTO txn.{0} SELECT id, 1 FROM txn.{1}",
        "INSERT OVERWRITE txn.{0} SELECT id, 2 FROM txn.{1}",
        "UPDATE txn.{0} SET id = id + 2 WHERE id IN (SELECT id FROM txn.{1})",
        "DELETE FROM txn.{0} WHERE id > 3",
        "MERGE INTO txn.{0} t USING txn.{1} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, 3)",
        "ALTER TABLE txn.{0} DROP PARTITION (day = 3)",
        "TRUNCATE TABLE txn.{0}",
    ):
        sql(statement.format(table, other))
        assert near == [table], statement
        near.clear()
