"""Rows of tables with a column `id`: what a statement names and finds, what others see, and what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyspark

from txnclient import Client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WANTS_ALL_COLUMNS = pyspark.__version__ < "4.1"
"""Whether an INSERT names every column: Spark puts NULL for those that are left out since then."""


def there(client: Client, table: str) -> list[int]:
    """What others see."""
    return sorted(client.snapshot().to_arrow(table)["id"].to_pylist())


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def found(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())
