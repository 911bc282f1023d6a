"""Bulk changes of tables with a primary key by Spark: upserts, DELETE, UPDATE and MERGE, beside rows by key."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from txnclient import AlreadyExists, Client, Conflict, InvalidArgument, RowsAffected
from txnclient.write import keyed, keys

NewTable = Callable[..., str]
DDL = "id bigint, p string, v bigint"


@pytest.fixture(params=[True, False], ids=["keys by Spark", "keys by pyarrow"])
def bulk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is changed goes by position."""
    monkeypatch.setattr(keyed, "MAX_ROWS_BY_KEY", 0)
    if request.param:
        monkeypatch.setattr(keys, "MAX_ROWS_HERE", 0)


def rows(client: Client, spark: SparkSession, table: str) -> dict[int, tuple[str, int]]:
    with client.snapshot() as snapshot:
        here = sorted(map(tuple, snapshot.to_arrow(table).to_pandas().to_numpy().tolist()))
        assert sorted(map(tuple, snapshot.read(spark, table).collect())) == here
    assert len({row[0] for row in here}) == len(here), "a key comes twice"
    return {key: (part, value) for key, part, value in here}


def frame(spark: SparkSession, first: int, until: int, value: int, part: str = "a") -> object:
    return spark.range(first, until).selectExpr("id", f"'{part}' AS p", f"CAST({value} AS BIGINT) AS v")


def by_row(value: int, *ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": ["r"] * len(ids), "v": [value] * len(ids)})


@pytest.mark.usefixtures("bulk")
def test_upserts_and_statements_of_a_keyed_table(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table(DDL, partition_by=["p"], primary_key=["id"])
    client.write(frame(spark, 0, 20, 0), table)
    client.upsert(table, by_row(1, 3, 30))
    model: dict[int, tuple[str, int]] = dict.fromkeys(range(20), ("a", 0)) | {3: ("r", 1), 30: ("r", 1)}
    client.write(frame(spark, 2, 5, 2, "b"), table, mode="upsert")
    model |= dict.fromkeys(range(2, 5), ("b", 2))
    assert rows(client, spark, table) == model, "a row may move to another partition"
    with client.transaction() as txn:
        txn.write(frame(spark, 5, 8, 3), table, mode="upsert")
        txn.delete(table, by_row(0, 5).select(["id"]))
        txn.upsert(table, by_row(4, 6, 40))
        txn.write(frame(spark, 4, 7, 5), table, mode="upsert")
        assert txn.update_where(table, {"v": "v + 100"}, "id >= 30", spark=spark) == RowsAffected(updated=2)
        assert txn.delete_where(table, "id BETWEEN 6 AND 9", spark=spark) == RowsAffected(deleted=4)
        source = spark.sql("SELECT * FROM VALUES (10L, 7L), (30L, 8L), (50L, 9L) AS s (id, v)")
        merged = (
            txn.merge(table, source, on="target.id = source.id")
            .when_matched_delete(condition="target.id = 30")
            .when_matched_update({"v": "source.v"})
            .when_not_matched_insert({"id": "source.id", "p": "'c'", "v": "source.v"})
            .execute()
        )
        assert merged == RowsAffected(inserted=1, updated=1, deleted=1)
    model |= {4: ("a", 5), 5: ("a", 5), 40: ("r", 104), 10: ("a", 7), 50: ("c", 9)}
    for gone in (6, 7, 8, 9, 30):
        del model[gone]
    assert rows(client, spark, table) == model
    alike = client.merge(table, frame(spark, 18, 22, 6), on="target.id = source.id").when_matched_update_all()
    assert alike.when_not_matched_insert_all().execute().rows == RowsAffected(inserted=2, updated=2)
    model |= dict.fromkeys(range(18, 22), ("a", 6))
    assert rows(client, spark, table) == model
    with pytest.raises(AlreadyExists, match="their keys are"):
        client.update_where(table, {"id": "id + 1"}, "id = 10", spark=spark)
    with pytest.raises(InvalidArgument, match="more than once"):
        client.write(frame(spark, 1, 2, 0).unionByName(frame(spark, 1, 2, 0)), table, mode="upsert")  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match=r"'id' of table .* is NOT NULL"):
        client.write(frame(spark, 1, 2, 0).selectExpr("nullif(id, 1) AS id", "p", "v"), table, mode="upsert")  # type: ignore[attr-defined]
    assert rows(client, spark, table) == model


@pytest.mark.usefixtures("bulk")
def test_a_bulk_change_and_a_row_write_of_one_key_conflict(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    table = new_table(DDL, primary_key=["id"])
    client.write(frame(spark, 0, 10, 0), table)
    for bulk_first in (True, False):
        bulk, single = client.begin(), client.begin()
        bulk.write(frame(spark, 3, 6, 1), table, mode="upsert")
        single.upsert(table, by_row(2, 4))
        first, second = (bulk, single) if bulk_first else (single, bulk)
        first.commit()
        with pytest.raises(Conflict):
            second.commit()
        assert rows(client, spark, table)[4][1] == (1 if bulk_first else 2)
