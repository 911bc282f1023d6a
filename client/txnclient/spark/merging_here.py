"""A MERGE of few rows, of which nothing is computed: done in this process.

Most of the seconds that Spark takes for it are for the start of a dozen small jobs. It is done here only where both
engines cannot but come to the same: rows match by equal columns of equal types, and become rows as they are. Whatever
else SQL says, and whatever is large, is Spark's.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from txnclient.change import merging
from txnclient.change.plan import Act, Clause, MergePlan, Rows, RowsChanged
from txnclient.formats import schemas
from txnclient.read.row_reads import MAX_KEYS
from txnclient.read.table_files import TableFiles
from txnclient.spark.alive_rows import has_jvm
from txnclient.spark.expressions import equated, running
from txnstatus.ddl import parse
from txnstatus.names import fold, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

MAX_ROWS, MAX_BYTES = 100_000, 64 << 20
"""The size of a source, about."""
BOUNDS = merging.Bounds(rows=MAX_KEYS, pairs=2 * MAX_ROWS)
_OF_SOURCE = re.compile(r"\s*source\.(\w+)\s*", re.ASCII | re.IGNORECASE)
"""A value that is a column of the source."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A MERGE that this process can do."""

    plan: MergePlan
    columns: tuple[str, ...]
    """The source's columns that it takes."""


def asked(there: TableFiles, target: DataFrame, source: DataFrame, plan: MergePlan, on: Column) -> Asked | None:
    """What is asked of the engine of this process; None: Spark has to do it.

    `target`, `source`: as `on` knows them, by these names. All SQL of the plan was checked by Spark.
    """
    if not has_jvm(source.sparkSession) or not all(map(importlib.util.find_spec, ("duckdb", "sqlglot"))):
        return None
    compared = equated(target, source, on)
    if compared is None or not {name for name, _ in compared}.issuperset(there.schema.primary_key):
        return None  # keys of new rows may have to be looked for in all files
    taken: dict[str, str] = {}
    for clause in plan.clauses:
        if clause.condition is not None or clause.rows is Rows.NOT_MATCHED_BY_SOURCE:
            return None
        for column, value in _values(clause, there):
            if value is None or taken.setdefault(column, value) != value:
                return None
    if not _are_alike(there, source, taken):
        return None
    text = " AND ".join(f"target.{quoted(column)} = source.{quoted(value)}" for column, value in compared)
    return Asked(
        MergePlan(text, plan.clauses), tuple({fold(name): name for _, name in [*compared, *taken.items()]}.values())
    )


def _values(clause: Clause, there: TableFiles) -> Iterator[tuple[str, str | None]]:
    """Columns of the table, each with the column of the source whose value it gets; None: with something else."""
    if clause.values is None:
        yield from ((column.name, column.name) for column in there.schema.columns if clause.act is not Act.DELETE)
        return
    for name, text in clause.values.items():
        found = _OF_SOURCE.fullmatch(text)
        yield name, found and found[1]


def _are_alike(there: TableFiles, source: DataFrame, taken: dict[str, str]) -> bool:
    """Whether each column has the type of the one whose values it gets, and names mean columns.

    How large lists and structs are, nobody knows before they are here.
    """
    given = {fold(field.name): field for field in source.schema}
    if not given.keys().isdisjoint(("source", "target")):
        return False
    wanted = {column.name: parse(column.type) for column in there.schema.columns}
    kinds = {name: given[fold(value)] for name, value in taken.items() if fold(value) in given}
    columns = schemas.to_columns(type(source.schema)(list(kinds.values())))
    found = {name: parse(column.type, data=True) for name, column in zip(kinds, columns, strict=True)}
    return found == {name: wanted[name] for name in taken} and not any(kind.inner for kind in found.values())


def merge(there: TableFiles, source: DataFrame, what: Asked) -> RowsChanged | None:
    """What comes of it. `source`: a small one, which says the same each time. None: it is too much for this process."""
    with running(there.name):
        rows = source.select(*map(quoted, what.columns)).toArrow()
    try:
        return merging.merge(there, rows, what.plan, bounds=BOUNDS)
    except merging.BeyondBoundsError:
        return None
