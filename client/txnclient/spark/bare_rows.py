"""Columns that files do not have, by Spark: rows are joined with what is known of their files, which is broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions

from txnclient.formats import schemas
from txnclient.spark.alive_rows import FILE, called
from txnstatus.lake import bare_files
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Column, Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OF = "_txn_bare"
_UNKNOWN = "which partition a file is in is not known: it is not called as it was listed"


def filled(rows: DataFrame, files: Sequence[DataFile], schema: Schema) -> DataFrame:
    """The rows of a placed scan of bare files, with the columns that the table, of this schema, is partitioned by."""
    import pyarrow as pa

    names, split_by = called(rows, [file.path for file in files]), set(schema.partition_by)
    # Columns of the scan may be called as the values would be.
    values = {f"_txn_value_{number}": each for number, each in enumerate(schema.columns) if each.name in split_by}
    texts = [bare_files.texts(file) for file in files]
    columns = {
        name: pa.array([text[each.name] for text in texts], pa.string()).cast(to_arrow(Schema((each,))).types[0])
        for name, each in values.items()
    }
    told = [Column(_OF, "string"), *(Column(name, each.type) for name, each in values.items())]
    known = rows.sparkSession.createDataFrame(
        pa.table({_OF: [names[file.path] for file in files], **columns}), schemas.ddl(Schema(tuple(told)))
    )
    joined = rows.join(functions.broadcast(known), functions.col(FILE) == functions.col(_OF), "left")
    is_unknown, error = functions.col(_OF).isNull(), functions.raise_error(functions.lit(_UNKNOWN))
    found = {
        each.name: functions.when(is_unknown, error).otherwise(functions.col(name)) for name, each in values.items()
    }
    return joined.withColumns(found).drop(_OF, *values)
