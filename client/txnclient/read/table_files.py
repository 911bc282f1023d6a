"""TableFiles: what a reader sees of one table."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import TYPE_CHECKING

from txnclient.read import manifests, row_reads
from txnclient.read.renamed import Renamed
from txnclient.read.row_reads import RowChanges
from txnstatus.errors import InvalidArgument
from txnstatus.lake import data_files, kept_dead_rows
from txnstatus.lake.dead_rows import DeadRows
from txnstatus.lake.file_lists import Files, rows_of
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import WRITE_PREFIX
from txnstatus.partitions import covers
from txnstatus.proto import table_pb2 as pb
from txnstatus.schema import Schema
from txnstatus.types import Timestamp

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds


@dataclass(frozen=True, slots=True)
class TableFiles:
    """A list of files, and the schema they are read with."""

    name: str
    schema: Schema
    files: Sequence[DataFile]
    changes: RowChanges | None = None
    """Row changes, where there are any."""
    dead: DeadRows = field(default_factory=dict)
    """Rows of the files that are deleted: files that have none are not in it."""
    writes: tuple[tuple[str, Sequence[DataFile]], ...] = field(default=(), compare=False, repr=False)
    """The transaction and the write, as the service has them in ids of file sets, and the files that came with it."""
    own_writes: int = field(default=0, compare=False)
    """How many writes of the reader's own transaction are in it."""
    lease: object = field(default=None, compare=False, repr=False)
    """The lease by which the files stay until it is garbage; None: whoever has these keeps it."""

    @classmethod
    def of(cls, response: pb.ScanResponse, at: Timestamp) -> TableFiles:
        """Reads the manifests and the dead rows, and raises what that raises. `at`: the timestamp of the scan."""
        listed = manifests.read(response.manifests)
        changes = RowChanges.of(response, at, [len(each) for each in listed])
        files = Files(listed)
        schema = Schema.from_wire(response.table.schema)
        if response.replacing:
            own = [file for each in listed[-response.replacing :] for file in each]
            changes = row_reads.replacing(changes, files, own, schema, at)
        gone = kept_dead_rows.of_files(kept_dead_rows.read(response.dead), files)
        writes = tuple(zip(map(_write_of, response.manifests), listed, strict=True))
        return cls(response.table.name, schema, files, changes, gone, writes, response.own_writes)

    @property
    def rows(self) -> int:
        """The number of rows in the files, without dead ones: row changes add to them, and take from them."""
        return rows_of(self.files) - sum(map(len, self.dead.values()))

    @property
    def are_the_table(self) -> bool:
        """Whether the table's rows are those of the files, no row more and no less."""
        return self.changes is None and not self.dead

    def file_sets(self, wanted: Collection[str]) -> dict[str, str]:
        """URI of a file → the id of the file set that it is in, as the service has it, of those that are wanted."""
        return {
            file.path: f"{write}/{file.partition}"
            for write, files in self.writes
            for file in files
            if file.path in wanted
        }

    def within(self, partition: str) -> TableFiles:
        """The files in the partition, which have no other rows. Row changes stay: they may be of any."""
        return self.only(covers({partition}, file.partition) for file in self.files)

    def only(self, kept: Iterable[bool]) -> TableFiles:
        """Some of the files, by one word for each, and all row changes."""
        kept = list(kept)
        files = tuple(compress(self.files, kept))
        changes = self.changes and replace(self.changes, file_times=tuple(compress(self.changes.file_times, kept)))
        return replace(self, files=files, changes=changes, dead=kept_dead_rows.of_files(self.dead, files))

    def at(self, positions: DeadRows) -> TableFiles:
        """The rows at these positions alone, of those in files."""
        from pyroaring import BitMap

        files = tuple(file for file in self.files if positions.get(file.path))
        others = {file.path: BitMap(range(file.rows)) - positions[file.path] for file in files}
        return replace(self, files=files, changes=None, dead={path: gone for path, gone in others.items() if gone})

    def with_columns(self, columns: Sequence[str] | None) -> TableFiles:
        """The same of fewer columns: these, those that say in which partition a row is, and all where rows changed.

        Raises InvalidArgument.
        """
        wanted = {*self.target(columns).names, *self.schema.partition_by}
        if self.changes is not None or not wanted:
            return self
        kept = tuple(each for each in self.schema.columns if each.name in wanted)
        return replace(self, schema=replace(self.schema, columns=kept, primary_key=()))

    def to_arrow(self, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table:
        """As `Snapshot.to_arrow`."""
        from txnclient.formats import arrow

        _require_filter(where)
        if self.schema.is_renamed:
            return self._renamed(columns, where).to_arrow()
        if not self.are_the_table and columns is not None and not columns:
            return self.to_arrow([self.schema.columns[0].name], where).select([])  # tables of no column do not add up
        if self.changes is not None:
            return row_reads.read(self.files, self.changes, self.schema, columns, where, self.dead)
        return arrow.read_files(self.files, self.schema, columns, where, self.dead)

    def batches(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """As `Snapshot.to_batches`."""
        from txnclient.formats import arrow

        _require_filter(where)
        if self.schema.is_renamed:
            return self._renamed(columns, where).batches()
        if self.changes is not None:
            return row_reads.batches(self.files, self.changes, self.schema, columns, where, self.dead)
        return arrow.read_batches(self.files, self.schema, columns, where, self.dead)

    def _renamed(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Renamed:
        return Renamed(self.in_files, self.schema, self.target(columns), where)

    @property
    def in_files(self) -> TableFiles:
        """The same by the names that columns have in files."""
        return replace(self, schema=self.schema.in_files)

    def target(self, columns: Sequence[str] | None) -> pa.Schema:
        """The schema of those columns, or of all."""
        from txnclient.formats import arrow

        return arrow.chosen(self.schema, columns)

    def dataset(self) -> ds.Dataset:
        """The files, of which there are some, with dead rows and all, by the names that columns have there.

        Raises DataDamaged; what is read from it later verifies pages.
        """
        with data_files.opened(self.files, self.in_files.target(None)) as dataset:
            return dataset


def _require_filter(where: object) -> None:
    import pyarrow.compute as pc

    if where is not None and not isinstance(where, pc.Expression):
        raise InvalidArgument(
            f"where is a pyarrow expression, not a {type(where).__name__}", hint='such as pc.field("id") > 1'
        )


def _write_of(ref: pb.ManifestRef) -> str:
    """The transaction and the write whose manifest it is: the manifest lies in the write's directory."""
    return ref.path.rsplit("/", 2)[-2].removeprefix(WRITE_PREFIX)
