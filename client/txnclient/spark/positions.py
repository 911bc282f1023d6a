"""Positions of rows that Spark has found, as bitmaps of files: executors gather them into lists."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions

from txnclient.change.laid_out import LaidOut, laid_out
from txnclient.change.plan import RowsChanged
from txnclient.formats import schemas
from txnclient.read.table_files import TableFiles
from txnclient.spark import reader
from txnclient.spark.alive_rows import FILE, ROW

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap
    from pyspark.sql import DataFrame, SparkSession

COUNT = "_txn_count"
ROWS_TOGETHER = 20
"""The positions that one list has at most, as a power of two: a file's may be more than fit into one."""


LOOSE = ""
"""The file of rows that are in none; their number is the one in the list of such."""


@dataclass(frozen=True, slots=True)
class Placed:
    """All rows of a table, each with its place."""

    there: LaidOut
    rows: DataFrame
    """The table's columns, FILE and ROW."""
    uris: Mapping[str, str]
    """The files by what Spark calls them."""

    @classmethod
    def of(cls, spark: SparkSession, there: TableFiles) -> Placed:
        """Raises DataDamaged."""
        import pyarrow as pa

        found, schema = laid_out(there), there.schema
        rows, uris = reader.read_places(spark, found.files.files, schema, found.files.dead)
        if found.loose.num_rows:
            numbers = pa.array(range(found.loose.num_rows), pa.int64())
            numbered = found.loose.append_column(FILE, pa.repeat(LOOSE, len(numbers))).append_column(ROW, numbers)
            loose = spark.createDataFrame(numbered, f"{schemas.ddl(schema)}, {FILE} string, {ROW} bigint")
            rows, uris = rows.unionByName(loose), {**uris, LOOSE: LOOSE}
        return cls(found, rows, uris)

    def at(self, places: Mapping[str, BitMap]) -> tuple[TableFiles, pa.Table]:
        """The rows at these places alone: in files, and in none."""
        inside = {uri: positions for uri, positions in places.items() if uri != LOOSE}
        return self.there.files.at(inside), self._loose(places)

    def changed(self, places: Mapping[str, BitMap]) -> RowsChanged:
        """A statement's answer in which the rows at these places die, and nothing else is."""
        inside = {uri: positions for uri, positions in places.items() if uri != LOOSE}
        keys = self.there.files.schema.primary_key
        return RowsChanged(inside, gone=self._loose(places).select(list(keys)) if keys else None)

    def _loose(self, places: Mapping[str, BitMap]) -> pa.Table:
        import pyarrow as pa

        numbers = pa.array(places[LOOSE].to_array() if LOOSE in places else [], pa.uint32())
        rows: pa.Table = self.there.loose.take(numbers)
        return rows


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
