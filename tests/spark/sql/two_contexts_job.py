"""A program that stops Spark and goes on with another context, as notebooks do; executors are processes of their own.

What it has begun by SQL, and not committed, is aborted as Spark is stopped.

python two_contexts_job.py ADDRESSES TABLE SCRATCH
"""

from __future__ import annotations

import sys
from pathlib import Path

import txnclient
from txnclient import Client
from txnclient.sparksql import attach
from txndeploy.demo.spark_session import local_cluster_session
from txndeploy.local.cluster import wait_until
from txnstatus.types import TxnState


def main(addresses: str, table: str, scratch: str) -> None:
    with txnclient.connect(addresses) as client:
        for number in (1, 2):
            with local_cluster_session(f"context {number}", Path(scratch)) as spark:
                attach(spark, client)
                spark.range(number, number + 1).writeTo(f"txn.{table}").append()
                spark.sql("BEGIN")
                spark.sql(f"INSERT INTO txn.{table} VALUES (9)")
                (begun,) = client.transactions([TxnState.OPEN])
            require_aborted(client, begun.txn_id)


def require_aborted(client: Client, txn_id: int) -> None:
    wait_until(lambda: client.past(txn_id).state == "ABORTED", f"transaction {txn_id} is aborted")
    said = client.past(txn_id).abort_reason
    assert said == "its session was closed", said


if __name__ == "__main__":
    main(*sys.argv[1:])
