"""Rows of files that later row changes have replaced or deleted.

A manifest tells the ranges of a file's columns. So keys are read of those files alone in which a changed key can be,
and compared as values of their columns; what is left of the reading is files with dead rows, and a few rows more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from txnclient.formats import file_statistics
from txnstatus.lake import data_files, dead_rows, parallel
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import between, encode_keys
from txnstatus.lake.storage import located
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    from pyroaring import BitMap


def meeting(files: Sequence[DataFile], keys: pa.Table, schema: Schema) -> list[bool]:
    """Whether a file may have a row with one of the keys, by what its manifest says: a word for each. `keys`: some."""
    import numpy as np

    found = np.ones(len(files), bool)
    for name in schema.primary_key:
        known = [number for number, file in enumerate(files) if name in file.columns]
        if known:
            found[known] &= _may_hold([files[number] for number in known], name, keys[name].combine_chunks())
    return [bool(each) for each in found]


def _may_hold(files: Sequence[DataFile], name: str, values: pa.Array) -> np.ndarray[Any, Any]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    lowest, highest = file_statistics.ends(files, name, values.type)
    if pa.types.is_integer(values.type) or pa.types.is_temporal(values.type):
        sought, first, last = (np.asarray(_numbers(each)) for each in (values, lowest, highest))
        sought = np.sort(sought)
        return np.searchsorted(sought, first, "left") < np.searchsorted(sought, last, "right")
    least, most = pc.min_max(values).values()
    return np.asarray(pc.and_(pc.less_equal(lowest, most), pc.greater_equal(highest, least)))


def _numbers(values: pa.Array) -> pa.Array:
    """The values as numbers in the same order."""
    import pyarrow as pa

    whole = values.cast(pa.int32()) if pa.types.is_date32(values.type) else values
    return whole.cast(pa.int64())


class Keys:
    """Keys that rows are compared with, made ready once for however many files."""

    def __init__(self, rows: pa.Table, schema: Schema) -> None:
        """`rows`: some with the columns of the key."""
        self.rows, self._schema = rows, schema
        self._columns = {name: rows[name].combine_chunks() for name in schema.primary_key}

    @cached_property
    def _whole(self) -> pa.Array:
        return encode_keys(self.rows, self._schema)

    def numbers_in(self, rows: pa.Table) -> pa.Array:
        """The numbers of the rows that have one of the keys."""
        import pyarrow.compute as pc

        found = None
        for name, values in self._columns.items():
            alike = pc.is_in(rows[name], value_set=values)
            found = alike if found is None else pc.and_(found, alike)
        assert found is not None, "keys have columns"
        numbers = pc.indices_nonzero(found)
        if len(self._columns) == 1 or not len(numbers):
            return numbers
        # Each column has a value that some key has there: whether it is one and the same key, whole keys tell.
        alike = encode_keys(rows.select(list(self._columns)).take(numbers), self._schema)
        return numbers.filter(pc.is_in(alike, value_set=self._whole))


def without(rows: pa.Table, numbers: pa.Array) -> pa.Table:
    """The rows without those of these numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not len(numbers):
        return rows
    return rows.filter(pc.is_null(pc.inverse_permutation(numbers.cast(pa.int32()), max_index=rows.num_rows - 1)))


def positions(found: Sequence[tuple[DataFile, pa.Table]], schema: Schema) -> DeadRows:
    """The rows of files that have one of the keys that are given with the file. Raises DataDamaged."""
    if not found:
        return dead_rows.NONE
    ready = {id(rows): Keys(rows, schema) for rows in {id(rows): rows for _, rows in found}.values()}
    keys = {located(file.path)[1]: (file.path, ready[id(rows)]) for file, rows in found}
    columns = to_arrow(schema.in_files)
    with data_files.opened([file for file, _ in found], columns) as dataset:

        def positions_in(fragment: ds.ParquetFileFragment) -> tuple[str, BitMap]:
            uri, wanted = keys[fragment.path]
            return uri, _positions(fragment, dataset.schema, wanted, schema)

        gone = parallel.each(positions_in, list(dataset.get_fragments()))
    return {uri: bitmap for uri, bitmap in gone if bitmap}


def _positions(fragment: ds.ParquetFileFragment, columns: pa.Schema, keys: Keys, schema: Schema) -> BitMap:
    from pyroaring import BitMap

    near: pc.Expression = between(keys.rows, schema)
    possible = {group.id for group in fragment.subset(near, schema=columns).row_groups}
    found, start = BitMap(), 0
    for group in fragment.row_groups:
        if group.id in possible:
            part = fragment.subset(row_group_ids=[group.id], schema=columns)
            rows = part.to_table(schema=columns, columns=list(schema.primary_key))
            found |= BitMap(keys.numbers_in(rows).to_numpy()).shift(start)
        start += group.num_rows
    return found
