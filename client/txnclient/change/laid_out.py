"""Tables with a primary key as statements read them: rows of files that count, by position, and rows in no file.

A row that was changed by its key hides those of files with the same key. Here these are dead as if they had been
deleted by position, so what is left is known by positions alone; the changed rows themselves are loose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from txnclient.change.names import Relation, target
from txnclient.change.plan import RowsChanged
from txnclient.change.scan import PLACE, Scan
from txnclient.read import row_reads
from txnclient.read.table_files import TableFiles
from txnstatus.lake import dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.rows import COMMIT_TS, DELETED, between, key_column

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyroaring import BitMap


@dataclass(frozen=True)
class LaidOut:
    """All rows of a table, each once."""

    files: TableFiles
    """The files, without row changes: what these hide is dead."""
    loose: Any
    """Rows in no file, with the table's columns: a pyarrow Table."""


def laid_out(there: TableFiles) -> LaidOut:
    """Reads the row changes, and the keys of rows that they may hide. Raises DataDamaged."""
    import pyarrow.compute as pc

    schema = to_arrow(there.schema)
    if there.changes is None:
        return LaidOut(there, schema.empty_table())
    latest = row_reads.latest_changes(there.changes, there.schema)
    loose = latest.filter(pc.invert(latest[DELETED])).select(schema.names).cast(schema)
    dead = dead_rows.union([there.dead, _hidden(there, latest)])
    return LaidOut(replace(there, changes=None, dead=dead), loose)


def _hidden(there: TableFiles, latest: pa.Table) -> dict[str, BitMap]:
    """The rows of files that were changed by key after their files came."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    assert there.changes is not None
    if not latest.num_rows:
        return {}
    scan = _scan(there)
    keys, commits = key_column(latest, there.schema), latest[COMMIT_TS].combine_chunks()
    found = [np.empty(0, np.int64)]
    for rows, places in _keys(scan, between(latest, there.schema)):
        at = pc.index_in(key_column(rows, there.schema), value_set=keys)
        since = pa.scalar(there.changes.file_times[places[0] >> 32], pa.uint64())
        hit = pc.fill_null(pc.greater_equal(commits.take(at), since), fill_value=False)
        found.append(places[hit.to_numpy(zero_copy_only=False)])
    return scan.bitmaps(np.sort(np.concatenate(found)))


def with_keys(there: TableFiles, keys: pa.Table) -> dict[str, BitMap]:
    """The rows of the files, without row changes, that have one of these keys. Raises DataDamaged."""
    import numpy as np
    import pyarrow.compute as pc

    if not keys.num_rows:
        return {}
    scan, wanted = _scan(there), key_column(keys, there.schema)
    found = [np.empty(0, np.int64)]
    for rows, places in _keys(scan, between(keys, there.schema)):
        hit = pc.is_in(key_column(rows, there.schema), value_set=wanted)
        found.append(places[hit.to_numpy(zero_copy_only=False)])
    return scan.bitmaps(np.sort(np.concatenate(found)))


def _scan(there: TableFiles) -> Scan:
    return Scan(replace(there, changes=None), target(there.schema.columns))


def _keys(scan: Scan, where: pc.Expression) -> Iterator[tuple[pa.Table, np.ndarray[Any, Any]]]:
    """The key columns of row groups that may have a row for which `where` holds, and the rows' places."""
    names = scan.there.schema.primary_key
    own = [scan.target.own_name(name) for name in names]
    for rows in scan.rows(own, where):
        if rows.num_rows:
            yield rows.select(own).rename_columns(list(names)), rows[PLACE].to_numpy()


@dataclass(frozen=True)
class KeyedScan(Scan):
    """As `Scan`, of all rows: the loose ones have places behind those of the last file."""

    loose: Any
    """The loose rows, by the engine's names."""
    passed_over: Any = None
    """Places of loose rows that are left out; None: of none."""

    @classmethod
    def of(cls, there: TableFiles, target: Relation) -> KeyedScan:
        found = laid_out(there)
        return cls(found.files, target, found.loose.rename_columns(list(target.own_names)))

    def rows(
        self, columns: Iterable[str], where: pc.Expression | None = None, *, narrowed: bool = False
    ) -> Iterator[pa.Table]:
        """As of the files; all loose rows come, whatever `where` says."""
        import pyarrow as pa

        wanted = list(columns)
        yield from super().rows(wanted, where, narrowed=narrowed)
        if names := self._ordered(wanted):  # without columns, it has told the places of all
            places = self._loose_places()
            rows = self.loose.select(names).take(pa.array(places - self._first))
            yield rows.cast(self._schema(names)).append_column(PLACE, pa.array(places))

    def at(self, places: np.ndarray[Any, Any], columns: Iterable[str]) -> pa.Table:
        import pyarrow as pa

        wanted = list(columns)
        inside, loose = self._parted(places)
        found = super().at(inside, wanted)
        if not len(loose) or not found.num_columns:
            return found
        rows = self.loose.select(found.column_names).take(pa.array(loose - self._first))
        return pa.concat_tables([found, rows.cast(found.schema)])

    def places_of_all(self) -> np.ndarray[Any, Any]:
        import numpy as np

        return np.concatenate([super().places_of_all(), self._loose_places()])

    def without(self, places: np.ndarray[Any, Any]) -> KeyedScan:
        import numpy as np

        inside, loose = self._parted(places)
        dead = dead_rows.union([self.there.dead, self.bitmaps(inside)])
        gone = loose if self.passed_over is None else np.union1d(self.passed_over, loose)
        return replace(self, there=replace(self.there, dead=dead), passed_over=gone)

    def answer(self, places: np.ndarray[Any, Any]) -> RowsChanged:
        import pyarrow as pa

        inside, loose = self._parted(places)
        keys = [self.target.own_name(name) for name in self.there.schema.primary_key]
        gone = self.loose.select(keys).take(pa.array(loose - self._first))
        return RowsChanged(self.bitmaps(inside), gone=gone.rename_columns(list(self.there.schema.primary_key)))

    @property
    def _first(self) -> int:
        """The place of the first loose row."""
        return len(self.there.files) << 32

    def _loose_places(self) -> np.ndarray[Any, Any]:
        import numpy as np

        found = np.arange(self._first, self._first + self.loose.num_rows, dtype=np.int64)
        return found if self.passed_over is None else np.setdiff1d(found, self.passed_over)

    def _parted(self, places: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Places in files, and places of loose rows; all are in order."""
        import numpy as np

        middle = np.searchsorted(places, self._first)
        return places[:middle], places[middle:]
