"""DELETE, UPDATE and MERGE by Spark: what a statement does to rows of files, which its scans know by file and number.

Rows that die and rows that come in their place must be of one evaluation of the statement, be there rand(), a clock or
a source that answers otherwise each time. So predicates are evaluated once, for positions, and an UPDATE's new rows are
made of the rows at these; a MERGE keeps its source and the rows that it changes on the executors' disks, and where
these are lost it fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions

from txnclient.change.merge import checked_values
from txnclient.change.plan import RowsChanged
from txnclient.formats import schemas
from txnclient.read.table_files import TableFiles
from txnclient.spark import reader
from txnclient.spark.expressions import Sql, running
from txnclient.spark.positions import Placed, bitmaps, collected
from txnstatus.names import quoted

if TYPE_CHECKING:
    from pyroaring import BitMap
    from pyspark.sql import SparkSession


def delete(spark: SparkSession, there: TableFiles, predicate: str) -> RowsChanged:
    """What `DELETE FROM table WHERE predicate` does. Raises InvalidArgument, DataDamaged."""
    placed, hit = _hit(spark, there, predicate)
    return replace(placed.changed(hit), deleted=sum(map(len, hit.values())))


def update(spark: SparkSession, there: TableFiles, values: Mapping[str, str], predicate: str) -> RowsChanged:
    """What `UPDATE table SET ... WHERE predicate` does. Raises InvalidArgument, DataDamaged."""
    checked = checked_values(values, there.schema, there.name)
    sql, name = Sql(there.name), there.name.partition(".")[2]
    empty = reader.read_files(spark, (), there.schema).alias(name)
    for column in there.schema.columns:
        if column.name in checked:
            sql.value(empty, checked[column.name], column)
    placed, hit = _hit(spark, there, predicate)
    if not hit:
        return RowsChanged({})
    at, loose = placed.at(hit)
    found = reader.read_files(spark, at.files, there.schema, at.dead)
    if loose.num_rows:
        found = found.unionByName(spark.createDataFrame(loose, schemas.ddl(there.schema)))
    rows = found.alias(name)
    new = [
        sql.value(rows, checked[column.name], column) if column.name in checked else functions.col(quoted(column.name))
        for column in there.schema.columns
    ]
    named = [value.alias(column.name) for value, column in zip(new, there.schema.columns, strict=True)]
    return replace(placed.changed(hit), rows=rows.select(*named), updated=sum(map(len, hit.values())))


def _hit(spark: SparkSession, there: TableFiles, predicate: str) -> tuple[Placed, dict[str, BitMap]]:
    """The table's rows, and the places of those for which the predicate holds."""
    sql, name = Sql(there.name), there.name.partition(".")[2]
    sql.predicate(reader.read_files(spark, (), there.schema).alias(name), predicate, "the predicate")
    placed = Placed.of(spark, there)
    rows = placed.rows.alias(name)
    with running(there.name):
        found = collected(rows.where(sql.predicate(rows, predicate, "the predicate")))
    return placed, bitmaps(found, placed.uris)
