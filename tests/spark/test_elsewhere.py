"""Tables where Spark has no file system: it reads and writes them by pyarrow, in its tasks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from pyspark.sql.types import DecimalType, StructField, StructType

from tests.integration.files.object_store import BUCKET, object_store
from tests.support import connect, fast_cluster, rows, wait_until
from txnclient import Client, IllegalState, InvalidArgument
from txnclient.outcome import RowsAffected
from txnclient.spark import elsewhere
from txnclient.sparksql import attach, detach, last_commit
from txnclient.write import keys
from txndeploy.node.config import TxnSection
from txnstatus.lake import storage
from txnstatus.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WAREHOUSE = f"s3://{BUCKET}/by_tasks"
"""A place of no other test: a process keeps the file systems of places."""
REQUESTS = re.compile(r'"(PUT|POST|DELETE|GET|HEAD) (\S+) HTTP')


class Lake(NamedTuple):
    client: Client
    addresses: str
    log: Path
    local: Path
    """Where tables on this machine's disk may be."""

    def asked(self, since: int) -> list[tuple[str, str]]:
        """The requests for tables' places."""
        asked = REQUESTS.findall(self.log.read_bytes()[since:].decode())
        return [(method, path) for method, path in asked if "by_tasks/a/" in path]


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    path = tmp_path_factory.mktemp("lake")
    log, local = path / "store.log", path / "local"
    roots, txn = [local.as_uri()], TxnSection(zombie_grace_seconds=1.0)
    with (
        object_store(log) as variables,
        fast_cluster(
            path / "cluster", nodes=1, warehouse=WAREHOUSE, table_roots=roots, environment=variables, txn=txn
        ) as cluster,
        connect(cluster) as client,
    ):
        spark.sparkContext.environment.update(variables)  # executors have variables of their own
        yield Lake(client, cluster.addresses, log, local)
        for name in variables:
            del spark.sparkContext.environment[name]


def ids(spark: SparkSession, client: Client, table: str) -> list[int]:
    return sorted(row.id for row in client.snapshot().read(spark, table).collect())


def test_spark_has_no_file_system_for_buckets_here(spark: SparkSession) -> None:
    """What the others test. Where it has one, Spark reads and writes by that."""
    assert elsewhere.is_for_spark(spark, "file:///tmp")
    assert elsewhere.is_for_spark(spark, "hdfs://name:8020/lake")
    assert not elsewhere.is_for_spark(spark, WAREHOUSE)
    spark.conf.set("fs.s3.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    try:
        assert elsewhere.is_for_spark(spark, WAREHOUSE)
    finally:
        spark.conf.unset("fs.s3.impl")


def test_written_by_tasks_and_read_by_tasks(spark: SparkSession, lake: Lake) -> None:
    client = lake.client
    client.create_table(
        "a.split", "id bigint, day date, at timestamp, price decimal(10,2), tags array<string>", partition_by=["day"]
    )
    frame = spark.range(0, 300, 1, 3).selectExpr(
        "id",
        "date_add(date'2024-01-01', CAST(id % 2 AS INT)) AS day",
        "timestamp_micros(id) AS at",
        "CAST(id / 100 AS decimal(10,2)) AS price",
        "array(concat('n', id), null) AS tags",
    )
    before = lake.log.stat().st_size
    client.write(frame, "a.split")
    asked = lake.asked(before)
    assert not [each for each in asked if each[0] == "GET" and "list-type" in each[1]], "nothing is listed"
    assert not [each for each in asked if each[0] in ("POST", "DELETE")], (
        "nothing is renamed, and a file is one request"
    )
    assert len([each for each in asked if each[0] == "PUT"]) == 3 * 2 + 1, "two files of each task, and a manifest"
    read = client.snapshot().read(spark, "a.split")
    assert read.columns == ["id", "day", "at", "price", "tags"]
    assert sorted(read.collect()) == sorted(frame.collect())
    assert client.snapshot().read(spark, "a.split", partition={"day": "2024-01-02"}).count() == 150
    one = client.snapshot().read(spark, "a.split", ["price", "id"], partition={"day": "2024-01-02"})
    assert sorted(one.collect()) == sorted(frame.where("id % 2 = 1").select("price", "id").collect())
    assert "tags" not in one._jdf.queryExecution().toString(), "tasks read columns that nobody asked for"
    with pytest.raises(InvalidArgument, match="column 'prize' is not a column of the table"):
        client.snapshot().read(spark, "a.split", ["prize"])
    client.write(frame.where("id < 2"), "a.split", mode="overwrite_partitions")
    assert ids(spark, client, "a.split") == [0, 1]
    client.write(frame.where("id < 5"), "a.split", mode="overwrite")
    assert ids(spark, client, "a.split") == [0, 1, 2, 3, 4]


def test_one_transaction_over_a_bucket_and_a_disk(spark: SparkSession, lake: Lake) -> None:
    client = lake.client
    client.create_table("a.far", "id bigint")
    client.create_table("a.near", "id bigint", location=f"{lake.local.as_uri()}/near")
    with client.transaction() as txn:
        txn.write(spark.range(5), "a.far")
        txn.write(txn.read(spark, "a.far").where("id > 2"), "a.near")
    assert (ids(spark, client, "a.far"), ids(spark, client, "a.near")) == ([0, 1, 2, 3, 4], [3, 4])
    given_up = client.begin()
    given_up.write_all({"a.far": spark.range(5), "a.near": spark.range(5)})
    given_up.abort("is not wanted")
    assert (ids(spark, client, "a.far"), ids(spark, client, "a.near")) == ([0, 1, 2, 3, 4], [3, 4])
    wait_until(lambda: len(storage.tree(f"{WAREHOUSE}/a/far") or ()) == 1, "what was aborted is removed", 60)


def test_changes_where_a_predicate_holds(spark: SparkSession, lake: Lake) -> None:
    client = lake.client
    client.create_table("a.changed", "id bigint, note string")
    client.write(spark.range(0, 100, 1, 2).selectExpr("id", "'old' AS note"), "a.changed")
    with client.transaction() as txn:
        txn.delete_where("a.changed", "id % 2 = 0", spark=spark)
    with client.transaction() as txn:
        txn.update_where("a.changed", {"note": "concat('new', id)"}, "id < 10", spark=spark)
    with client.transaction() as txn:
        source = spark.sql("SELECT * FROM VALUES (CAST(1 AS bigint), 'm'), (200, 'm') AS t(id, note)")
        txn.merge(
            "a.changed", source, "target.id = source.id"
        ).when_matched_update_all().when_not_matched_insert_all().execute()
    found = {row.id: row.note for row in client.snapshot().read(spark, "a.changed").collect()}
    odd = {number: f"new{number}" if number < 10 else "old" for number in range(1, 100, 2)}
    assert found == odd | {1: "m", 200: "m"}
    assert {row["id"]: row["note"] for row in client.snapshot().to_arrow("a.changed").to_pylist()} == found


def test_changes_by_key(spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns that keys are not in are read by nobody who looks for keys alone."""
    client, read_by_tasks, columns = lake.client, elsewhere.read, list[tuple[str, ...]]()

    def watched(spark: SparkSession, files: Any, schema: Schema, *rest: Any, **more: Any) -> DataFrame:
        columns.append(tuple(column.name for column in schema.columns))
        return read_by_tasks(spark, files, schema, *rest, **more)

    monkeypatch.setattr(keys, "MAX_ROWS_HERE", 1_000)
    monkeypatch.setattr(elsewhere, "read", watched)
    client.create_table("a.keyed", "id bigint, note string", primary_key=["id"])
    client.write(spark.range(0, 20_000, 1, 2).selectExpr("id", "'old' AS note"), "a.keyed")
    began = client.last_commit()
    client.write(spark.range(15_000, 30_000, 1, 2).selectExpr("id", "'new' AS note"), "a.keyed", mode="upsert")
    assert set(columns) == {("id",)}
    with client.transaction() as txn:
        txn.upsert("a.keyed", rows(3))
    read = client.snapshot().read(spark, "a.keyed")
    counted = {row.note: row["count"] for row in read.groupBy("note").count().collect()}
    assert counted.pop("new") == 15_000
    assert counted.pop("old") == 14_999
    assert sum(counted.values()) == 1
    kinds = client.diff("a.keyed", began, spark=spark).groupBy("_change_kind").count().collect()
    assert {row[0]: row[1] for row in kinds} == {"update_before": 5_001, "update_after": 5_001, "insert": 10_000}
    with pytest.raises(InvalidArgument, match="keys come more than once"):
        client.write(spark.range(0, 4).selectExpr("id % 2 AS id", "'x' AS note"), "a.keyed")


def test_what_does_not_fit_is_refused_and_nothing_stays(spark: SparkSession, lake: Lake) -> None:
    client = lake.client
    client.create_table("a.strict", "id bigint NOT NULL")
    with pytest.raises(InvalidArgument, match=r"column 'id' of table a\.strict is NOT NULL"):
        client.write(spark.range(5).selectExpr("IF(id = 3, null, id) AS id"), "a.strict")
    assert ids(spark, client, "a.strict") == []
    wait_until(lambda: not storage.tree(f"{WAREHOUSE}/a/strict"), "what was aborted is removed", 60)


def test_a_task_that_is_tried_again_counts_once(
    spark: SparkSession, lake: Lake, failing: Callable[[int], DataFrame]
) -> None:
    lake.client.create_table("a.tried", "id bigint")
    lake.client.write(failing(2), "a.tried")
    assert ids(spark, lake.client, "a.tried") == list(range(10))


def test_a_killed_driver_leaves_nothing(spark: SparkSession, lake: Lake) -> None:
    """One of its tasks has written when it is killed, the other has not."""
    table, place = "a.killed", f"{WAREHOUSE}/a/killed"
    lake.client.create_table(table, "id bigint")
    driver = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("far_job.py"), lake.addresses, table],
        start_new_session=True,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    try:
        wait_until(lambda: any(storage.tree(place) or ()), "a task has written", 300)
        (written,) = (storage.tree(place) or {}).values()
        assert [name.rpartition("-")[2] for name in written] == ["00000.parquet"]
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert ids(spark, lake.client, table) == []
    wait_until(lambda: not storage.tree(place), "what it has written is removed", 120)


def test_columns_of_any_name(spark: SparkSession, lake: Lake) -> None:
    """PySpark looked for them as if their names were SQL."""
    lake.client.create_table("a.named", "`x``y` bigint, `a.b` bigint")
    frame = spark.range(3).selectExpr("id AS `x``y`", "id AS `a.b`")
    lake.client.write(frame, "a.named")
    assert sorted(lake.client.snapshot().read(spark, "a.named").collect()) == sorted(frame.collect())


def test_a_null_of_which_spark_was_told_that_it_is_none(spark: SparkSession, lake: Lake) -> None:
    lake.client.create_table("a.sure", "price decimal(10,2) NOT NULL")
    sure = StructType([StructField("price", DecimalType(10, 2), nullable=False)])
    frame = spark.createDataFrame([(Decimal(1),), (None,)], sure, verifySchema=False)
    with pytest.raises(InvalidArgument, match=r"column 'price' of table a\.sure is NOT NULL"):
        lake.client.write(frame, "a.sure")


@pytest.fixture
def attached(spark: SparkSession, lake: Lake) -> Iterator[Client]:
    """The cluster as the catalog `lake`; no view that a statement has made is left behind."""
    attach(spark, lake.client, name="lake")
    yield lake.client
    detach(spark, name="lake")
    assert not [row for row in spark.sql("SHOW VIEWS IN global_temp").collect() if row.viewName.startswith("_txn_")]


def ten_rows(spark: SparkSession, client: Client, table: str) -> None:
    """A new table of two days with five rows each."""
    client.create_table(table, "id bigint, day date, note string", partition_by=["day"])
    frame = spark.range(10).selectExpr("id", "date_add(date'2024-01-01', CAST(id % 2 AS INT)) AS day", "'n' AS note")
    client.write(frame, table)


def test_sql_reads_what_a_query_needs(spark: SparkSession, lake: Lake, attached: Client) -> None:
    ten_rows(spark, attached, "a.viewed")
    attached.create_table("a.by_key", "id bigint, note string", primary_key=["id"])
    attached.write(attached.snapshot().read(spark, "a.viewed", ["id", "note"]), "a.by_key")
    with attached.transaction() as txn:
        txn.upsert("a.by_key", rows(3, 11))
    assert spark.sql("SELECT sum(id), count(*) FROM lake.a.viewed WHERE id > 3").first() == (39, 6)
    assert spark.sql("SELECT count(*) FROM lake.a.viewed").first()[0] == 10
    before = lake.log.stat().st_size
    query = "SELECT k.id, v.day FROM lake.a.viewed v JOIN lake.a.by_key k USING (id) WHERE day = date'2024-01-02'"
    assert sorted(row.id for row in spark.sql(query).collect()) == [1, 3, 5, 7, 9]
    assert not [path for _, path in lake.asked(before) if "2024-01-01" in path], "files without such rows stay shut"
    assert spark.sql("SELECT count(id) FROM lake.a.by_key").first()[0] == 11


def test_sql_adds_rows(spark: SparkSession, attached: Client) -> None:
    ten_rows(spark, attached, "a.added")
    spark.sql("INSERT INTO lake.a.added SELECT id + 2, null, 'more' FROM lake.a.added WHERE id IN (7, 9)")
    assert ids(spark, attached, "a.added") == [*range(9), 9, 9, 11]
    receipt = last_commit(spark, name="lake")
    assert receipt is not None
    assert receipt.rows == RowsAffected(inserted=2)
    spark.sql("INSERT OVERWRITE lake.a.added PARTITION (day = date'2024-01-02') VALUES (21, 'o')")
    assert ids(spark, attached, "a.added") == [0, 2, 4, 6, 8, 9, 11, 21]
    spark.sql("CREATE TABLE lake.a.made AS SELECT id FROM lake.a.added WHERE id > 8")
    spark.sql("INSERT OVERWRITE lake.a.made SELECT id + 1 FROM lake.a.made")
    assert ids(spark, attached, "a.made") == [10, 12, 22]


def test_sql_says_what_it_cannot(spark: SparkSession, attached: Client) -> None:
    ten_rows(spark, attached, "a.kept")
    spark.sql("CREATE TABLE lake.a.strictly (id bigint NOT NULL)")
    with pytest.raises(Exception, match=r"(?i)null"):
        spark.sql("INSERT INTO lake.a.strictly SELECT IF(id > 3, null, id) FROM range(5)")
    for statement in (
        "INSERT INTO lake.a.kept REPLACE WHERE id = 3 SELECT * FROM lake.a.kept WHERE id = 3",
        "DELETE FROM lake.a.kept WHERE note LIKE 'n%'",
        "UPDATE lake.a.kept SET note = 'm' WHERE id = 3",
    ):
        with pytest.raises(IllegalState, match=r"Spark has no file system for the location of table a\.kept"):
            spark.sql(statement)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        with pytest.raises(IllegalState, match="mode='overwrite_partitions'"):
            spark.sql("INSERT OVERWRITE lake.a.kept SELECT * FROM lake.a.kept")
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    spark.sql("DELETE FROM lake.a.kept")
    assert ids(spark, attached, "a.kept") == []
