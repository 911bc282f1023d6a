"""A driver of its own, on a machine of its own: one transaction of executors with its token, and of Spark's writer.

    python machines_job.py SPARK_MASTER ADDRESSES TABLE

Prints the addresses of the machines on which tasks ran. Where each process is, SPARK_LOCAL_IP says.
"""

from __future__ import annotations

import os
import sys

import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

import txnclient

PARTS = 2
WRITTEN = 100


def main(master: str, addresses: str, table: str) -> None:
    spark = (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", os.environ["SPARK_LOCAL_IP"])
        .config("spark.cores.max", str(PARTS))
        .config("spark.executor.cores", "1")
        .getOrCreate()
    )
    client = txnclient.connect(addresses)
    with client.transaction(label="machines") as txn:
        token = txn.token(tables=[table], appends_only=True, may_commit=False)

        def write(part: int) -> tuple[str, txnclient.StagedFiles]:
            BarrierTaskContext.get().barrier()  # so that each worker has one
            assert "TXN_CREDENTIALS" not in os.environ, "a token is all that it has"
            with txnclient.connect(addresses, credentials=token) as executor:
                rows = pa.table({"id": pa.array([-1 - part], pa.int64())})
                return os.environ["SPARK_LOCAL_IP"], executor.join(token).stage(rows, table)

        parts = spark.sparkContext.parallelize(range(PARTS), PARTS).barrier()
        done = parts.mapPartitions(lambda each: [write(part) for part in each]).collect()
        txn.add([staged for _, staged in done], table)
        txn.write(spark.range(WRITTEN), table)
    assert client.snapshot().read(spark, table).count() == PARTS + WRITTEN
    print("machines", *sorted({machine for machine, _ in done}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
