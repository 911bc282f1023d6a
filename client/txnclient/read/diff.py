"""What changed in a table between two snapshots: whole writes that came and went, rows of files, or rows by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from txnclient.read import row_reads
from txnclient.read.row_reads import RowChanges
from txnclient.read.table_files import TableFiles
from txnstatus.errors import InvalidArgument
from txnstatus.lake import lineage
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.lineage import Lineage
from txnstatus.lake.rows import COMMIT_TS, encode_keys, near
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import NO_TIMESTAMP, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa

CHANGE_KIND = "_change_kind"
"""The column that says what became of a row."""
DELETE, UPDATE_BEFORE, UPDATE_AFTER, INSERT = KINDS = ("delete", "update_before", "update_after", "insert")


def between(
    before: pb.ScanResponse,
    after: pb.ScanResponse,
    since: Timestamp,
    until: Timestamp,
    scan: Callable[[Timestamp], pb.ScanResponse] | None = None,
) -> Changes | KeyedChanges:
    """Two scans of one table, at these timestamps, compared; the second tells what was compacted since the first.

    `scan`: of the same table, at a timestamp in between, if it has a primary key.

    Raises InvalidArgument when the table has a column of the reserved name, and what reading a manifest raises.
    """
    before.table.CopyFrom(after.table)  # rows of both are compared in the columns that there are now
    schema = Schema.from_wire(after.table.schema)
    if any(column.name == CHANGE_KIND for column in schema.columns):
        raise InvalidArgument(
            f"{after.table.name} has a column {CHANGE_KIND!r}: that name is the one that says what changed"
        )
    by_row = before.HasField("changes") or after.HasField("changes") or after.lineages or after.folded
    if not by_row and not before.dead and not after.dead:  # whole writes came and went: what both show is not read
        went, came = pb.ScanResponse(table=after.table), pb.ScanResponse(table=after.table)
        went.manifests.extend(_only_in(before, after))
        came.manifests.extend(_only_in(after, before))
        return Changes(schema, {DELETE: TableFiles.of(went, since), INSERT: TableFiles.of(came, until)})
    old, new = TableFiles.of(before, since), TableFiles.of(after, until)
    if after.lineages:
        return Changes(schema, _moved_between(old, new, [lineage.read(ref) for ref in after.lineages]))
    if not schema.primary_key:
        return Changes(schema, {DELETE: _rows_only_in(old, new), INSERT: _rows_only_in(new, old)})
    # What row changes were folded into is not what they were: up to a fold, and from it on, rows are followed apart.
    ends = [(Timestamp(at - 1), Timestamp(at)) for at in after.folded]
    assert scan is not None or not ends, "row changes were folded, and nobody says what there was before"
    sides = [old, *(_seen_as(new, scan(at), at) for end in ends for at in end if scan), new]
    times = [since, *(at for _, at in ends)]
    spans = zip(sides[::2], sides[1::2], times, strict=True)
    return KeyedChanges(schema, old, new, tuple(Span(*span) for span in spans))


def _seen_as(new: TableFiles, response: pb.ScanResponse, at: Timestamp) -> TableFiles:
    """An earlier side, in the columns of the last one."""
    return replace(TableFiles.of(response, at), schema=new.schema)


@dataclass(frozen=True, slots=True)
class Changes:
    """The rows of files that went, and those that came; what came and went in between is in neither.

    A row that is updated is two: it dies where it was, and comes in another file.
    """

    schema: Schema
    parts: dict[str, TableFiles]
    """DELETE and INSERT, in this order → the rows, without row changes."""

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        found = []
        for kind, part in self.parts.items():
            rows = part.to_arrow()
            column = pa.repeat(pa.scalar(kind), rows.num_rows)
            found.append(rows.append_column(pa.field(CHANGE_KIND, pa.string(), nullable=False), column))
        return pa.concat_tables(found)


@dataclass(frozen=True, slots=True)
class Span:
    """Two timestamps between which no row changes were folded into files."""

    old: TableFiles
    new: TableFiles
    since: Timestamp
    """The timestamp of the old side."""

    @property
    def in_one(self) -> Sequence[TableFiles]:
        """Rows of files that only one side shows, be they changed again by key or not."""
        return _rows_only_in(self.old, self.new), _rows_only_in(self.new, self.old)

    @property
    def later_changes(self) -> Sequence[tuple[RowChanges, Timestamp]]:
        """Row changes, and above which commit they touch rows: all that are overwritten since touch theirs."""
        found = []
        if self.new.changes is not None:
            found.append((self.new.changes, self.since))
        if self.old.changes is not None and (
            self.new.changes is None or self.new.changes.above > self.old.changes.above
        ):
            found.append((self.old.changes, NO_TIMESTAMP))
        return found


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """Rows of a table that were changed by key. One that changed is two: as it was and as it is, be they the same.

    Only those rows are compared whose keys were touched: by a row change after the first snapshot, in rows of files
    that only one of the two shows, or by an overwrite of the whole table.
    """

    schema: Schema
    old: TableFiles
    new: TableFiles
    spans: tuple[Span, ...]
    """The time between the two, in which keys were touched."""

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        touched = self.touched()
        before, after = (_with_keys(side, touched) for side in (self.old, self.new))
        parts = [*_parted(before, after, self.schema), *reversed(_parted(after, before, self.schema))]
        field = pa.field(CHANGE_KIND, pa.string(), nullable=False)
        return pa.concat_tables(
            rows.append_column(field, pa.repeat(kind, rows.num_rows)) for kind, rows in zip(KINDS, parts, strict=True)
        )

    def touched(self) -> pa.Table:
        """The keys of the rows that are compared: the columns of the primary key; one may come more than once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        names = list(self.schema.primary_key)
        keys = [part.to_arrow(names) for span in self.spans for part in span.in_one]
        for changes, above in (each for span in self.spans for each in span.later_changes):
            found = row_reads.latest_changes(changes, self.schema)
            later = pc.greater(found[COMMIT_TS], pa.scalar(above, pa.uint64()))
            keys.append(found.filter(later).select(names).cast(keys[0].schema))
        return pa.concat_tables(keys)


def _only_in(one: pb.ScanResponse, other: pb.ScanResponse) -> list[pb.ManifestRef]:
    """The manifests of what only the first shows, each with those partitions alone.

    A write's manifest lies in the write's own directory, so its path is a name for the write.
    """
    shown = {(ref.path, partition) for ref in other.manifests for partition in _partitions(ref)}
    found = []
    for ref in one.manifests:
        alone = [partition for partition in _partitions(ref) if (ref.path, partition) not in shown]
        if alone:
            part = pb.ManifestRef()
            part.CopyFrom(ref)
            del part.partitions[:]
            part.partitions.extend(partition for partition in alone if partition != WHOLE_TABLE)
            found.append(part)
    return found


def _rows_only_in(one: TableFiles, other: TableFiles) -> TableFiles:
    """The rows of files that only the first shows, as files and which of their rows are none of them."""
    from pyroaring import BitMap

    shown = {file.path for file in other.files}
    files, dead = [], {}
    for file in one.files:
        gone = one.dead.get(file.path)
        if file.path in shown:
            alone = other.dead.get(file.path, BitMap()) - (gone or BitMap())
            if not alone:
                continue
            gone = BitMap(range(file.rows)) - alone
        files.append(file)
        if gone:
            dead[file.path] = gone
    return TableFiles(one.name, one.schema, tuple(files), dead=dead)


def _moved_between(old: TableFiles, new: TableFiles, lineages: Sequence[Lineage]) -> dict[str, TableFiles]:
    """What only one of the two shows, where compactions have moved rows since: a row is the same in its new place."""
    there, here = _alive(old), lineage.back(lineages, _alive(new))
    return {DELETE: old.at(_less(there, here)), INSERT: new.at(lineage.forward(lineages, _less(here, there)))}


def _alive(side: TableFiles) -> DeadRows:
    from pyroaring import BitMap

    return {file.path: BitMap(range(file.rows)) - side.dead.get(file.path, BitMap()) for file in side.files}


def _less(rows: DeadRows, others: DeadRows) -> DeadRows:
    from pyroaring import BitMap

    return {file: left for file, positions in rows.items() if (left := positions - others.get(file, BitMap()))}


def _partitions(ref: pb.ManifestRef) -> list[str]:
    return list(ref.partitions) or [WHOLE_TABLE]


def _with_keys(side: TableFiles, touched: pa.Table) -> pa.Table:
    """The rows with these keys, in the order of their keys."""
    import pyarrow.compute as pc

    found = side.to_arrow(where=near(touched, side.schema))
    found = found.filter(pc.is_in(encode_keys(found, side.schema), value_set=encode_keys(touched, side.schema)))
    return found.take(pc.sort_indices(found, [(name, "ascending") for name in side.schema.primary_key]))


def _parted(rows: pa.Table, others: pa.Table, schema: Schema) -> Sequence[pa.Table]:
    """Rows whose keys are not among the others, and rows whose keys are."""
    import pyarrow.compute as pc

    known = pc.is_in(encode_keys(rows, schema), value_set=encode_keys(others, schema))
    return rows.filter(pc.invert(known)), rows.filter(known)
