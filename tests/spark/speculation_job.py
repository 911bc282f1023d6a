"""A driver of its own: a job in which Spark runs a task twice, because its first attempt hangs.

    python speculation_job.py SPARK_MASTER ADDRESSES TABLE MARKS handles|sql

Both attempts of the slow task write complete files under the transaction; the first one does so even after the
second was taken. Prints what was added. By handles tasks write themselves; in SQL it is Spark's own writer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

import txnclient
from txnclient.sparksql import attach, last_commit

PARTS = 4
SLOW = 0
DEADLINE_SECONDS = 90


def main(master: str, addresses: str, table: str, marks: str, by: str) -> None:
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

    def stand(part: int) -> None:
        """In the first attempt at the slow task, until there is a second one."""
        context = TaskContext.get()
        assert context is not None
        Path(marks, f"{part}-{context.attemptNumber()}").touch()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while part == SLOW and context.attemptNumber() == 0 and not Path(marks, f"{SLOW}-1").exists():
            assert time.monotonic() < deadline, "no second attempt was made"
            time.sleep(0.05)

    print("added", {"handles": by_handles, "sql": in_sql}[by](spark, addresses, table, stand))
    spark.stop()


def by_handles(spark: SparkSession, addresses: str, table: str, stand: Callable[[int], None]) -> int:
    txn = txnclient.connect(addresses).begin(label="speculation")
    token = txn.token()

    def write(part: int) -> txnclient.StagedFiles:
        with txnclient.connect(addresses) as executor:
            staged = executor.join(token).stage(pa.table({"id": pa.array([part], pa.int64())}), table)
            stand(part)
        return staged

    staged = spark.sparkContext.parallelize(range(PARTS), PARTS).map(write).collect()
    txn.add(staged, table)
    txn.commit()
    return sum(file.rows for part in staged for file in part.files)


def in_sql(spark: SparkSession, addresses: str, table: str, stand: Callable[[int], None]) -> int:
    def each(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            stand(batch.column(0)[0].as_py())

    attach(spark, txnclient.connect(addresses))
    spark.range(0, PARTS, 1, PARTS).mapInArrow(each, "id bigint").writeTo(f"txn.{table}").append()
    receipt = last_commit(spark)
    assert receipt is not None
    assert isinstance(receipt.rows, txnclient.RowsAffected)
    return receipt.rows.inserted


if __name__ == "__main__":
    main(*sys.argv[1:])
