"""What is worth compacting, and what of it a compaction reads.

The names are Hive's. A partition with many small file sets is merged (minor); one with many deleted rows, or with small
files that add up to much beside the large ones, is written anew (major).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from txnparticipant.shard.table import TableState
from txnparticipant.versions.compactions import Kind
from txnparticipant.versions.mvcc import FileSet
from txnstatus.types import Timestamp
from txnstatus.values import value

MAX_INPUTS = 4_000
"""File sets that one compaction reads: the others are the next one's."""
SMALL = 4
"""A file is small that has less than one in so many of the bytes that files are to have."""


@value
class Thresholds:
    """From when on a partition is compacted without being asked for."""

    delta_num: int
    """Small file sets."""
    delta_pct: int
    """Percent that deleted rows are of all, or small files of the large ones."""
    file_bytes: int
    """Bytes that files are to have."""


def due(table: TableState, at: Thresholds) -> Iterator[tuple[str, Kind | None]]:
    """Each partition, and the compaction that it is time for; the caller may pause between any two."""
    for partition, file_sets in living(table).items():
        yield partition, _kind(table, file_sets, at)


def living(table: TableState) -> Mapping[str, list[FileSet]]:
    """The file sets of each partition that nobody has replaced, or is about to."""
    found: defaultdict[str, list[FileSet]] = defaultdict(list)
    for each in table.file_sets.values():
        if each.replaced_by is None:
            found[each.partition].append(each)
    return found


def inputs(table: TableState, kind: Kind, partition: str, as_of: Timestamp, file_bytes: int) -> tuple[str, ...]:
    """Ids of the file sets that a compaction reads; none: there is nothing to do."""
    found = [each for each in living(table).get(partition, ()) if each.commit_ts <= as_of]
    if kind is Kind.MINOR:
        found = [each for each in found if _is_small(each, file_bytes)]
    found = found[:MAX_INPUTS]
    worth = sum(map(_files, found)) > 1 or (kind is Kind.MAJOR and table.deletes.later((f.id for f in found), NONE))
    return tuple(each.id for each in found) if worth else ()


NONE = Timestamp(0)


def _kind(table: TableState, file_sets: list[FileSet], at: Thresholds) -> Kind | None:
    small = [each for each in file_sets if _is_small(each, at.file_bytes)]
    small_bytes = _bytes(small)
    large_bytes = _bytes(file_sets) - small_bytes
    dead, rows = _dead(table, file_sets), sum(map(_rows, file_sets))
    if dead and 100 * dead >= at.delta_pct * rows:
        return Kind.MAJOR
    if len(small) > 1 and large_bytes and 100 * small_bytes >= at.delta_pct * large_bytes:
        return Kind.MAJOR
    return Kind.MINOR if len(small) >= at.delta_num else None


def _is_small(file_set: FileSet, file_bytes: int) -> bool:
    return file_set.manifest.data_bytes * SMALL < file_bytes * file_set.manifest.file_count


def _share(file_set: FileSet, of: int) -> int:
    """About what of the write's files is in this partition."""
    return -(-of // max(1, len(file_set.manifest.partitions)))


def _files(file_set: FileSet) -> int:
    return _share(file_set, file_set.manifest.file_count)


def _rows(file_set: FileSet) -> int:
    return _share(file_set, file_set.manifest.row_count)


def _bytes(file_sets: Iterable[FileSet]) -> int:
    return sum(_share(each, each.manifest.data_bytes) for each in file_sets)


def _dead(table: TableState, file_sets: list[FileSet]) -> int:
    """About how many rows of them are deleted: a delete set's are taken to be spread evenly."""
    ids = {each.id for each in file_sets}
    found = table.deletes.later(ids, NONE)
    return sum(-(-each.ref.row_count * len(each.file_sets & ids) // len(each.file_sets)) for each in found)
