"""What is worth compacting, and what of it a compaction reads.

The names are Hive's. A partition with many small file sets is merged (minor); one with many deleted rows, or with small
files that add up to much beside the large ones, is written anew (major). A table with a primary key is compacted as a
whole: which partitions row changes are in, nobody here knows. Those in files count as small writes that delete rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from txnparticipant.shard.table import TableState
from txnparticipant.versions.compactions import Kind
from txnparticipant.versions.mvcc import FileSet
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import NO_TIMESTAMP, Timestamp
from txnstatus.values import value

MAX_INPUTS = 4_000
"""File sets that one compaction reads: the others are the next one's."""
MAX_FOLDED_BYTES = 128 << 20
"""Bytes of files with row changes, likewise: they are in a worker's memory while it works."""
SMALL = 4
"""A file is small that has less than one in so many of the bytes that files are to have."""


SLICE = 1_000
"""File sets that are looked at before others may run."""


@value
class Thresholds:
    """From when on a partition is compacted without being asked for."""

    delta_num: int
    """Small file sets."""
    delta_pct: int
    """Percent that deleted rows are of all, or small files of the large ones."""
    file_bytes: int
    """Bytes that files are to have."""


@value
class Due:
    """A compaction that it is time for."""

    partition: str
    kind: Kind
    input_bytes: int
    """Bytes that it will read, about."""


def due(table: TableState, at: Thresholds) -> Iterator[Due | None]:
    """What it is time for; None: others may run now, and change the table."""
    groups: defaultdict[str, list[FileSet]] = defaultdict(list)
    for number, each in enumerate(list(table.file_sets.values())):
        if each.replaced_by is None:
            groups[each.partition].append(each)
        if number % SLICE == SLICE - 1:
            yield None
    seen = 0
    whole, found = _Sums.of_changes(table), list[Kind]()
    size = dict.fromkeys(Kind, whole.small_bytes)
    for partition, file_sets in groups.items():
        sums = _Sums()
        for start in range(0, len(file_sets), SLICE):
            part = file_sets[start : start + SLICE]
            sums.add(table, part, at.file_bytes)
            seen += len(part)
            if seen >= SLICE:
                seen = 0
                yield None
        if kind := sums.kind(at):
            if table.schema.primary_key:
                found.append(kind)
            else:
                yield Due(partition, kind, sums.bytes_of(kind))
        size = {kind: size[kind] + sums.bytes_of(kind) for kind in Kind}
        whole.rows, whole.large_bytes = whole.rows + sums.rows, whole.large_bytes + sums.small_bytes + sums.large_bytes
    if whole.small and (kind := whole.kind(at)):
        found.append(kind)
    if found:
        yield Due(WHOLE_TABLE, max(found), size[max(found)])


@dataclass(slots=True)
class _Sums:
    """What file sets of a partition come to."""

    small: int = 0
    small_bytes: int = 0
    large_bytes: int = 0
    rows: int = 0
    dead: int = 0
    """Rows that are deleted, about."""

    @classmethod
    def of_changes(cls, table: TableState) -> _Sums:
        """Sums over row changes, of which each is taken to hide a row."""
        flushed = [each.manifest for each in table.rows.not_folded]
        rows, size = (sum(getattr(each, of) for each in flushed) for of in ("row_count", "data_bytes"))
        return cls(len(flushed), size, 0, rows, rows)

    def add(self, table: TableState, file_sets: Sequence[FileSet], file_bytes: int) -> None:
        for each in file_sets:
            size = _share(each, each.manifest.data_bytes)
            self.rows += _share(each, each.manifest.row_count)
            if _is_small(each, file_bytes):
                self.small, self.small_bytes = self.small + 1, self.small_bytes + size
            else:
                self.large_bytes += size
        self.dead += _dead(table, file_sets)

    def kind(self, at: Thresholds) -> Kind | None:
        if self.dead and 100 * self.dead >= at.delta_pct * self.rows:
            return Kind.MAJOR
        if self.small > 1 and self.large_bytes and 100 * self.small_bytes >= at.delta_pct * self.large_bytes:
            return Kind.MAJOR
        return Kind.MINOR if self.small >= at.delta_num else None

    def bytes_of(self, kind: Kind) -> int:
        """Bytes that such a compaction reads."""
        return self.small_bytes + (self.large_bytes if kind is Kind.MAJOR else 0)


def living(table: TableState) -> Mapping[str, list[FileSet]]:
    """The file sets of each partition that nobody has replaced, or is about to; as a compaction takes them together."""
    found: defaultdict[str, list[FileSet]] = defaultdict(list)
    if table.schema.primary_key:
        found[WHOLE_TABLE] = []
    for each in table.file_sets.values():
        if each.replaced_by is None:
            found[task_of(table, each)].append(each)
    return found


def task_of(table: TableState, file_set: FileSet) -> str:
    """The partition whose compaction has the file set as an input."""
    return WHOLE_TABLE if table.schema.primary_key else file_set.partition


def inputs(
    table: TableState, kind: Kind, file_sets: Sequence[FileSet], as_of: Timestamp, file_bytes: int
) -> tuple[str, ...] | None:
    """Ids of the file sets that a compaction reads, of these that it may take; None: there is nothing to do."""
    folds = table.rows.changed_at(as_of)
    whole = folds and (kind is Kind.MAJOR or not table.schema.partition_by)
    partitions: defaultdict[str, list[FileSet]] = defaultdict(list)
    for each in file_sets:
        if each.commit_ts <= as_of and (kind is Kind.MAJOR or _is_small(each, file_bytes)):
            partitions[each.partition].append(each)
    found: list[FileSet] = []
    for some in partitions.values():
        part = some[: MAX_INPUTS - len(found)]
        dead = kind is Kind.MAJOR and table.deletes.later((each.id for each in part), NONE)
        if whole or sum(map(_files, part)) > 1 or dead:
            found += part
    return tuple(each.id for each in found) if found or folds else None


def input_bytes(table: TableState, inputs: Sequence[str], as_of: Timestamp) -> int:
    """About the bytes that a compaction reads: of these file sets, and of row changes that it folds in."""
    there = [each for id_ in inputs if (each := table.file_sets.get(id_))]
    folded = (each.manifest.data_bytes for each in table.rows.not_folded if each.last_ts <= as_of)
    return sum(_share(each, each.manifest.data_bytes) for each in there) + sum(folded)


def beside(table: TableState, inputs: Sequence[str], as_of: Timestamp) -> list[FileSet]:
    """The other file sets of which rows may be hidden by the row changes that a compaction folds in."""
    ids = frozenset(inputs)
    return [each for id_, each in table.file_sets.items() if id_ not in ids and each.visible_at(as_of)]


def read_at(table: TableState, now: Timestamp) -> Timestamp:
    """The timestamp at which a compaction reads: with row changes as far as there is room for them."""
    last = max(table.compactions.folds(NO_TIMESTAMP, now), default=NO_TIMESTAMP)
    return max(last, table.rows.foldable(now, MAX_FOLDED_BYTES))


NONE = Timestamp(0)


def _is_small(file_set: FileSet, file_bytes: int) -> bool:
    return file_set.manifest.data_bytes * SMALL < file_bytes * file_set.manifest.file_count


def _share(file_set: FileSet, of: int) -> int:
    """About what of the write's files is in this partition."""
    return -(-of // max(1, len(file_set.manifest.partitions)))


def _files(file_set: FileSet) -> int:
    return _share(file_set, file_set.manifest.file_count)


def _dead(table: TableState, file_sets: Sequence[FileSet]) -> int:
    """About how many rows of them are deleted: a delete set's are taken to be spread evenly."""
    ids = {each.id for each in file_sets}
    found = table.deletes.later(ids, NONE)
    return sum(-(-each.ref.row_count * len(each.file_sets & ids) // len(each.file_sets)) for each in found)
