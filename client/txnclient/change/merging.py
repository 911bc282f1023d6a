"""MERGE in programs without Spark.

Rows and source are joined on what ON needs of both, in files and row groups that the source's values come near to.
Conditions and new values are computed for the pairs that were found, with what columns these need besides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from txnclient.change import duck, names
from txnclient.change.names import Relation
from txnclient.change.plan import Act, Clause, Looked, MergePlan, Rows, RowsChanged
from txnclient.change.queries import Tables
from txnclient.change.scan import PLACE
from txnclient.change.sql import Expression, arrow_schema, of_default
from txnclient.change.statement import Statement, running
from txnclient.formats import arrow, schemas
from txnclient.formats.file_statistics import known_by, passing, python_of, rows_shown
from txnclient.read.table_files import TableFiles
from txnstatus.errors import InvalidArgument
from txnstatus.lake import data_files
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.lake.file_lists import rows_of
from txnstatus.names import fold

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

ROW = "row"
"""The column that says which row of the source it is."""
MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a MERGE may come to that another engine can do as well."""

    rows: int
    """Rows of files in which matches are looked for."""
    pairs: int
    """Matches."""


class BeyondBoundsError(Exception):
    """It would come to more than it may. Nothing was done."""


def merge(
    there: TableFiles,
    source: object,
    plan: MergePlan,
    *,
    tables: Tables | None = None,
    bounds: Bounds | None = None,
) -> RowsChanged:
    """What `MERGE INTO table USING source` does. `source`: what can be written to a table.

    Raises InvalidArgument, DataDamaged, and BeyondBoundsError where there are `bounds`.
    """
    plan.require(there.schema, there.name)
    rows, relation = _source(arrow.as_table(source), there.name)
    target = names.target(there.schema.columns)
    with running(there, target, relation, tables=tables) as statement:
        return _Merge(statement, plan, relation, rows, bounds).run()


def _source(rows: pa.Table, table: str) -> tuple[pa.Table, Relation]:
    """The source with the engine's names, and the numbers of its rows."""
    import numpy as np
    import pyarrow as pa

    columns = schemas.to_columns(rows.schema)
    seen: dict[str, str] = {}
    for column in columns:
        if seen.setdefault(fold(column.name), column.name) != column.name or rows.column_names.count(column.name) > 1:
            raise InvalidArgument(f"the source of the MERGE into {table} has column {column.name!r} twice")
    relation = names.source(columns)
    arrays = [
        each if pa.types.is_null(each.type) else each.cast(field.type)
        for each, field in zip(rows.columns, arrow_schema(columns), strict=True)
    ]
    numbers = pa.array(np.arange(rows.num_rows, dtype=np.int64))
    return pa.table([*arrays, numbers], names=[*relation.own_names, ROW]), relation


@dataclass(frozen=True, slots=True)
class _When:
    """A clause whose SQL was checked."""

    clause: Clause
    condition: Expression | None
    values: Mapping[str, Expression]
    """Column of the table → its new value."""


class _Merge:
    """One MERGE while it runs."""

    def __init__(
        self, statement: Statement, plan: MergePlan, source: Relation, rows: pa.Table, bounds: Bounds | None
    ) -> None:
        self._statement = statement
        self._plan = plan
        self._bounds = bounds
        self._source = source
        self._source_rows = rows
        self._there = statement.there
        self._on = statement.sql.predicate(plan.on, f"ON of the MERGE into {self._there.name}:")
        seen = {
            Rows.MATCHED: (statement.scan.target, source),
            Rows.NOT_MATCHED: (source,),
            Rows.NOT_MATCHED_BY_SOURCE: (statement.scan.target,),
        }
        self._whens = {
            rows: [self._checked(clause, visible) for clause in plan.of(rows)] for rows, visible in seen.items()
        }

    def run(self) -> RowsChanged:
        import numpy as np

        where, looked = self._near()
        if self._bounds is not None and self._rows_near(where, self._bounds.rows) > self._bounds.rows:
            raise BeyondBoundsError
        places, numbers = self._pairs(where)
        parts = [self._matched(places, numbers)]
        if self._whens[Rows.NOT_MATCHED]:
            parts.append(self._not_matched(np.delete(np.arange(self._source_rows.num_rows), numbers)))
        if self._whens[Rows.NOT_MATCHED_BY_SOURCE]:
            parts.append(self._not_matched_by_source(places))
        return self._changed(parts, looked if self._plan.inserts else ())

    # ---- SQL

    def _checked(self, clause: Clause, visible: Sequence[Relation]) -> _When:
        sql, schema = self._statement.sql, self._there.schema
        condition = None
        if clause.condition is not None:
            what = f"the condition of {clause.act.value} WHEN {clause.rows.value.upper()}"
            condition = sql.predicate(clause.condition, what, visible)
        values: dict[str, Expression] = {}
        if clause.act is Act.DELETE:
            return _When(clause, condition, values)
        if clause.values is None:
            for column in schema.columns:
                if fold(column.name) not in self._source.numbers:
                    raise InvalidArgument(
                        f"the source of the MERGE into {self._there.name} has no column {column.name!r}, of which "
                        f"{clause.act.value} of all columns takes the value",
                        hint="name the columns and their values",
                    )
                values[column.name] = sql.column(column.name, self._source, column)
            return _When(clause, condition, values)
        for column in schema.columns:
            if column.name in clause.values:
                values[column.name] = sql.value(clause.values[column.name], column, visible)
            elif clause.act is Act.INSERT:
                values[column.name] = sql.value(of_default(column), column, visible)
        return _When(clause, condition, values)

    # ---- which rows

    def _near(self) -> tuple[pc.Expression | None, tuple[Looked, ...]]:
        """Where rows can be that match, for this scan and for those who look at what others add."""
        pruning, looked = self._statement.pruning, []
        where = pruning.may_hold(self._on)
        for matching in pruning.matchings(self._on):
            value = matching.value.sql
            ends = self._statement.select([f"min({value}) AS low", f"max({value}) AS high"], self._source_rows)
            low, high = python_of(ends["low"][0]), python_of(ends["high"][0])
            near, found = pruning.near(matching, low, high), pruning.looked(matching, low, high)
            if near is not None:
                where = near if where is None else where & near
            looked += [found] if found is not None else []
        return where, tuple(looked)

    def _rows_near(self, where: pc.Expression | None, most: int) -> int:
        """The rows of files that may have one for which `where` holds; of all, where these are no more than `most`."""
        files, schema = self._there.files, self._there.schema.in_files
        if where is not None and rows_of(files) > most:
            known = known_by(schema, where, takes_no_nan=True)  # see change/pruning.py
            files = data_files.fitting(passing(files, schema, where), to_arrow(schema), where, known)
        return rows_of(files)

    def _pairs(self, where: pc.Expression | None) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The places of rows and the numbers of source rows for which ON holds, by place."""
        import numpy as np

        if self._on.sql == "FALSE" or not self._source_rows.num_rows:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        wanted = [own for own in self._source.own_names if own in self._on.used]
        most = f"LIMIT {self._bounds.pairs + 1}" if self._bounds is not None else ""
        found = duck.run(
            self._statement.connection,
            f"SELECT {PLACE}, {ROW} FROM rows JOIN source ON {self._on.sql} {most}",
            self._there.name,
            rows=self._statement.scan.rows(self._on.used, where),
            source=self._source_rows.select([*wanted, ROW]),
        )
        if self._bounds is not None and found.num_rows > self._bounds.pairs:
            raise BeyondBoundsError
        places, numbers = found[PLACE].to_numpy(), found[ROW].to_numpy()
        order = np.lexsort((numbers, places))
        return places[order], numbers[order]

    # ---- what becomes of them

    def _matched(self, places: np.ndarray[Any, Any], numbers: np.ndarray[Any, Any]) -> _Part:
        import numpy as np
        import pyarrow as pa

        whens = self._whens[Rows.MATCHED]
        if not whens or not len(places):
            return _Part()
        once, which = np.unique(places, return_inverse=True)
        rows = self._statement.scan.at(once, self._needed(whens))
        if len(once) < len(places) and rows.num_columns:
            rows = rows.take(pa.array(which))
        pairs = self._source_rows.take(pa.array(numbers))
        for name in rows.column_names:
            pairs = pairs.append_column(name, rows[name])
        pairs = pairs.append_column(PLACE, pa.array(places))
        acts = self._acts(pairs, whens)
        if [(when.clause.act, when.condition) for when in whens] != [(Act.DELETE, None)]:
            self._check_once(places[acts >= 0])
        return self._done(pairs, places, acts, whens)

    def _not_matched(self, numbers: np.ndarray[Any, Any]) -> _Part:
        import pyarrow as pa

        whens = self._whens[Rows.NOT_MATCHED]
        rows = self._source_rows.take(pa.array(numbers)).append_column(PLACE, pa.array(numbers))
        return self._done(rows, numbers, self._acts(rows, whens), whens)

    def _not_matched_by_source(self, matched: np.ndarray[Any, Any]) -> _Part:
        import numpy as np

        whens = self._whens[Rows.NOT_MATCHED_BY_SOURCE]
        scan = self._statement.scan
        rest = scan.without(np.unique(matched))
        used = frozenset[str]().union(*(when.condition.used for when in whens if when.condition is not None))
        if used:
            found = self._statement.acting(rest.rows(used), [when.condition for when in whens])
            places, acts = found[PLACE].to_numpy(), found["act"].to_numpy()
            places, acts = places[acts >= 0], acts[acts >= 0]
        else:
            places = rest.places_of_all()
            acts = np.zeros(len(places), np.int32)
        part = _Part()
        for number, when in enumerate(whens):
            here = np.sort(places[acts == number])
            rows = scan.at(here, self._needed([when]))
            part += self._done(rows, here, np.full(len(here), number), whens)
        return part

    def _needed(self, whens: Sequence[_When]) -> frozenset[str]:
        """The columns of the table that conditions and new values take."""
        own = self._statement.scan.target.own_names
        used = frozenset[str]()
        for when in whens:
            used |= when.condition.used if when.condition is not None else frozenset()
            used |= self._statement.needed(when.values) if when.clause.act is Act.UPDATE else frozenset()
        return used.intersection(own)

    def _acts(self, rows: pa.Table, whens: Sequence[_When]) -> np.ndarray[Any, Any]:
        """The number of the clause that acts on each row; -1: none does."""
        import numpy as np

        if whens[0].condition is None:
            return np.zeros(rows.num_rows, np.int32)
        acts: np.ndarray[Any, Any] = self._statement.acting(rows, [when.condition for when in whens])["act"].to_numpy()
        return acts

    def _done(
        self, rows: pa.Table, places: np.ndarray[Any, Any], acts: np.ndarray[Any, Any], whens: Sequence[_When]
    ) -> _Part:
        import numpy as np
        import pyarrow as pa

        part = _Part()
        for number, when in enumerate(whens):
            hit = acts == number
            if not hit.any():
                continue
            act = when.clause.act
            dead = np.unique(places[hit])
            if act is Act.DELETE:
                part += _Part({act: len(dead)}, (dead,))
                continue
            new = self._statement.changed(rows.filter(pa.array(hit)), when.values)
            part += _Part({act: new.num_rows}, () if act is Act.INSERT else (dead,), (new,))
        return part

    def _check_once(self, places: np.ndarray[Any, Any]) -> None:
        """Raises InvalidArgument, naming rows, for a place that comes twice."""
        import numpy as np

        once, counts = np.unique(places, return_counts=True)
        twice = once[counts > 1]
        if not len(twice):
            return
        target = self._statement.scan.target
        found = self._statement.scan.at(twice[:MAX_NAMED], self._on.used)
        columns = dict(zip(target.own_names, (column.name for column in target.columns), strict=True))
        rows = rows_shown(found.rename_columns([columns[own] for own in found.column_names]))
        raise InvalidArgument(
            f"{len(twice)} rows of table {self._there.name} are each matched by several rows of the source that change "
            f"them: {', '.join(rows)}{', ...' if len(twice) > MAX_NAMED else ''}",
            hint="a row can be changed once: leave one source row for each of its keys, or tell them apart in ON",
        )

    def _changed(self, parts: Sequence[_Part], looked: tuple[Looked, ...]) -> RowsChanged:
        import numpy as np
        import pyarrow as pa

        whole = _Part()
        for part in parts:
            whole += part
        places = np.sort(np.concatenate([np.empty(0, np.int64), *whole.dead]))
        counts = {act: whole.counts.get(act, 0) for act in Act}
        return replace(
            self._statement.scan.answer(places),
            rows=pa.concat_tables(whole.rows) if whole.rows else None,
            inserted=counts[Act.INSERT],
            updated=counts[Act.UPDATE],
            deleted=counts[Act.DELETE],
            looked=looked,
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """What some clauses did."""

    counts: Mapping[Act, int] = field(default_factory=dict)
    dead: tuple[np.ndarray[Any, Any], ...] = ()
    """Places of rows that die."""
    rows: tuple[pa.Table, ...] = ()
    """Rows that are added, with the table's columns."""

    def __add__(self, other: _Part) -> _Part:
        counts = {act: self.counts.get(act, 0) + other.counts.get(act, 0) for act in Act}
        return _Part(counts, self.dead + other.dead, self.rows + other.rows)
