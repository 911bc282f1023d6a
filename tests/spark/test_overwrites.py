"""Overwrites of partitions, by Spark and by pyarrow in the same table: both must call a partition the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from txnclient import Client, Conflict, InvalidArgument

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]
STRINGS = [
    "plain",
    "New York",
    "",
    None,
    "__null__",
    "~",
    "100%*",
    "a/b=c",
    "..",
    "ключ",
    "x" * 300,
    "+",
    "a:b",
    "é'\"",
]


def rows_of(client: Client, table: str) -> dict[object, list[int]]:
    found: dict[object, list[int]] = {}
    for row in client.snapshot().to_arrow(table).to_pylist():
        found.setdefault(row["p"], []).append(row["id"])
    return {key: sorted(ids) for key, ids in found.items()}


@pytest.mark.parametrize(
    ("kind", "values", "arrow"),
    [
        ("string", STRINGS, pa.string()),
        ("date", [date(2024, 2, 29), date(1969, 12, 31), None], pa.date32()),
        ("decimal(10,2)", [Decimal("1.50"), Decimal("-100.00"), Decimal("0.00")], pa.decimal128(10, 2)),
        ("boolean", [True, False, None], pa.bool_()),
        ("bigint", [-(2**63), 0, 2**63 - 1], pa.int64()),
    ],
)
def test_spark_replaces_what_pyarrow_wrote_and_the_other_way_round(
    spark: SparkSession, client: Client, new_table: NewTable, kind: str, values: list[object], arrow: pa.DataType
) -> None:
    table = new_table(f"id bigint, p {kind}", partition_by=["p"])
    count = len(values)
    first = pa.table({"id": pa.array(range(count), pa.int64()), "p": pa.array(values, arrow)})
    second = spark.createDataFrame([(100 + n, value) for n, value in enumerate(values)], f"id bigint, p {kind}")
    third = pa.table({"id": pa.array([200], pa.int64()), "p": pa.array(values[:1], arrow)})
    with client.transaction() as txn:
        txn.write(first, table)
    with client.transaction() as txn:
        txn.write(second, table, "overwrite_partitions")
    assert rows_of(client, table) == {value: [100 + n] for n, value in enumerate(values)}
    with client.transaction() as txn:
        txn.write(third, table, "overwrite", partition={"p": values[0]})
    assert rows_of(client, table) == {**{v: [100 + n] for n, v in enumerate(values)}, values[0]: [200]}
    assert client.snapshot().read(spark, table).count() == count
    mine = client.snapshot().to_arrow(table, where=pc.field("p") == pa.scalar(values[0], arrow))
    assert mine["id"].to_pylist() == [200]


def test_overwrites_of_two_partitions_do_not_meet_and_of_one_do(client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, m int, d int", partition_by=["m", "d"])

    def data(month: int, day: int) -> pa.Table:
        column = pa.array([month], pa.int32())
        return pa.table({"id": pa.array([1], pa.int64()), "m": column, "d": pa.array([day], pa.int32())})

    one, two, three, four = (client.begin() for _ in range(4))
    one.write(data(1, 1), table, "overwrite", partition={"m": 1})
    two.write(data(2, 1), table, "overwrite_partitions")
    three.write(data(1, 2), table, "overwrite", partition="m=1/d=2")
    four.write(data(1, 1), table)
    for txn in (one, two, four):
        txn.commit()
    with pytest.raises(Conflict) as refusal:
        three.commit()
    assert refusal.value.winner == one.id
    assert refusal.value.objects == (f"{table}/m=1/d=2",)
    assert client.snapshot().files(table).rows == 3
    with client.transaction() as txn:
        txn.truncate(table, partition={"m": 1})
    assert client.snapshot().to_arrow(table)["m"].to_pylist() == [2]


def test_an_overwrite_says_what_is_wrong_with_it(client: Client, new_table: NewTable) -> None:
    table, plain = new_table("id bigint, m int", partition_by=["m"]), new_table("id bigint")
    data = pa.table({"id": pa.array([1, 2], pa.int64()), "m": pa.array([1, 2], pa.int32())})
    for mode, partition, said in [
        ("overwrite", {"m": 1}, "has rows of m=2, and is written to m=1"),
        ("append", {"m": 1}, "has rows of m=2, and is written to m=1"),
        ("overwrite", {"month": 1}, "'month' is no partition column"),
        ("overwrite", "m=1/x=2", "is no partition of"),
        ("overwrite_partitions", {"m": 1}, "mode 'overwrite_partitions' takes none"),
        ("replace", None, "mode 'replace'"),
    ]:
        with pytest.raises(InvalidArgument, match=said):
            client.write(data, table, mode, partition=partition)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="is not partitioned"):
        client.write(data.select(["id"]), plain, "overwrite_partitions")
