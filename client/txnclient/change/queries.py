"""Queries inside of predicates: `x IN (SELECT y FROM db.table WHERE ...)`, over a table of the statement's snapshot.

The inner query is one of its own: it names columns of its table and of nothing else. Its rows are read when it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from txnclient.change.casts import BOOLEAN, NULL, Term
from txnclient.change.names import Relation
from txnclient.change.terms import SPARK_CAN, Terms, shown
from txnclient.read.table_files import TableFiles
from txnstatus.ddl import Type
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow

if TYPE_CHECKING:
    import duckdb

Tables = Callable[[str], TableFiles]
"""Finds a table as the statement's transaction sees it."""
MakeTerms = Callable[[Sequence[Relation], Callable[[str], Type]], Terms]


@dataclass
class Queries:
    """The inner queries of one statement."""

    connection: duckdb.DuckDBPyConnection
    tables: Tables
    make_terms: MakeTerms
    type_of: Callable[[str, str], Type]
    """Type of an expression over a relation that the engine knows by a name."""
    _count: int = field(default=0, init=False)

    def column(self, node: Any) -> tuple[Term, str]:
        """What a query selects, and the rest of it. Raises InvalidArgument, NotFound."""
        query = node.this if type(node).__name__ == "Subquery" else node
        parts = {name for name, value in query.args.items() if value}
        source = query.args.get("from_")
        plain = type(query).__name__ == "Select" and parts <= {"expressions", "from_", "where"}
        if not plain or len(query.expressions) != 1 or source is None or type(source.this).__name__ != "Table":
            raise InvalidArgument(
                f"{shown(node)}: a query inside is SELECT one value FROM database.table WHERE ..., without Spark",
                hint=f"{SPARK_CAN}; or give the rows to a MERGE",
            )
        there, relation = self._relation(source.this)
        self._count += 1
        name = f"query{self._count}"
        schema = to_arrow(there.schema)
        self.connection.register(f"no_{name}", schema.empty_table().rename_columns(list(relation.own_names)))
        terms = self.make_terms([relation], lambda sql: self.type_of(sql, f"no_{name}"))
        (value,) = query.expressions
        selected = terms.of(value.this if type(value).__name__ == "Alias" else value)
        rest = f"FROM {name}"
        if (where := query.args.get("where")) is not None:
            condition = terms.of(where.this)
            if condition.type not in (BOOLEAN, NULL):
                raise InvalidArgument(f"{shown(node)}: WHERE is {condition.type}, and has to be true or false")
            rest += f" WHERE {condition.sql}"
        own = [own for own in relation.own_names if own in terms.used] or [relation.own_names[0]]
        rows = there.to_arrow([schema.names[relation.own_names.index(each)] for each in own])
        self.connection.register(name, rows.rename_columns(own))
        return selected, rest

    def _relation(self, table: Any) -> tuple[TableFiles, Relation]:
        if not table.db or table.catalog:
            raise InvalidArgument(f"{shown(table)}: a table is named database.table")
        there = self.tables(f"{table.db}.{table.name}")
        names = ((table.alias,),) if table.alias else ((table.name,), (table.db, table.name))
        return there, Relation(f"q{self._count}_", names, there.schema.columns)
