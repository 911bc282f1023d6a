"""Rows of a table with a primary key, as a statement reads them: a place is a row's number among those that were read.

Where rows are changed by their keys, no position in a file tells which row is the one that counts: what is visible is
read, as every reader does, and the answer is the rows themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from txnclient.change.names import Relation
from txnclient.change.plan import RowsChanged
from txnclient.change.scan import PLACE
from txnclient.read.table_files import TableFiles

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc


@dataclass(frozen=True)
class Visible:
    """As `Scan`. What the first look at the rows has left out is not seen by a later one."""

    there: TableFiles
    target: Relation
    needs_all: bool
    """Whether rows count for which the statement's predicate cannot hold."""
    hidden: Any = None
    """Places of rows that are passed over; None: of none."""
    _read: list[pa.Table] = field(default_factory=list)

    def rows(self, columns: Iterable[str], where: pc.Expression | None = None) -> Iterator[pa.Table]:
        import pyarrow as pa

        table = self._table(where)
        places = self.places_of_all()
        found = table.select(self._ordered(columns))
        if len(places) < table.num_rows:
            found = found.take(pa.array(places))
        yield pa.Table.from_arrays([*found.columns, pa.array(places)], names=[*found.column_names, PLACE])

    def at(self, places: np.ndarray[Any, Any], columns: Iterable[str]) -> pa.Table:
        import pyarrow as pa

        return self._table(None).select(self._ordered(columns)).take(pa.array(places))

    def places_of_all(self) -> np.ndarray[Any, Any]:
        import numpy as np

        found = np.arange(self._table(None).num_rows, dtype=np.int64)
        return found if self.hidden is None else np.delete(found, self.hidden)

    def without(self, places: np.ndarray[Any, Any]) -> Visible:
        import numpy as np

        return replace(self, hidden=places if self.hidden is None else np.union1d(self.hidden, places))

    def answer(self, places: np.ndarray[Any, Any]) -> RowsChanged:
        if not len(places):
            return RowsChanged({})
        names = [column.name for column in self.target.columns]
        return RowsChanged({}, gone=self.at(places, self.target.own_names).rename_columns(names))

    def _table(self, where: pc.Expression | None) -> pa.Table:
        if not self._read:
            found = self.there.to_arrow(where=None if self.needs_all else where)
            self._read.append(found.rename_columns(list(self.target.own_names)))
        return self._read[0]

    def _ordered(self, columns: Iterable[str]) -> list[str]:
        wanted = set(columns)
        return [own for own in self.target.own_names if own in wanted]
