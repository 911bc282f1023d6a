"""Tables where Spark has no file system: SQL reads and writes there by views that Python makes, and reads."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from txnclient.formats import schemas
from txnclient.spark import elsewhere, reader
from txnclient.write.files import Opened, write_files
from txnstatus.errors import IllegalState
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.names import quoted
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

_ASKED = "who cannot ask Spark was told that it reaches all"


def is_reached(spark: SparkSession | None, uri: str) -> bool:
    """Whether Spark reads and writes there by itself. `spark`: None = who asks cannot ask Spark, which is to try."""
    return spark is None or elsewhere.is_for_spark(spark, uri)


def no_changes(table: str) -> IllegalState:
    """The error of a statement that changes rows there, or overwrites some by a condition."""
    return IllegalState(
        f"Spark has no file system for the location of table {table}: its SQL reads it, and adds and overwrites rows, "
        "and cannot change them",
        hint=f"with client.transaction() as txn: txn.delete_where({table!r}, ..., spark=spark), and likewise "
        "update_where, merge, write(..., mode='overwrite_partitions'); or give Spark the jar of a file system",
    )


def written(spark: SparkSession | None, view: str, opened: Opened) -> Sequence[DataFile]:
    """Files of the rows of a global temporary view. Raises as `writer.write_files`."""
    assert spark is not None, _ASKED
    return write_files(spark.table(f"global_temp.{view}"), opened)


def view(
    spark: SparkSession | None,
    files: Sequence[DataFile],
    schema: Schema,
    dead: DeadRows,
    loose: pa.Table | None,
    columns: Sequence[str],
) -> str:
    """The name of a global temporary view of these columns of the rows, by tasks that read no others."""
    assert spark is not None, _ASKED
    wanted = set(columns) or {schema.columns[0].name}  # of no column there would be no rows
    chosen = replace(schema, columns=tuple(each for each in schema.columns if each.name in wanted))
    rows = reader.read_files(spark, files, chosen, dead)
    if loose is not None and loose.num_rows:
        here = loose.select([each.name for each in chosen.columns])
        rows = rows.unionByName(spark.createDataFrame(here, schemas.ddl(chosen)))
    name = f"_txn_{uuid.uuid4().hex}"
    rows.select(*map(quoted, columns)).createGlobalTempView(name)
    return name
