"""One DELETE, UPDATE or MERGE over a table's files, while it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from txnclient.change import duck
from txnclient.change.laid_out import KeyedScan
from txnclient.change.names import Relation
from txnclient.change.pruning import Pruning
from txnclient.change.queries import Tables
from txnclient.change.scan import PLACE, Scan
from txnclient.change.sql import Expression, Sql
from txnclient.formats import fitting
from txnclient.read.table_files import TableFiles
from txnstatus.errors import InternalError
from txnstatus.lake.arrow_types import to_arrow

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True)
class Statement:
    """What the parts of a statement share."""

    there: TableFiles
    scan: Scan
    sql: Sql
    pruning: Pruning
    connection: duckdb.DuckDBPyConnection

    def hit(self, where: Expression) -> np.ndarray[Any, Any]:
        """The places of the rows for which it holds, in order."""
        import numpy as np

        if where.is_true:
            return self.scan.places_of_all()
        if not where.used:
            return np.empty(0, np.int64)
        rows = self.scan.rows(where.used, self.pruning.may_hold(where), narrowed=True)
        places = self.select([PLACE], rows, f"WHERE {where.sql}")[PLACE].to_numpy()
        return np.sort(places, kind="stable")  # they are in order already, mostly, which it finds at once

    def select(self, what: Sequence[str], rows: pa.Table | Iterator[pa.Table], rest: str = "") -> pa.Table:
        """What DuckDB makes of rows, in their order."""
        return duck.run(self.connection, f"SELECT {', '.join(what)} FROM rows {rest}", self.there.name, rows=rows)

    def acting(self, rows: pa.Table | Iterator[pa.Table], conditions: Sequence[Expression | None]) -> pa.Table:
        """As `rows`, the places with the number of the first condition that holds, which is -1 where none does."""
        whens = " ".join(
            f"WHEN {'TRUE' if condition is None else condition.sql} THEN {number}"
            for number, condition in enumerate(conditions)
        )
        return self.select([PLACE, f"CAST(CASE {whens} ELSE -1 END AS INTEGER) AS act"], rows)

    def needed(self, new: Mapping[str, Expression]) -> frozenset[str]:
        """The columns of the table, by the engine's names, from which new rows are made."""
        own = self.scan.target.own_names
        kept = (name for name, column in zip(own, self.there.schema.columns, strict=True) if column.name not in new)
        return frozenset(kept).union(*(each.used for each in new.values())).intersection(own)

    def changed(self, rows: pa.Table, new: Mapping[str, Expression]) -> pa.Table:
        """The rows with new values, in the table's columns. Raises InvalidArgument for a null where none may be."""
        import pyarrow as pa

        schema = self.there.schema
        computed = self.select([f"{each.sql} AS c{number}" for number, each in enumerate(new.values())], rows)
        if computed.num_rows != rows.num_rows:
            raise InternalError(f"{rows.num_rows} rows of {self.there.name} became {computed.num_rows}")
        values = dict(zip(new, computed.columns, strict=True))
        target = to_arrow(schema)
        columns = [
            fitting.cast(values[name], target.field(name), self.there.name) if name in values else rows[own]
            for name, own in zip(target.names, self.scan.target.own_names, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=target)


@contextmanager
def running(
    there: TableFiles, target: Relation, *others: Relation, tables: Tables | None = None
) -> Iterator[Statement]:
    """A statement over the table, which goes by the name of `target` in it.

    `tables`: those that queries inside may read; None: there can be no such queries.
    """
    scan = KeyedScan.of(there, target) if there.schema.primary_key else Scan(there, target)
    with duck.connected() as connection:
        sql = Sql(there.name, connection, (target, *others), datetime.now(UTC), tables)
        yield Statement(there, scan, sql, Pruning(sql, target, others), connection)
