"""Keys of files, compared by Spark: which come twice, and which are in a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions

from txnclient.formats import schemas
from txnclient.read.table_files import TableFiles
from txnclient.spark import reader, row_reader
from txnclient.spark.alive_rows import FILE, ROW
from txnclient.spark.positions import bitmaps, collected
from txnstatus.lake.manifest import DataFile
from txnstatus.names import quoted
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyroaring import BitMap
    from pyspark.sql import DataFrame, SparkSession

_COUNT = "_txn_count"


def keys_of(spark: SparkSession, files: Sequence[DataFile], schema: Schema) -> DataFrame:
    """The columns of the primary key of all rows in the files."""
    return reader.read_files(spark, files, _keys_alone(schema)).select(*_names(schema))


def that_come_twice(keys: DataFrame, at_most: int) -> pa.Table:
    names = list(map(quoted, keys.columns))
    counted = keys.groupBy(*names).agg(functions.count("*").alias(_COUNT))
    return counted.where(f"{_COUNT} > 1").select(*names).limit(at_most).toArrow()


def that_are_in(
    spark: SparkSession, keys: DataFrame, there: Sequence[TableFiles], more: pa.Table, at_most: int
) -> pa.Table:
    """Keys of these that are in one of the tables, or among `more`, which has the same columns."""
    schema, names = there[0].schema, list(keys.columns)
    found = [row_reader.read_table(spark, each).select(*_names(schema)) for each in there if each.files or each.changes]
    if more.num_rows:
        columns = Schema(tuple(column for name in names for column in schema.columns if column.name == name))
        found.append(spark.createDataFrame(more, schemas.ddl(columns)))
    if not found:
        return more
    taken = reduce(lambda one, other: one.unionByName(other), found)
    return keys.join(taken, names, "left_semi").limit(at_most).toArrow().cast(more.schema)


def places(spark: SparkSession, files: Sequence[DataFile], there: TableFiles) -> dict[str, BitMap]:
    """The rows of a table's files, without row changes, that have a key of these files."""
    rows, uris = reader.read_places(spark, there.files, _keys_alone(there.schema), there.dead)
    keys = keys_of(spark, files, there.schema)
    found = rows.select(*_names(there.schema), FILE, ROW).join(keys, list(keys.columns), "left_semi")
    return bitmaps(collected(found), uris)


def _keys_alone(schema: Schema) -> Schema:
    """Where Spark has no file system it does not find out by itself that no other columns are needed."""
    return replace(schema, columns=tuple(each for each in schema.columns if each.name in schema.primary_key))


def _names(schema: Schema) -> list[str]:
    return list(map(quoted, schema.primary_key))
