"""Reading a snapshot's files: a native Parquet scan of an explicit list, with the table's schema."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from pyspark.sql import functions

from txnclient.formats import schemas
from txnclient.spark import alive_rows, bare_rows, elsewhere, listed
from txnstatus.errors import IllegalState
from txnstatus.lake import alive, data_files, dead_rows
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.file_lists import by_bareness
from txnstatus.lake.manifest import DataFile
from txnstatus.names import quoted
from txnstatus.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_lock = threading.Lock()

AS_IT_IS = {
    "recursiveFileLookup": "true",  # the list is exact: nothing is to be learnt from the directories' names
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
"""Options of a read, whatever the session says: no row is left out, and no date is another one."""


def read_files(
    spark: SparkSession, files: Sequence[DataFile], schema: Schema, dead: DeadRows = dead_rows.NONE
) -> DataFrame:
    """Files without `dead` rows are one scan, the others another. Where Spark has no file system, there is one for all.

    The files' ends are looked at here, their pages by the tasks. Raises DataDamaged, FileNotFoundError.
    """
    parts = list(_parts(spark, files, schema, dead))
    if not parts:
        return spark.createDataFrame([], schemas.ddl(schema))
    # A projection: INSERT INTO a view of the bare scan would append files behind the transactions' back.
    return listed.in_few_tasks(spark, _together(parts, schema), files)


def read_places(
    spark: SparkSession, files: Sequence[DataFile], schema: Schema, dead: DeadRows
) -> tuple[DataFrame, dict[str, str]]:
    """As `read_files`, with the columns FILE and ROW of `alive_rows`; and the files by what Spark calls them there."""
    parts = list(_parts(spark, files, schema, dead, places=True))
    if not parts:
        places = f"{alive_rows.FILE} string, {alive_rows.ROW} bigint"
        return spark.createDataFrame([], f"{schemas.ddl(schema)}, {places}"), {}
    frame = _together(parts, schema, alive_rows.FILE, alive_rows.ROW)
    if not elsewhere.is_for_spark(spark, files[0].path):
        return frame, {file.path: file.path for file in files}
    whole, others = alive.by_dead_rows(files, dead)
    names = alive_rows.called(frame, [file.path for file in (*whole, *others)])
    return frame, {name: uri for uri, name in names.items()}


def _parts(
    spark: SparkSession, files: Sequence[DataFile], schema: Schema, dead: DeadRows, *, places: bool = False
) -> Iterator[DataFrame]:
    """Rows of the files that are alive, by as many scans as there are kinds of files; perhaps with their places."""
    if files and not elsewhere.is_for_spark(spark, files[0].path):  # a table's files are in one file system
        yield elsewhere.read(spark, files, schema, dead, places=places)
        return
    whole, others = alive.by_dead_rows(files, dead)
    for some in by_bareness(whole):
        yield _rows(spark, some, schema, places=places)
    for some in by_bareness(others):
        gone = {file.path: dead[file.path] for file in some}
        yield alive_rows.alive(_rows(spark, some, schema, places=True), gone)


def _rows(spark: SparkSession, files: Sequence[DataFile], schema: Schema, *, places: bool) -> DataFrame:
    """All rows of files that are all bare, or none of them."""
    if files[0].bare:
        there = replace(schema, columns=tuple(each for each in schema.columns if each.name not in schema.partition_by))
        return bare_rows.filled(alive_rows.placed(_scan(spark, files, there)), files, schema)
    scan = _scan(spark, files, schema)
    return alive_rows.placed(scan) if places else scan


def _together(parts: Sequence[DataFrame], schema: Schema, *more: str) -> DataFrame:
    """The rows of all parts, in the table's columns, as they are called now, and `more`."""
    names = [*((column.in_files, column.name) for column in schema.columns), *zip(more, more, strict=True)]
    bare: dict[str, Any] = {} if not schema.fills else {"metadata": {}}
    columns = [functions.col(quoted(in_files)).alias(name, **bare) for in_files, name in names]
    chosen = [part.select(*columns) for part in parts]
    return functools.reduce(lambda one, other: one.unionAll(other), chosen)


def _scan(spark: SparkSession, files: Sequence[DataFile], schema: Schema) -> DataFrame:
    """A bare scan, of which Spark knows file and number of each row."""
    data_files.check(files)
    reader = spark.read.schema(_columns(spark, schema.in_files)).options(**AS_IT_IS, **data_files.VERIFY)
    if (found := listed.scan(spark, reader, files)) is not None:
        return found
    with _listing_on_the_driver(spark):
        return reader.parquet(*(hadoop_path(file.path) for file in files))


def _columns(spark: SparkSession, schema: Schema) -> str | StructType:
    """The columns of a scan. Of those that are no nulls where files do not have them Spark is told as of its own."""
    text = schemas.ddl(schema)
    if not schema.fills:
        return text
    _require_batches(spark, schema)
    found, initial = spark.createDataFrame([], text).schema, {column.name: column for column in schema.fills}
    for field in found:
        if field.name in initial:
            field.metadata["EXISTS_DEFAULT"] = _literal(initial[field.name])
    return found


def _require_batches(spark: SparkSession, schema: Schema) -> None:
    """Raises IllegalState where Spark reads rows one by one: then it does not find what a column came with."""
    asked = ("spark.sql.parquet.enableVectorizedReader", "spark.sql.codegen.wholeStage")
    off = [name for name in asked if str(spark.conf.get(name, "true")).lower() != "true"]
    if off or len(schema.columns) > int(spark.conf.get("spark.sql.codegen.maxFields", "100") or 100):
        raise IllegalState(
            f"column {schema.fills[0].name!r} came with a default, which Spark's reader of rows does not read right",
            hint=f"set {(off or ['spark.sql.codegen.maxFields'])[0]}, by which it reads batches",
        )


def _literal(column: Column) -> str:
    """The value of a column in files that do not have it, as SQL, whatever the session takes for the end of a text."""
    text = f"CAST(X'{(column.initial or '').encode().hex()}' AS STRING)"
    return text if column.type == "string" else f"CAST({text} AS {column.type})"


def hadoop_path(uri: str) -> str:
    """A URI as Hadoop's Path reads it: it takes escapes literally, where URIs everywhere else have them decoded."""
    return unquote(uri)


def keeping(what: object, frame: DataFrame) -> DataFrame:
    """The frame, which from now on keeps `what` from becoming garbage."""
    frame._txn_keeps = what  # type: ignore[attr-defined]
    return frame


@contextmanager
def _listing_on_the_driver(spark: SparkSession) -> Iterator[None]:
    """Lists paths on the driver, which is sooner than the job that Spark starts for more than 32 of them."""
    with _lock:
        before = spark.conf.get(_LISTING)
        spark.conf.set(_LISTING, "1000000")
        try:
            yield
        finally:
            spark.conf.set(_LISTING, before or "32")
