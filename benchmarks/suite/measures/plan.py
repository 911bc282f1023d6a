"""What it takes to plan a read of very many files: manifests that are made up, of files that are nowhere.

Time and memory of the leader's answer, of reading the manifests, of Spark's list, and of a filter that no file passes.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import pyarrow.compute as pc
from rich.table import Table

from benchmarks.suite.options import at_least
from benchmarks.suite.report import table_of
from txnclient.read.table_files import TableFiles
from txnclient.spark import listed
from txnparticipant.shard import commands as cmd
from txnparticipant.versions.mvcc import FileSet, Manifest, visible
from txnstatus.lake import manifest
from txnstatus.lake.manifest import ColumnRange, DataFile
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Column, Schema
from txnstatus.types import Timestamp, TxnId

AT = Timestamp(1 << 40)
MIB = 1 << 20


def measure(
    files: Annotated[int, at_least(1, "Files of the table.")] = 1_000_000,
    of_each: Annotated[int, at_least(1, "Files of each manifest.")] = 1_000,
    columns: Annotated[int, at_least(1, "Columns of which manifests have ranges.")] = 8,
) -> Iterator[Table]:
    schema = Schema(tuple(Column(f"column_{number}", "bigint") for number in range(columns)))
    taken: list[tuple[str, str, str, str]] = []

    def told(what: str, work: Callable[[], object]) -> object:
        before, cpu, began = _memory(), time.process_time(), time.perf_counter()
        found = work()
        took, used = time.perf_counter() - began, time.process_time() - cpu
        taken.append((what, f"{took:,.2f}", f"{used:,.2f}", f"{(_memory() - before) / MIB:,.0f}"))
        return found

    with tempfile.TemporaryDirectory(prefix="plan-") as scratch:
        written = [
            _manifest(Path(scratch), number, min(of_each, files - number * of_each), schema)
            for number in range(-(-files // of_each))
        ]
        sets = [FileSet("w", TxnId(number), "", each, AT) for number, each in enumerate(written)]
        answer = pb.ScanResponse()

        def scan() -> None:
            answer.manifests.extend(map(cmd.manifest_to_wire, visible(sets, (), {}, AT)))
            answer.table.schema.CopyFrom(schema.to_wire())

        told("the leader's answer", scan)
        found = told("manifests, read and parsed", lambda: TableFiles.of(answer, AT))
        assert isinstance(found, TableFiles)
        told("the same again", lambda: TableFiles.of(answer, AT))
        told("the list of files for Spark", lambda: listed.write_log(Path(scratch, "log"), found.files))
        told("a filter that no file passes", lambda: found.to_arrow(where=pc.field("column_0") < 0))
    size = sum(each.bytes for each in written)
    title = f"{files:,} files in {len(written):,} manifests of {size / MIB:,.0f} MiB, ranges of {columns} columns"
    yield table_of(title, ("what", "s", "s of CPU", "MiB"), taken)


def _manifest(directory: Path, number: int, count: int, schema: Schema) -> Manifest:
    write = directory / f"delta_{number}_w"
    ranges = {column.name: ColumnRange(str(number), str(number + 1_000), 0) for column in schema.columns}
    files = [
        DataFile(f"{write.as_uri()}/part-{each:05}.parquet", 1_000, 15_000, columns=ranges, ending=15_000, crc32=each)
        for each in range(count)
    ]
    ref = manifest.write(write.as_uri(), files, table_id="t", txn_id=number, write_id="w")
    return Manifest(ref.path, ref.bytes, ref.crc32, count, ref.row_count, ref.data_bytes)


def _memory() -> int:
    """Bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
