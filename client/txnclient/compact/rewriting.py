"""Files written anew: the same rows in the same order, without the dead ones, in fewer files, in bounded memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import quote

from txnclient.formats import arrow
from txnclient.formats.arrow import ROWS_PER_GROUP
from txnstatus.errors import InternalError
from txnstatus.lake import bare_files, data_files
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.lineage import NOWHERE, Lineage, Segment
from txnstatus.lake.manifest import DataFile, Origin
from txnstatus.lake.storage import file_system, make_directory, partition_directory
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyroaring import BitMap

DEFAULT_MEMORY_BYTES = 512 << 20
MIN_MEMORY_BYTES = 16 << 20
FIRST_BATCH_ROWS, MOST_BATCH_ROWS = 4_096, 65_536
"""Rows that are read at a time: before it is known how large they are, and at most."""
SMALL_BYTES = 4 << 20
"""Size up to which a file is read at once, by one thread: more would wait for each other for longer than they read."""
MIN_BUFFER_BYTES = 64 << 10
"""The least that is read of a column at a time, where a row group does not fit into memory."""


@dataclass(frozen=True, slots=True)
class Rewritten:
    """Files that are not durable yet, and where the rows in them come from."""

    files: Sequence[DataFile]
    lineage: Lineage
    hidden: DeadRows = field(default_factory=dict)
    """Rows of files that were left as they are, and that the row changes hide which were folded in."""


def rewrite(
    inputs: Sequence[DataFile],
    dead: DeadRows,
    schema: Schema,
    directory: str,
    *,
    target_bytes: int,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    progress: Callable[[int], None] = lambda _: None,
    name: str = "part",
    more: pa.Table | None = None,
    partition: str = WHOLE_TABLE,
) -> Rewritten:
    """Writes the rows of the inputs, which are in one partition, into files of about the same size below `directory`.

    `more`: rows of the same partition, in no file, to come behind them. `partition`: of these, if there are no inputs.

    `target_bytes`: the size that is meant. `memory_bytes`: about what it may take, whatever there is to write.
    `progress` is told the rows that were read since it was called last; what it raises ends the work. `name`: how the
    names of the files begin.

    Raises DataDamaged for an input that is not what was written, OSError.
    """
    partitions = {file.partition for file in inputs} or {partition}
    if len(partitions) > 1:
        raise InternalError(f"files of several partitions cannot become one: {', '.join(sorted(partitions))}")
    import pyarrow as pa
    from pyroaring import BitMap

    source, outputs = (
        _Source(schema, memory_bytes // 8),
        _Outputs(directory, "".join(partitions), name, memory_bytes // 4),
    )
    row_bytes = _row_bytes(inputs, more)
    behind = more.to_batches(MOST_BATCH_ROWS) if more is not None else []
    total = sum(alive_bytes(file, dead) for file in inputs) + row_bytes * sum(rows.num_rows for rows in behind)
    limit = _even_share(total, target_bytes)
    segments: list[Segment] = []
    taken = 0.0
    for file in inputs:
        gone, first, offset = dead.get(file.path, BitMap()), 0, outputs.rows
        for start, end, rows in source.parts(file, gone):
            progress(end - start)
            outputs.add(rows)
            taken += rows.num_rows * file.bytes / file.rows
            if taken >= limit:
                segments.append(_segment(file, first, end, gone, outputs.uri, offset))
                outputs.cut()
                first, offset, taken = end, 0, 0.0
        if first < file.rows or not file.rows:
            segments.append(_segment(file, first, file.rows, gone, outputs.uri, offset))
    for batch in behind:
        progress(batch.num_rows)
        outputs.add(pa.Table.from_batches([batch]))
        taken += batch.num_rows * row_bytes
        if taken >= limit:
            outputs.cut()
            taken = 0.0
    outputs.cut()
    if not outputs.written and any(file.origins for file in inputs):
        outputs.write_none(source.nothing)
    done = Rewritten(arrow.described(outputs.written, directory, schema, keeps_empty=True), Lineage(segments))
    return checked(done, inputs, directory)


def checked(done: Rewritten, inputs: Sequence[DataFile], directory: str) -> Rewritten:
    """Has each output say of which files of others it has rows, and the first one, of which none is left: such a file
    came in, too, and does not come in again. Raises InternalError for what does not add up.
    """
    outputs = {file.path: file.rows for file in done.files}
    fault = done.lineage.fault({file.path: file.rows for file in inputs}, outputs)
    partitions = {file.partition for file in inputs}
    if fault or (partitions and {file.partition for file in done.files} - partitions):
        raise InternalError(f"what was written to {directory} is not what was read: {fault or 'another partition'}")
    return replace(done, files=_with_origins(done, inputs))


def _with_origins(done: Rewritten, inputs: Sequence[DataFile]) -> Sequence[DataFile]:
    origins = {file.path: file.origins for file in inputs if file.origins}
    if not origins or not done.files:
        return done.files
    spans = defaultdict[str, dict[Origin, list[tuple[int, int]]]](lambda: defaultdict(list))
    for segment in done.lineage.segments:
        for origin in origins.get(segment.input, ()):
            if moved := segment.moved(origin.spans):
                _append(spans[segment.output][origin._replace(spans=())], moved)
    left = {origin for of_output in spans.values() for origin in of_output}
    gone = dict.fromkeys(origin._replace(spans=()) for found in origins.values() for origin in found)
    for origin in gone:
        if origin not in left:
            spans[done.files[0].path][origin] = []
    return [
        replace(file, origins=tuple(each._replace(spans=tuple(found)) for each, found in spans[file.path].items()))
        for file in done.files
    ]


def _append(spans: list[tuple[int, int]], more: Sequence[tuple[int, int]]) -> None:
    """Spans that go on where the one before ends are one."""
    for first, end in more:
        if spans and spans[-1][1] == first:
            first = spans.pop()[0]
        spans.append((first, end))


def _segment(file: DataFile, first: int, end: int, gone: BitMap, output: str, offset: int) -> Segment:
    from pyroaring import BitMap

    dead = gone & BitMap(range(first, end))
    nothing = len(dead) == end - first
    return Segment(file.path, first, end, NOWHERE if nothing else output, 0 if nothing else offset, dead)


def alive_bytes(file: DataFile, dead: DeadRows) -> float:
    """About the bytes of its rows that are not dead."""
    return file.bytes * (1 - len(dead.get(file.path, ())) / file.rows) if file.rows else 0.0


def _row_bytes(inputs: Sequence[DataFile], more: pa.Table | None) -> float:
    """About the bytes of a row in a file; where there is none, those in memory."""
    if rows := sum(file.rows for file in inputs):
        return sum(file.bytes for file in inputs) / rows
    return more.nbytes / max(1, more.num_rows) if more is not None else 0.0


def _even_share(total: float, target: int) -> float:
    """Bytes of each of so many files of one size as come near to the target, but no small one comes last."""
    return total / max(1, round(total / target))


class _Source:
    """Rows of files as they are, a part of a file at a time."""

    def __init__(self, schema: Schema, memory_bytes: int) -> None:
        self._target, self._memory = to_arrow(schema), memory_bytes
        self._row_bytes = 0.0
        """The bytes of a row in memory, on the average of those parts where rows were largest."""

    @property
    def nothing(self) -> pa.Table:
        return self._target.empty_table()

    def parts(self, file: DataFile, gone: BitMap) -> Iterator[tuple[int, int, pa.Table]]:
        """From which row to which, and those between that are alive. Raises DataDamaged, OSError."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        with data_files.told([file]), self._opened(file) as opened:
            in_threads = file.bytes > SMALL_BYTES
            parquet = pq.ParquetFile(opened, page_checksum_verification=True, **self._reading(file))
            start = 0
            for group in range(parquet.num_row_groups):
                stored = parquet.metadata.row_group(group)
                count = stored.num_rows
                if gone.range_cardinality(start, start + count) == count:
                    yield start, start + count, self._target.empty_table()
                    start += count
                    continue
                at_once = self._batch_rows(stored.total_byte_size / count)
                for batch in parquet.iter_batches(at_once, row_groups=[group], use_threads=in_threads):
                    end = start + batch.num_rows
                    self._row_bytes = max(self._row_bytes, batch.nbytes / max(batch.num_rows, 1))
                    yield start, end, self._fitted(pa.Table.from_batches([_alive(batch, gone, start)]), file)
                    start = end
            if start != file.rows:
                raise data_files.damaged(file, f"it has {start} rows, and was written with {file.rows}")

    def _fitted(self, rows: pa.Table, file: DataFile) -> pa.Table:
        """Rows of the file in the table's columns."""
        import pyarrow as pa

        there = set(rows.column_names)
        columns = [
            rows[field.name] if field.name in there else bare_files.column(file, field, rows.num_rows)
            for field in self._target
        ]
        return pa.Table.from_arrays(columns, names=self._target.names).cast(self._target)

    def _opened(self, file: DataFile) -> pa.NativeFile:
        """As it was written, as far as its end tells; a small one is read once, for that and for its rows."""
        import pyarrow as pa

        if file.bytes <= min(SMALL_BYTES, self._memory):
            return pa.BufferReader(data_files.content(file))
        data_files.check([file])
        system, path = file_system(file.path)
        return system.open_input_file(path)

    def _reading(self, file: DataFile) -> dict[str, object]:
        """How a file is read: at once where it is small, else a little of each column at a time."""
        if file.bytes <= self._memory:
            return {**data_files.READING, "pre_buffer": file.bytes > SMALL_BYTES}
        return {
            **data_files.READING,
            "pre_buffer": False,
            "buffer_size": max(MIN_BUFFER_BYTES, self._memory // len(self._target)),
        }

    def _batch_rows(self, stored: float) -> int:
        """`stored`: the bytes of a row in the row group that is next, before they were compressed."""
        most = MOST_BATCH_ROWS if self._row_bytes else FIRST_BATCH_ROWS
        return max(1, min(most, int(self._memory / max(self._row_bytes, stored, 1.0))))


def _alive(batch: pa.RecordBatch, gone: BitMap, start: int) -> pa.RecordBatch:
    import numpy as np
    import pyarrow as pa
    from pyroaring import BitMap

    dead = (gone & BitMap(range(start, start + batch.num_rows))).shift(-start)
    if not dead:
        return batch
    alive = np.ones(batch.num_rows, bool)
    alive[np.frombuffer(dead.to_array(), np.uint32)] = False
    return batch.filter(pa.array(alive))


class _Outputs:
    """Files that are written one after the other, a row group at a time."""

    def __init__(self, directory: str, partition: str, name: str, group_bytes: int) -> None:
        """`partition`: the one that all rows are in. `name`: the beginning of the files' names."""
        within = partition_directory(partition)
        self._directory, self._group_bytes = directory, group_bytes
        self._beginning = f"{within}/{name}"
        self._system, self._root = file_system(directory)
        make_directory(self._system, f"{self._root}{within}")
        self._writer: pq.ParquetWriter | None = None
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self.rows = 0
        """Rows of the file so far."""
        self.written: list[tuple[str, int]] = []
        """URI and size of each file that is complete."""

    @property
    def uri(self) -> str:
        return f"{self._directory}{quote(self._name, safe='/=')}"

    @property
    def _name(self) -> str:
        return f"{self._beginning}-{len(self.written):05}.parquet"

    def add(self, rows: pa.Table) -> None:
        while rows.num_rows:
            room = ROWS_PER_GROUP - self._pending_rows
            self._pending.append(rows[:room])
            self._pending_rows += self._pending[-1].num_rows
            self._pending_bytes += self._pending[-1].nbytes
            self.rows += self._pending[-1].num_rows
            rows = rows[room:]
            if self._pending_rows == ROWS_PER_GROUP or self._pending_bytes >= self._group_bytes:
                self._write_group()

    def cut(self) -> None:
        """Ends the file, if it has rows."""
        self._write_group()
        if self._writer is not None:
            self._writer.close()
            size = self._system.get_file_info(f"{self._root}{self._name}").size
            self.written.append((self.uri, size))
            self._writer, self.rows = None, 0

    def write_none(self, nothing: pa.Table) -> None:
        """A file without rows: it is there for what its manifest says of it."""
        self._writer = data_files.writer(nothing, f"{self._root}{self._name}", self._system)
        self.cut()

    def _write_group(self) -> None:
        import pyarrow as pa

        if not self._pending_rows:
            return
        group = pa.concat_tables(self._pending)
        if self._writer is None:
            self._writer = data_files.writer(group, f"{self._root}{self._name}", self._system)
        self._writer.write_table(group, row_group_size=ROWS_PER_GROUP)
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
