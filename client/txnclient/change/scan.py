"""Rows of a table's files with their places: which file, and which row of it.

A place is one number, the file's number in the list above 32 bits, the row's position in its file below. Pages are
verified, as in every read of ours.
"""

from __future__ import annotations

import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from txnclient.change.names import Relation
from txnclient.change.plan import RowsChanged
from txnclient.formats.file_statistics import known_by
from txnclient.read.table_files import TableFiles
from txnstatus.lake import bare_files, data_files, dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import is_near, located

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
    from pyarrow import fs
    from pyroaring import BitMap

PLACE = "place"
"""The column that says where a row is."""
_NUMBER = "_txn_number"
"""The column that says which row of a row group a row is."""
DICTIONARY_BYTES, BYTES_BY_DICTIONARY = 2 << 20, 3
"""Most bytes of a dictionary, with room for a last text, and of each row that goes by one."""
SMALL_BYTES = 4 << 20
"""Size up to which a row group at hand is read by one thread: several would take more, and be done hardly sooner."""
_AHEAD = 2
"""Row groups in files that are far away which are read while another one is looked at."""


@dataclass(frozen=True)
class Scan:
    """What a statement reads of a table: rows that are alive, a row group at a time."""

    there: TableFiles
    target: Relation

    def rows(
        self, columns: Iterable[str], where: pc.Expression | None = None, *, narrowed: bool = False
    ) -> Iterator[pa.Table]:
        """All rows, with their places; some row groups without a row for which `where` holds are left out, which names
        columns as files do.

        `columns`: by the engine's names, which they have in what comes. `narrowed`: no rows come but those for which
        `where` holds, which is about no other columns. Raises DataDamaged.
        """
        import pyarrow as pa

        if not self._ordered(columns):
            yield pa.Table.from_arrays([pa.array(self.places_of_all())], schema=pa.schema([_place()]))
            return
        yield self._schema(self._ordered(columns)).append(_place()).empty_table()
        for number, group, offset in self._groups(columns, where, None):
            rows = self._typed(group)
            found = self._where(rows, where) if narrowed and where is not None else None
            yield self._alive(rows, self.there.files[number], number, offset, found)

    def at(self, places: np.ndarray[Any, Any], columns: Iterable[str]) -> pa.Table:
        """The rows at these places, which are in order, without their places. Raises DataDamaged."""
        import numpy as np
        import pyarrow as pa

        names = self._ordered(columns)
        empty = self._schema(names).empty_table()
        if not len(places) or not names:
            return empty
        found = [empty]
        for number, group, offset in self._groups(names, None, places):
            first = (number << 32) + offset
            low, high = np.searchsorted(places, [first, first + group.num_rows])
            found.append(self._typed(group.take(pa.array(places[low:high] - first))))
        return pa.concat_tables(found)

    def places_of_all(self) -> np.ndarray[Any, Any]:
        """The places of all rows, from what the manifests say."""
        import numpy as np

        found = [np.empty(0, np.int64)]
        for number, file in enumerate(self.there.files):
            found.append(self._alive_positions(file, 0, file.rows) + (number << 32))
        return np.concatenate(found)

    def without(self, places: np.ndarray[Any, Any]) -> Scan:
        """The same, but for the rows at these places, which are in order."""
        dead = dead_rows.union([self.there.dead, self.bitmaps(places)])
        return replace(self, there=replace(self.there, dead=dead))

    def answer(self, places: np.ndarray[Any, Any]) -> RowsChanged:
        """A statement's answer in which the rows at these places, which are in order, die, and nothing else is."""
        return RowsChanged(self.bitmaps(places))

    def bitmaps(self, places: np.ndarray[Any, Any]) -> dict[str, BitMap]:
        """The places, which are in order, by file."""
        import numpy as np
        from pyroaring import BitMap

        numbers, starts = np.unique(places >> 32, return_index=True)
        parts = np.split((places & 0xFFFFFFFF).astype(np.uint32), starts[1:])
        return {
            self.there.files[number].path: BitMap(array.array("I", part.tobytes()))  # ten times as fast as of `part`
            for number, part in zip(numbers.tolist(), parts, strict=False)
        }

    def _ordered(self, columns: Iterable[str]) -> list[str]:
        wanted = set(columns)
        return [own for own in self.target.own_names if own in wanted]

    def _schema(self, names: Sequence[str]) -> pa.Schema:
        """The columns by the engine's names; what is null among them is looked at where rows are written."""
        import pyarrow as pa

        fields = dict(zip(self.target.own_names, to_arrow(self.there.schema), strict=True))
        return pa.schema([pa.field(name, fields[name].type) for name in names])

    def _typed(self, rows: pa.Table) -> pa.Table:
        """Rows as a file has them, by the types of the table's columns."""
        return rows.cast(self._schema(rows.column_names))

    def _where(self, rows: pa.Table, where: pc.Expression) -> np.ndarray[Any, Any] | None:
        """The numbers of the rows for which it holds, in order; None: all."""
        import numpy as np
        import pyarrow as pa

        names = dict(zip(self.target.own_names, to_arrow(self.there.schema.in_files).names, strict=True))
        numbers = pa.array(np.arange(rows.num_rows, dtype=np.int32))
        numbered = rows.rename_columns([names[own] for own in rows.column_names]).append_column(_NUMBER, numbers)
        found = numbered.filter(where)[_NUMBER]
        return None if len(found) == rows.num_rows else np.sort(found.to_numpy())

    def _alive(
        self, group: pa.Table, file: DataFile, number: int, offset: int, found: np.ndarray[Any, Any] | None
    ) -> pa.Table:
        """`found`: the numbers of the rows that are wanted; None: all."""
        import pyarrow as pa

        positions = self._alive_positions(file, offset, offset + group.num_rows, found)
        places = pa.array(positions + (number << 32))
        if not group.num_columns:
            return pa.Table.from_arrays([places], schema=pa.schema([_place()]))
        if len(positions) < group.num_rows:
            group = group.take(pa.array(positions - offset))
        return group.append_column(_place(), places)

    def _alive_positions(
        self, file: DataFile, start: int, end: int, found: np.ndarray[Any, Any] | None = None
    ) -> np.ndarray[Any, Any]:
        """`found`: the numbers of the rows, from `start` on, that are wanted; None: all."""
        import numpy as np
        from pyroaring import BitMap

        wanted = np.arange(start, end, dtype=np.int64) if found is None else found + np.int64(start)
        dead = self.there.dead.get(file.path)
        if dead is None or not len(wanted):
            return wanted
        here = np.asarray((dead & BitMap(range(start, end))).to_array(), dtype=np.int64)
        if found is not None:
            return np.setdiff1d(wanted, here, assume_unique=True)
        return np.delete(wanted, here - start) if len(here) else wanted

    # ---- row groups

    def _groups(
        self, columns: Iterable[str], where: pc.Expression | None, places: np.ndarray[Any, Any] | None
    ) -> Iterator[tuple[int, pa.Table, int]]:
        """Number of a file, a row group of it, and the position of the group's first row. `places`: only those that
        have one of them."""
        import numpy as np

        if places is None:
            dead = self.there.dead
            files = [file for file in self.there.files if len(dead.get(file.path, ())) < file.rows]
        else:
            files = [self.there.files[number] for number in np.unique(places >> 32).tolist()]
        if not files:
            return
        names = self._ordered(columns)
        known = known_by(self.there.schema.in_files, where, takes_no_nan=True)  # see change/pruning.py
        numbers = {located(file.path)[1]: number for number, file in enumerate(self.there.files)}
        with data_files.opened(files, to_arrow(self.there.schema.in_files), where=where, known=known) as dataset:
            tasks = _tasks(dataset.get_fragments(filter=where), dataset.schema, where, numbers, places)
            near = is_near(files[0].path)  # a table's files are in one file system
            read = partial(self._read, names, some=places is not None, near=near)
            yield from map(read, tasks) if near else _read_ahead(tasks, read)

    def _read(self, names: Sequence[str], task: _Task, *, some: bool, near: bool) -> tuple[int, pa.Table, int]:
        """The row group as it is in its file. `some`: not all of the rows are wanted. Then texts may come as
        dictionaries. `near`: as of `is_near`."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = to_arrow(self.there.schema.in_files)
        wanted = [schema.names[self.target.own_names.index(name)] for name in names]
        info = task.footer.row_group(task.group)
        texts = _by_dictionary(info, pa.schema(map(schema.field, wanted))) if some else []
        with pq.ParquetFile(
            task.path,
            metadata=task.footer,
            filesystem=task.system,
            read_dictionary=texts,
            page_checksum_verification=True,
            pre_buffer=not near,
            **data_files.READING,
        ) as parquet:
            in_threads = info.total_byte_size > SMALL_BYTES
            there = {name for name in parquet.schema_arrow.names if name in wanted}
            read = [name for name in wanted if name in there]
            rows = parquet.read_row_group(task.group, read, use_threads=in_threads) if read else pa.table({})
        if read and rows.num_rows != info.num_rows:
            raise OSError(f"{task.path}: a row group has {rows.num_rows} rows, and its footer says {info.num_rows}")
        file = self.there.files[task.number]
        found = [
            rows[name] if name in there else bare_files.column(file, schema.field(name), info.num_rows)
            for name in wanted
        ]
        return task.number, pa.Table.from_arrays(found, names=list(names)), task.offset


@dataclass(frozen=True, slots=True)
class _Task:
    """A row group to be read."""

    number: int
    """Number of the file."""
    path: str
    system: fs.FileSystem
    footer: pq.FileMetaData
    group: int
    offset: int
    """Position of its first row in the file."""


def _tasks(
    fragments: Iterable[Any],
    schema: pa.Schema,
    where: pc.Expression | None,
    numbers: Mapping[str, int],
    places: np.ndarray[Any, Any] | None,
) -> Iterator[_Task]:
    import numpy as np

    for fragment in fragments:
        number, offset, footer = numbers[fragment.path], 0, fragment.metadata
        fitting = None
        if where is not None:
            fitting = {group.id for group in fragment.subset(filter=where, schema=schema).row_groups}
        for group in range(footer.num_row_groups):
            rows = footer.row_group(group).num_rows
            first = (number << 32) + offset
            if places is not None:
                low, high = np.searchsorted(places, [first, first + rows])
                wanted = low < high
            else:
                wanted = fitting is None or group in fitting
            if wanted and rows:
                yield _Task(number, fragment.path, fragment.filesystem, footer, group, offset)
            offset += rows


def _by_dictionary(info: pq.RowGroupMetaData, schema: pa.Schema) -> list[str]:
    """Columns of texts that the row group has by dictionary, and that are better read so.

    To write out each row's text takes longer than all else of reading it. Where a dictionary was given up, as many
    bytes as texts have show that: to make one of these would take longer still.
    """
    import pyarrow as pa

    texts = {field.name for field in schema if field.type in (pa.string(), pa.binary()) and "." not in field.name}
    chunks = [info.column(number) for number in range(info.num_columns)] if texts else []
    return [
        chunk.path_in_schema
        for chunk in chunks
        if chunk.path_in_schema in texts
        and chunk.total_uncompressed_size < DICTIONARY_BYTES + BYTES_BY_DICTIONARY * info.num_rows
    ]


def _read_ahead(tasks: Iterable[_Task], read: Any) -> Iterator[tuple[int, pa.Table, int]]:
    pending: deque[Future[tuple[int, pa.Table, int]]] = deque()
    with ThreadPoolExecutor(_AHEAD, "row-groups") as pool:
        try:
            for task in tasks:
                pending.append(pool.submit(read, task))
                if len(pending) > _AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for each in pending:
                each.cancel()


def _place() -> pa.Field:
    import pyarrow as pa

    return pa.field(PLACE, pa.int64())
