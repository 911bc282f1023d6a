"""Staged files, and a look at them before they are added: a task may say what is not so, and a commit is for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txnstatus.errors import InvalidArgument
from txnstatus.lake import data_files, locations
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import file_system
from txnstatus.schema import Schema

if TYPE_CHECKING:
    from pyarrow import fs

READERS = 8
"""Threads that read footers, which are small and may be far away."""


@dataclass(frozen=True, slots=True)
class StagedFiles:
    """Files that one process wrote under a transaction; visible only once a handle adds them.

    Small and picklable: a Spark task returns it to the driver.
    """

    table: str
    write_id: str
    files: tuple[DataFile, ...]

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)


def check(staged: Sequence[StagedFiles], prefix: str, schema: Schema) -> None:
    """Raises InvalidArgument, naming the file, for one that is not there, or not as its task has described it.

    `prefix`: of the directories of the transaction's writes in the table; the write's id completes it.
    """
    files = [(file, f"{prefix}{part.write_id}", part.table) for part in staged for file in part.files]
    if not files:
        return
    with ThreadPoolExecutor(min(READERS, len(files)), "staged-files") as readers:
        for problem in readers.map(lambda each: _problem(each, schema), files):
            if problem:
                raise InvalidArgument(problem)


def _problem(staged: tuple[DataFile, str, str], schema: Schema) -> str:
    """What is wrong with a file, given its write's directory and its table. Empty: nothing is."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from txnclient.formats import arrow, schemas

    file, directory, table = staged
    what = f"file {file.path!r} cannot be added to {table}"
    try:
        if not locations.parse(file.path).is_within(locations.parse(directory)):
            return f"{what}: it is not in its write's directory, {directory}"
        system, path = file_system(file.path)
        footer = pq.read_metadata(path, filesystem=system)
        schema.in_files.require_same_columns(schemas.to_columns(footer.schema.to_arrow_schema()), table)
        (found,) = arrow.described([(file.path, system.get_file_info(path).size)], directory, schema) or (None,)
        if column := _with_nulls(system, path, schema.in_files):
            return f"{what}: column {column!r} is NOT NULL, and the data has a null in it"
    except InvalidArgument as error:
        return f"{what}: {error.message}"
    except (OSError, pa.ArrowException) as error:
        return f"{what}: {error}"
    if found is None or _identity(found) != _identity(file):
        there = f"{found.rows} rows in {found.bytes} bytes" if found else "no rows"
        return f"{what}: it has {there}, and not as its task said {file.rows} rows in {file.bytes} bytes"
    return ""


def _with_nulls(system: fs.FileSystem, path: str, schema: Schema) -> str:
    """The first column that has a null where there may be none; empty: there is no such. Most footers tell."""
    import pyarrow.parquet as pq

    required = [column.name for column in schema.columns if not column.nullable]
    if not required:
        return ""
    with system.open_input_file(path) as source:
        parquet = pq.ParquetFile(source, page_checksum_verification=True)
        sure: Counter[str] = Counter(
            chunk.path_in_schema
            for chunk in data_files.chunks(parquet.metadata)
            if (known := chunk.statistics) is not None and known.has_null_count and known.null_count == 0
        )
        unsure = [name for name in required if sure[name] < parquet.metadata.num_row_groups]
        for batch in parquet.iter_batches(columns=unsure) if unsure else ():
            for name in unsure:
                if batch[name].null_count:
                    return name
    return ""


def _identity(file: DataFile) -> tuple[object, ...]:
    return file.rows, file.bytes, file.partition, file.ending, file.crc32, file.bare
