"""Statements as sqlglot reads them, and parts of them as text again, for the calls that take SQL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from sqlglot import exp

from txnclient.change.sql import DIALECT, parsed
from txnstatus.errors import InvalidArgument
from txnstatus.names import fold

Arguments = Mapping[str, Any]
EVOLVES = "schema_evolution"
"""What is set in a statement WITH SCHEMA EVOLUTION."""


def tree_of(text: str, args: Arguments) -> exp.Expression:
    """A statement, with the values of its parameters, `:name`. Raises InvalidArgument."""
    said = repr(text if len(text) <= 200 else f"{text[:200]}...")
    tree: exp.Expression = parsed(text, said)
    for marker in list(tree.find_all(exp.Placeholder)):
        literal = value_of(marker.this, args)
        if marker is tree:
            raise InvalidArgument(f"{said} is no statement")
        marker.replace(literal)
    return tree


def value_of(name: str | None, args: Arguments) -> exp.Expr:
    """The value of a parameter as SQL. Raises InvalidArgument, naming it."""
    if name is None or name not in args:
        given = ", ".join(f":{each}" for each in args) or "none"
        raise InvalidArgument(f"parameter {f':{name}' if name else '?'} has no value; given are {given}")
    match args[name]:
        case None:
            return exp.null()
        case bool() as truth:
            return exp.true() if truth else exp.false()
        case int() | Decimal() as number:
            return exp.convert(number)
        case float() as number:
            return exp.cast(exp.Literal.string(repr(number)), "double", dialect=DIALECT)
        case str() as text:
            return exp.Literal.string(text)
        case datetime() as at:
            kind = "timestamp_ntz" if at.tzinfo is None else "timestamp"
            return exp.cast(exp.Literal.string(at.isoformat(" ")), kind, dialect=DIALECT)
        case date() as day:
            return exp.cast(exp.Literal.string(day.isoformat()), "date", dialect=DIALECT)
        case other:
            raise InvalidArgument(
                f"parameter :{name} is {type(other).__name__}: text, numbers, truth, dates and times are possible"
            )


def require_only(tree: exp.Expression, what: str, *known: str) -> None:
    """Raises InvalidArgument for a part of a statement that nobody would look at."""
    unknown = [name.rstrip("_") for name, value in tree.args.items() if value and name not in known]
    if unknown:
        raise InvalidArgument(
            f"{what} with {unknown[0].upper()} is nothing that can be done without Spark: {shown(tree)}",
            hint="docs/sql.md says what can",
        )


def shown(tree: exp.Expression) -> str:
    """The statement for a message."""
    return repr(tree.sql(DIALECT)[:200])


def only_nulls(query: exp.Expr) -> set[int]:
    """The places of columns for which a query says NULL and nothing else, which DuckDB takes for numbers."""
    match query:
        case exp.Subquery():
            return only_nulls(query.this)
        case exp.SetOperation():
            return only_nulls(query.left) & only_nulls(query.right)
        case exp.Select(selects=columns) if not query.is_star:
            return {place for place, each in enumerate(columns) if isinstance(each.unalias(), exp.Null)}
        case exp.Values(expressions=rows):
            values = zip(*(row.expressions for row in rows), strict=False)
            return {place for place, each in enumerate(values) if all(isinstance(one, exp.Null) for one in each)}
    return set()


def column_name(select: exp.Expr) -> str:
    """What a column of a query is called: as is said, or else by what is written, as Spark does."""
    return select.alias or select.sql(DIALECT, normalize_functions="lower")


def text_of(tree: exp.Expression, qualifiers: Mapping[str, str] | None = None) -> str:
    """An expression as text that means the same. `qualifiers`: what stands before columns, folded → what is to.

    Raises InvalidArgument where sqlglot would not write what it has read.
    """
    copy = tree.copy()
    for column in list(copy.find_all(exp.Column)):
        if qualifiers and fold(column.table) in qualifiers and column.find_ancestor(exp.Query) is None:
            renamed = exp.column(column.this.copy(), exp.to_identifier(qualifiers[fold(column.table)]))
            if column is copy:
                copy = renamed
            else:
                column.replace(renamed)
    text = copy.sql(DIALECT)
    if parsed(text, text[:200]) != copy:
        raise InvalidArgument(f"{text[:200]!r} cannot be told to DuckDB as it is meant", hint="Spark can run it")
    return text


def table_name(node: exp.Expression, resolve: Callable[[list[str]], str]) -> str:
    """The name of the table. Raises InvalidArgument."""
    if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
        raise InvalidArgument(f"{shown(node)} is no table: a table is named database.table")
    return resolve([part.name for part in node.parts])
