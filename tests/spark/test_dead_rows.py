"""Rows that were deleted by position, left out of every read by Spark."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyroaring import BitMap

from tests.unit.harness.deleted_rows import SCHEMA, Table, by_id, rows
from txnclient.formats import arrow
from txnclient.read import diff
from txnclient.spark import alive_rows, key_search, reader, row_reader, writer
from txnstatus.errors import InternalError
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("has_jvm", [True, False])
def test_dead_rows_are_left_out(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_jvm: bool
) -> None:
    """Row groups that statistics rule out, files in parts, and names that need escapes: none of it moves a position."""
    monkeypatch.setattr(alive_rows, "has_jvm", lambda _: has_jvm)
    monkeypatch.setattr(arrow, "ROWS_PER_GROUP", 64)
    chance = random.Random(7)
    table = Table(tmp_path / "o dd %20+ü#=")
    files = [table.write(rows(range(start, start + 501))) for start in range(0, 2_004, 501)]
    dead = {files[0].path: BitMap(chance.sample(range(501), 250)), files[1].path: BitMap([0, 63, 64, 500])}
    table.delete({**dead, files[2].path: BitMap(range(501))})
    expected = table.expected({path: set(gone) for path, gone in table.read().dead.items()})
    spark.conf.set("spark.sql.files.maxPartitionBytes", "9000")
    try:
        found = row_reader.read_table(spark, table.read())
        assert by_id(found.toArrow()) == expected
        assert found.schema == reader.read_files(spark, files, SCHEMA).schema
        near = found.where("id BETWEEN 400 AND 650 AND v <> 3").toArrow()
        assert by_id(near) == [row for row in expected if 400 <= row["id"] <= 650 and row["v"] not in (3, None)]
    finally:
        spark.conf.unset("spark.sql.files.maxPartitionBytes")
    part = row_reader.read_table(spark, table.read().within("grö ße=b"), "grö ße=b")
    assert by_id(part.toArrow()) == [row for row in expected if row["grö ße"] == "b"]
    asked = spark.createDataFrame([(row["id"],) for row in table.expected({})], "id bigint")
    keyed = Schema(SCHEMA.columns, primary_key=("id",))
    none = pa.table({"id": pa.array([], pa.int64())})
    there = key_search.that_are_in(spark, asked, [replace(table.read(), schema=keyed)], none, 9_999)
    assert sorted(there["id"].to_pylist()) == [row["id"] for row in expected]


def test_what_changed_is_told_as_by_pyarrow(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path)
    stays, goes = (table.write(rows(range(start, start + 90))) for start in (0, 90))
    table.delete({stays.path: BitMap([1, 2]), goes.path: BitMap([5])})
    before = table.now()
    came = table.write(rows(range(180, 270)))
    del table.response.manifests[1]
    table.delete({stays.path: BitMap([2, 3]), came.path: BitMap([0])})
    changes = diff.between(before, table.now(), Timestamp(1), Timestamp(2))
    by_arrow, by_spark = changes.to_arrow(), row_reader.read_changes(spark, changes).toArrow()
    assert Counter(by_arrow[diff.CHANGE_KIND].to_pylist()) == {"delete": 1 + 89, "insert": 89}
    assert by_id(by_spark) == by_id(by_arrow)


@pytest.mark.parametrize("has_jvm", [True, False])
def test_files_that_spark_wrote_may_have_a_column_that_is_called_as_sparks_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_jvm: bool
) -> None:
    monkeypatch.setattr(alive_rows, "has_jvm", lambda _: has_jvm)
    schema = Schema((Column("_metadata", "struct<file_path:string,row_index:bigint>"), Column("id", "bigint")))
    frame = spark.range(10).selectExpr("named_struct('file_path', 'x', 'row_index', 3L) AS _metadata", "id").coalesce(1)
    (file,) = writer.write_files(frame, f"{tmp_path.as_uri()}/delta_1_w", schema, "a.t")
    found = reader.read_files(spark, [file], schema, {file.path: BitMap([0, 3, 9])})
    assert [row["id"] for row in found.orderBy("id").collect()] == [1, 2, 4, 5, 6, 7, 8]


def test_nothing_is_read_where_spark_calls_a_file_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    file = Table(tmp_path).write(rows(range(9)))
    other = DataFile(f"{file.path}x", 9, file.bytes)
    scan = alive_rows.placed(reader._scan(spark, [file], SCHEMA))
    with pytest.raises(InternalError, match=r"Spark scans no .*part-00000.parquetx: it scans file:"):
        alive_rows.alive(scan, {other.path: BitMap([1])})
    unknown = scan.where(~alive_rows._in_bitmap(scan, {"file:/elsewhere": BitMap([1])}))
    with pytest.raises(Exception, match="which rows of a file are deleted is not known"):
        unknown.collect()
