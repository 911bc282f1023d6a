"""Tables with row changes, read from PySpark: the same rows as pyarrow reads, in memory and flushed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tests.support import wait_until
from txnclient import Client
from txnclient.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewTable = Callable[..., str]
DDL = "day date, code string, price decimal(10,2), at timestamp, local timestamp_ntz, tags array<string>, raw binary"


def row(code: str, tag: str) -> dict[str, object]:
    at = datetime(2024, 5, 1, 12, 30)
    return {
        "day": date(2024, 5, 1),
        "code": code,
        "price": Decimal("1.50"),
        "at": at.replace(tzinfo=UTC),
        "local": at,
        "tags": [tag],
        "raw": b"\xff",
    }


def check(spark: SparkSession, snapshot: Snapshot, table: str) -> dict[str, str]:
    """Spark and pyarrow agree; returns the tag of every row."""
    by_arrow = snapshot.to_arrow(table)
    by_spark = snapshot.read(spark, table).toArrow()
    order = [("code", "ascending")]
    assert (
        by_spark.select(["day", "code", "price", "tags", "raw"]).sort_by(order).to_pylist()
        == by_arrow.select(["day", "code", "price", "tags", "raw"]).sort_by(order).to_pylist()
    )
    for name in ("at", "local"):
        found = by_spark.sort_by(order)[name].cast(pa.int64()).to_pylist()
        assert found == by_arrow.sort_by(order)[name].cast(pa.int64()).to_pylist()
    return {code: tags[0] for code, tags in zip(*(by_arrow[n].to_pylist() for n in ("code", "tags")), strict=True)}


def compare(spark: SparkSession, client: Client, table: str, early: Snapshot) -> None:
    """Spark and pyarrow find the same changes, before and after an overwrite of the whole table."""
    columns = ["day", "code", "tags", "_change_kind"]
    for _ in range(2):
        by_arrow = client.diff(table, early.timestamp).select(columns)
        by_spark = client.diff(table, early.timestamp, spark=spark).toArrow().select(columns)
        order = [("_change_kind", "ascending"), ("code", "ascending")]
        assert by_spark.sort_by(order).to_pylist() == by_arrow.sort_by(order).to_pylist()
        assert {"insert", "update_before", "update_after"} <= set(by_arrow["_change_kind"].to_pylist())
        with client.transaction() as txn:
            txn.write(txn.to_arrow(table), table, mode="overwrite")


def test_spark_reads_what_rows_and_files_come_to(spark: SparkSession, client: Client, new_table: NewTable) -> None:
    table = new_table(DDL, primary_key=["day", "code"])
    schema = client.snapshot().to_arrow(table).schema

    def rows(*codes: str, tag: str) -> pa.Table:
        return pa.Table.from_pylist([row(code, tag) for code in codes], schema=schema)

    with client.transaction() as txn:
        txn.write(rows("a", "b", "c", "d", tag="file"), table)
    with client.transaction() as txn:
        txn.upsert(table, rows("b", "e,\\", tag="row"))
        txn.delete(table, rows("c", tag="").select(["code", "day"]))
    with client.transaction() as txn:
        txn.write(rows("c", tag="later file"), table)
    early, expected = client.snapshot(), {"a": "file", "b": "row", "c": "later file", "d": "file", "e,\\": "row"}
    assert check(spark, early, table) == expected
    location = Path(client.table(table).location.removeprefix("file://"))
    with client.transaction() as txn:
        txn.upsert(table, rows("d", *(f"n{number}" for number in range(9_000)), tag="x" * 400))
    wait_until(lambda: list(location.glob("delta_rows*/_manifest.json")), "row changes are flushed")
    with client.transaction() as txn:
        txn.update(table, rows("b", tag="row again"))
        txn.delete(table, rows("n0", tag="").select(["day", "code"]))
    found = check(spark, client.snapshot(), table)
    assert {code: tag for code, tag in found.items() if not code.startswith("n")} == {
        **expected,
        "b": "row again",
        "d": "x" * 400,
    }
    assert sum(code.startswith("n") for code in found) == 8_999
    assert check(spark, client.snapshot(), table) == found
    compare(spark, client, table, early)
    reread = client.snapshot(early.timestamp)  # from the shard anew
    assert check(spark, reread, table) == expected
