"""A driver of its own that is killed, with its JVM, at a point of a statement.

python killed_job.py ADDRESSES POINT MODE STATEMENT

POINT is `CALL before`, `CALL after` or `CALL SECONDS` of a call of the catalog's to Python, or `added`: files of the
statement have been added, and nothing is committed. MODE is that of overwrites of partitions.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

import txnclient
from txnclient import Transaction
from txnclient.sparksql import attach
from txnclient.sparksql.tables import Tables

KEEPALIVE_MILLIS = 5_000


def die() -> None:
    os.killpg(0, signal.SIGKILL)


def dies(point: str) -> None:
    """This process dies at that point from now on."""
    call, _, when = point.partition(" ")
    answer: Callable[..., Any] = Tables.answer
    add: Callable[..., None] = Transaction.add_written

    def answered(self: Tables, method: str, request: Any) -> Any:
        if method == call and when == "before":
            die()
        if method == call and when not in ("before", "after"):
            threading.Timer(float(when), die).start()
        found = answer(self, method, request)
        if method == call and when == "after":
            die()
        return found

    def added(self: Transaction, *rest: Any) -> None:
        add(self, *rest)
        if call == "added":
            die()

    Tables.answer = answered  # type: ignore[method-assign]
    Transaction.add_written = added  # type: ignore[method-assign]


def main(addresses: str, point: str, mode: str, statement: str) -> None:
    dies(point)
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    spark = builder.config("spark.sql.sources.partitionOverwriteMode", mode).getOrCreate()
    client = txnclient.connect(addresses)
    begin = client.begin
    client.begin = lambda label="": begin(label, keepalive_millis=KEEPALIVE_MILLIS)  # type: ignore[method-assign,misc]
    attach(spark, client)
    spark.sql(statement)


if __name__ == "__main__":
    main(*sys.argv[1:])
