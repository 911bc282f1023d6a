"""SQL text of a statement: read by sqlglot, checked against the columns, and put into DuckDB's words.

It is Spark SQL under ANSI rules, which sqlglot calls the dialect of Databricks; its `spark` is without them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from txnclient.change import functions, terms
from txnclient.change.casts import BOOLEAN, NULL, Term, stored
from txnclient.change.names import Relation
from txnclient.change.queries import Queries, Tables
from txnclient.change.terms import Terms
from txnstatus.ddl import Type, parse
from txnstatus.errors import InvalidArgument
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.names import fold, quoted
from txnstatus.schema import Column, Schema

if TYPE_CHECKING:
    import duckdb

DIALECT = "databricks"
_MAKERS = terms.MAKERS | functions.MAKERS
_INCOMPLETE = re.compile(r"Required keyword: '\w+' missing for <class '[\w.]*\.(\w+)'>")
_TOKEN = re.compile(r"<Token token_type: TokenType\.(\w+), text: (.*), line: \d+, col: \d+.*>", re.DOTALL)
_OWN_TYPES = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "integer": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "varchar": "string",
    "blob": "binary",
    "date": "date",
    "timestamp with time zone": "timestamp",
    "timestamp": "timestamp_ntz",
}
"""Our type by the name of DuckDB's."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression that was checked, for the engine."""

    text: str
    """What was written."""
    sql: str
    used: frozenset[str]
    """The engine's names of the columns in it."""
    tree: Any
    """What sqlglot has read."""

    @property
    def is_true(self) -> bool:
        return self.sql == "TRUE"


class Sql:
    """Makes expressions of text, over the relations of one statement."""

    def __init__(
        self,
        table: str,
        connection: duckdb.DuckDBPyConnection,
        relations: Sequence[Relation],
        now: datetime,
        tables: Tables | None = None,
    ) -> None:
        import pyarrow as pa

        self._table = table
        self._connection = connection
        self._relations = relations
        self._now = now
        self._queries = Queries(connection, tables, self._inner_terms, self._type_of) if tables else None
        fields = [
            pa.field(own, field.type)
            for relation in relations
            for own, field in zip(relation.own_names, arrow_schema(relation.columns), strict=True)
        ]
        connection.register("nothing", pa.schema(fields).empty_table())

    def predicate(self, text: str, what: str, visible: Sequence[Relation] | None = None) -> Expression:
        """What is true, false or null of a row. Raises InvalidArgument.

        One that names no column is taken for a mistake, but for TRUE and FALSE themselves.
        """
        said = f"{what} {_shown(text)}"
        tree = parsed(text, said)
        term, used = self._term(tree, said, visible)
        if term.type not in (BOOLEAN, NULL):
            raise InvalidArgument(f"{said}: it is {term.type}, and has to be true or false")
        if not used and term.sql not in ("TRUE", "FALSE"):
            raise InvalidArgument(
                f"{said}: it names no column, so it holds for all rows or for none",
                hint="all rows: true; a name is written without quotes, or `in backquotes`",
            )
        return Expression(text, term.sql if term.type == BOOLEAN else f"CAST({term.sql} AS BOOLEAN)", used, tree)

    def value(self, text: str, column: Column, visible: Sequence[Relation] | None = None) -> Expression:
        """A new value of a column of the table, of its type. Raises InvalidArgument."""
        said = f"column {column.name!r} of table {self._table} set to {_shown(text)}"
        tree = parsed(text, said)
        term, used = self._term(tree, said, visible)
        return Expression(text, self._stored(term, column, text), used, tree)

    def column(self, name: str, relation: Relation, column: Column) -> Expression:
        """A relation's column as the new value of the table's. Raises InvalidArgument."""
        own = relation.own_name(name)
        term = Term(own, relation.types[relation.own_names.index(own)])
        return Expression(name, self._stored(term, column, f"source.{name}"), frozenset([own]), None)

    def term(self, tree: Any, visible: Sequence[Relation] | None = None) -> tuple[Term, frozenset[str]]:
        """What a part of an expression is, and the columns in it. Raises InvalidArgument."""
        found = self._terms(visible)
        return found.of(tree), frozenset(found.used)

    def constant(self, sql: str) -> Any:
        """The value, as Python has it, of an expression without columns; None for one that has no value."""
        import duckdb

        try:
            row = self._connection.execute(f"SELECT {sql}").fetchone()
        except duckdb.Error:
            return None
        return row and row[0]

    def _terms(self, visible: Sequence[Relation] | None) -> Terms:
        seen = self._relations if visible is None else visible
        hidden = [relation for relation in self._relations if relation not in seen]
        query = self._queries.column if self._queries else None
        return Terms(seen, hidden, self._type_of, _MAKERS, self._now, query)

    def _inner_terms(self, visible: Sequence[Relation], type_of: Callable[[str], Type]) -> Terms:
        return Terms(visible, (), type_of, _MAKERS, self._now)

    def _term(self, tree: Any, said: str, visible: Sequence[Relation] | None) -> tuple[Term, frozenset[str]]:
        try:
            term, used = self.term(tree, visible)
            self._type_of(term.sql)
        except InvalidArgument as error:
            hint = self._quoted_column(tree) or error.hint
            raise InvalidArgument(f"{said}: {error.message}", hint=hint) from error
        except RecursionError:
            raise InvalidArgument(f"{said}: it has too many parts in each other") from None
        return term, used

    def _quoted_column(self, tree: Any) -> str:
        """What to say of a text that is called like a column; empty: there is none."""
        known = {fold(column.name): column.name for relation in self._relations for column in relation.columns}
        for node in tree.walk():
            if type(node).__name__ == "Literal" and node.is_string and fold(node.this) in known:
                return f"{node.this!r} in quotes is a text; the column is {quoted(known[fold(node.this)])}"
        return ""

    def _stored(self, term: Term, column: Column, text: str) -> str:
        return stored(term, parse(column.type), column.name, _shown(text)).sql

    def _type_of(self, sql: str, relation: str = "nothing") -> Type:
        import duckdb

        try:
            found = self._connection.sql(f"SELECT {sql} FROM {relation}").types[0]
        except duckdb.Error as error:
            raise InvalidArgument(str(error).partition("\n")[0]) from None
        return own_type(found)


def of_default(column: Column) -> str:
    """The expression for what a row has that is inserted without the column."""
    if column.default is None:
        return "NULL"
    text = column.default.replace("\\", "\\\\").replace("'", "\\'")
    return f"CAST('{text}' AS {column.type})"


def parsed(text: str, said: str) -> Any:
    """The one expression of the text. Raises InvalidArgument."""
    from sqlglot.dialects import Dialect
    from sqlglot.errors import SqlglotError

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    dialect = Dialect.get_or_raise(DIALECT)
    try:
        tokens = dialect.tokenize(text)
        _check_quotes(tokens, said)
        found = dialect.parser().parse(tokens, text)
    except SqlglotError as error:
        errors = getattr(error, "errors", None)
        why = str(error)
        if errors:
            said_of = _TOKEN.sub(_found, _INCOMPLETE.sub(_named, errors[0]["description"]))
            why = f"{said_of}, at character {errors[0]['col']}"
        raise InvalidArgument(f"{said} does not read as Spark SQL: {why}") from None
    except RecursionError:
        raise InvalidArgument(f"{said}: it has too many parts in each other") from None
    if len(found) != 1 or found[0] is None:
        raise InvalidArgument(f"{said}: expected one expression, there are {len([each for each in found if each])}")
    if type(found[0]).__name__ == "Alias":
        raise InvalidArgument(f"{said} does not read as Spark SQL: {found[0].alias!r} is left over")
    return found[0]


def _named(missing: re.Match[str]) -> str:
    return f"{missing[1].upper()} is not complete"


def _found(token: re.Match[str]) -> str:
    return "nothing more" if token[1] == "SENTINEL" else repr(token[2])


def _check_quotes(tokens: Sequence[Any], said: str) -> None:
    """Raises InvalidArgument for `'it''s'`: what it means is not the same in all releases of Spark."""
    for one, other in pairwise(tokens):
        if other.token_type.name == "STRING" and "STRING" in one.token_type.name and one.end + 1 == other.start:
            raise InvalidArgument(
                f"{said}: two strings touch at character {other.start + 1}", hint=r"a quote inside of a string is \'"
            )


def arrow_schema(columns: Sequence[Column]) -> Any:
    return to_arrow(Schema(tuple(columns)))


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")


def own_type(found: Any) -> Type:
    match found.id:
        case "decimal":
            numbers = dict(found.children)
            return Type("decimal", (), (), numbers["precision"], numbers["scale"])
        case "hugeint":
            return Type("decimal", (), (), 38, 0)
        case "list":
            return Type("array", (own_type(found.children[0][1]),))
        case "map":
            return Type("map", tuple(own_type(kind) for _, kind in found.children))
        case "struct":
            names, kinds = zip(*found.children, strict=True)
            return Type("struct", tuple(map(own_type, kinds)), tuple(names))
    if found.id not in _OWN_TYPES:
        raise InvalidArgument(f"values of the type {found} cannot be used here")
    return Type(_OWN_TYPES[found.id])
