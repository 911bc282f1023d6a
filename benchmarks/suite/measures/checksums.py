"""What it costs that rot is not read: checksums of pages and of files' ends, by pyarrow and, with --spark, by Spark.

And what it costs Spark to look at each value of a NOT NULL column.

Variants take turns. The files are in the page cache, where reading is at its fastest: elsewhere the cost is less.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import typer
from rich.table import Table

from benchmarks.suite.drive import milliseconds
from benchmarks.suite.options import at_least
from benchmarks.suite.report import spread_rows, table_of
from txnclient.formats import arrow, schemas
from txnstatus.lake import data_files
from txnstatus.schema import Column, Schema

SCHEMA = Schema(tuple(Column(name, kind) for name, kind in (("id", "bigint"), ("value", "double"), ("name", "string"))))
COLUMNS = schemas.ddl(SCHEMA)
Ways = dict[str, Callable[[], object]]


def measure(
    rows: Annotated[int, at_least(1, "Rows of the table.")] = 4_000_000,
    files: Annotated[int, at_least(1, "Small files, whose ends are looked at.")] = 1_000,
    times: Annotated[int, at_least(1, "Turns of each.")] = 7,
    spark: Annotated[bool, typer.Option(help="Spark, too.")] = False,
) -> Iterator[Table]:
    with ExitStack() as stack:
        scratch = Path(tempfile.mkdtemp(prefix="checksums-"))
        stack.callback(shutil.rmtree, scratch)
        data = _rows(rows)
        (file,) = arrow.write_files(data, (scratch / "delta_large").as_uri(), SCHEMA, "bench.t")
        part = data.slice(0, 1_000)
        small = [
            arrow.write_files(part, (scratch / f"delta_{number}").as_uri(), SCHEMA, "bench.t")[0]
            for number in range(files)
        ]
        ways: Ways = {
            "write, with checksums": lambda: pq.write_table(data, scratch / "a", write_page_checksum=True),
            "write, without": lambda: pq.write_table(data, scratch / "a"),
            "read, verified": lambda: arrow.read_files([file], SCHEMA, None),
            "read, not verified": lambda: ds.dataset(file.path.removeprefix("file://")).to_table(),
            f"the ends of {files:,} small files": lambda: data_files.check(small),
            f"all of {files:,} small files": lambda: arrow.read_files(small, SCHEMA, None),
        }
        if spark:
            ways |= _of_spark(stack, scratch, rows)
        taken: dict[str, list[float]] = {what: [] for what in ways}
        cpu: dict[str, list[float]] = {what: [] for what in ways if "Spark" not in what}
        for turn in range(times + 1):
            for what, way in ways.items():
                way()  # memory that the one before has given back is taken again outside of the measure
                before = time.process_time()
                took = milliseconds(way)
                if not turn:
                    continue  # the first only warms up
                taken[what].append(took)
                if what in cpu:
                    cpu[what].append(1e3 * (time.process_time() - before))
        size = file.bytes
    yield table_of(f"{rows:,} rows, {size:,} bytes", ("what", "ms"), spread_rows(taken))
    yield table_of("the processor's time, all threads", ("what", "ms"), spread_rows(cpu))


def _rows(count: int) -> pa.Table:
    import numpy as np

    numbers = np.random.default_rng(1)
    return pa.table(
        {
            "id": np.arange(count),
            "value": numbers.random(count),
            "name": pa.array(numbers.integers(0, 1 << 40, count)).cast(pa.string()),
        }
    )


def _of_spark(stack: ExitStack, scratch: Path, rows: int) -> Ways:
    from pyspark.sql import DataFrame

    from txnclient.spark import reader, writer
    from txndeploy.demo.spark_session import local_cluster_session

    session = stack.enter_context(local_cluster_session("checksums", scratch / "spark"))
    values = {"id": "id", "value": "rand(1)", "name": "CAST(id AS STRING)"}
    source = session.range(rows).selectExpr(*(f"IF(id >= 0, {each}, NULL) AS {name}" for name, each in values.items()))
    written = writer.write_files(source, (scratch / "delta_spark").as_uri(), SCHEMA, "bench.t")
    paths = [reader.hadoop_path(file.path) for file in written]
    strict = Schema(tuple(Column(column.name, column.type, nullable=False) for column in SCHEMA.columns))

    def write(schema: Schema) -> None:
        directory = scratch / "delta_again"
        writer.write_files(source, directory.as_uri(), schema, "bench.t")
        shutil.rmtree(directory)

    def scan(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    return {
        "Spark: write, columns NOT NULL": lambda: write(strict),
        "Spark: write, columns nullable": lambda: write(SCHEMA),
        "Spark: read, verified": lambda: scan(reader.read_files(session, written, SCHEMA)),
        "Spark: read, not verified": lambda: scan(session.read.schema(COLUMNS).parquet(*paths)),
    }
