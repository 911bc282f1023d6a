"""Staged files, and a look at them before they are added: a task may say what is not so, and a commit is for good."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from txnstatus.errors import InvalidArgument
from txnstatus.lake import locations
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import file_system
from txnstatus.schema import Schema

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
        schema.require_same_columns(schemas.to_columns(footer.schema.to_arrow_schema()), table)
        (found,) = arrow.described([(file.path, system.get_file_info(path).size)], directory, schema) or (None,)
    except InvalidArgument as error:
        return f"{what}: {error.message}"
    except (OSError, pa.ArrowException) as error:
        return f"{what}: {error}"
    if found is None or _identity(found) != _identity(file):
        there = f"{found.rows} rows in {found.bytes} bytes" if found else "no rows"
        return f"{what}: it has {there}, and not as its task said {file.rows} rows in {file.bytes} bytes"
    return ""


def _identity(file: DataFile) -> tuple[object, ...]:
    return file.rows, file.bytes, file.partition, file.ending, file.crc32
