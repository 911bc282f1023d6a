"""Data files: Parquet that is written so that damage shows, and that is never read where it does.

Every page has a CRC-32, which every read verifies. It covers neither what a file ends with (statistics, indexes,
footer) nor the headers of pages: so a manifest has another one, of a file's end, and of all of a file that is small, in
which these are much. What is left are page headers of large files, where damage makes a reader fail but for some bits
(docs/operations.md); `examine` compares them with the footer.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from txnstatus.errors import DataDamaged
from txnstatus.lake import absent, bare_files, page_headers, parallel
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.parallel import READERS
from txnstatus.lake.storage import file_system, is_near, located, read_file

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq
    from pyarrow import fs

WHOLE_BYTES = 256 << 10
"""Size up to which a file has a CRC over all of it."""
NEAR_FILES = 64
"""Files at hand from which on threads look at their ends: to start these takes longer than fewer looks."""
IN_MEMORY_BYTES = 1 << 20
"""Bytes of rows up to which a file is made in memory: it need not be opened again to be looked at."""
SAMPLE_ROWS = 10_000
"""Rows of a column by which its encoding is chosen."""
MOSTLY_DISTINCT = 0.97
"""Share of distinct values in the sample from which on there may be more of them than a dictionary of 1 MB takes."""
_HINT = (
    "restore it from a backup, or overwrite its partition or its table; txnctl doctor --deep finds all that is damaged"
)
READING = {"coerce_int96_timestamp_unit": "us"}
"""Options of pyarrow's readers, by which times that Parquet has as INT96 are not cut off at the year 2262."""
VERIFY = {"parquet.page.verify-checksum.enabled": "true"}
"""Options of a Spark read, by which it verifies pages. Its writes have checksums unless they are told otherwise."""


class Written(NamedTuple):
    """A file as it was written."""

    footer: pq.FileMetaData
    bytes: int
    ending: int
    crc32: int


def write(rows: pa.Table, path: str, system: fs.FileSystem, **options: Any) -> Written:
    """One file; not durably. `options`: those of pyarrow.parquet.write_table, without encodings."""
    import pyarrow as pa

    if rows.nbytes > IN_MEMORY_BYTES:
        footer = _encode(rows, path, filesystem=system, **options)
        with system.open_input_file(path) as file:
            return _found(footer, file.size(), file.read_at)
    sink = pa.BufferOutputStream()
    footer = _encode(rows, sink, **options)
    data = sink.getvalue()
    with system.open_output_stream(path) as stream:
        stream.write(data)
    return _found(footer, data.size, lambda count, start: data[start : start + count])


def _encode(rows: pa.Table, sink: Any, **options: Any) -> pq.FileMetaData:
    import pyarrow.parquet as pq

    footers: list[pq.FileMetaData] = []
    pq.write_table(rows, sink, metadata_collector=footers, **_layout(rows), **options)
    (footer,) = footers
    return footer


def writer(beginning: pa.Table, path: str, system: fs.FileSystem) -> pq.ParquetWriter:
    """A file that comes a row group at a time, laid out as if it were all like its `beginning`; not durably."""
    import pyarrow.parquet as pq

    return pq.ParquetWriter(path, beginning.schema, filesystem=system, **_layout(beginning))


def _layout(rows: pa.Table) -> dict[str, Any]:
    steps = [field.name for field in rows.schema if _counts_up(rows[field.name])]
    single = {*steps, *(field.name for field in rows.schema if _hardly_repeats(rows[field.name]))}
    others = [leaf for field in rows.schema if field.name not in single for leaf in _leaves(field)]
    return {
        "write_page_checksum": True,
        "use_dictionary": others,
        # A part of a nested column may be called as a column is: there is one encoding for the name.
        "column_encoding": dict.fromkeys((name for name in steps if name not in others), "DELTA_BINARY_PACKED") or None,
    }


def _counts_up(column: pa.ChunkedArray) -> bool:
    """Whether its values are whole numbers or times that hardly repeat, as far as its beginning shows.

    A dictionary of such only grows until it is given up; what is between a value and the next is small, and read fast.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if not ((pa.types.is_integer(kind) and kind.bit_width >= 32) or pa.types.is_timestamp(kind)):
        return False
    sample = column.slice(0, SAMPLE_ROWS)
    return bool(2 * pc.count_distinct(sample).as_py() > len(sample) - sample.null_count)


def _hardly_repeats(column: pa.ChunkedArray) -> bool:
    """Whether its values are fractions of which, as far as its beginning shows, nearly each is another one.

    A dictionary of such would be given up when it is full, after all of its work.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_floating(column.type):
        return False
    sample = column.slice(0, SAMPLE_ROWS)
    return bool(pc.count_distinct(sample).as_py() > MOSTLY_DISTINCT * (len(sample) - sample.null_count))


def _leaves(field: pa.Field, above: str = "") -> Iterator[str]:
    """The names by which Parquet knows a column, or the parts of a nested one."""
    import pyarrow as pa

    name, kind = f"{above}{field.name}", field.type
    if pa.types.is_struct(kind):
        for part in kind:
            yield from _leaves(part, f"{name}.")
    elif pa.types.is_map(kind):
        yield from _leaves(kind.key_field.with_name("key"), f"{name}.key_value.")
        yield from _leaves(kind.item_field.with_name("value"), f"{name}.key_value.")
    elif hasattr(kind, "value_field"):
        yield from _leaves(kind.value_field.with_name("element"), f"{name}.list.")
    else:
        yield name


def written(uri: str) -> Written:
    """What is to be kept of a file. Raises what pyarrow raises for one that is no Parquet."""
    import pyarrow.parquet as pq

    system, path = located(uri)
    with system.open_input_file(path) as file:
        return _found(pq.read_metadata(file), file.size(), file.read_at)


def _found(footer: pq.FileMetaData, size: int, read_at: Callable[[int, int], Any]) -> Written:
    """`read_at`: so many bytes of the file, from a position on."""
    ending = size if size <= WHOLE_BYTES else size - _end_of_pages(footer)
    return Written(footer, size, ending, zlib.crc32(read_at(ending, size - ending)))


def _end_of_pages(footer: pq.FileMetaData) -> int:
    return max((page_headers.start(chunk) + chunk.total_compressed_size for chunk in chunks(footer)), default=0)


def chunks(footer: pq.FileMetaData) -> Iterator[Any]:
    """What the footer says of the column chunks, row group by row group."""
    for group in range(footer.num_row_groups):
        for column in range(footer.num_columns):
            yield footer.row_group(group).column(column)


def check(files: Sequence[DataFile], readers: int = READERS) -> None:
    """Looks at the size and the end of each. Raises DataDamaged, FileNotFoundError."""
    if len(files) < NEAR_FILES and files and is_near(files[0].path):  # a table's files are in one file system
        readers = 1
    for file, fault in zip(files, parallel.each(_ending_fault, files, readers), strict=True):
        if fault:
            raise damaged(file, fault)


def _ending_fault(file: DataFile) -> str:
    """Empty: there is none."""
    system, path = located(file.path)
    with system.open_input_file(path) as opened:
        size = opened.size()
        ending = opened.read_at(file.ending, size - file.ending) if size == file.bytes else b""
    return _fault(file, size, ending)


def _fault(file: DataFile, size: int, ending: bytes) -> str:
    if size != file.bytes:
        return f"it has {size} bytes, and was written with {file.bytes}"
    if zlib.crc32(ending) != file.crc32:
        return "its content is not what was written (CRC-32)"
    return ""


def content(file: DataFile) -> bytes:
    """All of a file, whose end was looked at. Raises DataDamaged, FileNotFoundError."""
    data = read_file(file.path)
    if fault := _fault(file, len(data), data[-file.ending :] if file.ending else b""):
        raise damaged(file, fault)
    return data


def damaged(file: DataFile, fault: str) -> DataDamaged:
    return DataDamaged(f"{file.path} is damaged: {fault}", hint=_HINT)


def missing(said: str) -> DataDamaged:
    """The error of a file that is gone, and should not be. `said`: what whoever did not find it said, naming it."""
    return DataDamaged(f"a file is gone that readers need: {said}", hint=_HINT)


@contextmanager
def opened(
    files: Sequence[DataFile],
    schema: pa.Schema,
    *,
    where: pc.Expression | None = None,
    known: Callable[[DataFile], pc.Expression] | None = None,
    readers: int = READERS,
) -> Iterator[ds.Dataset]:
    """The files as one dataset, to be read within the block. Those that can have no row for which `where` holds, by
    what is `known` of each, are not even opened.

    Raises DataDamaged where a file is not what was written, also from within the block; FileNotFoundError.
    """
    known = known if where is not None else None
    dataset, by_path = _dataset(files, schema, known, {})
    needed = _needed(dataset, by_path, where)
    check(needed, readers)
    with told(needed):
        if needed and (lacking := _lacking(needed, schema, readers)):
            dataset, _ = _dataset(needed, schema, known, lacking)
        yield dataset


def fitting(
    files: Sequence[DataFile], schema: pa.Schema, where: pc.Expression, known: Callable[[DataFile], pc.Expression]
) -> list[DataFile]:
    """The files that can have a row for which `where` holds, by what is `known` of each; none is opened."""
    return _needed(*_dataset(files, schema, known, {}), where) if files else []


def file_format() -> ds.ParquetFileFormat:
    """How data files are read as a dataset: pages are verified."""
    import pyarrow.dataset as ds

    return ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(**READING),
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True),
    )


def columns(footer: pq.FileMetaData) -> pa.Schema:
    """The columns of a file as they are read: what Parquet has as INT96, as Spark and Hive write it, are instants.

    That is so of columns, and not of parts of nested ones.
    """
    import pyarrow as pa

    found = footer.schema.to_arrow_schema().remove_metadata()
    for number in range(footer.num_columns):
        stored = footer.schema.column(number)
        if stored.physical_type == "INT96" and (place := found.get_field_index(stored.path)) >= 0:
            found = found.set(place, found.field(place).with_type(pa.timestamp("us", "UTC")))
    return found


def _lacking(files: Sequence[DataFile], schema: pa.Schema, readers: int) -> Mapping[str, Mapping[str, str]]:
    """URI of a file → the columns of it that came later and are not null there, with the text of their value.

    What has a range in the manifest is in the file; of others its footer tells.
    """
    import pyarrow.parquet as pq

    values = absent.texts(schema)
    if not values:
        return {}

    def lacks(file: DataFile) -> Mapping[str, str]:
        unsure = values.keys() - file.columns.keys()
        if not unsure:
            return {}
        system, path = located(file.path)
        there = set(pq.read_schema(path, filesystem=system).names)
        return {name: values[name] for name in unsure - there}

    found = zip(files, parallel.each(lacks, files, readers), strict=True)
    return {file.path: lacking for file, lacking in found if lacking}


def _dataset(
    files: Sequence[DataFile],
    schema: pa.Schema,
    known: Callable[[DataFile], pc.Expression] | None,
    lacking: Mapping[str, Mapping[str, str]],
) -> tuple[ds.Dataset, Mapping[str, DataFile]]:
    """The dataset, and the files by their fragments' paths. `lacking`: as `_lacking` has it."""
    import pyarrow.dataset as ds

    system, _ = file_system(files[0].path)
    parquet = file_format()
    by_path = {located(file.path)[1]: file for file in files}
    fragments = [
        parquet.make_fragment(path, system, partition_expression=_told(file, schema, known, lacking.get(file.path, {})))
        for path, file in by_path.items()
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, system), by_path


def _told(
    file: DataFile,
    schema: pa.Schema,
    known: Callable[[DataFile], pc.Expression] | None,
    lacking: Mapping[str, str],
) -> pc.Expression | None:
    """What holds for all rows of the file: a column that it does not have gets the value which that tells."""
    there = bare_files.expression(file, schema, lacking)
    if known is None:
        return there
    return known(file) if there is None else there & known(file)


def _needed(dataset: ds.Dataset, by_path: Mapping[str, DataFile], where: pc.Expression | None) -> list[DataFile]:
    return [by_path[fragment.path] for fragment in dataset.get_fragments(filter=where)]


@contextmanager
def told(files: Sequence[DataFile]) -> Iterator[None]:
    """Failures within the block are told as the damage to one of the files, if there is any. Raises DataDamaged."""
    import pyarrow as pa

    try:
        yield
    except (OSError, MemoryError, pa.ArrowException) as error:
        for file in files:
            if fault := examine(file):
                raise damaged(file, fault) from error
        raise


def examine(file: DataFile) -> str:
    """Reads all of a file, a part at a time, and says what is wrong with it; empty: nothing is.

    Raises OSError for one that cannot be opened.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if fault := _ending_fault(file):
        return fault
    system, path = file_system(file.path)
    rows = 0
    with system.open_input_file(path) as source:
        try:
            parquet = pq.ParquetFile(source, page_checksum_verification=True)
            for batch in parquet.iter_batches():
                rows += batch.num_rows
            for chunk in chunks(parquet.metadata):
                if fault := page_headers.fault(source, chunk):
                    return fault
        except (OSError, MemoryError, pa.ArrowException) as error:
            return f"it does not read: {error}"
    return "" if rows == file.rows else f"it has {rows} rows, and was written with {file.rows}"
