"""Tables of files for tests of statements that change rows: made, changed by what an engine answers, and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from txnclient.change.plan import RowsChanged
from txnclient.formats import arrow, schemas
from txnclient.read.table_files import TableFiles
from txnstatus.lake import dead_rows
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.schema import Schema

Row = dict[str, Any]


def schema_of(ddl: str, partition_by: Sequence[str] = ()) -> Schema:
    return Schema(tuple(schemas.to_columns(ddl)), tuple(partition_by))


@dataclass
class World:
    """A table whose writes go to directories of its own."""

    directory: Path
    there: TableFiles
    _writes: int = 0

    @classmethod
    def of(cls, directory: Path, schema: Schema, parts: Iterable[Sequence[Row]], name: str = "db.t") -> World:
        """Each part is written by itself."""
        world = cls(directory, TableFiles(name, schema, ()))
        for part in parts:
            world.add(pa.Table.from_pylist(list(part), schema=to_arrow(schema)))
        return world

    def add(self, rows: pa.Table) -> None:
        self._writes += 1
        there = self.there
        files = arrow.write_files(rows, (self.directory / f"w{self._writes}").as_uri(), there.schema, there.name)
        self.there = replace(there, files=(*there.files, *files))

    def apply(self, changed: RowsChanged) -> None:
        """As a transaction does. Checks what every engine promises of its answer."""
        counts = {file.path: file.rows for file in self.there.files}
        for path, positions in changed.dead.items():
            assert positions, f"{path} is named, and no row of it"
            assert positions.max() < counts[path]
            assert positions.isdisjoint(self.there.dead.get(path, positions - positions))
        assert sum(map(len, changed.dead.values())) == changed.updated + changed.deleted
        added = 0 if changed.rows is None else changed.rows.num_rows
        assert added == changed.inserted + changed.updated
        self.there = replace(self.there, dead=dead_rows.union([self.there.dead, changed.dead]))
        if changed.rows is not None:
            assert changed.rows.schema.equals(to_arrow(self.there.schema))
            self.add(changed.rows)

    def rows(self) -> list[Row]:
        found: list[Row] = self.there.to_arrow().to_pylist()
        return found


def counted(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The rows, in no order, each as often as it is there."""
    return Counter(repr(sorted(row.items())) for row in rows)
