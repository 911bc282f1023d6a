"""A driver of its own, to be killed: a stream of files into three tables and a PostgreSQL database.

python stream_job.py ADDRESSES DIRECTORY CONNINFO POINT

It kills itself at a point: the number of a step, or what it is called. A step is on either side of a call to the
cluster. What it died at it writes down first. It ends by itself when there is nothing more to take.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, count, lit

import txnclient
from tests.postgres.rig import NAME
from txnclient import Transaction
from txnclient.calls.channel import ManagerChannel

IDS, PARITY, BATCHES = TABLES = ("streamed.ids", "streamed.parity", "streamed.batches")
BESIDE = ("txnstatus.TxnManager/KeepTransactionAlive", "txnstatus.Table/RenewLeases")
"""Calls of threads of the client's own."""


def die_at(point: str, deaths: Path) -> None:
    """Has this process die there."""
    numbers, call = itertools.count(1), ManagerChannel.call

    def step(name: str) -> None:
        if point in (str(next(numbers)), name):
            with deaths.open("a") as file:
                file.write(f"{name}\n")
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(self: ManagerChannel, method: str, *args: Any, **options: Any) -> Any:
        if method in BESIDE:
            return call(self, method, *args, **options)
        step(f"before {method}")
        answer = call(self, method, *args, **options)
        step(f"after {method}")
        return answer

    ManagerChannel.call = counted  # type: ignore[assignment, method-assign]


def main(addresses: str, directory: str, conninfo: str, point: str) -> None:
    home = Path(directory)
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.local.dir": str(home / "local"),
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    client = txnclient.connect(addresses)
    assert client.cluster_id

    def write(txn: Transaction, batch: DataFrame, number: int) -> None:
        txn.write(batch, IDS)
        with txn.postgres(NAME, conninfo) as connection:
            for row in batch.collect():
                connection.execute("INSERT INTO streamed VALUES (%s)", (row.id,))
        txn.write(batch.select((col("id") % 2).alias("odd"), "id"), PARITY)
        txn.write(batch.groupBy().agg(count("*").alias("rows")).select(lit(number).alias("batch"), "rows"), BATCHES)

    files = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(home / "in"))
    writer = client.stream(files, write, source="killed")
    die_at(point, home / "deaths")
    query = writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
