"""Reading a snapshot's files: one native Parquet scan of an explicit list, with the table's schema."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import unquote

from pyspark.sql import functions

from txnclient.formats import schemas
from txnstatus.lake import data_files
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LISTING = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_lock = threading.Lock()

AS_IT_IS = {
    "recursiveFileLookup": "true",  # the list is exact: nothing is to be learnt from the directories' names
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
}
"""Options of a read, whatever the session says: no row is left out, and no date is another one."""


def read_files(spark: SparkSession, files: Sequence[DataFile], schema: Schema) -> DataFrame:
    """The files' ends are looked at here, their pages by the tasks. Raises DataDamaged, FileNotFoundError."""
    columns = schemas.ddl(schema)
    if not files:
        return spark.createDataFrame([], columns)
    data_files.check(files)
    with _listing_on_the_driver(spark):
        frame = (
            spark.read.schema(columns)
            .options(**AS_IT_IS, **data_files.VERIFY)
            .parquet(*(hadoop_path(file.path) for file in files))
        )
    # A projection: INSERT INTO a view of the bare scan would append files behind the transactions' back.
    return frame.selectExpr(*(f"`{column.name}`" for column in schema.columns))


def read_kinds(spark: SparkSession, files: Mapping[str, Sequence[DataFile]], schema: Schema, column: str) -> DataFrame:
    """One frame of several lists of files, with one more column, that names the list."""
    frames = [read_files(spark, each, schema).withColumn(column, functions.lit(kind)) for kind, each in files.items()]
    return functools.reduce(lambda one, other: one.unionAll(other), frames)


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
