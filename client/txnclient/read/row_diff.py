"""What changed between two snapshots in a table whose rows were changed by key: rows that came, went or changed.

Only those rows are compared whose keys were touched: by a row change after the first snapshot, in files that only one
of the two shows, or by an overwrite of the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txnclient.formats.manifest import DataFile
from txnclient.read import row_reads
from txnclient.read.row_reads import RowChanges
from txnstatus.lake.rows import COMMIT_TS, encode_keys, near
from txnstatus.schema import Schema
from txnstatus.types import NO_TIMESTAMP, Timestamp

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from txnclient.snapshot import Snapshot, TableFiles

DELETE, UPDATE_BEFORE, UPDATE_AFTER, INSERT = KINDS = ("delete", "update_before", "update_after", "insert")


@dataclass(frozen=True, slots=True)
class KeyedChanges:
    """A row that changed is two: as it was and as it is, be they the same."""

    schema: Schema
    old: TableFiles
    new: TableFiles
    in_one: tuple[DataFile, ...]
    """Files that only one side shows."""
    snapshots: tuple[Snapshot, Snapshot]
    kind: str
    """The name of the column that says what became of a row."""

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        touched = self._touched()
        before, after = (_with_keys(side, touched) for side in (self.old, self.new))
        parts = [*_parted(before, after, self.schema), *reversed(_parted(after, before, self.schema))]
        field = pa.field(self.kind, pa.string(), nullable=False)
        return pa.concat_tables(
            rows.append_column(field, pa.repeat(kind, rows.num_rows)) for kind, rows in zip(KINDS, parts, strict=True)
        )

    def to_spark(self, spark: SparkSession) -> DataFrame:
        from txnclient.spark import reader, row_reader

        frame = row_reader.read_changed(spark, self, KINDS)
        return reader.keeping(self.snapshots, frame)

    def _touched(self) -> pa.Table:
        """The columns of the primary key."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from txnclient.formats import arrow

        names = list(self.schema.primary_key)
        keys = [arrow.read_files(self.in_one, self.schema, names)]
        for changes, above in self.later_changes():
            found = row_reads.latest_changes(changes, self.schema)
            later = pc.greater(found[COMMIT_TS], pa.scalar(above, pa.uint64()))
            keys.append(found.filter(later).select(names).cast(keys[0].schema))
        return pa.concat_tables(keys)

    def later_changes(self) -> list[tuple[RowChanges, Timestamp]]:
        """Row changes, and above which commit they touch rows: all that are overwritten since touch theirs."""
        found = []
        if self.new.changes is not None:
            found.append((self.new.changes, self.snapshots[0].timestamp))
        if self.old.changes is not None and (
            self.new.changes is None or self.new.changes.above > self.old.changes.above
        ):
            found.append((self.old.changes, NO_TIMESTAMP))
        return found


def _with_keys(side: TableFiles, touched: pa.Table) -> pa.Table:
    """The rows with these keys, in the order of their keys."""
    import pyarrow.compute as pc

    found = side.to_arrow(where=near(touched, side.schema))
    found = found.filter(pc.is_in(encode_keys(found, side.schema), value_set=encode_keys(touched, side.schema)))
    return found.take(pc.sort_indices(found, [(name, "ascending") for name in side.schema.primary_key]))


def _parted(rows: pa.Table, others: pa.Table, schema: Schema) -> Sequence[pa.Table]:
    """Those whose keys are not among the others, and those whose keys are."""
    import pyarrow.compute as pc

    known = pc.is_in(encode_keys(rows, schema), value_set=encode_keys(others, schema))
    return rows.filter(pc.invert(known)), rows.filter(known)
