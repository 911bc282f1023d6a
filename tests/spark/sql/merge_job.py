"""A driver of its own, to be killed: a MERGE in Spark's SQL, whose source stands still once some of it is written.

python merge_job.py ADDRESSES TABLE MARK
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import txnclient
from txnclient.sparksql import attach


def main(addresses: str, table: str, mark: str) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    attach(spark, txnclient.connect(addresses))

    def standing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        Path(mark).touch()
        threading.Event().wait()

    spark.range(20).mapInArrow(standing, "id bigint").createOrReplaceTempView("source")
    # Of other clauses Spark reads the source before it begins to write, to see what matches twice.
    clauses = "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (id)"
    spark.sql(f"MERGE INTO txn.{table} t USING source s ON t.id = s.id {clauses}")


if __name__ == "__main__":
    main(*sys.argv[1:])
