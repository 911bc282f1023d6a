"""A primary key holds when Spark writes: what is compared by Spark, and what by pyarrow in the driver."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from txnclient import AlreadyExists, Client, InvalidArgument
from txnclient.write import keys

NewTable = Callable[..., str]


@pytest.mark.parametrize("most_here", [0, keys.MAX_ROWS_HERE], ids=["by Spark", "by pyarrow"])
def test_a_key_is_unique_when_spark_writes(
    spark: SparkSession, client: Client, new_table: NewTable, monkeypatch: pytest.MonkeyPatch, most_here: int
) -> None:
    monkeypatch.setattr(keys, "MAX_ROWS_HERE", most_here)
    table = new_table("id bigint, code string", primary_key=["id", "code"])

    def frame(first: int, until: int, code: str = "a") -> object:
        return spark.range(first, until).selectExpr("id", f"'{code}' AS code")

    client.write(frame(0, 100), table)
    with pytest.raises(AlreadyExists, match=r"of 50 rows: their keys are in .* already") as taken:
        client.write(frame(80, 130), table)
    assert len(taken.value.keys) == 10
    assert set(taken.value.keys) <= {f"{number},a" for number in range(80, 100)}
    with pytest.raises(InvalidArgument, match=r"more than once in the rows for .*: 200,a"):
        client.write(frame(200, 201).unionByName(frame(200, 202)), table)  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match=r"'code' of table .* is NOT NULL"):
        client.write(spark.range(300, 301).selectExpr("id", "CAST(NULL AS STRING) AS code"), table)
    with client.transaction() as txn:
        txn.delete(table, pa.table({"id": pa.array([5], pa.int64()), "code": ["a"]}))
        txn.write(frame(5, 10, "b"), table)
    txn = client.begin()
    txn.delete(table, pa.table({"id": pa.array([6], pa.int64()), "code": ["a"]}))
    with pytest.raises(AlreadyExists, match="1 of 1 rows"):
        txn.write(frame(6, 7), table)
    client.write(frame(5, 6), table)
    client.write(frame(0, 10), table, "overwrite")
    assert client.snapshot().to_arrow(table).num_rows == 10
