"""DELETE, UPDATE and MERGE by Spark, as transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from txnclient import Client, Conflict, RowsAffected

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]


def test_spark_changes_rows_under_a_transaction_beside_others(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, note string")
    client.write(spark.range(100).selectExpr("id", "'old' note"), table)
    other = client.begin()
    other.delete_where(table, "id = 7")
    with client.transaction() as txn:
        assert txn.delete_where(table, "id % 10 = 3", spark=spark) == RowsAffected(deleted=10)
        assert txn.update_where(table, {"note": "upper(note)"}, "id < 5", spark=spark) == RowsAffected(updated=4)
        source = spark.range(90, 110).selectExpr("id", "'merged' note")
        merge = txn.merge(table, source, on="target.id = source.id").when_matched_delete(condition="source.id = 99")
        merged = merge.when_matched_update_all().when_not_matched_insert_all().execute()
        assert merged == RowsAffected(inserted=11, updated=8, deleted=1)
        inside = txn.read(spark, table).groupBy("note").count().collect()
        assert {row["note"]: row["count"] for row in inside} == {"old": 77, "OLD": 4, "merged": 19}
    other.commit()
    found = client.snapshot().to_arrow(table)
    assert sorted(found["id"].to_pylist()) == sorted({*range(110)} - {*range(3, 93, 10), 99, 7})
    assert client.snapshot().read(spark, table).count() == found.num_rows == 99
    late = client.begin()
    late.snapshot  # noqa: B018 what it sees is fixed
    client.update_where(table, {"note": "'first'"}, "id = 1", spark=spark)
    late.update_where(table, {"note": "'second'"}, "id = 1", spark=spark)
    with pytest.raises(Conflict, match="were changed by transaction"):
        late.commit()
