"""Files where Spark has no file system: pyarrow reads and writes them, in Spark's executors.

Spark reaches files by Hadoop's file systems, of which those for object stores are jars that it does not bring. Its
tasks reach them all the same, by whatever the programs reach them by: each reads whole files, and writes its own.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from txnclient.formats import arrow, schemas
from txnclient.spark.alive_rows import FILE, ROW, has_jvm
from txnstatus.lake import alive, storage
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.file_lists import in_lots
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TASKS = 32
"""Most tasks that read one table: how many run at once only a classic session says."""
_FILES = "_txn_files"


def is_for_spark(spark: SparkSession, uri: str) -> bool:
    """Whether Spark reads and writes there by itself: a session of Spark Connect tells by its settings."""
    scheme = urlsplit(uri).scheme
    if scheme == "file":
        return True
    if not has_jvm(spark):
        return spark.conf.get(f"spark.hadoop.fs.{scheme}.impl", None) is not None
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    jvm: Any = spark._jvm
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, settings)
    except Py4JJavaError:  # there is none, or its jar is not there
        return False
    return True


def read(
    spark: SparkSession, files: Sequence[DataFile], schema: Schema, dead: DeadRows, *, places: bool = False
) -> DataFrame:
    """The rows of the files that are not `dead`, in the columns' names in files; perhaps with FILE and ROW.

    A file is called there by its URI. Raises nothing yet: files are looked at by the tasks that read them.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    there = schema.in_files
    ddl = schemas.ddl(there) + (f", {FILE} string, {ROW} bigint" if places else "")
    target = to_arrow_schema(spark.createDataFrame([], ddl).schema, timezone="UTC")
    lots = [(lot, {each.path: dead[each.path] for each in lot if each.path in dead}) for lot in in_lots(files, TASKS)]

    def rows(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                lot, gone = lots[number]
                yield from _rows(lot, gone, there, target, places=places)

    return spark.range(0, len(lots), 1, len(lots)).mapInArrow(rows, ddl)


def _rows(
    files: Sequence[DataFile], dead: DeadRows, schema: Schema, target: pa.Schema, *, places: bool
) -> Iterator[pa.RecordBatch]:
    """What a task reads, in the types that Spark expects."""
    found = _placed(files, dead, schema) if places else arrow.read_batches(files, schema, None, None, dead)
    for batch in found:
        yield batch.cast(target)


def _placed(files: Sequence[DataFile], dead: DeadRows, schema: Schema) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    from pyroaring import BitMap

    for file in files:
        start, gone = 0, dead.get(file.path, BitMap())
        for batch in arrow.read_batches([file], schema, None):
            places = pa.array(range(start, start + batch.num_rows), pa.int64())
            named = batch.append_column(FILE, pa.repeat(file.path, batch.num_rows)).append_column(ROW, places)
            yield alive.rows_left(named, gone, start)
            start += batch.num_rows


def write(rows: DataFrame, directory: str, schema: Schema, table: str) -> list[DataFile]:
    """Runs the job, whose tasks write their rows below the directory, and say which files those are.

    `rows`: fitted to the schema, in the columns' names in files. What a task has written that was tried again counts
    for nothing, wherever it got to. Raises what Spark raises.
    """
    there, names = schema.in_files, rows.columns

    def written(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _written((batch.rename_columns(names) for batch in batches), directory, there, table)

    # PySpark looks for the columns by their names, as if these were SQL.
    plain = rows.toDF(*(f"c{number}" for number in range(len(names))))
    told = plain.mapInArrow(written, f"{_FILES} binary").toArrow()
    return [file for lot in told[_FILES].to_pylist() for file in pickle.loads(lot)]


def _written(batches: Iterator[pa.RecordBatch], directory: str, schema: Schema, table: str) -> Iterator[pa.RecordBatch]:
    """What a task writes, each attempt under a name of its own."""
    import pyarrow as pa
    from pyspark import TaskContext

    first = next(batches, None)
    task = TaskContext.get()
    if first is None or task is None:
        return
    rows = pa.RecordBatchReader.from_batches(first.schema, _after(first, batches))
    stem = f"part-{task.partitionId():05}-{task.taskAttemptId()}"
    files: list[DataFile] = []
    try:
        for file in arrow.written(rows, directory, schema, table, stem):
            files.append(file)
    except BaseException:
        for file in files:
            with suppress(OSError):
                storage.delete_file(file.path)
        raise
    yield pa.record_batch({_FILES: pa.array([pickle.dumps(files)], pa.binary())})


def _after(first: pa.RecordBatch, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from batches
