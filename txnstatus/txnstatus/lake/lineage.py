"""Lineage: where rows of a compaction's inputs are in its outputs, and the file beside the outputs that says so.

A compaction keeps the order of rows and leaves out those that were dead when it read them. So an input is cut into
segments: rows `first` to `end` of it, less the dead ones, lie in one output from its row `offset` on. Where a row is
now, and where it comes from, is then arithmetic: nobody reads data for it. Files are called by their URIs, as in files
of dead rows. Rows of an output that come from no input, such as row changes that were folded in, are in no segment.
"""

from __future__ import annotations

import array
import io
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from txnstatus.errors import DataDamaged, InternalError
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.storage import read_file, write_file
from txnstatus.proto import table_pb2 as pb

if TYPE_CHECKING:
    import numpy as np
    from pyroaring import BitMap

FILE_NAME = "_lineage.parquet"
NOWHERE = ""
"""The output of a segment of which every row was dead."""


class Segment(NamedTuple):
    """Rows of an input that follow each other there, and in an output, too."""

    input: str
    first: int
    end: int
    """The row behind the last one."""
    output: str
    offset: int
    """The row of the output that the first row of the segment that was alive has become."""
    dead: BitMap
    """The rows of the input, from `first` to `end`, that are not in the output."""

    @property
    def alive(self) -> int:
        return self.end - self.first - len(self.dead)

    def moved(self, spans: Sequence[tuple[int, int]] | None) -> list[tuple[int, int]]:
        """Where rows of the output are that come from these of the input, each from the first one to the one behind the
        last; None: from any.
        """
        found = list[tuple[int, int]]()
        for first, end in ((self.first, self.end),) if spans is None else spans:
            first, end = max(first, self.first), min(end, self.end)
            alive = end - first - self.dead.range_cardinality(first, end) if first < end else 0
            if alive:
                at = self.offset + first - self.first - self.dead.range_cardinality(self.first, first)
                found.append((at, at + alive))
        return found


class Lineage:
    """The segments of one compaction. Not to be changed: readers share it."""

    def __init__(self, segments: Iterable[Segment]) -> None:
        self.segments = tuple(segments)
        self._by_input = defaultdict[str, list[Segment]](list)
        self._by_output = defaultdict[str, list[Segment]](list)
        for segment in self.segments:
            self._by_input[segment.input].append(segment)
            if segment.alive:
                self._by_output[segment.output].append(segment)

    @property
    def inputs(self) -> Iterable[str]:
        return self._by_input.keys()

    def forward(self, rows: DeadRows) -> dict[str, BitMap]:
        """The rows by output: those that were dead are nowhere, and those of files that are no inputs stay."""
        return _moved(rows, self._by_input, _forward)

    def back(self, rows: DeadRows) -> dict[str, BitMap]:
        """The rows by input: those that come from no input stay."""
        return _moved(rows, self._by_output, _back)

    def range_of(self, file: str) -> dict[str, BitMap]:
        """All rows of the outputs that come from the input. Nothing is read row by row."""
        from pyroaring import BitMap

        found = defaultdict[str, BitMap](BitMap)
        for each in self._by_input.get(file, ()):
            if each.alive:
                found[each.output] |= BitMap(range(each.offset, each.offset + each.alive))
        return dict(found)

    def fault(self, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> str:
        """What is wrong with it, given the rows of the files; empty: nothing is.

        Each row of an input is in one segment, and no row of an output is in two.
        """
        for file in self._by_input.keys() ^ inputs.keys():
            return f"{file} is {'no input' if file in self._by_input else 'not in it'}"
        for file, count in inputs.items():
            spans = sorted((each.first, each.end) for each in self._by_input[file])
            ends = [0, *(end for _, end in spans)]
            if [first for first, _ in spans] != ends[:-1] or ends[-1] != count:
                return f"its segments of {file} are not its {count} rows"
        for each in self.segments:
            if each.dead and not each.first <= each.dead.min() <= each.dead.max() < each.end:
                return f"a segment of {each.input} has dead rows that are not in it"
        for file, segments in self._by_output.items():
            spans = sorted((each.offset, each.offset + each.alive) for each in segments)
            if file not in outputs or spans[-1][1] > outputs[file]:
                return f"{file} does not have row {spans[-1][1] - 1}"
            if any(begin < end for (_, end), (begin, _) in pairwise(spans)):
                return f"two segments have a row of {file}"
        return ""


def forward(lineages: Iterable[Lineage], rows: DeadRows) -> DeadRows:
    """The rows after these compactions, of which each may have outputs of earlier ones as inputs."""
    for lineage in lineages:
        rows = lineage.forward(rows)
    return rows


def back(lineages: Sequence[Lineage], rows: DeadRows) -> DeadRows:
    """The rows before these compactions, which are given in the order in which they were."""
    for lineage in reversed(lineages):
        rows = lineage.back(rows)
    return rows


def write(directory: str, lineage: Lineage, *, not_durable: Iterable[str] = ()) -> pb.LineageRef:
    """Writes it into a compaction's `directory`. When this returns, it is durable, and so are those that were not."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    segments = lineage.segments
    rows = pa.table(
        {
            "input": pa.array([each.input for each in segments], pa.string()),
            "first": pa.array([each.first for each in segments], pa.uint32()),
            "end": pa.array([each.end for each in segments], pa.uint64()),
            "output": pa.array([each.output for each in segments], pa.string()),
            "offset": pa.array([each.offset for each in segments], pa.uint32()),
            "dead": pa.array([each.dead.serialize() for each in segments], pa.binary()),
        }
    )
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression="zstd")
    data, path = sink.getvalue(), f"{directory}/{FILE_NAME}"
    write_file(path, data, beside=not_durable)
    return pb.LineageRef(path=path, bytes=len(data), crc32=zlib.crc32(data))


def read(ref: pb.LineageRef) -> Lineage:
    """Raises DataDamaged for a file that is not the one that was written, InternalError for one that cannot be read."""
    import pyarrow.parquet as pq
    from pyroaring import BitMap

    try:
        data = read_file(ref.path)
    except OSError as error:
        raise InternalError(f"the lineage in {ref.path} cannot be read: {error}") from error
    if len(data) != ref.bytes or zlib.crc32(data) != ref.crc32:
        raise DataDamaged(
            f"{ref.path}, which says where compacted rows are, is damaged: {len(data)} bytes where {ref.bytes} were "
            "written, or another CRC",
            hint="restore it from a backup, or overwrite what it is of; txnctl doctor finds all such files",
        )
    columns = pq.read_table(io.BytesIO(data)).to_pydict()
    columns["dead"] = [BitMap.deserialize(bitmap) for bitmap in columns["dead"]]
    return Lineage(Segment(*values) for values in zip(*(columns[name] for name in Segment._fields), strict=True))


# ---- arithmetic


def _moved(
    rows: DeadRows,
    segments: Mapping[str, Sequence[Segment]],
    move: Callable[[Segment, BitMap], tuple[BitMap, str, BitMap]],
) -> dict[str, BitMap]:
    """The rows by the files they are moved to. `move`: which of the rows are a segment's, and where those are now."""
    from pyroaring import BitMap

    found = defaultdict[str, BitMap](BitMap)
    for file, positions in rows.items():
        left = positions
        for segment in segments.get(file, ()):
            within, where, moved = move(segment, positions)
            left = left - within
            found[where] |= moved
        found[file] |= left
    return {file: positions for file, positions in found.items() if positions}


def _forward(segment: Segment, positions: BitMap) -> tuple[BitMap, str, BitMap]:
    """The rows of an input that are the segment's, the output, and where in it they are, if they were alive."""
    from pyroaring import BitMap

    within = positions & BitMap(range(segment.first, segment.end))
    moved = within - segment.dead
    if not segment.dead or not moved:
        return within, segment.output, moved.shift(segment.offset - segment.first)
    import numpy as np

    at = _array(moved)
    below = np.searchsorted(_array(segment.dead), at)
    return within, segment.output, _bitmap(at - below + (segment.offset - segment.first))


def _back(segment: Segment, positions: BitMap) -> tuple[BitMap, str, BitMap]:
    """The rows of an output that are the segment's, the input, and where in it they were."""
    from pyroaring import BitMap

    within = positions & BitMap(range(segment.offset, segment.offset + segment.alive))
    if not segment.dead or not within:
        return within, segment.input, within.shift(segment.first - segment.offset)
    import numpy as np

    numbers, dead = _array(within) - segment.offset, _array(segment.dead) - segment.first
    # How many rows were alive before each dead one: that row, and those like it, are to be stepped over.
    below = np.searchsorted(dead - np.arange(len(dead)), numbers, side="right")
    return within, segment.input, _bitmap(numbers + below + segment.first)


def _array(positions: BitMap) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    import numpy as np

    return np.frombuffer(positions.to_array(), np.uint32).astype(np.int64)


def _bitmap(positions: np.ndarray[tuple[int], np.dtype[np.int64]]) -> BitMap:
    import numpy as np
    from pyroaring import BitMap

    found = array.array("I")
    found.frombytes(positions.astype(np.uint32).tobytes())
    return BitMap(found)
