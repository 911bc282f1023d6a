"""A driver of its own that writes to a table where Spark has no file system, and never ends: one of its tasks waits.

python far_job.py ADDRESSES TABLE
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

import txnclient

KEEPALIVE_MILLIS = 5_000


def waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.column(0)[0].as_py() >= 5:
            threading.Event().wait()
        yield batch


def main(addresses: str, table: str) -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    txn = txnclient.connect(addresses).begin(keepalive_millis=KEEPALIVE_MILLIS)
    txn.write(spark.range(0, 10, 1, 2).mapInArrow(waits, "id bigint"), table)


if __name__ == "__main__":
    main(*sys.argv[1:])
