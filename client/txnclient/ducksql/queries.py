"""Queries, answered by DuckDB over the tables of one snapshot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
from sqlglot import ErrorLevel, exp
from sqlglot.errors import SqlglotError

from txnclient.change import duck
from txnclient.change.sql import own_type
from txnclient.control import system_tables
from txnclient.ducksql import system
from txnclient.ducksql.reading import Reading
from txnclient.ducksql.trees import column_name, shown
from txnclient.read.scanned_later import ScannedLater, called
from txnclient.read.table_files import TableFiles
from txnstatus.errors import InternalError, InvalidArgument, TxnError
from txnstatus.names import fold

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_REFUSED = (
    duckdb.DataError,
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.InvalidInputException,
    duckdb.NotSupportedError,
    duckdb.ParserException,
    duckdb.PermissionException,
    duckdb.SyntaxException,
)


@dataclass(frozen=True, slots=True)
class Query:
    """A query that DuckDB has understood, and not run."""

    connection: DuckDBPyConnection
    sql: str
    names: tuple[str, ...]
    types: tuple[Any, ...]
    """Types of DuckDB's, by column."""
    scans: tuple[ScannedLater | pa.Table, ...]

    @property
    def schema(self) -> dict[str, str]:
        """Type by name of the table that has its rows. Raises InvalidArgument for two columns of one name."""
        kinds = ["bigint" if str(kind) == "HUGEINT" else str(own_type(kind)) for kind in self.types]
        if len({fold(name) for name in self.names}) < len(self.names):
            raise InvalidArgument(f"the columns {', '.join(self.names)} are those of no table: two have one name")
        return dict(zip(self.names, kinds, strict=True))

    def run(self, sql: str = "") -> pa.Table:
        """Its rows, or those of another query around it.

        Raises InvalidArgument for a value that is none, as a division by zero, and what reading the tables raises.
        """
        with _told(), duck.turns():
            return self.connection.execute(sql or self.sql).to_arrow_table()


def answered(tree: exp.Expression, reading: Reading) -> pa.Table:
    """The rows of a query. Raises InvalidArgument, NotFound, and what reading a table raises.

    A sum of whole numbers is a bigint, as Spark has it, if it is one.
    """
    with understood(tree, reading) as query:
        wide = [name for name, kind in zip(query.names, query.types, strict=True) if str(kind) == "HUGEINT"]
        if not wide:
            return query.run()
        columns = [f'"q{number}"' for number in range(len(query.names))]
        casts = [
            f"CAST({column} AS BIGINT) AS {column}" if str(kind) == "HUGEINT" else column
            for column, kind in zip(columns, query.types, strict=True)
        ]
        rows = query.run(f"SELECT {', '.join(casts)} FROM ({query.sql}) AS q({', '.join(columns)})")
        return rows.rename_columns(list(query.names))


@contextmanager
def understood(tree: exp.Expression, reading: Reading) -> Iterator[Query]:
    """The query, for as long as the block. Raises InvalidArgument, NotFound."""
    copy = tree.copy()
    _name_columns(copy)
    with duck.connected() as connection:
        scans = list[ScannedLater | pa.Table]()
        for number, node in enumerate(list(_tables(copy))):
            rows, names = _scan(node, copy, reading)
            scans.append(rows)
            connection.register(f"_txn_{number}_files" if names else f"_txn_{number}", rows)
            if names:
                connection.execute(f"CREATE TEMP VIEW _txn_{number} AS SELECT {names} FROM _txn_{number}_files")
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(node.name, quoted=True))
            node.replace(exp.Table(this=exp.to_identifier(f"_txn_{number}"), alias=alias.copy()))
        _adapt(copy)
        try:
            sql = copy.sql("duckdb", unsupported_level=ErrorLevel.RAISE)
        except SqlglotError as error:
            raise InvalidArgument(f"{shown(tree)} is nothing that DuckDB can do: {error}") from None
        with _told():
            relation = connection.sql(sql)
            found = Query(connection, sql, tuple(relation.columns), tuple(relation.types), tuple(scans))
        yield found


def _name_columns(tree: exp.Expression) -> None:
    """Calls columns that nobody has named by what is written, as Spark does."""
    for each in tree.selects if isinstance(tree, exp.Query) else ():
        if not isinstance(each, exp.Alias | exp.Aliases | exp.Column | exp.Star):
            each.replace(exp.alias_(each.copy(), column_name(each), quoted=True))


def _adapt(tree: exp.Expression) -> None:
    """Says what DuckDB would take otherwise: it knows tables by their aliases, and a division by zero is null to it."""
    for column in tree.find_all(exp.Column):
        if column.args.get("db"):
            column.set("db", None)
            column.set("catalog", None)
    for division in tree.find_all(exp.Div, exp.Mod, exp.IntDiv):
        by = division.expression
        wrong = exp.func("error", exp.Literal.string("division by zero; try_divide gives NULL"))
        division.set(
            "expression",
            exp.case().when(exp.EQ(this=by.copy(), expression=exp.Literal.number(0)), wrong).else_(by.copy()),
        )


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        if isinstance(error.__cause__, TxnError):
            raise error.__cause__ from None
        first = str(error).partition("\n")[0]
        if isinstance(error, _REFUSED):
            raise InvalidArgument(first) from None
        raise InternalError(f"DuckDB failed: {error}") from error


# ---- tables


def _tables(tree: exp.Expression) -> Iterator[exp.Table]:
    """The tables that are read, without what WITH names."""
    for node in tree.find_all(exp.Table):
        if node.db or not _is_named_by_with(node):
            yield node


def _is_named_by_with(node: exp.Table) -> bool:
    """Whether it is one of a WITH around it: one that stands before it there, or any that is recursive."""
    child: exp.Expr = node
    within = None
    while (parent := child.parent) is not None:
        if isinstance(parent, exp.CTE):
            within = parent
        if (named := parent.args.get("with_")) is not None:
            for each in named.expressions:
                if each is within and not named.recursive:
                    break
                if fold(each.alias) == fold(node.name):
                    return True
            within = None
        child = parent
    return False


def _scan(node: exp.Table, tree: exp.Expression, reading: Reading) -> tuple[ScannedLater | pa.Table, str]:
    """The rows of a table: of files DuckDB reads what it wants, when it does; of all else what is named is read now.
    And what makes of the columns of files those of the table, where these are called otherwise.
    """
    name = reading.named(node)
    if system_tables.is_one(name):
        return system.read(name, node, reading.client), ""
    snapshot = reading.snapshot_of(node)
    found = snapshot.table_files(name)
    with snapshot.explained(name):
        if found.files and found.are_the_table:
            rows = ScannedLater(found.dataset(), found.files, lambda: snapshot.explained(name))
            return rows, called(found.schema) if found.schema.is_renamed else ""
        return found.to_arrow(_columns(found, node, tree)), ""


def _columns(found: TableFiles, node: exp.Table, tree: exp.Expression) -> list[str] | None:
    """The columns that the query names, or more; None: all."""
    stars = (each for each in tree.find_all(exp.Star) if not isinstance(each.parent, exp.Count))
    alias = node.args.get("alias")
    natural = any(each.args.get("method") for each in tree.find_all(exp.Join))
    if any(stars) or natural or (alias and alias.args.get("columns")) or tree.find(exp.Pivot, exp.Columns):
        return None
    said = {fold(each.name) for each in tree.find_all(exp.Identifier)}
    if any(fold(each.name) == fold(node.alias_or_name) for each in tree.find_all(exp.Column)):
        return None  # a row as a whole
    named = [column.name for column in found.schema.columns if fold(column.name) in said]
    return named or [found.schema.columns[0].name]  # rows that are only counted: DuckDB has none without a column
