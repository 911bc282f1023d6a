"""Files written anew by Spark's executors: as many at once as there are outputs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from txnclient.compact.rewriting import DEFAULT_MEMORY_BYTES, Rewritten, alive_bytes, checked, rewrite
from txnclient.spark.executors import in_executors
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.lineage import Lineage
from txnstatus.lake.manifest import DataFile
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class _Part:
    """What one task does: some of the inputs, which follow each other."""

    number: int
    inputs: Sequence[DataFile]
    dead: DeadRows
    schema: Schema
    directory: str
    target_bytes: int
    memory_bytes: int


def rewrite_by(
    spark: SparkSession,
    inputs: Sequence[DataFile],
    dead: DeadRows,
    schema: Schema,
    directory: str,
    *,
    target_bytes: int,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: Callable[[int], None] = lambda _: None,
    more: pa.Table | None = None,
    partition: str = WHOLE_TABLE,
) -> Rewritten:
    """As `rewrite`, with `memory_bytes` for each task; `progress` is told when all is written. This process writes
    those rows that are `more`, into files of their own."""
    parts = [
        _Part(number, files, {file.path: dead[file.path] for file in files if file.path in dead}, *rest)
        for rest in [(schema, directory, target_bytes, memory_bytes)]
        for number, files in enumerate(_groups(inputs, dead, target_bytes))
    ]
    done = in_executors(spark, _rewrite, parts, lambda: progress(0))
    progress(sum(file.rows for file in inputs))
    if more is not None:
        made = partial(rewrite, target_bytes=target_bytes, memory_bytes=memory_bytes, progress=progress)
        name = inputs[0].partition if inputs else partition
        done.append(made([], {}, schema, directory, name=f"more-{uuid.uuid4().hex[:12]}", more=more, partition=name))
    files = [file for part in done for file in part.files]
    lineage = Lineage(segment for part in done for segment in part.lineage.segments)
    return checked(Rewritten(files, lineage), inputs, directory)


def _rewrite(part: _Part) -> Rewritten:
    """A file of another attempt at the same part has another name."""
    return rewrite(
        part.inputs,
        part.dead,
        part.schema,
        part.directory,
        target_bytes=part.target_bytes,
        memory_bytes=part.memory_bytes,
        name=f"part-{part.number:05}-{uuid.uuid4().hex[:12]}",
    )


def _groups(inputs: Sequence[DataFile], dead: DeadRows, target_bytes: int) -> list[list[DataFile]]:
    """The inputs in their order, about as many together as make an output."""
    groups: list[list[DataFile]] = [[]]
    taken = 0.0
    for file in inputs:
        if taken >= target_bytes:
            groups.append([])
            taken = 0.0
        groups[-1].append(file)
        taken += alive_bytes(file, dead)
    return groups
