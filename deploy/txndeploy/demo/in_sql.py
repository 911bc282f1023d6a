"""A correction in Spark's own SQL, as a transaction of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from txnclient import Client, RowsAffected
from txnclient.sparksql import attach, last_commit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MERGE = """MERGE INTO txn.air.airports t USING (SELECT 'LGA' AS faa, 'LaGuardia' AS name) s ON t.faa = s.faa
    WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED THEN INSERT (faa, name) VALUES (s.faa, s.name)"""


def correct(spark: SparkSession, client: Client) -> list[str]:
    """Gives an airport its name. What was not as it must be."""
    attach(spark, client)
    spark.sql(MERGE)
    done = last_commit(spark)
    if done is None or done.rows != RowsAffected(updated=1):
        return [f"the MERGE in Spark's SQL was to update one row, and came to {done}"]
    return []
