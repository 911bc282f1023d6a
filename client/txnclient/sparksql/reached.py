"""Tables that Spark's own SQL can read and write: those where Spark has a file system."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from txnclient.spark import elsewhere
from txnstatus.errors import IllegalState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def require_reached(spark: SparkSession | None, table: str, uri: str) -> None:
    """Raises IllegalState where Spark has no file system for it. `spark`: None = who asks cannot ask Spark."""
    if spark is None or elsewhere.is_for_spark(spark, uri):
        return
    scheme = urlsplit(uri).scheme
    raise IllegalState(
        f"Spark's SQL cannot reach table {table}: this Spark has no file system for {scheme}://",
        hint="snapshot.read(spark, table).createOrReplaceTempView(...) reads it in SQL, and a transaction's write, "
        "upsert, delete_where, update_where and merge change it; or give Spark the jar of a file system: "
        f"spark.hadoop.fs.{scheme}.impl",
    )
