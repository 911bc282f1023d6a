"""The columns of a table that a read shows: known by their names in files, since what they are called may change."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from txnclient.formats import schemas
from txnstatus.errors import IllegalState, InvalidArgument
from txnstatus.lake import absent
from txnstatus.lake.arrow_types import to_arrow
from txnstatus.names import fold
from txnstatus.schema import Column, Schema, is_narrower

_AGAIN = "load() it again: it shows the columns that there are now, and a checkpoint goes on from where it is"


@dataclass(frozen=True, slots=True)
class Shown:
    """The columns of one table, by the names that they had as the read was begun."""

    table: str
    columns: dict[str, Column]
    """What the read calls it → the column as it was then."""

    @classmethod
    def of(cls, asked: StructType, schema: Schema, table: str, others: Collection[str]) -> Shown:
        """`asked`: what the read shows; `others`: what that has beside the table's columns.

        Raises InvalidArgument for a column that the table has not, or has with more values than the read has room for:
        it was made, by `load()`, before the table's columns were changed.
        """
        known, found = {fold(column.name): column for column in schema.columns}, dict[str, Column]()
        for wanted in schemas.to_columns(asked):
            column = known.get(fold(wanted.name))
            if column is None and wanted.name in others:
                continue
            if column is None:
                names = ", ".join(each.name for each in schema.columns)
                raise InvalidArgument(
                    f"column {wanted.name!r} is not a column of table {table}: it has {names[:1_000]}", hint=_AGAIN
                )
            if is_narrower(wanted.type, column.type):
                raise InvalidArgument(
                    f"column {wanted.name!r} of table {table} is {column.type}, and is read as {wanted.type}",
                    hint=_AGAIN,
                )
            found[wanted.name] = column
        return cls(table, found)

    def called_in(self, schema: Schema) -> dict[str, str]:
        """What the read calls a column → what rows of this schema, of whatever time, call it; without those that the
        table did not have yet: see `absent_in`.

        Raises IllegalState for a column that was dropped by then, or has more values than the read has room for.
        """
        there = {column.in_files: column for column in schema.columns}
        found = dict[str, str]()
        for name, begun in self.columns.items():
            column = there.get(begun.in_files)
            if column is None and begun.in_files in schema.retired:
                raise IllegalState(
                    f"column {name!r} of table {self.table} was dropped since it is followed", hint=_AGAIN
                )
            if column is None:
                continue
            if is_narrower(begun.type, column.type):
                raise IllegalState(
                    f"column {name!r} of table {self.table} became {column.type} since it is followed as {begun.type}",
                    hint=_AGAIN,
                )
            found[name] = column.name
        return found

    def absent_in(self, schema: Schema) -> dict[str, Any]:
        """What the read calls a column that rows of this schema, of a time before it, have not → its value there, where
        that is no null.
        """
        there = {column.in_files for column in schema.columns}
        filled = {name: begun for name, begun in self.columns.items() if begun.initial is not None}
        later = {name: begun for name, begun in filled.items() if begun.in_files not in there}
        fields = to_arrow(Schema(tuple(later.values())))
        return {name: absent.column(field, 1)[0].as_py() for name, field in zip(later, fields, strict=True)}
