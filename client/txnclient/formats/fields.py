"""Fields that a statement adds to structs, wherever in a column these are: what the column's type becomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from txnstatus.ddl import Type, parse
from txnstatus.errors import InvalidArgument
from txnstatus.names import check_column_name, fold
from txnstatus.schema import Schema
from txnstatus.schema_changes import ColumnChange


class Fields:
    """The types of a table's columns, as one statement adds fields to them, one after the other."""

    def __init__(self, schema: Schema, table: str) -> None:
        self._table = table
        self._kinds = {fold(column.name): parse(column.type) for column in schema.columns}

    def added(self, path: Sequence[str], kind: str) -> ColumnChange:
        """`path`: a column, and the names down to the new field: `element` is what is in an array, `value` of a map.

        Raises InvalidArgument, naming the field.
        """
        column, *inside = path
        said = f"field {'.'.join(path)!r} cannot be added to table {self._table}"
        if fold(column) not in self._kinds:
            raise InvalidArgument(f"{said}: {column!r} is not a column of it")
        check_column_name(inside[-1])
        found = _with_field(self._kinds[fold(column)], inside, parse(kind), said)
        self._kinds[fold(column)] = found
        return ColumnChange(column, widen=str(found))


def _with_field(kind: Type, path: Sequence[str], new: Type, said: str) -> Type:
    name, *rest = path
    places = {fold(each): number for number, each in enumerate(_parts(kind))}
    if not rest:
        if kind.name != "struct":
            raise InvalidArgument(f"{said}: only structs have fields, and there is {kind.name}")
        if fold(name) in places:
            raise InvalidArgument(f"{said}: there is a field {kind.fields[places[fold(name)]]!r} (case does not count)")
        return replace(kind, inner=(*kind.inner, new), fields=(*kind.fields, name))
    if fold(name) not in places or (kind.name == "map" and fold(name) == "key"):
        raise InvalidArgument(f"{said}: there is no {name!r} in {kind}" if kind.name != "map" else f"{said}: keys stay")
    at = places[fold(name)]
    grown = _with_field(kind.inner[at], rest, new, said)
    return replace(kind, inner=(*kind.inner[:at], grown, *kind.inner[at + 1 :]))


def _parts(kind: Type) -> Sequence[str]:
    return {"struct": kind.fields, "array": ("element",), "map": ("key", "value")}.get(kind.name, ())
