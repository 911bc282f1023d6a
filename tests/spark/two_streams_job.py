"""A driver of a stream of files into two tables, of which another one may be a copy.

python two_streams_job.py ADDRESSES DIRECTORY NAME

In its second batch it leaves a file `NAME.inside` in the directory, and goes on once there is a file `NAME.go`. It ends
by itself when there is nothing more to take.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import count, lit
from pyspark.sql.streaming.query import StreamingQuery

import txnclient
from txnclient import Client, Transaction

IDS, BATCHES = TABLES = ("copied.ids", "copied.batches")
SOURCE = "copied"
WAIT_SECONDS = 300.0
BRIEF = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings for batches of few rows, for which no code need be made."""


def main(addresses: str, directory: str, name: str) -> None:
    home = Path(directory)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in BRIEF.items():
        builder = builder.config(key, value)
    spark = builder.config("spark.local.dir", str(home / f"local-{name}")).getOrCreate()
    query = started(spark, txnclient.connect(addresses), home, name)
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(f"the query ended: {error}", flush=True)
        os._exit(1)
    os._exit(0)


def started(spark: SparkSession, client: Client, home: Path, name: str) -> StreamingQuery:
    """The query that takes what is there."""

    def write(txn: Transaction, batch: DataFrame, number: int) -> None:
        txn.write(batch, IDS)
        txn.write(batch.groupBy().agg(count("*").alias("rows")).select(lit(number).alias("batch"), "rows"), BATCHES)
        if number == 1:
            (home / f"{name}.inside").touch()
            deadline = time.monotonic() + WAIT_SECONDS
            while not (home / f"{name}.go").exists():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"nobody lets driver {name} go on")
                time.sleep(0.05)

    files = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).parquet(str(home / "in"))
    writer = client.stream(files, write, source=SOURCE)
    return writer.option("checkpointLocation", str(home / "checkpoint")).trigger(availableNow=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
