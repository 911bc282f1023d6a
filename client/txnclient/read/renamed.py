"""Reading columns that are called otherwise than in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

from txnclient.formats import file_statistics
from txnstatus.lake import data_files
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.manifest import DataFile
from txnstatus.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc


class Rows(Protocol):
    """What is read by the names in files: a TableFiles."""

    @property
    def files(self) -> Sequence[DataFile]: ...
    def only(self, kept: Iterable[bool]) -> Self: ...
    def to_arrow(self, columns: Sequence[str] | None = None, where: pc.Expression | None = None) -> pa.Table: ...
    def batches(self, columns: Sequence[str] | None, where: pc.Expression | None) -> Iterator[pa.RecordBatch]: ...


@dataclass(frozen=True, slots=True)
class Renamed:
    """Rows by the names that columns have now, of files that know them by others."""

    there: Rows
    """The rows by the names of files."""
    schema: Schema
    """The columns by the names of now."""
    target: pa.Schema
    """The columns that are wanted, as they are called now."""
    where: pc.Expression | None

    def to_arrow(self) -> pa.Table:
        """All rows. Raises what `TableFiles.to_arrow` raises."""
        import pyarrow as pa

        if not self._is_about_names:
            return self._called(self.there.to_arrow(self._in_files(self.target.names), self.where))
        return pa.Table.from_batches(self._looked_at(), self.target)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same, a batch at a time."""
        import pyarrow as pa

        if self._is_about_names:
            yield from self._looked_at()
            return
        for batch in self.there.batches(self._in_files(self.target.names), self.where):
            yield from self._called(pa.Table.from_batches([batch])).to_batches()

    @property
    def _is_about_names(self) -> bool:
        """Whether the filter may name a column that has two names, by one or the other: nobody translates it."""
        said = "" if self.where is None else str(self.where)
        return any(name in said for each in self.schema.columns if each.stored for name in (each.name, each.stored))

    def _looked_at(self) -> Iterator[pa.RecordBatch]:
        """By a look at all rows of the files that may have some: what manifests know is told by the names of now."""
        import pyarrow as pa

        where, schema = self.where, self.schema
        assert where is not None
        files = file_statistics.passing(self.there.files, schema, where)
        near = data_files.fitting(files, to_arrow(schema), where, file_statistics.known_by(schema, where))
        kept = {file.path for file in near}
        there = self.there.only(file.path in kept for file in self.there.files)
        about = (field.name for field in file_statistics.about(schema, where))
        names = list(dict.fromkeys([*self.target.names, *about]))
        for batch in there.batches(self._in_files(names or [schema.columns[0].name]), None):
            rows = pa.Table.from_batches([batch]).rename_columns(names or [schema.columns[0].name])
            yield from self._called(rows.filter(where).select(self.target.names)).to_batches()

    def _called(self, rows: pa.Table) -> pa.Table:
        return rows.rename_columns(self.target.names).cast(self.target)

    def _in_files(self, names: list[str]) -> list[str]:
        by_name = self.schema.names_in_files
        return [by_name[name] for name in names]
