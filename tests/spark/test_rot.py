"""Data files that rot under Spark's readers, and nulls where a table has none."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import ArrayType, DecimalType, LongType, MapType, StringType, StructField, StructType

from txnclient import Client, DataDamaged, InvalidArgument
from txnclient.formats import arrow
from txnclient.spark import reader, writer
from txnstatus.lake import data_files, page_headers
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]
SCHEMA = Schema((Column("id", "bigint"), Column("name", "string"), Column("tags", "array<int>")))
ROWS = 2_000
VECTORIZED = "spark.sql.parquet.enableVectorizedReader"


@contextmanager
def by_reader(spark: SparkSession, vectorized: str) -> Iterator[None]:
    spark.conf.set(VECTORIZED, vectorized)
    try:
        yield
    finally:
        spark.conf.unset(VECTORIZED)


def written(spark: SparkSession, directory: Path, by: str) -> DataFile:
    frame = spark.range(ROWS).selectExpr("id", "uuid() AS name", "slice(array(1, 2, 3), 1, int(id % 4)) AS tags")
    if by == "spark":
        (file,) = writer.write_files(frame.coalesce(1), directory.as_uri(), SCHEMA, "t.t")
    else:
        (file,) = arrow.write_files(frame.toArrow(), directory.as_uri(), SCHEMA, "t.t")
    return file


def outcome(read: Callable[[], list[Any]], name: str, whole: list[Any]) -> str:
    try:
        return "whole" if read() == whole else "WRONG"
    except DataDamaged:
        return "refused"
    except Exception as error:  # noqa: BLE001 the scan's own, which names the file
        return "refused" if name in str(error) else f"without a name: {error}"


def flipped(path: Path, read: Callable[[], list[Any]], flips: int) -> Counter[str]:
    """What comes of reads of a file in which one bit is another one, a bit at a time."""
    for checksum in path.parent.glob(".*.crc"):
        checksum.unlink()  # Hadoop's own, of its local file system alone
    data, whole, found = path.read_bytes(), read(), Counter[str]()
    for bit in random.Random(flips).sample(range(len(data) * 8), flips):
        rotten = bytearray(data)
        rotten[bit // 8] ^= 1 << bit % 8
        path.write_bytes(rotten)
        found[outcome(read, path.name, whole)] += 1
    path.write_bytes(data)
    return found


def no_wrong_rows(found: Counter[str]) -> None:
    assert found.keys() <= {"refused", "whole"}
    assert found["refused"] >= found.total() * 0.95  # else nobody looks at that bit: statistics in the header of a page


def test_sparks_own_writes_have_checksums_in_every_page(spark: SparkSession, tmp_path: Path) -> None:
    file = written(spark, tmp_path / "delta_1", "spark")
    path = tmp_path / "delta_1" / Path(file.path).name
    data, crc = path.read_bytes(), 4
    for chunk in data_files.chunks(pq.read_metadata(path)):
        assert crc in page_headers.read(data[page_headers.start(chunk) :])[0]


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("by", ["spark", "pyarrow"])
@pytest.mark.parametrize("flips", [4, pytest.param(600, marks=pytest.mark.campaign)])
def test_no_flipped_bit_is_read(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, vectorized: str, flips: int
) -> None:
    """Half of them where page checksums are all that there is."""
    whole_bytes = data_files.WHOLE_BYTES
    monkeypatch.setattr(data_files, "WHOLE_BYTES", 0)
    large = written(spark, tmp_path / "delta_1", by)
    monkeypatch.setattr(data_files, "WHOLE_BYTES", whole_bytes)
    small = written(spark, tmp_path / "delta_2", by)
    found = Counter[str]()
    with by_reader(spark, vectorized):
        for file in (large, small):

            def read(file: DataFile = file) -> list[Any]:
                return reader.read_files(spark, [file], SCHEMA).collect()

            found += flipped(Path(file.path.removeprefix("file://")), read, flips // 2)
    no_wrong_rows(found)


@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("flips", [4, pytest.param(600, marks=pytest.mark.campaign)])
def test_no_flipped_bit_is_read_by_sql(
    sql: Sql,
    spark: SparkSession,
    client: Client,
    new_table: NewTable,
    monkeypatch: pytest.MonkeyPatch,
    vectorized: str,
    flips: int,
) -> None:
    """With rows that are dead, by the scan of the catalog."""
    found, whole_bytes = Counter[str](), data_files.WHOLE_BYTES
    for held_whole_below in (0, whole_bytes):
        table = new_table("id bigint, name string, tags array<int>")
        monkeypatch.setattr(data_files, "WHOLE_BYTES", held_whole_below)
        sql(f"INSERT INTO txn.{table} SELECT /*+ COALESCE(1) */ id, uuid(), array(1, 2) FROM range({ROWS})")
        monkeypatch.setattr(data_files, "WHOLE_BYTES", whole_bytes)
        sql(f"DELETE FROM txn.{table} WHERE id % 100 = 7")
        with client.snapshot() as snapshot:
            (file,) = snapshot.table_files(table).files

        def read(table: str = table) -> list[Any]:
            return sql(f"SELECT * FROM txn.{table}").collect()

        with by_reader(spark, vectorized):
            assert len(read()) == ROWS * 0.99
            found += flipped(Path(file.path.removeprefix("file://")), read, flips // 2)
        client.drop_table(table)
    no_wrong_rows(found)


def test_a_snapshot_says_which_table_it_is(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint")
    client.write(spark.range(10), table)
    with client.snapshot() as snapshot:
        (file, *_) = snapshot.files(table).files
        path = Path(file.path.removeprefix("file://"))
        path.write_bytes(path.read_bytes()[:-1] + b"!")
        with pytest.raises(DataDamaged, match=f"table {table}: {file.path} is damaged: its content is not"):
            snapshot.read(spark, table)
    client.truncate(table)


def test_a_job_that_fails_for_rot_is_explained(
    spark: SparkSession, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's error names the file, and neither the table nor what to do."""
    table = new_table("id bigint, name string")
    monkeypatch.setattr(data_files, "WHOLE_BYTES", 0)
    client.write(spark.range(5_000).selectExpr("id", "uuid() AS name").coalesce(1), table)
    with client.snapshot() as snapshot:
        (file,) = snapshot.files(table).files
        path = Path(file.path.removeprefix("file://"))
        for checksum in path.parent.glob(".*.crc"):
            checksum.unlink()  # Hadoop's own, of its local file system alone
        frame, data = snapshot.read(spark, table), bytearray(path.read_bytes())
        data[len(data) // 3] ^= 4
        path.write_bytes(data)
        says = f"table {table}: {file.path} is damaged: "
        with pytest.raises(DataDamaged, match=says) as told, snapshot.explained(table):
            frame.collect()
        assert "txnctl doctor --deep" in told.value.hint
    client.truncate(table)


def test_a_frame_that_says_wrongly_that_it_has_no_nulls_is_written_as_spark_shows_it(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    """Nobody could read the table any more: Spark wrote a null decimal as one that is there."""
    sure = StructType(
        [
            StructField("id", LongType(), nullable=False),
            StructField("price", DecimalType(10, 2), nullable=False),
            StructField("large", DecimalType(38, 5), nullable=False),
            StructField("prices", ArrayType(DecimalType(30, 2), containsNull=False)),
            StructField("named", MapType(StringType(), DecimalType(30, 2), valueContainsNull=False)),
            StructField("inside", StructType([StructField("x", DecimalType(30, 2), nullable=False)])),
        ]
    )
    one = Decimal("1.50")
    rows = [(1, one, one, [one], {"a": one}, (one,)), (2, None, None, [one, None], {"a": None}, (None,))]
    frame = spark.createDataFrame(rows, sure, verifySchema=False).coalesce(1)
    table = new_table(
        "id bigint, price decimal(10,2), large decimal(38,5), prices array<decimal(30,2)>, "
        "named map<string,decimal(30,2)>, inside struct<x:decimal(30,2)>"
    )
    client.write(frame, table)
    with client.snapshot() as snapshot:
        assert snapshot.read(spark, table).orderBy("id").collect() == frame.orderBy("id").collect()
        assert snapshot.to_arrow(table, ["id", "price"]).sort_by("id").to_pylist() == [
            {"id": 1, "price": one},
            {"id": 2, "price": None},
        ]
        assert snapshot.to_arrow(table)["prices"].null_count == 0


def test_such_a_null_where_there_may_be_none_is_refused(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    sure = StructType([StructField("price", DecimalType(10, 2), nullable=False)])
    table = new_table("price decimal(10,2) NOT NULL")
    with pytest.raises(InvalidArgument, match=r"column 'price' .*NOT NULL"):
        client.write(spark.createDataFrame([(None,)], sure, verifySchema=False), table)
