"""Overwrites of partitions, by Spark and by pyarrow in the same table: both must call a partition the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from txnclient import AlreadyExists, Client, Conflict, InvalidArgument

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


def test_a_partition_has_one_name_whatever_a_session_says(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    """Without ANSI mode Spark spells 0.0000000001 with an exponent: one key was in two partitions, twice."""
    table = new_table("p decimal(20,10), id bigint", partition_by=["p"], primary_key=["p", "id"])
    values = [Decimal(text) for text in ("0.0000000001", "-0.0000000123", "0E-10", "12.5000000000")]
    rows = pa.table({"p": pa.array(values, pa.decimal128(20, 10)), "id": pa.array([1] * len(values), pa.int64())})
    legacy = spark.newSession()
    legacy.conf.set("spark.sql.ansi.enabled", "false")
    client.write(legacy.createDataFrame(rows), table)
    with pytest.raises(AlreadyExists, match="4 of 4 rows"):
        client.write(rows, table)
    with client.transaction() as txn:
        txn.delete(table, rows.slice(0, 1))
        txn.upsert(table, rows.slice(1, 1))
    for value in values[1:]:
        assert client.snapshot().read(legacy, table, partition={"p": value}).count() == 1


def test_no_setting_of_a_session_leaves_out_rows_or_makes_days_other_ones(
    spark: SparkSession, client: Client, new_table: NewTable
) -> None:
    table = new_table("id bigint, day date")
    client.write(pa.table({"id": [1, 2], "day": [date(1500, 1, 1)] * 2}), table)
    other = spark.newSession()
    for setting, its in [
        ("spark.sql.files.ignoreCorruptFiles", "true"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY"),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"),
    ]:
        other.conf.set(setting, its)
    snapshot = client.snapshot()
    frame = snapshot.read(other, table)
    assert {row.day for row in frame.collect()} == {date(1500, 1, 1)}
    with pytest.raises(InvalidArgument, match="datetimeRebaseModeInWrite is LEGACY"):
        client.write(frame, table)
    (file,) = snapshot.files(table).files
    local = Path(file.path.removeprefix("file://"))
    whole = local.read_bytes()
    local.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    (local.parent / f".{local.name}.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match=local.name):
        frame.groupBy("id", "day").count().collect()
    local.unlink()
    with pytest.raises(Exception, match=local.name):
        frame.groupBy("id", "day").count().collect()
    local.write_bytes(whole)  # the cluster is others', too, and they look at all of it


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
