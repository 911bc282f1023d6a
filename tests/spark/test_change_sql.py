"""The values that SQL expressions are said to have in Spark: REWRITE=1 writes them down anew."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.unit.harness import expressions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.campaign
def test_the_values_are_those_of_spark(spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        frame = spark.createDataFrame(expressions.rows())
        frame.withColumn("n", frame.n.cast("timestamp_ntz")).createOrReplaceTempView("T")
        columns = ", ".join(f"{text} AS r{number}" for number, text in enumerate(expressions.TEXTS))
        found = spark.sql(f"SELECT {columns} FROM T ORDER BY id").toArrow()
    finally:
        spark.catalog.dropTempView("T")
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    lines = expressions.lines(list(found.to_pydict().values()))
    if os.environ.get("REWRITE"):
        expressions.VALUES.write_text("\n".join(lines) + "\n")
    assert expressions.VALUES.read_text().splitlines() == lines
