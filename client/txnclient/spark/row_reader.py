"""Tables and their differences: native scans, without the rows that were changed since, and beside them what these are.

Where there is too much to find these rows ahead of the scan, Spark finds them, by an anti-join on the key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions

from txnclient.formats import schemas
from txnclient.read import row_reads
from txnclient.read.diff import CHANGE_KIND, KINDS, Changes, KeyedChanges
from txnclient.read.row_reads import RowChanges
from txnclient.read.table_files import TableFiles
from txnclient.spark import reader, writer
from txnstatus.lake.rows import COMMIT_TS, DELETED
from txnstatus.names import quoted
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.schema import Column, Schema, widest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame, SparkSession

TIMESTAMP = "decimal(20,0)"
"""The type as which Spark reads unsigned 64-bit integers."""


def read_table(spark: SparkSession, found: TableFiles, partition: str = WHOLE_TABLE) -> DataFrame:
    """`partition`: the part of the table that the files are in, and of which changed rows are wanted."""
    files, changes, schema = found.files, found.changes, found.schema
    if changes is None:
        return reader.read_files(spark, files, schema, found.dead)
    if (settled := row_reads.settled(files, changes, schema, found.dead)) is not None:
        rows, gone = settled
        there = reader.read_files(spark, files, schema, gone)
        if not rows.num_rows:
            return there
        written = spark.createDataFrame(rows, schemas.ddl(schema)).where(writer.is_in(partition, schema))
        return written.unionAll(there)
    latest = _latest(spark, changes, schema)
    written = latest.where(f"NOT {DELETED}").where(writer.is_in(partition, schema))
    parts = [written.select(*(quoted(column.name) for column in schema.columns))]
    for since, group in row_reads.by_later_changes(files, changes.file_times, row_reads.commits(changes)):
        later = latest.where(f"{COMMIT_TS} >= {since}").select(*map(quoted, schema.primary_key))
        rows = reader.read_files(spark, group, schema, found.dead)
        parts.append(rows.join(later, list(schema.primary_key), "left_anti"))
    return reduce(lambda one, other: one.unionByName(other), parts)


def read_changes(spark: SparkSession, found: Changes | KeyedChanges) -> DataFrame:
    """The rows that changed, with one more column, that names the kind."""
    if isinstance(found, Changes):
        kinds = [
            read_table(spark, part).withColumn(CHANGE_KIND, functions.lit(kind)) for kind, part in found.parts.items()
        ]
        return reduce(lambda one, other: one.unionAll(other), kinds)
    return _keyed(spark, found)


def _keyed(spark: SparkSession, between: KeyedChanges) -> DataFrame:
    names = list(between.schema.primary_key)
    parts = [read_table(spark, part).select(*_columns(names)) for span in between.spans for part in span.in_one]
    touched = reduce(lambda one, other: one.unionByName(other), parts)
    for changes, above in (each for span in between.spans for each in span.later_changes):
        later = _latest(spark, changes, between.schema).where(f"{COMMIT_TS} > {above}")
        touched = touched.unionByName(later.select(*_columns(names)))
    whole = functions.struct(*_columns(column.name for column in between.schema.columns))
    before, after = (
        read_table(spark, side).join(touched, names, "left_semi").select(*_columns(names), whole.alias(name))
        for side, name in ((between.old, "_txn_old"), (between.new, "_txn_new"))
    )
    old, new = functions.col("_txn_old"), functions.col("_txn_new")
    went, was, is_now, came = (
        functions.struct(row.alias("_txn_row"), functions.lit(kind).alias(CHANGE_KIND))
        for row, kind in zip((old, old, new, new), KINDS, strict=True)
    )
    told = (
        functions.when(old.isNull(), functions.array(came))
        .when(new.isNull(), functions.array(went))
        .otherwise(functions.array(was, is_now))
    )
    joined = before.join(after, names, "full_outer").select(functions.inline(told))
    return joined.select("_txn_row.*", CHANGE_KIND)


def _columns(names: Iterable[str]) -> list[SparkColumn]:
    return [functions.col(quoted(name)) for name in names]


def _latest(spark: SparkSession, changes: RowChanges, schema: Schema) -> DataFrame:
    """The last change of each row that was changed."""
    in_memory = RowChanges(changes.batches, (), changes.above, changes.at, ())
    latest = _frame(spark, row_reads.latest_changes(in_memory, schema), schema)
    if changes.flushed:
        # Beside rows that are seen, a file may have others of a time when a column had room for more.
        wide = replace(schema, columns=tuple(replace(each, type=widest(each.type)) for each in schema.columns))
        flushed = reader.read_files(spark, changes.flushed, _with_commits(wide)).where(
            f"{COMMIT_TS} >= {changes.above} AND {COMMIT_TS} <= {changes.at}"
        )
        flushed = flushed.select(
            *(functions.col(quoted(each.name)).cast(each.type) for each in _with_commits(schema).columns)
        )
        whole = functions.struct(*_columns(flushed.columns))
        last = functions.max_by(whole, COMMIT_TS).alias("_txn_last")
        latest = flushed.unionByName(latest).groupBy(*_columns(schema.primary_key)).agg(last).select("_txn_last.*")
    return latest


def _with_commits(schema: Schema) -> Schema:
    return Schema((*schema.columns, Column(COMMIT_TS, TIMESTAMP), Column(DELETED, "boolean")))


def _frame(spark: SparkSession, changes: pa.Table, schema: Schema) -> DataFrame:
    import pyarrow as pa

    at = changes.column_names.index(COMMIT_TS)
    spelt = changes.set_column(at, COMMIT_TS, changes[COMMIT_TS].cast(pa.decimal128(20, 0)))
    return spark.createDataFrame(spelt, schemas.ddl(_with_commits(schema)))
