"""A scan of many files by one list of them, so that Spark looks at none before its tasks read it.

Given many paths Spark looks at each, on the driver or by a job of its own. What it takes a list of files from without a
look is the log that a stream writes beside its files: one file, of which each line names a file and its size.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txnclient.spark.alive_rows import has_jvm
from txnstatus.lake.file_lists import bytes_of, sizes_of
from txnstatus.lake.manifest import DataFile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession

FEW = 32
"""Up to so many paths Spark looks at without a job."""
_LOG = "_spark_metadata"
_VERSION = "v1"
_ALIKE = f'"isDir":false,"modificationTime":0,"blockReplication":1,"blockSize":{128 << 20},"action":"add"'
"""What the log says of every file."""
SMALL_BYTES = 1 << 20
"""Size of a file, on average, from which on the tasks are Spark's own choice."""
OPENING_BYTES = 256 << 10
"""Bytes that a task could read while it opens a file."""
TASK_BYTES = 128 << 20


def scan(spark: SparkSession, reader: DataFrameReader, files: Sequence[DataFile]) -> DataFrame | None:
    """A bare scan of the files; None where they are few, or where Spark takes no such list.

    `reader`: with its schema and its options.
    """
    if len(files) <= FEW or not has_jvm(spark):
        return None
    with tempfile.TemporaryDirectory(prefix="txn-files-") as directory:
        log = Path(directory, _LOG)
        log.mkdir()
        write_log(log / "0", files)
        frame = reader.parquet(log.parent.as_uri())
    scanned: Any = frame._jdf
    return frame if len(scanned.inputFiles()) == len(files) else None  # a setting may keep it from reading logs


def write_log(path: Path, files: Sequence[DataFile]) -> None:
    """Writes such a log as it is where it begins with the files."""
    with path.open("w") as log:
        log.write(_VERSION)
        log.writelines(f'\n{{"path":{json.dumps(path)},"size":{size},{_ALIKE}}}' for path, size in sizes_of(files))


def in_few_tasks(spark: SparkSession, frame: DataFrame, files: Sequence[DataFile]) -> DataFrame:
    """The rows of a scan of many small files, in no more tasks than keep all cores at work.

    Spark counts 4 MB for each file, and so makes a task of each 32 of them.
    """
    if not has_jvm(spark) or (size := bytes_of(files)) > SMALL_BYTES * len(files):
        return frame
    cores = spark.sparkContext.defaultParallelism
    if len(files) <= FEW * cores:
        return frame
    tasks = -(-(size + OPENING_BYTES * len(files)) // TASK_BYTES)
    return frame.coalesce(max(tasks, cores))
