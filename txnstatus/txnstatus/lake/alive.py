"""Files without their dead rows, by pyarrow: what row groups' statistics rule out is not read, the rest is counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from txnstatus.errors import InternalError
from txnstatus.lake import parallel
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from pyroaring import BitMap

_HIT = "_txn_hit"


def by_dead_rows(files: Sequence[DataFile], dead: DeadRows) -> tuple[Sequence[DataFile], Sequence[DataFile]]:
    """Files without dead rows, and files with some; those that have no other rows are in neither."""
    if not dead:
        return files, ()
    whole = [file for file in files if not dead.get(file.path)]
    return whole, [file for file in files if 0 < len(dead.get(file.path, ())) < file.rows]


def batches(
    dataset: ds.Dataset, target: pa.Schema, where: pc.Expression | None, dead: Mapping[str, BitMap]
) -> Iterator[pa.RecordBatch]:
    """The rows that are not dead, and for which `where` holds. `dead`: path in the file system → positions."""
    import pyarrow.compute as pc
    import pyarrow.dataset as ds

    fragments = list(dataset.get_fragments(filter=where))
    parts = parallel.each(lambda each: _part(each, dataset.schema, where, dead[each.path]), fragments)
    left = {part.path: gone for part, gone in parts}
    wanted = ds.FileSystemDataset(
        [part for part, _ in parts if part.row_groups], dataset.schema, dataset.format, dataset.filesystem
    )
    columns = {name: pc.field(name) for name in target.names}
    if where is not None:
        columns[_HIT] = where
    read: dict[str, int] = {}
    for found in wanted.scanner(columns=columns).scan_batches():
        path, batch = found.fragment.path, found.record_batch
        start = read.get(path, 0)
        read[path] = start + batch.num_rows
        rows = rows_left(batch, left[path], start)
        if rows.num_rows:
            yield rows.select(target.names).cast(target)
    for part, _ in parts:
        count = sum(group.num_rows for group in part.row_groups)
        if count != read.get(part.path, 0):
            raise InternalError(f"{read.get(part.path, 0)} rows of {part.path} were read, where there are {count}")


def _part(
    fragment: ds.ParquetFileFragment, schema: pa.Schema, where: pc.Expression | None, dead: BitMap
) -> tuple[ds.ParquetFileFragment, BitMap]:
    """The row groups that may have a row, and which of their rows, one group after the other, are dead."""
    from pyroaring import BitMap

    starts: dict[int, int] = {}
    count = 0
    for group in fragment.row_groups:
        starts[group.id] = count
        count += group.num_rows
    kept, gone, passed = [], BitMap(), 0
    for group in fragment.row_groups if where is None else fragment.subset(where, schema=schema).row_groups:
        start = starts[group.id]
        there = dead & BitMap(range(start, start + group.num_rows))
        if len(there) < group.num_rows:
            kept.append(group.id)
            gone |= there.shift(passed - start)
            passed += group.num_rows
    return fragment.subset(row_group_ids=kept, schema=schema), gone


def rows_left(batch: pa.RecordBatch, dead: BitMap, start: int) -> pa.RecordBatch:
    """A part of a file's rows, from row `start` on, without those that are dead and those that do not hit."""
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyroaring import BitMap

    count = batch.num_rows
    gone = (dead & BitMap(range(start, start + count))).shift(-start).to_array()
    if gone:
        places = pa.Array.from_buffers(pa.int32(), len(gone), [None, pa.py_buffer(gone)])
        alive = pc.is_null(pc.inverse_permutation(places, max_index=count - 1))
        batch = batch.filter(pc.and_(alive, batch[_HIT]) if _HIT in batch.schema.names else alive)
    elif _HIT in batch.schema.names:
        batch = batch.filter(batch[_HIT])
    return batch
