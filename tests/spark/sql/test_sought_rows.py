"""Rows of a DELETE or an UPDATE that are found within the scan, by the statement's condition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from txnclient import Client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NewTable = Callable[..., str]
Sql = Callable[[str], "DataFrame"]


def explained(sql: Sql, statement: str) -> str:
    return "\n".join(row[0] for row in sql(f"EXPLAIN {statement}").collect())


def left(sql: Sql, table: str) -> list[int]:
    return [row.id for row in sql(f"SELECT id FROM txn.{table} ORDER BY id").collect()]


def test_what_is_no_condition_on_rows_alone_spark_looks_at(sql: Sql, client: Client, new_table: NewTable) -> None:
    table = new_table("id bigint, v string")
    client.write(pa.table({"id": range(20), "v": ["x"] * 20}), table)
    for where, is_sought in {
        "id % 7 = 1 AND v IS NOT NULL": True,
        "_metadata.row_index = 3": True,
        "id = (SELECT max(id) FROM txn.{table})": False,
        "id < 0 AND rand() < 0.5": False,
    }.items():
        for statement in ("DELETE FROM {table} WHERE {where}", "UPDATE {table} SET v = 'new' WHERE {where}"):
            filled = statement.format(table=f"txn.{table}", where=where.format(table=table))
            assert ("sought: " in explained(sql, filled)) == is_sought, filled
    assert "sought: " not in explained(sql, f"SELECT id FROM txn.{table} WHERE id % 7 = 1")
    sql(f"DELETE FROM txn.{table} WHERE id % 7 = 1 AND v IS NOT NULL")
    sql(f"DELETE FROM txn.{table} WHERE _metadata.row_index = 3")
    sql(f"DELETE FROM txn.{table} WHERE id = (SELECT max(id) FROM txn.{table})")
    assert left(sql, table) == [n for n in range(19) if n % 7 != 1 and n != 3]


def test_a_condition_that_fails_is_sparks_own_error(sql: Sql, client: Client, new_table: NewTable) -> None:
    """It is not asked of deleted rows, and where it fails the file is not said to be unreadable."""
    from pyspark.errors import PySparkException

    table = new_table("id bigint")
    client.write(pa.table({"id": range(10)}), table)
    client.delete_where(table, "id = 5")
    sql(f"DELETE FROM txn.{table} WHERE 1 / (id - 5) >= 0.5")
    assert left(sql, table) == [0, 1, 2, 3, 4, 8, 9]
    client.write(pa.table({"id": [5]}), table)
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO") as failed:
        sql(f"DELETE FROM txn.{table} WHERE 1 / (id - 5) > 0")
    assert "reading" not in str(failed.value)
    assert left(sql, table) == [0, 1, 2, 3, 4, 5, 8, 9]
