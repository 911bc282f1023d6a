"""A program that stops Spark and goes on with another context, as notebooks do; executors are processes of their own.

python two_contexts_job.py ADDRESSES TABLE SCRATCH
"""

from __future__ import annotations

import sys
from pathlib import Path

import txnclient
from txnclient.sparksql import attach
from txndeploy.demo.spark_session import local_cluster_session


def main(addresses: str, table: str, scratch: str) -> None:
    with txnclient.connect(addresses) as client:
        for number in (1, 2):
            with local_cluster_session(f"context {number}", Path(scratch)) as spark:
                attach(spark, client)
                spark.range(number, number + 1).writeTo(f"txn.{table}").append()


if __name__ == "__main__":
    main(*sys.argv[1:])
