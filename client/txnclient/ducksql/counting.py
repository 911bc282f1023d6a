"""Counts of all rows, which manifests tell: no file is opened for them, and DuckDB is not even loaded."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
from sqlglot import exp

from txnclient.control import system_tables
from txnclient.ducksql.reading import Reading
from txnclient.ducksql.trees import column_name


def counted(tree: exp.Expression, reading: Reading) -> pa.Table | None:
    """What `SELECT count(*) FROM table` comes to; None: it is another query, or the rows of one have to be looked at.

    Raises InvalidArgument, NotFound, and what reading manifests raises.
    """
    asked = _asked(tree)
    if asked is None or system_tables.is_one(name := reading.named(asked.table)):
        return None
    snapshot = reading.snapshot_of(asked.table)
    with snapshot.explained(name):
        found = snapshot.table_files(name)
    if found.changes is not None:
        return None
    # Values of Python's have pyarrow load pandas, where it is installed: that takes longer than all else here.
    count = pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(found.rows.to_bytes(8, "little"))])
    return pa.Table.from_arrays([count], names=[asked.name])


class _Asked(NamedTuple):
    """A count of all rows of a table."""

    table: exp.Table
    name: str
    """The column's name."""


_OF_A_QUERY = {"expressions", "from_"}
_OF_A_TABLE = {"this", "db", "catalog", "alias", "version"}


def _asked(tree: exp.Expression) -> _Asked | None:
    """None: it is another query."""
    if not isinstance(tree, exp.Select) or not _parts(tree) <= _OF_A_QUERY or "from_" not in _parts(tree):
        return None
    node, (what, *more) = tree.args["from_"].this, tree.selects
    counts = what.unalias()
    if more or not isinstance(counts, exp.Count) or not isinstance(counts.this, exp.Star) or counts.expressions:
        return None
    return _Asked(node, column_name(what)) if isinstance(node, exp.Table) and _parts(node) <= _OF_A_TABLE else None


def _parts(tree: exp.Expression) -> set[str]:
    return {name for name, value in tree.args.items() if value}
