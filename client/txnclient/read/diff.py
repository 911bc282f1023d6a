"""What changed in a table between two snapshots: whole writes that came and went, or single rows (see row_diff)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txnclient.formats import manifest
from txnclient.formats.manifest import DataFile
from txnclient.read.row_diff import DELETE, INSERT, KeyedChanges
from txnclient.snapshot import Snapshot, TableFiles
from txnstatus.errors import InvalidArgument, NotFound
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

CHANGE_KIND = "_change_kind"
"""The column that says what became of a row."""


@dataclass(frozen=True, slots=True)
class Changes:
    """The files of the rows that went and of those that came; what came and went in between is in neither."""

    schema: Schema
    files: dict[str, tuple[DataFile, ...]]
    """By DELETE and INSERT, in this order."""
    snapshots: tuple[Snapshot, Snapshot]

    def to_arrow(self) -> pa.Table:
        import pyarrow as pa

        from txnclient.formats import arrow

        parts = []
        for kind, files in self.files.items():
            rows = arrow.read_files(files, self.schema, None)
            column = pa.repeat(pa.scalar(kind), rows.num_rows)
            parts.append(rows.append_column(pa.field(CHANGE_KIND, pa.string(), nullable=False), column))
        return pa.concat_tables(parts)

    def to_spark(self, spark: SparkSession) -> DataFrame:
        from txnclient.spark import reader

        return reader.keeping(self.snapshots, reader.read_kinds(spark, self.files, self.schema, CHANGE_KIND))


def between(old: Snapshot, new: Snapshot, table: str) -> Changes | KeyedChanges:
    """Raises InvalidArgument when they are in the wrong order, or the table has a column of the reserved name."""
    if old.timestamp > new.timestamp:
        raise InvalidArgument(f"since {old.timestamp} is after until {new.timestamp}: nothing lies between")
    after = new.scan(table)
    schema = Schema.from_wire(after.table.schema)
    if any(column.name == CHANGE_KIND for column in schema.columns):
        raise InvalidArgument(f"{table} has a column {CHANGE_KIND!r}: that name is the one that says what changed")
    try:
        before = old.scan(table)
    except NotFound:
        before = pb.ScanResponse(table=after.table)  # it was created since: all that it holds has come
    went, came = _only_in(before, after), _only_in(after, before)
    with old.explained(table):
        if before.HasField("changes") or after.HasField("changes"):
            sides = TableFiles.of(before, old.timestamp), TableFiles.of(after, new.timestamp)
            return KeyedChanges(schema, *sides, _files([*went, *came]), (old, new), CHANGE_KIND)
        files = {DELETE: _files(went), INSERT: _files(came)}
    return Changes(schema, files, (old, new))


def _files(refs: Iterable[pb.ManifestRef]) -> tuple[DataFile, ...]:
    return tuple(file for ref in refs for file in manifest.read(ref))


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


def _partitions(ref: pb.ManifestRef) -> list[str]:
    return list(ref.partitions) or [WHOLE_TABLE]
