"""Directories of Parquet files, as Spark, Hive and everybody else leave them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from txnclient.incoming.places import is_hidden, require_alike, type_of, values_of
from txnclient.incoming.source import Source, SourceFile, child
from txnstatus.errors import InvalidArgument
from txnstatus.lake import data_files
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.storage import file_system
from txnstatus.schema import Column, Schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_ALIKE = "import files of each schema from a directory of their own, or write them anew with one schema"


def look(root: str) -> Source:
    """Raises InvalidArgument for what is no directory of Parquet files, laid out alike."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = _paths(root)
    if not paths:
        raise InvalidArgument(f"there are no Parquet files in {root}")
    placed = [(path, values_of(path)) for path in paths]
    require_alike(placed)
    files = [SourceFile(child(root, path), values) for path, values in placed]
    system, path = file_system(files[0].uri)
    try:
        schema = data_files.columns(pq.read_metadata(path, filesystem=system))
    except (OSError, pa.ArrowException) as error:
        raise InvalidArgument(f"{files[0].uri} is no Parquet file: {error}") from error
    told = [name for name in files[0].values if name not in schema.names]
    kinds = [Column(name, type_of(file.values[name] for file in files)) for name in told]
    schema = pa.schema([*schema, *to_arrow(Schema(tuple(kinds)))])
    # What a file has itself is what counts, as to its readers.
    files = [SourceFile(file.uri, {name: file.values[name] for name in told}) for file in files]
    return Source("parquet", root, files, schema, lambda: rows(files, schema))


def _paths(root: str) -> list[str]:
    """What lies in the directory and is not hidden: paths below it, as text, in order."""
    from pyarrow import fs

    system, directory = file_system(root)
    if system.get_file_info(directory).type is not fs.FileType.Directory:
        raise InvalidArgument(f"{root} is no directory")
    found = system.get_file_info(fs.FileSelector(directory, recursive=True))
    below = len(directory.rstrip("/")) + 1
    paths = (info.path[below:] for info in found if info.type is fs.FileType.File and info.size)
    return sorted(path for path in paths if not is_hidden(path))


def rows(files: Sequence[SourceFile], schema: pa.Schema) -> pa.RecordBatchReader:
    """The rows of all files, with what their places tell."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    parquet = data_files.file_format()
    system, _ = file_system(files[0].uri)
    fragments = [
        parquet.make_fragment(file_system(file.uri)[1], system, partition_expression=_told(file, schema))
        for file in files
    ]
    dataset = ds.FileSystemDataset(fragments, schema, parquet, system)
    return pa.RecordBatchReader.from_batches(schema, _batches(dataset))


def _batches(dataset: ds.FileSystemDataset) -> Iterator[pa.RecordBatch]:
    """Raises InvalidArgument for files that do not read, as those of another schema."""
    import pyarrow as pa

    known = set(dataset.schema.names)
    try:
        for fragment in dataset.get_fragments():
            if more := [name for name in fragment.physical_schema.names if name not in known]:
                raise InvalidArgument(
                    f"{fragment.path} has a column {more[0]!r}, and the first file has none", hint=_ALIKE
                )
        yield from dataset.to_batches()
    except (OSError, pa.ArrowException) as error:
        raise InvalidArgument(f"the files do not read as one table: {error}", hint=_ALIKE) from error


def _told(file: SourceFile, schema: pa.Schema) -> ds.Expression:
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.scalar(True)
    for name, text in file.values.items():
        column = pc.field(name)
        found = found & (column.is_null() if text is None else column == pa.scalar(text).cast(schema.field(name).type))
    return found
