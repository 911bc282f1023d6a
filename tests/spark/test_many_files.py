"""Spark reads of many small files: one scan of one list, in few tasks, and the rows that all other reads give."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

from txnclient import Client, DataDamaged
from txnclient.spark import listed, reader
from txnstatus.lake.storage import file_system

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]
PARTS = ["plain", "100%*", "a/b=c", "ключ 1", "[x]{y}"]
FILES = 100
"""Rather more than Spark looks at without a job, and than its tasks."""


@pytest.fixture
def table(client: Client, new_table: NewTable) -> str:
    """A hundred files, of which one has a row that is deleted."""
    table = new_table("id bigint, p string", partition_by=["p"])
    for first in range(0, FILES, len(PARTS)):
        ids = range(first, first + len(PARTS))
        client.write(pa.table({"id": pa.array(ids, pa.int64()), "p": PARTS}), table)
    client.delete_where(table, "id = 7")
    return table


def test_all_rows_are_read_from_a_list(
    spark: SparkSession, client: Client, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = sorted({*range(FILES)} - {7})
    with client.snapshot() as snapshot:
        frame = snapshot.read(spark, table)
        assert frame.rdd.getNumPartitions() <= spark.sparkContext.defaultParallelism
        assert sorted(row.id for row in frame.collect()) == ids
        assert sorted(row.id for row in frame.where("id > 90").collect()) == [*range(91, FILES)]
        plan = frame.where("id > 90").select("id")._jdf.queryExecution().executedPlan().toString()
        assert "PushedFilters: [IsNotNull(id), GreaterThan(id,90)]" in plan
        assert "ReadSchema: struct<id:bigint>" in plan
        frame.createOrReplaceTempView("many_files")
        with pytest.raises(AnalysisException):
            spark.sql("INSERT INTO many_files VALUES (1, 'plain')")
        monkeypatch.setattr(listed, "FEW", FILES)
        assert sorted(row.id for row in snapshot.read(spark, table).collect()) == ids


def test_a_session_that_takes_no_list_is_given_paths(spark: SparkSession, client: Client, table: str) -> None:
    ignoring = "spark.sql.streaming.fileStreamSink.ignoreMetadata"
    with client.snapshot() as snapshot:
        spark.conf.set(ignoring, "true")
        try:
            assert snapshot.read(spark, table).count() == FILES - 1
        finally:
            spark.conf.unset(ignoring)


def test_each_file_is_checked_each_time(spark: SparkSession, client: Client, table: str) -> None:
    with client.snapshot() as snapshot:
        assert snapshot.read(spark, table).count() == FILES - 1
        file = snapshot.table_files(table).files[50]
        system, path = file_system(file.path)
        with system.open_input_stream(path) as stream:
            data = stream.read()
        with system.open_output_stream(path) as sink:
            sink.write(data[:-1] + b"?")
        with pytest.raises(DataDamaged, match=file.path.rsplit("/", 1)[1]):
            snapshot.read(spark, table)


def test_a_row_of_many_files_is_found_by_its_place(spark: SparkSession, client: Client, table: str) -> None:
    with client.snapshot() as snapshot:
        found = snapshot.table_files(table)
        places, uris = reader.read_places(spark, found.files, found.schema, found.dead)
        assert places.count() == FILES - 1
        assert set(uris.values()) == {file.path for file in found.files if file.path not in found.dead}
