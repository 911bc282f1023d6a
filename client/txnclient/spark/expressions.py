"""SQL text of a statement as Spark understands it: checked, before anything runs, by the columns that it can see."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
)
from pyspark.sql import functions

from txnclient.change.merge import checked_text
from txnclient.formats import schemas
from txnclient.formats.fitting import widens
from txnclient.spark.alive_rows import has_jvm
from txnstatus.ddl import Type, parse
from txnstatus.errors import InvalidArgument
from txnstatus.schema import Column as TableColumn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_OF_VALUES = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    SparkRuntimeException,
)
"""Errors that an expression comes to for some values."""
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


@contextmanager
def running(table: str) -> Iterator[None]:
    """Raises InvalidArgument for what an expression says of a value, as a division by zero."""
    try:
        yield
    except _OF_VALUES as error:
        raise InvalidArgument(f"table {table}: {_first_line(error)}") from error


class Sql:
    """Makes expressions of text, for one table."""

    def __init__(self, table: str) -> None:
        self._table = table

    def predicate(self, rows: DataFrame, text: str, what: str) -> Column:
        """What is true, false or null of each of these rows. Raises InvalidArgument.

        One that names no column is taken for a mistake, but for TRUE and FALSE themselves.
        """
        said = f"{what} {_shown(checked_text(text, what))}"
        with _understood(said):
            found = rows.where(_expression(text))
            found.schema  # noqa: B018 analysed here, also by Spark Connect
        if not has_jvm(rows.sparkSession):
            return _expression(text)
        condition = _analysed(found).condition()
        same_for_all = condition.references().isEmpty() and condition.deterministic()
        if same_for_all and text.strip().lower() not in ("true", "false"):
            jvm: Any = rows.sparkSession._jvm
            if not jvm.org.apache.spark.sql.catalyst.expressions.SubqueryExpression.hasSubquery(condition):
                raise InvalidArgument(
                    f"{said}: it names no column, so it holds for all rows or for none",
                    hint="all rows: true; a name is written without quotes, or `in backquotes`",
                )
        return column_of(rows, condition)

    def value(self, rows: DataFrame, text: str, column: TableColumn) -> Column:
        """A column's new value, of its type, for each of these rows. Raises InvalidArgument."""
        said = f"column {column.name!r} of table {self._table} set to {_shown(text)}"
        with _understood(said):
            value = _expression(text)
            found = rows.select(value.alias(column.name))
            (given,) = schemas.to_columns(found.schema)
        if has_jvm(rows.sparkSession):
            plan = _analysed(found)
            if _kind(plan) != "Project" or _kind(plan.child()) != _kind(_analysed(rows)):
                raise InvalidArgument(f"{said}: it is not of one row: it makes rows, or looks at others")
            value = column_of(rows, plan.projectList().head().child())
        return self._stored(value, parse(given.type, data=True), column, said)

    def _stored(self, value: Column, given: Type, column: TableColumn, said: str) -> Column:
        wanted = parse(column.type)
        if widens(given, wanted):
            return value.cast(column.type)
        if given.name not in _NUMBERS or wanted.name not in _NUMBERS:
            raise InvalidArgument(
                f"{said}: the column is {column.type}, and the value is {given}",
                hint=f"CAST it if that is meant: CAST(... AS {column.type.upper()})",
            )
        # Also in a session without ANSI rules, where a cast makes another number of what does not fit.
        fitting = value.try_cast(column.type)
        told = functions.raise_error(functions.lit(f"[CAST_OVERFLOW] {said}: a value does not fit {column.type}"))
        return functions.when(value.isNotNull() & fitting.isNull(), told).otherwise(fitting)


def _expression(text: str) -> Column:
    """One expression that is all of the text: by itself Spark would take a name after it for an alias."""
    functions.expr(text)
    return functions.expr(f"({text}\n)")


@dataclass(frozen=True, slots=True)
class Matching:
    """A part `target.column = value of the source` of an ON."""

    name: str
    """The name of the column."""
    column: Column
    value: Column


def matchings(target: DataFrame, source: DataFrame, on: Column) -> Iterator[Matching]:
    """Where the driver's JVM is at hand."""
    jvm: Any = target.sparkSession._jvm
    mine, others = _analysed(target).outputSet(), _analysed(source).outputSet()
    parts = [jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(on._jc)]
    while parts:
        part = parts.pop()
        if _kind(part) == "And":
            parts += [part.right(), part.left()]
        elif _kind(part) == "EqualTo":
            for one, other in ((part.left(), part.right()), (part.right(), part.left())):
                column, used = _uncast(one), other.references()
                is_column = _kind(column) == "AttributeReference" and mine.contains(column)
                if is_column and not used.isEmpty() and used.subsetOf(others) and other.deterministic():
                    yield Matching(column.name(), column_of(target, column), column_of(source, other))
                    break


_COMPARED = ("tinyint", "smallint", "int", "bigint", "boolean", "string", "binary", "date", "timestamp")
"""Types of which all engines find the same values equal."""


def equated(target: DataFrame, source: DataFrame, on: Column) -> list[tuple[str, str]] | None:
    """The columns that an ON compares, the table's first, where the driver's JVM is at hand.

    None: it is not just that some columns of one and the same type are equal.
    """
    jvm: Any = target.sparkSession._jvm
    mine, others = _analysed(target).outputSet(), _analysed(source).outputSet()
    parts, found = [jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(on._jc)], list[tuple[str, str]]()
    while parts:
        part = parts.pop()
        kind = _kind(part)
        if kind == "And":
            parts += [part.right(), part.left()]
            continue
        sides = [part.left(), part.right()] if kind == "EqualTo" else []
        if [_kind(side) for side in sides] != ["AttributeReference"] * 2:
            return None
        column, value = sides if mine.contains(sides[0]) else sides[::-1]
        kinds = {side.dataType().simpleString() for side in sides}
        if not (mine.contains(column) and others.contains(value) and len(kinds) == 1 and kinds.issubset(_COMPARED)):
            return None
        found.append((column.name(), value.name()))
    return found


def _uncast(expression: Any) -> Any:
    """A whole number's column itself, which Spark widens to compare it."""
    if _kind(expression) == "Cast":
        kinds = {expression.dataType().simpleString(), expression.child().dataType().simpleString()}
        if kinds <= {"tinyint", "smallint", "int", "bigint"}:
            return expression.child()
    return expression


def column_of(rows: DataFrame, expression: Any) -> Column:
    """An expression that is resolved already, as a column: names in it cannot come to mean anything else."""
    from pyspark.sql.classic.column import Column as ClassicColumn

    jvm: Any = rows.sparkSession._jvm
    return ClassicColumn(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _analysed(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().analyzed()


def _kind(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name


@contextmanager
def _understood(said: str) -> Iterator[None]:
    try:
        yield
    except ParseException as error:
        raise InvalidArgument(f"{said} does not read as Spark SQL: {_first_line(error)}") from error
    except AnalysisException as error:
        raise InvalidArgument(f"{said}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
