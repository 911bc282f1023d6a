"""DELETE and UPDATE in programs without Spark: files are read with pyarrow, and DuckDB says what holds.

That is asked of the predicate's columns alone, where their ranges let it hold; the rest of a row is read once it is
known to change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from txnclient.change.merge import checked_text, checked_values
from txnclient.change.names import of_table
from txnclient.change.plan import RowsChanged
from txnclient.change.queries import Tables
from txnclient.change.statement import running
from txnclient.read.table_files import TableFiles


def delete(there: TableFiles, predicate: str, *, tables: Tables | None = None) -> RowsChanged:
    """What `DELETE FROM table WHERE predicate` does. Raises InvalidArgument, DataDamaged."""
    what = f"DELETE from table {there.name} where"
    checked_text(predicate, what)
    with running(there, of_table(there.name, there.schema.columns), tables=tables) as statement:
        places = statement.hit(statement.sql.predicate(predicate, what))
        return replace(statement.scan.answer(places), deleted=len(places))


def update(
    there: TableFiles, values: Mapping[str, str], predicate: str, *, tables: Tables | None = None
) -> RowsChanged:
    """What `UPDATE table SET ... WHERE predicate` does. Raises InvalidArgument, DataDamaged."""
    what = f"UPDATE of table {there.name} where"
    checked_text(predicate, what)
    checked = checked_values(values, there.schema, there.name)
    with running(there, of_table(there.name, there.schema.columns), tables=tables) as statement:
        where = statement.sql.predicate(predicate, what)
        types = {column.name: column for column in there.schema.columns}
        new = {name: statement.sql.value(text, types[name]) for name, text in checked.items()}
        places = statement.hit(where)
        if not len(places):
            return RowsChanged({})
        rows = statement.changed(statement.scan.at(places, statement.needed(new)), new)
        return replace(statement.scan.answer(places), rows=rows, updated=len(places))
