"""Defaults of columns as programs give them: Python values, or their texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal

from txnclient.formats import schemas
from txnstatus import defaults
from txnstatus.errors import InvalidArgument
from txnstatus.schema import Column
from txnstatus.schema_changes import ColumnChange


def with_defaults(columns: tuple[Column, ...], values: Mapping[str, object]) -> tuple[Column, ...]:
    """The columns, some with these defaults. Raises InvalidArgument, naming the column."""
    said = dict(zip(schemas.named(list(values), columns), values.values(), strict=True))
    for name in said.keys() - {column.name for column in columns}:
        raise InvalidArgument(f"column {name!r}, which is to have a default, is not a column of the table")
    return tuple(
        replace(each, default=_checked(each, said[each.name])) if each.name in said else each for each in columns
    )


def _checked(column: Column, value: object) -> str | None:
    """The default as it is kept. Raises InvalidArgument."""
    return None if value is None else defaults.checked(_text(column.name, value), column.type, column.name)


def with_default(column: str, value: object) -> ColumnChange:
    """Raises InvalidArgument for what is no value of a column that can have a default."""
    return (
        ColumnChange(column, drop_default=True) if value is None else ColumnChange(column, default=_text(column, value))
    )


def _text(column: str, value: object) -> str:
    match value:
        case str() | bool() | int() | float() | Decimal() | date():  # a datetime is a date
            return str(value)
    raise InvalidArgument(
        f"the default of column {column!r} is a {type(value).__name__}: expected a value, or its text"
    )
