"""Reading tables with row changes: of each row the last change counts, and files show what no later change touched."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import TYPE_CHECKING

from txnclient.read import manifests, superseded
from txnstatus.lake import data_files, dead_rows
from txnstatus.lake.arrow_types import widest
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.rows import (
    COMMIT_TS,
    DELETED,
    Change,
    changes_schema,
    changes_table,
    encode_keys,
    last_of_each,
    to_ipc,
)
from txnstatus.proto import compaction_pb2
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


@dataclass(frozen=True, slots=True)
class RowChanges:
    """The row changes that a reader sees."""

    batches: tuple[Change, ...]
    """Changes that the service has in memory, in the order in which they count."""
    flushed: tuple[DataFile, ...]
    """Files of earlier changes, each row with its commit timestamp."""
    above: Timestamp
    """The timestamp from which on rows of those files count."""
    at: Timestamp
    """The timestamp up to and with which they do."""
    file_times: tuple[Timestamp, ...]
    """Commit timestamps of the table's files, in their order."""

    @classmethod
    def of(
        cls, response: pb.ScanResponse | compaction_pb2.CompactionTask, at: Timestamp, file_counts: Sequence[int]
    ) -> RowChanges | None:
        """None: files are all that there is to read. `file_counts`: how many are visible of each manifest."""
        if not response.HasField("changes"):
            return None
        changes = response.changes
        times = [
            Timestamp(commit_ts)
            for count, commit_ts in zip(file_counts, response.commit_timestamps, strict=True)
            for _ in range(count)
        ]
        return cls(
            tuple(Change(Timestamp(each.commit_timestamp), each.deletes, each.rows) for each in changes.batches),
            tuple(file for files in manifests.read(changes.flushed) for file in files),
            Timestamp(changes.above),
            at,
            tuple(times),
        )


def replacing(
    changes: RowChanges | None, files: Sequence[DataFile], own: Sequence[DataFile], schema: Schema, at: Timestamp
) -> RowChanges:
    """The changes, and one more, by which rows of the transaction's `own` files, the last ones, come in the place of
    others with the same keys, which are deleted, last of all that a reader at the timestamp sees.
    """
    from txnclient.formats import arrow

    if changes is None:
        times = [at] * (len(files) - len(own)) + [Timestamp(at + 1)] * len(own)  # as the service has it: see own_time
        changes = RowChanges((), (), at, at, tuple(times))
    keys = arrow.read_files(own, schema, schema.primary_key)
    return replace(changes, batches=(*changes.batches, Change(at, True, to_ipc(keys))))


def read(
    files: Sequence[DataFile],
    changes: RowChanges,
    schema: Schema,
    columns: Sequence[str] | None,
    where: pc.Expression | None = None,
    dead: DeadRows = dead_rows.NONE,
) -> pa.Table:
    """All rows as they are at the snapshot, or some of their columns, or those for which `where` holds."""
    import pyarrow as pa

    from txnclient.formats import arrow

    def whole(group: Sequence[DataFile], needed: Sequence[str]) -> Iterator[pa.Table]:
        yield arrow.read_files(group, schema, needed, where, dead)

    return pa.concat_tables(_parts(files, changes, schema, columns, where, whole))


def batches(
    files: Sequence[DataFile],
    changes: RowChanges,
    schema: Schema,
    columns: Sequence[str] | None,
    where: pc.Expression | None = None,
    dead: DeadRows = dead_rows.NONE,
) -> Iterator[pa.RecordBatch]:
    """As `read`, a batch at a time; the changes are held in memory."""
    import pyarrow as pa

    from txnclient.formats import arrow

    def by_batch(group: Sequence[DataFile], needed: Sequence[str]) -> Iterator[pa.Table]:
        for batch in arrow.read_batches(group, schema, needed, where, dead):
            yield pa.Table.from_batches([batch])

    for part in _parts(files, changes, schema, columns, where, by_batch):
        yield from part.to_batches()


def _parts(
    files: Sequence[DataFile],
    changes: RowChanges,
    schema: Schema,
    columns: Sequence[str] | None,
    where: pc.Expression | None,
    rows_of: Callable[[Sequence[DataFile], Sequence[str]], Iterator[pa.Table]],
) -> Iterator[pa.Table]:
    """Rows that were changed, and those of files that were not. `rows_of`: reads columns of files."""
    import pyarrow.compute as pc

    from txnclient.formats import arrow

    latest = latest_changes(changes, schema)
    target = arrow.chosen(schema, columns)
    upserts = latest.filter(pc.invert(latest[DELETED]))
    upserts = upserts if where is None else upserts.filter(where)
    yield upserts.select(target.names).cast(target)
    plain, meeting = by_meeting(files, changes.file_times, latest, schema)
    if plain:
        yield from rows_of(plain, target.names)
    needed = list(dict.fromkeys([*target.names, *schema.primary_key]))
    for changed, group in meeting:
        keys = superseded.Keys(changed, schema)
        for rows in rows_of(group, needed):
            yield superseded.without(rows, keys.numbers_in(rows)).select(target.names)


def by_meeting(
    files: Sequence[DataFile], times: Sequence[Timestamp], latest: pa.Table, schema: Schema
) -> tuple[list[DataFile], list[tuple[pa.Table, list[DataFile]]]]:
    """Files of which no row was changed later, as far as their manifests tell; and others with the keys that were.

    `latest`: as `latest_changes` has it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not latest.num_rows:
        return list(files), []
    keys, commits = latest.select(list(schema.primary_key)), latest[COMMIT_TS]
    plain, found = list[DataFile](), list[tuple[pa.Table, list[DataFile]]]()
    there = superseded.meeting(files, keys, schema)
    plain.extend(compress(files, (not each for each in there)))
    changed = pc.unique(commits).to_pylist()
    for since, group in by_later_changes(list(compress(files, there)), list(compress(times, there)), changed):
        later = keys.filter(pc.greater_equal(commits, pa.scalar(since, pa.uint64())))
        them = superseded.meeting(group, later, schema) if later.num_rows else [False] * len(group)
        plain.extend(compress(group, (not each for each in them)))
        if any(them):
            found.append((later, list(compress(group, them))))
    return plain, found


MAX_CHANGES = 1_000_000
MAX_KEYS = 20_000_000
"""Row changes, and rows of files whose keys are read, by which what was changed is found ahead of a scan."""


def settled(
    files: Sequence[DataFile], changes: RowChanges, schema: Schema, dead: DeadRows
) -> tuple[pa.Table, DeadRows] | None:
    """The changes as rows that are there beside those of the files, and rows of files that are not: the dead ones, and
    those that were changed since. None: finding them would take long. Raises DataDamaged.
    """
    import pyarrow.compute as pc

    if sum(file.rows for file in changes.flushed) > MAX_CHANGES:
        return None
    latest = latest_changes(changes, schema)
    _, meeting = by_meeting(files, changes.file_times, latest, schema)
    if sum(file.rows for _, group in meeting for file in group) > MAX_KEYS:
        return None
    gone = superseded.positions([(file, keys) for keys, group in meeting for file in group], schema)
    rows = latest.filter(pc.invert(latest[DELETED])).select([column.name for column in schema.columns])
    return rows, dead_rows.union([dead, gone])


def latest_changes(changes: RowChanges, schema: Schema) -> pa.Table:
    """One row for each key that was changed: its last change."""
    import pyarrow as pa
    import pyarrow.compute as pc

    in_files = schema.in_files
    parts = [changes_table(changes.batches, in_files)]
    if changes.flushed:
        parts.insert(0, _flushed(changes, changes_schema(in_files)))
    found = pa.concat_tables(parts).rename_columns(changes_schema(schema).names)
    ordered = found.take(pc.sort_indices(found, [(COMMIT_TS, "ascending")]))  # it keeps the order of equals
    return last_of_each(ordered, [encode_keys(ordered, schema)])


def commits(changes: RowChanges) -> list[Timestamp]:
    """The timestamps at which there are changes."""
    import pyarrow as pa

    found = {change.commit_ts for change in changes.batches}
    if changes.flushed:
        found.update(_flushed(changes, pa.schema([(COMMIT_TS, pa.uint64())]))[COMMIT_TS].unique().to_pylist())
    return sorted(found)


def _flushed(changes: RowChanges, columns: pa.Schema) -> pa.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    above, at = (pa.scalar(each, pa.uint64()) for each in (changes.above, changes.at))
    seen = (pc.field(COMMIT_TS) >= above) & (pc.field(COMMIT_TS) <= at)
    # Beside rows that are seen, a file may have others of a time when a column had room for more.
    with data_files.opened(changes.flushed, widest(columns), where=seen) as dataset:
        return dataset.to_table(filter=seen).cast(columns)


def by_later_changes(
    files: Sequence[DataFile], times: Sequence[Timestamp], changed: Sequence[Timestamp]
) -> Iterator[tuple[Timestamp, list[DataFile]]]:
    """The files in groups for which the same changes are later, each with the time from which on these were made.

    Of one commit, rows come after files.
    """
    commits = sorted(changed)
    groups: defaultdict[int, list[DataFile]] = defaultdict(list)
    since: dict[int, Timestamp] = {}
    for file, time in zip(files, times, strict=True):
        group = bisect_left(commits, time)
        groups[group].append(file)
        since[group] = time
    for group, members in sorted(groups.items()):
        yield since[group], members
