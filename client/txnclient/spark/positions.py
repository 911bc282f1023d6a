"""Positions of rows that Spark has found, as bitmaps of files: executors gather them into lists."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions

from txnclient.read.table_files import TableFiles
from txnclient.spark.alive_rows import FILE, ROW
from txnstatus.errors import IllegalState

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap
    from pyspark.sql import DataFrame

COUNT = "_txn_count"
ROWS_TOGETHER = 20
"""The positions that one list has at most, as a power of two: a file's may be more than fit into one."""


def require_files_alone(there: TableFiles) -> None:
    """Raises IllegalState for a table with a primary key, rows of which may be in no file, and so have no position."""
    if there.schema.primary_key or there.changes is not None:
        raise IllegalState(
            f"table {there.name} has a primary key: Spark finds rows by their positions in files alone",
            hint="change its rows by key: update, upsert, delete",
        )


def collected(rows: DataFrame, *by: str) -> pa.Table:
    """Positions of rows that have some, as lists by file and by those columns, and how many rows there are."""
    grouped = rows.groupBy(*by, FILE, functions.shiftright(functions.col(ROW), ROWS_TOGETHER).alias("_txn_part"))
    positions = functions.collect_list(functions.col(ROW).cast("int")).alias(ROW)
    return grouped.agg(positions, functions.count("*").alias(COUNT)).toArrow()


def bitmaps(found: pa.Table, uris: Mapping[str, str]) -> dict[str, BitMap]:
    """URI of a file → positions, of what was collected. `uris`: by what Spark calls the files."""
    from pyroaring import BitMap

    dead: dict[str, BitMap] = {}
    for file, positions in zip(found[FILE].to_pylist(), found[ROW], strict=True):
        if file is not None:
            dead.setdefault(uris[file], BitMap()).update(_numbers(positions.values))
    return dead


def _numbers(positions: pa.Array) -> array[int]:
    found = array("I")
    if len(positions):
        start = 4 * positions.offset
        found.frombytes(memoryview(positions.buffers()[1])[start : start + 4 * len(positions)])
    return found
