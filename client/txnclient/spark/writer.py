"""Writing a DataFrame: a native Parquet job into a directory of its own, which is the files' final place.

Nothing is moved or rewritten at commit. The driver's list of what the job left is what counts: a directory is unique
to one call, and Spark's own commit protocol keeps the files of failed and duplicate attempts out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import functions
from pyspark.sql.types import ArrayType, DecimalType, MapType, StructField

from txnclient.formats import arrow, fitting, schemas
from txnclient.progress import Progress
from txnclient.spark import elsewhere
from txnclient.spark.reader import hadoop_path
from txnstatus import partitions
from txnstatus.ddl import Type, parse
from txnstatus.errors import InvalidArgument
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import parquet_files
from txnstatus.names import PARTITION_PREFIX, quoted
from txnstatus.schema import Column as TableColumn
from txnstatus.schema import Schema, has_room

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


REBASE = "spark.sql.parquet.datetimeRebaseModeInWrite"
"""The setting by which Spark writes days before 1582 for readers of the Julian calendar."""
NULL_IN = "TXN_NULL_IN_"
"""What an executor says of a null where there may be none, before the column's name in hexadecimal."""
FAR_DAY_IN = "TXN_FAR_DAY_IN_"
"""Likewise of a day that names no partition, which comes after that, and a sign of its end."""


def _value_name(column: str, schema: Schema) -> Column:
    """The name that txnstatus.partitions gives a column's value; nothing in it needs escaping in a path."""
    kind = parse(next(each.type for each in schema.columns if each.name == column))
    text = functions.col(quoted(column)).cast("string")
    if kind.name == "decimal":
        text = _plain(text, kind.scale)
    encoded = functions.replace(functions.url_encode(text), functions.lit("%"), functions.lit("~"))
    encoded = functions.replace(encoded, functions.lit("*"), functions.lit("~2A"))
    marked = functions.concat(functions.lit("~5F"), functions.substr(encoded, functions.lit(2)))
    name = functions.when(text.startswith("__"), marked).otherwise(encoded)
    shortened = functions.concat(
        functions.substring(name, 1, partitions.KEPT_CHARS),
        functions.lit(partitions.SHORTENED),
        functions.substring(functions.sha2(text, 256), 1, partitions.HASH_CHARS),
    )
    return (
        functions.when(text.isNull(), partitions.NULL)
        .when(text == "", partitions.EMPTY)
        .when(functions.length(name) > partitions.MAX_VALUE_CHARS, shortened)
        .otherwise(name)
    )


def _plain(text: Column, scale: int) -> Column:
    """A decimal without an exponent. Without ANSI mode, Spark gives one to what is small: 0.0000000001 is 1E-10."""
    digits = functions.regexp_replace(text, "E.*|[-.]", "")
    sign = functions.when(text.startswith("-"), "-").otherwise("")
    written_out = functions.concat(sign, functions.lit("0."), functions.lpad(digits, scale, "0"))
    return functions.when(text.contains("E"), written_out).otherwise(text)


def is_in(partition: str, schema: Schema) -> Column:
    """Whether a row is in the partition, of whatever values its name has."""
    inside = functions.lit(True)
    for part in partition.split("/") if partition != partitions.WHOLE_TABLE else ():
        name, _, value = part.partition("=")
        inside = inside & (_value_name(name, schema) == value)
    return inside


def _cast(meant: TableColumn, column: TableColumn) -> Column:
    """The values of the one by the type of the other; of structs that have fewer fields, with nulls in the others."""
    values, found, wanted = functions.col(quoted(meant.name)), parse(meant.type, data=True), parse(column.type)
    return (_with_fields(values, found, wanted) if has_room(found, wanted) else values).cast(column.type)


def _with_fields(values: Column, found: Type, wanted: Type) -> Column:
    if found == wanted:
        return values
    match found.name:
        case "array":
            return functions.transform(values, lambda each: _with_fields(each, found.inner[0], wanted.inner[0]))
        case "map":
            return functions.transform_values(
                values, lambda _, each: _with_fields(each, found.inner[1], wanted.inner[1])
            )
    fields = [
        _with_fields(values.getField(name), *kinds).alias(name)
        for name, *kinds in zip(found.fields, found.inner, wanted.inner, strict=False)
    ]
    more = list(zip(wanted.fields, wanted.inner, strict=True))[len(found.fields) :]
    fields += [functions.lit(None).cast(str(kind)).alias(name) for name, kind in more]
    return functions.when(values.isNotNull(), functions.struct(*fields))


def _fitted(meant: TableColumn | None, column: TableColumn, data: DataFrame, schema: Schema) -> Column:
    """What goes into a column. `meant`: the one of the data; None: there is none."""
    if meant is None:
        return _near(functions.lit(column.default).cast(column.type), column, schema)
    return _near(_filled(_doubted(_cast(meant, column), data.schema[meant.name]), column), column, schema)


def _filled(values: Column, column: TableColumn) -> Column:
    """The values of a column. A null where there may be none fails the very job that writes.

    Where Spark knows by itself that there are none it leaves that out.
    """
    if column.nullable:
        return values
    told = functions.raise_error(functions.lit(f"{NULL_IN}{column.name.encode().hex()}"))
    return functions.when(values.isNull(), told).otherwise(values)


def _doubted(values: Column, field: StructField) -> Column:
    """The values of a column, of which Spark does not know any more that decimals in it are never null.

    Where that is not so (`verifySchema=False`), Spark would write a file that nobody can read. Decimals deeper inside
    are not meant: the cast to the table's type makes Spark doubt them.
    """
    match field.dataType:
        case DecimalType() if not field.nullable:
            return functions.when(_always(), values)
        case ArrayType(elementType=DecimalType(), containsNull=False):
            return _doubted_elements(values)
        case MapType(valueType=DecimalType(), valueContainsNull=False):
            return functions.map_from_arrays(
                functions.map_keys(values), _doubted_elements(functions.map_values(values))
            )
        case _:
            return values


def _doubted_elements(values: Column) -> Column:
    return functions.when(_always(), values).otherwise(functions.array(functions.lit(None)))


def _always() -> Column:
    """What is true, and Spark does not know it beforehand."""
    return functions.spark_partition_id() >= 0


def _near(values: Column, column: TableColumn, schema: Schema) -> Column:
    """The values of a column. A day that names no partition fails the very job that writes."""
    if column.name not in fitting.days_to_split_by(schema):
        return values
    told = functions.lit(f"{FAR_DAY_IN}{column.name.encode().hex()} ")
    told = functions.raise_error(functions.concat(told, values.cast("string"), functions.lit(";")))
    days = (functions.lit(str(day)).cast("date") for day in (partitions.FIRST_DAY, partitions.LAST_DAY))
    return functions.when(~values.between(*days), told).otherwise(values)


def tasks_of(spark: SparkSession) -> Callable[[Progress], None]:
    """Tells how many tasks of the session's stages that run are done; nothing where it runs in a server."""
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        return lambda _: None
    tracker = spark.sparkContext.statusTracker()

    def look(progress: Progress) -> None:
        stages = [stage for each in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(each)) is not None]
        progress.at(sum(each.numCompletedTasks for each in stages), sum(each.numTasks for each in stages))

    return look


@contextmanager
def _explaining(table: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if explained := _explained(error, table):
            raise explained from error
        raise


def _explained(error: Exception, table: str) -> InvalidArgument | None:
    """What an executor has said of the data; None: nothing."""
    said = str(error)
    if found := re.search(rf"{NULL_IN}([0-9a-f]+)", said):
        column = bytes.fromhex(found[1]).decode()
        return InvalidArgument(f"column {column!r} of table {table} is NOT NULL: the data has a null in it")
    if found := re.search(rf"{FAR_DAY_IN}([0-9a-f]+) ([^;]*);", said):
        return fitting.far_day(found[2], bytes.fromhex(found[1]).decode(), table)
    if found := re.search(r"txnstatus\.errors\.InvalidArgument: (.+)", said):
        return InvalidArgument(found[1])
    return None


def write_files(data: DataFrame, directory: str, schema: Schema, table: str) -> list[DataFile]:
    """Runs the job, and lists what it wrote; that is not durable yet.

    Raises InvalidArgument, naming the column, for data that does not fit the schema, such as a null where there may be
    none.
    """
    if str(data.sparkSession.conf.get(REBASE, "CORRECTED")).upper() == "LEGACY":
        raise InvalidArgument(f"{REBASE} is LEGACY: other readers would see other days", hint="set it to CORRECTED")
    meant = fitting.matched(schema, schemas.to_columns(data.schema), table)
    chosen = data.select(
        *(
            _fitted(source, column, data, schema).alias(column.in_files)
            for source, column in zip(meant, schema.columns, strict=True)
        )
    )
    if not elsewhere.is_for_spark(data.sparkSession, directory):
        with _explaining(table):
            return elsewhere.write(chosen, directory, schema, table)
    split_by = [f"{PARTITION_PREFIX}{name}" for name in schema.partition_by]
    for name, copy in zip(schema.partition_by, split_by, strict=True):
        # Spark takes what it splits by out of the files; a copy is split by, so the files keep all columns and one
        # scan reads files of many writes, each pruned by its own statistics.
        chosen = chosen.withColumn(copy, _value_name(name, schema))
    writer = chosen.write.options(
        **{
            # The default, INT96, has no statistics.
            "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
            "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        }
    )
    if split_by:
        writer = writer.partitionBy(*split_by)
    with _explaining(table):
        writer.parquet(hadoop_path(directory))
    return arrow.described(parquet_files(directory), directory, schema)
