"""A driver of its own: a job in which Spark runs a task twice, because its first attempt hangs.

    python speculation_job.py SPARK_MASTER ADDRESSES TABLE MARKS

Both attempts of the slow task write complete files under the transaction; the first one does so even after the
second was taken. Prints what was added.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import txnclient

PARTS = 4
SLOW = 0
DEADLINE_SECONDS = 90


def main(master: str, addresses: str, table: str, marks: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.speculation", "true")
        .config("spark.speculation.interval", "100ms")
        .config("spark.speculation.multiplier", "1.1")
        .config("spark.speculation.quantile", "0.5")
        .config("spark.speculation.minTaskRuntime", "100ms")
        .getOrCreate()
    )
    client = txnclient.connect(addresses)
    txn = client.begin(label="speculation")
    token = txn.token()

    def write(part: int) -> txnclient.StagedFiles:
        context = TaskContext.get()
        assert context is not None
        first = context.attemptNumber() == 0
        with txnclient.connect(addresses) as executor:
            joined = executor.join(token)
            staged = joined.stage(pa.table({"id": pa.array([part], pa.int64())}), table)
            Path(marks, f"{part}-{context.attemptNumber()}").touch()
            deadline = time.monotonic() + DEADLINE_SECONDS
            while part == SLOW and first and not Path(marks, f"{SLOW}-1").exists():
                assert time.monotonic() < deadline, "no second attempt was made"
                time.sleep(0.05)
        return staged

    staged = spark.sparkContext.parallelize(range(PARTS), PARTS).map(write).collect()
    txn.add(staged, table)
    txn.commit()
    print("added", sorted(file.rows for part in staged for file in part.files))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
