"""Tables from PySpark, with executors that are processes of their own."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import txnclient
from tests.support import connect, fast_cluster, wait_until
from txnclient import Client, IllegalState, InvalidArgument, StagedFiles, TxnState
from txndeploy.local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]


def _ids(client: Client, table: str) -> list[int]:
    return sorted(client.snapshot().to_arrow(table)["id"].to_pylist())


def test_write_and_read_back(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, half double, name string")
    frame = spark.range(1000).selectExpr("id", "id / 2 AS half", "concat('n', id) AS name")
    with client.transaction(label="spark") as txn:
        txn.write(frame, table)
        assert client.snapshot().read(spark, table).count() == 0
    read = client.snapshot().read(spark, table)
    assert read.columns == ["id", "half", "name"]
    assert read.agg({"id": "sum", "half": "sum"}).first().asDict() == {"sum(id)": 499500, "sum(half)": 249750.0}
    assert _ids(client, table) == list(range(1000))


def test_a_frame_is_written_as_a_transaction_of_its_own(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    receipt = client.write(spark.range(1000), table, request_id=table)
    assert client.write(spark.range(1000), table, request_id=table).txn_id == receipt.txn_id
    client.write(spark.range(1000, 1010), table)
    assert _ids(client, table) == list(range(1010))
    client.write(spark.range(5), table, mode="overwrite")
    assert _ids(client, table) == list(range(5))
    assert client.get(receipt.txn_id).label == "auto-commit"


def test_two_tables_by_sql_over_one_snapshot(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    left, right = new_table("id bigint, v int"), new_table("id bigint, w int")
    with client.transaction() as txn:
        txn.write(spark.range(100).selectExpr("id", "CAST(id AS INT) AS v"), left)
        txn.write(spark.range(50).selectExpr("id", "CAST(2 * id AS INT) AS w"), right)
    snapshot = client.snapshot()
    snapshot.read(spark, left).createOrReplaceTempView("l")
    snapshot.read(spark, right).createOrReplaceTempView("r")
    joined = spark.sql("SELECT sum(v) AS v, sum(w) AS w, count(*) AS n FROM l JOIN r USING (id)").first()
    assert (joined.v, joined.w, joined.n) == (1225, 2450, 50)


def test_an_insert_into_a_read_view_cannot_bypass_the_transaction(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    with client.transaction() as txn:
        txn.write(spark.range(10), table)
    client.snapshot().read(spark, table).createOrReplaceTempView("only_read")
    with pytest.raises(Exception, match=r"(?i)insert"):
        spark.sql("INSERT INTO only_read VALUES (99)")
    assert _ids(client, table) == list(range(10))


def test_partitions_split_files_and_stay_columns(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, month int, day int", partition_by=["month"])
    frame = spark.range(400).selectExpr(
        "id", "CAST(CASE WHEN id % 5 = 4 THEN NULL ELSE id % 5 END AS INT) AS month", "CAST(id % 7 AS INT) AS day"
    )
    for _ in range(3):
        with client.transaction() as txn:
            txn.write(frame.coalesce(2), table)
    files = client.snapshot().files(table).files
    assert {part for file in files for part in file.path.split("/") if part.startswith("_partition_month=")} == {
        *(f"_partition_month={month}" for month in range(4)),
        "_partition_month=__null__",
    }
    read = client.snapshot().read(spark, table)
    assert read.columns == ["id", "month", "day"]
    counted = {row["month"]: row["count"] for row in read.groupBy("month").count().collect()}
    assert counted == {0: 240, 1: 240, 2: 240, 3: 240, None: 240}
    assert read.where("month = 2").count() == 240
    assert client.snapshot().to_arrow(table).num_rows == 1200


def test_overwrite_from_a_read_of_itself(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    with client.transaction() as txn:
        txn.write(spark.range(10), table)
    with client.transaction() as txn:
        txn.write(client.snapshot().read(spark, table).where("id % 2 = 0"), table, mode="overwrite")
    assert _ids(client, table) == [0, 2, 4, 6, 8]


def test_many_files_are_read_with_one_scan(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    with client.transaction() as txn:
        for number in range(60):
            txn.write(pa.table({"id": pa.array([number], pa.int64())}), table)
    before = spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold")
    assert sorted(row.id for row in client.snapshot().read(spark, table).collect()) == list(range(60))
    assert spark.conf.get("spark.sql.sources.parallelPartitionDiscovery.threshold") == before


def test_types_survive_the_way_through_spark_and_arrow(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    schema = (
        "b boolean, t tinyint, s smallint, i int, id bigint, f float, d double, str string, bin binary, day date, "
        "ts timestamp, ntz timestamp_ntz, dec decimal(12,3), xs array<int>, m map<string,bigint>, "
        "st struct<a:int,B:string>"
    )
    table = new_table(schema)
    frame = spark.sql(
        "SELECT true b, 1Y t, 2S s, 3 i, 4L id, CAST(1.5 AS FLOAT) f, 2.5D d, 'x' str, X'0102' bin, "
        "DATE'2013-01-31' day, TIMESTAMP'2013-01-31 10:00:00.123456' ts, TIMESTAMP_NTZ'2013-01-31 10:00:00.5' ntz, "
        "CAST(1234.567 AS DECIMAL(12,3)) dec, array(1, NULL) xs, map('k', 5L) m, named_struct('a', 1, 'B', 'z') st"
    )
    with client.transaction() as txn:
        txn.write(frame, table)
        txn.write(frame.toArrow(), table)
    first, second = client.snapshot().to_arrow(table).to_pylist()
    assert first == second
    assert first["ts"] == datetime(2013, 1, 31, 10, 0, 0, 123456, tzinfo=UTC)
    assert first["dec"] == Decimal("1234.567")
    rows = client.snapshot().read(spark, table).collect()
    assert rows[0] == rows[1]
    assert rows[0].st.B == "z"


def test_a_frame_of_another_schema_names_the_column(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, name string")
    with pytest.raises(InvalidArgument, match=r"'name'.*missing"):
        client.write(spark.range(3), table)
    with pytest.raises(InvalidArgument, match=r"'id'.*bigint.*double"):
        client.write(spark.sql("SELECT 1D AS id, 'x' AS name"), table)


@pytest.mark.parametrize("by", ["id", "m"])
def test_a_null_where_there_may_be_none_fails_the_job(
    spark: SparkSession, client: Client, new_table: NewTable, by: str
) -> None:
    """It was committed. A column that the table is partitioned by is one like any other."""
    from pyspark.sql.types import IntegerType, LongType, StructField, StructType

    schema = StructType([StructField("id", LongType(), False), StructField("m", IntegerType(), False)])
    table = new_table(schema, partition_by=["m"])
    good = spark.range(50).selectExpr("id", "CAST(id % 2 AS INT) AS m")
    null = good.selectExpr(*(f"IF(id = 30, NULL, {name}) AS {name}" if name == by else name for name in ("id", "m")))
    with pytest.raises(InvalidArgument, match=f"column '{by}' of table {table} is NOT NULL: the data has a null"):
        client.write(null, table)
    client.write(good, table)
    assert _ids(client, table) == list(range(50))


def test_a_null_of_which_spark_was_told_that_it_is_none(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    """Spark writes such a decimal into a file that nobody can read, and it was committed."""
    from pyspark.sql.types import DecimalType, StructField, StructType

    schema = StructType([StructField("d", DecimalType(10, 2), False)])
    table = new_table(schema)
    with pytest.raises(InvalidArgument, match="column 'd' is NOT NULL, and the data has a null in it"):
        client.write(spark.createDataFrame([(None,)], schema, verifySchema=False), table)
    assert client.snapshot().to_arrow(table).num_rows == 0


@pytest.mark.parametrize(
    ("day", "said"), [("date'9999-12-31' + 1", r"\+10000-01-01"), ("date'0001-01-01' - 1", "0000-12-31")]
)
def test_a_day_that_names_no_partition_fails_the_job(
    spark: SparkSession, client: Client, new_table: NewTable, day: str, said: str
) -> None:
    """It was committed, and from then on no filtered read of the table worked, by any reader."""
    table = new_table("id bigint, d date", partition_by=["d"])
    with pytest.raises(InvalidArgument, match=f"'d' of table {table} is a partition column: its days are .*{said}$"):
        client.write(spark.sql(f"SELECT 1L AS id, {day} AS d"), table)
    ends = "date'9999-12-31', date'0001-01-01', NULL"
    client.write(spark.sql(f"SELECT 1L AS id, explode(array({ends})) AS d"), table)
    assert client.snapshot().to_arrow(table, where=pc.field("d").is_null()).num_rows == 1
    source = spark.sql("SELECT 5L AS id, date'0001-01-01' AS d")
    with client.transaction() as txn:
        merge = txn.merge(table, source, "target.d = source.d")  # the JVM took the year 1 for no year
        assert merge.when_matched_update_all().execute().updated == 1
    assert _ids(client, table) == [1, 1, 5]


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    location = Path(client.table(table).location.removeprefix("file://"))
    txn = client.begin()
    with pytest.raises(Exception, match=r"(?i)divide"):
        txn.write(spark.range(100).selectExpr("CAST(1 / (id - 50) AS BIGINT) AS id"), table)
    with pytest.raises(IllegalState, match=f"a write to {table} failed"):
        txn.commit()
    client.write(spark.range(5), table)
    assert _ids(client, table) == [0, 1, 2, 3, 4]
    wait_until(lambda: len(list(location.glob("delta_*"))) == 1, "the failed job's directory is removed")


def test_applications_that_begin_in_one_second_have_directories_of_their_own(spark: SparkSession) -> None:
    """Executors of one had removed what those of the other ran in."""
    assert spark.sparkContext.getConf().get("spark.deploy.appIdPattern", "").endswith(f"-{os.getpid()}")


def test_a_task_that_fails_twice_counts_once(
    spark: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable, attempts: Path
) -> None:
    """Each attempt stages complete files; those of the failed ones must never be visible."""
    table = new_table("id bigint")
    addresses, marks = cluster.addresses, str(attempts)
    txn = client.begin()
    token = txn.token()

    def write(part: int) -> StagedFiles:
        with txnclient.connect(addresses) as executor:
            staged = executor.join(token).stage(pa.table({"id": pa.array([part], pa.int64())}), table)
        earlier = [name for name in os.listdir(marks) if name.startswith(f"{part}-")]  # noqa: PTH208
        Path(marks, f"{part}-{uuid.uuid4().hex}").touch()
        if part == 1 and len(earlier) < 2:
            raise OSError("the task fails after it has written")
        return staged

    staged = spark.sparkContext.parallelize(range(3), 3).map(write).collect()
    assert len(list(attempts.glob("1-*"))) == 3
    txn.add(staged, table)
    txn.commit()
    assert _ids(client, table) == [0, 1, 2]


def test_a_native_write_whose_task_fails_twice_counts_once(
    spark: SparkSession, client: Client, new_table: NewTable, attempts: Path
) -> None:
    from pyspark.sql.functions import udf

    table = new_table("id bigint")
    marks = str(attempts)

    @udf(returnType="bigint")
    def flaky(value: int) -> int:
        if value == 75:
            earlier = len(os.listdir(marks))  # noqa: PTH208
            Path(marks, uuid.uuid4().hex).touch()
            if earlier < 2:
                raise OSError("the task fails while it writes")
        return value

    with client.transaction() as txn:
        txn.write(spark.range(0, 100, 1, 4).select(flaky("id").alias("id")), table)
    assert len(list(attempts.iterdir())) == 3
    assert _ids(client, table) == list(range(100))


def test_a_task_that_runs_twice_counts_once(
    spark: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    """Speculation by hand: two complete attempts of one task, of which the driver gets one."""
    table = new_table("id bigint")
    addresses = cluster.addresses
    txn = client.begin()
    token = txn.token()

    def write(part: int) -> list[StagedFiles]:
        with txnclient.connect(addresses) as executor:
            joined = executor.join(token)
            data = pa.table({"id": pa.array([part], pa.int64())})
            return [joined.stage(data, table), joined.stage(data, table)]

    pairs = spark.sparkContext.parallelize(range(4), 2).map(write).collect()
    txn.add([attempt[part % 2] for part, attempt in enumerate(pairs)], table)
    txn.commit()
    assert _ids(client, table) == [0, 1, 2, 3]


def test_an_executor_that_comes_too_late_is_refused(
    spark: SparkSession, cluster: LocalCluster, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint")
    addresses = cluster.addresses
    txn = client.begin()
    token = txn.token()
    txn.write(spark.range(3), table)
    txn.commit()

    def late(part: int) -> str:
        with txnclient.connect(addresses) as executor:
            try:
                executor.join(token).stage(pa.table({"id": pa.array([part], pa.int64())}), table)
            except txnclient.TxnError as error:
                return error.code
        return "accepted"

    assert spark.sparkContext.parallelize([7], 1).map(late).collect() == ["ILLEGAL_STATE"]
    assert _ids(client, table) == [0, 1, 2]


def test_the_status_leader_dies_while_executors_write(spark: SparkSession, tmp_path: Path) -> None:
    table = "s.through_a_failover"
    with fast_cluster(tmp_path) as cluster, connect(cluster) as client:
        client.create_table(table, "id bigint, part int", partition_by=["part"])
        txn = client.begin(label="through a failover")
        txn.write(spark.range(100).selectExpr("id", "CAST(id % 4 AS INT) AS part"), table)
        killed = cluster.leader()
        cluster.kill(killed)
        txn.write(spark.range(100, 200).selectExpr("id", "CAST(id % 4 AS INT) AS part"), table)
        txn.commit(timeout=60)
        assert _ids(client, table) == list(range(200))
        cluster.start()
        assert client.get(txn.id).state in (TxnState.COMMITTED, TxnState.FINALIZE_IN_PROGRESS)


def test_names_in_any_letters_and_case_and_wider_types(spark: SparkSession, client: Client) -> None:
    """A DataFrame with `ID` was refused for a column `id`, and names were of ASCII letters."""
    table = "my shop.größe 2"
    ddl = "`Unit Price (€)` double, `a.b` bigint, a struct<`x``y`:bigint>, `größe ж` string, `q``u``` int"
    client.create_table(table, ddl, partition_by=["größe ж"])
    row = "1.5F AS `UNIT PRICE (€)`, 7 AS `A.B`, named_struct('x`y', 1) AS a, 'p/q' AS `GRÖSSE Ж`, 3 AS `Q``u```"
    client.write(spark.sql(f"SELECT {row}"), table)
    found = client.snapshot().read(spark, table, partition={"größe ж": "p/q"})
    chosen = found.select("`unit price (€)`", "`a.b`", "a.`x``y`", "`q``u```")
    assert [tuple(each) for each in chosen.collect()] == [(1.5, 7, 1, 3)]
    with pytest.raises(InvalidArgument, match=r"'a\.b' .* is bigint; in the data it is decimal"):
        client.write(spark.sql(f"SELECT {row.replace('7 AS', '7.5 AS')}"), table)


def test_a_handle_in_a_function_for_executors_says_what_to_send(spark: SparkSession, client: Client) -> None:
    with client.transaction() as txn, pytest.raises(Exception, match=r"txn\.token\(\)"):
        spark.sparkContext.parallelize([1]).map(lambda _: txn.id).collect()
