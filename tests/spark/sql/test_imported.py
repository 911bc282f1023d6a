"""Directories that Spark has written, by partitions, as tables in place: by all of Spark's readers, and changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from tests.support import rest_in_campaigns
from txnclient import Client
from txndeploy.demo import flights
from txnstatus.lake.file_lists import has_bare

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Sql = Callable[[str], "DataFrame"]
COLUMNS = "origin, month, day, hour, temp, wind_dir, time_hour"


@pytest.fixture(scope="module")
def weather(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The weather of 2013 by origin and month, as Spark leaves it: 36 directories."""
    scratch = tmp_path_factory.mktemp("weather")
    source = flights.unpack(scratch / "source")["weather.csv"]
    path = scratch / "by month"
    frame = spark.read.csv(str(source), header=True, inferSchema=True, nullValue="NA")
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")  # as it is by default
    frame.repartition("origin", "month").write.partitionBy("origin", "month").parquet(str(path))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    footer = pq.read_metadata(next(path.rglob("*.parquet")))
    assert "INT96" in {footer.schema.column(number).physical_type for number in range(footer.num_columns)}
    return path


@pytest.fixture
def table(client: Client, weather: Path) -> Iterator[str]:
    before = content(weather)
    client.import_files("in.weather", str(weather), create=True)
    yield "in.weather"
    client.drop_table("in.weather")
    assert content(weather) == before


@pytest.fixture(params=["batches", "rows"])
def by(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[None]:
    """Both of Spark's readers of Parquet."""
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", str(request.param == "batches").lower())
    yield
    spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def content(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


@pytest.mark.usefixtures("by")
def test_spark_reads_what_it_has_written(
    spark: SparkSession, sql: Sql, client: Client, weather: Path, table: str
) -> None:
    spark.read.parquet(str(weather)).createOrReplaceTempView("weather")
    expected = rows(spark.sql(f"SELECT {COLUMNS} FROM weather"))
    assert len(expected) == 26_115
    assert rows(sql(f"SELECT {COLUMNS} FROM txn.{table}")) == expected
    with client.snapshot() as snapshot:
        assert rows(snapshot.read(spark, table).selectExpr(*COLUMNS.split(", "))) == expected
        part = snapshot.read(spark, table, partition={"origin": "JFK", "month": 7})
        assert rows(part.groupBy("origin", "month").count()) == [("JFK", 7, part.count())]
    for query in (
        "SELECT origin, month, count(*), avg(temp) FROM {} GROUP BY origin, month",
        "SELECT month FROM {} WHERE origin = 'EWR'",
        "SELECT temp, month FROM {} WHERE month > 10 AND temp > 50",
        "SELECT day FROM {} WHERE month = 2 OR temp < 20",
        "SELECT count(*) FROM {} WHERE month + day = 20",
        "SELECT time_hour FROM {} WHERE time_hour > '2013-11-05 12:00:00' AND day < 10",
        "SELECT month, count(*) FROM {0} a JOIN {0} USING (origin, month, day, hour) WHERE a.temp > 80 GROUP BY month",
    ):
        assert rows(sql(query.format(f"txn.{table}"))) == rows(spark.sql(query.format("weather"))), query
    assert len(rows(sql(f"SHOW PARTITIONS txn.{table}"))) == 36


@pytest.mark.parametrize("by", rest_in_campaigns(["batches", "rows"], ["batches"]), indirect=True)
@pytest.mark.usefixtures("by")
def test_statements_of_spark_change_it(
    spark: SparkSession, sql: Sql, client: Client, weather: Path, table: str
) -> None:
    spark.read.parquet(str(weather)).createOrReplaceTempView("weather")
    sql(f"DELETE FROM txn.{table} WHERE month = 3 AND day > 15")
    sql(f"UPDATE txn.{table} SET wind_dir = month, month = 4 WHERE origin = 'LGA' AND month = 5 AND day = 1")
    sql(
        f"MERGE INTO txn.{table} t USING (SELECT 'JFK' AS o, 6 AS m, 2 AS d) s ON t.origin = s.o AND t.month = s.m "
        "AND t.day = s.d WHEN MATCHED THEN UPDATE SET temp = 0 WHEN NOT MATCHED BY SOURCE AND t.month = 12 THEN DELETE"
    )
    sql(f"DELETE FROM txn.{table} WHERE month = 7")  # whole partitions
    expected = rows(
        spark.sql(
            "SELECT origin, CASE WHEN moved THEN 4 ELSE month END, day, hour, "
            "CASE WHEN origin = 'JFK' AND month = 6 AND day = 2 THEN 0 ELSE temp END, "
            "CASE WHEN moved THEN month ELSE wind_dir END, time_hour "
            "FROM (SELECT *, origin = 'LGA' AND month = 5 AND day = 1 AS moved FROM weather) "
            "WHERE NOT (month = 3 AND day > 15) AND month NOT IN (7, 12)"
        )
    )
    assert rows(sql(f"SELECT {COLUMNS} FROM txn.{table}")) == expected
    with client.snapshot() as snapshot:
        assert rows(snapshot.read(spark, table).selectExpr(*COLUMNS.split(", "))) == expected
        assert snapshot.to_arrow(table).num_rows == len(expected)
    client.compact(table, kind="major", spark=spark)
    assert rows(sql(f"SELECT {COLUMNS} FROM txn.{table}")) == expected
    client.optimize(table, sort_by=["day"], spark=spark)
    with client.snapshot() as snapshot:
        assert not has_bare(snapshot.files(table).files)
    assert rows(sql(f"SELECT {COLUMNS} FROM txn.{table}")) == expected
