"""System tables in queries without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa
from sqlglot import exp

from txnclient.change import duck
from txnclient.client.client import Client
from txnclient.control import system_tables
from txnclient.control.system_tables import TIMES, Wanted
from txnstatus.errors import InvalidArgument
from txnstatus.names import fold

_COMPARISONS = {exp.GT: ">", exp.GTE: ">=", exp.LT: "<", exp.LTE: "<="}


def read(name: str, node: exp.Table, client: Client) -> pa.Table:
    """The rows. `node`: where the query names the table. Raises NotFound; InvalidArgument."""
    if node.args.get("version") is not None:
        raise InvalidArgument(f"{name} shows what is so now, and has no versions")
    return system_tables.read(fold(name.partition(".")[2]), client, _wanted(node))


def _wanted(node: exp.Table) -> Wanted:
    """What the WHERE of the query says, where it is about this table alone."""
    select = node.find_ancestor(exp.Select)
    where = select and select.args.get("where")
    found = Wanted()
    if select is None or where is None or select.args.get("joins") or select.args.get("laterals"):
        return found
    for each in _conditions(where.this):
        column, value = each.left, each.right
        if isinstance(each, exp.EQ) and value.is_string:
            found = found.among(fold(column.name), [value.name])
        elif (
            fold(column.name) in TIMES
            and (how := _COMPARISONS.get(type(each))) is not None
            and (micros := _micros(value)) is not None
        ):
            found = found.compared(fold(column.name), how, micros)
    return found


def _conditions(tree: exp.Expression) -> Iterator[exp.Binary]:
    """Comparisons of a column with what names none, that all hold."""
    for each in tree.flatten() if isinstance(tree, exp.And) else (tree,):
        plain = each.unnest()
        if isinstance(plain, exp.And):
            yield from _conditions(plain)
        elif (
            isinstance(plain, exp.EQ | exp.GT | exp.GTE | exp.LT | exp.LTE)
            and isinstance(plain.left, exp.Column)
            and not list(plain.right.find_all(exp.Column, exp.Query))
        ):
            yield plain


def _micros(value: exp.Expr) -> int | None:
    """The time that an expression without columns comes to; None: it is none, which the query itself will say."""
    with duck.connected() as connection:
        try:
            row = connection.execute(f"SELECT epoch_us(CAST({value.sql('duckdb')} AS TIMESTAMPTZ))").fetchone()
        except duckdb.Error:
            return None
    return None if row is None else row[0]
