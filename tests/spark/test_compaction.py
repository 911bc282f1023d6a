"""Compaction by Spark's executors: the same rows, in their order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from txnclient import Client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_executors_write_files_anew(spark: SparkSession, client: Client, new_table: Callable[..., str]) -> None:
    table = new_table("month int, id bigint", partition_by=["month"])
    for first in range(0, 60, 20):
        rows = range(first, first + 20)
        client.write(pa.table({"month": pa.array([1 + row % 2 for row in rows], pa.int32()), "id": rows}), table)
    client.delete_where(table, "id % 10 = 3")
    done = client.compact(table, spark=spark)
    assert {(each.partition, each.state, each.output_files) for each in done} == {
        ("month=1", "succeeded", 1),
        ("month=2", "succeeded", 1),
    }
    assert all(each.worker.startswith("spark-") for each in done)
    with client.snapshot() as snapshot:
        files = snapshot.files(table)
        assert len(files.files) == 2
        for part in (1, 2):
            found = files.within(f"month={part}").to_arrow()["id"].to_pylist()
            assert found == [row for row in range(60) if 1 + row % 2 == part and row % 10 != 3]
        assert snapshot.read(spark, table).count() == 54
