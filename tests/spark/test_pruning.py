"""Spark reads of one part of a table: only its files, whatever its values are called, and its changed rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from txnclient import Client, InvalidArgument
from txnstatus.partitions import value_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]
STRINGS = ["plain", "", None, "__null__", "100%*", "a/b=c", "ключ", "x" * 300]


def days(*days: tuple[int, str | None]) -> pa.Table:
    return pa.table({
        "id": pa.array(range(len(days)), pa.int64()),
        "m": pa.array([m for m, _ in days], pa.int32()),
        "p": pa.array([p for _, p in days], pa.string()),
    })  # fmt: skip


def test_only_the_files_of_the_partition_are_read(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, m int, p string", partition_by=["m", "p"])
    data = days(*((m, p) for m in (1, 2) for p in STRINGS))
    client.write(data, table)
    client.write(data, table)
    with client.snapshot() as snapshot:
        for position, value in enumerate(STRINGS):
            frame = snapshot.read(spark, table, partition={"m": 2, "p": value})
            assert len(frame.inputFiles()) == 2
            assert [row.id for row in frame.collect()] == [len(STRINGS) + position] * 2
        first = snapshot.read(spark, table, partition={"m": 1})
        assert len(first.inputFiles()) == 2 * len(STRINGS)
        assert sorted(row.id for row in first.collect()) == sorted([*range(len(STRINGS))] * 2)
        nothing = snapshot.read(spark, table, partition="m=3")
        assert (nothing.count(), nothing.columns) == (0, ["id", "m", "p"])
        assert snapshot.read(spark, table).count() == 4 * len(STRINGS)
    with client.transaction() as txn:
        txn.write(days((3, "new")), table)
        assert [row.p for row in txn.read(spark, table, partition="m=3").collect()] == ["new"]


def test_changed_rows_are_those_of_the_partition(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, m int, p string", partition_by=["p"], primary_key=["id"])
    client.write(days((0, "a"), (0, "a"), (0, "b"), (0, None)), table)

    def put(id_: int, m: int, p: str | None) -> None:
        client.upsert(table, pa.table({"id": [id_], "m": pa.array([m], pa.int32()), "p": pa.array([p], pa.string())}))

    put(0, 1, "a")  # stays
    put(1, 1, "x" * 300)  # leaves
    put(2, 1, "a")  # comes
    put(9, 1, None)
    client.delete(table, pa.table({"id": [3]}))
    with client.snapshot() as snapshot:
        rows = snapshot.to_arrow(table).to_pylist()
        for value in ("a", "b", None, "x" * 300):
            frame = snapshot.read(spark, table, partition={"p": value})
            expected = sorted((row["id"], row["m"]) for row in rows if row["p"] == value)
            assert sorted((row.id, row.m) for row in frame.collect()) == expected, value_name(value)


def test_a_nan_of_sparks_is_found_beside_numbers(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    """Spark's writer takes a NaN for the highest value: a filter of pyarrow's took in all of the file, or nothing."""
    table = new_table("id bigint, x double")
    client.write(spark.sql("SELECT * FROM VALUES (1L, 3D), (2L, double('NaN')) AS t (id, x)").coalesce(1), table)
    with client.snapshot() as snapshot:
        rows = snapshot.to_arrow(table)
        for where in (pc.field("x") <= 3, ~(pc.field("x") <= 3), pc.field("x") != 3, pc.field("x") >= 1):
            assert snapshot.to_arrow(table, where=where)["id"].equals(rows.filter(where)["id"]), where
    with client.transaction() as txn:
        assert txn.delete_where(table, "x <= 3").deleted == 1
        assert txn.delete_where(table, "x > 3").deleted == 1


@pytest.mark.parametrize(
    ("partition", "says"),
    [
        ({"month": 1}, "'month' is no partition column"),
        ("p=1", "is no partition of"),
        ("m=1/p=../x", "is no partition of"),
        ({}, "is no partition of"),
    ],
)
def test_what_is_no_partition(
    spark: SparkSession, client: Client, new_table: NewTable, partition: str | Mapping[str, Any], says: str
) -> None:
    table = new_table("id bigint, m int, p string", partition_by=["m", "p"])
    with client.snapshot() as snapshot, pytest.raises(InvalidArgument, match=says):
        snapshot.read(spark, table, partition=partition)
