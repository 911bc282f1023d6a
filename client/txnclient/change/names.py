"""What names in SQL mean: columns of the relations of a statement, and fields of structs, whatever their case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from txnstatus.ddl import Type, parse
from txnstatus.errors import InvalidArgument
from txnstatus.names import fold
from txnstatus.schema import Column


@dataclass(frozen=True)
class Relation:
    """Columns that SQL can name, and what qualifies them."""

    prefix: str
    """The letter that names begin with by which the engine knows the columns."""
    qualifiers: tuple[tuple[str, ...], ...]
    """Names that may stand before a column: a table's, with or without its database."""
    columns: tuple[Column, ...]

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Number of a column by its folded name."""
        return {fold(column.name): number for number, column in enumerate(self.columns)}

    @cached_property
    def types(self) -> tuple[Type, ...]:
        return tuple(parse(column.type) for column in self.columns)

    @cached_property
    def own_names(self) -> tuple[str, ...]:
        """The engine's names of the columns: none of them needs quotes."""
        return tuple(f"{self.prefix}{number}" for number in range(len(self.columns)))

    def own_name(self, column: str) -> str:
        """The engine's name of a column that there is."""
        return self.own_names[self.numbers[fold(column)]]


def of_table(table: str, columns: tuple[Column, ...]) -> Relation:
    database, _, name = table.partition(".")
    return Relation("t", ((name,), (database, name)), columns)


def target(columns: tuple[Column, ...]) -> Relation:
    """A MERGE's table."""
    return Relation("t", (("target",),), columns)


def source(columns: tuple[Column, ...]) -> Relation:
    """A MERGE's source."""
    return Relation("s", (("source",),), columns)


@dataclass(frozen=True, slots=True)
class Named:
    """What a name means."""

    own_name: str
    """The engine's name of the column."""
    column: Column
    type: Type
    """The type of what is meant: the column, or a field in it."""
    fields: tuple[str, ...]
    """The way from the column to the field that is meant; none: the column itself."""


def resolve(parts: Sequence[str], visible: Sequence[Relation], hidden: Sequence[Relation] = ()) -> Named:
    """What `a.b.c` means. `hidden`: relations of the statement that this expression cannot use.

    Raises InvalidArgument.
    """
    shown = ".".join(parts)
    for relation in (*visible, *hidden):
        for qualifier in relation.qualifiers:
            rest = parts[len(qualifier) :]
            if rest and _alike(parts[: len(qualifier)], qualifier) and fold(rest[0]) in relation.numbers:
                if relation in hidden:
                    raise InvalidArgument(f"{shown} cannot be used here: there is no row of it")
                return _named(relation, rest, shown)
    found = [relation for relation in visible if fold(parts[0]) in relation.numbers]
    if len(found) > 1:
        ways = " or ".join(f"{relation.qualifiers[0][0]}.{parts[0]}" for relation in found)
        raise InvalidArgument(f"column {parts[0]!r} is ambiguous: write {ways}")
    if not found:
        names = (column.name for relation in visible for column in relation.columns)
        raise InvalidArgument(f"there is no column {shown!r}: there are {', '.join(dict.fromkeys(names))}")
    return _named(found[0], parts, shown)


def _named(relation: Relation, parts: Sequence[str], shown: str) -> Named:
    number = relation.numbers[fold(parts[0])]
    kind = relation.types[number]
    way = []
    for part in parts[1:]:
        name, kind = field_of(kind, part, shown)
        way.append(name)
    return Named(relation.own_names[number], relation.columns[number], kind, tuple(way))


def field_of(kind: Type, name: str, shown: str) -> tuple[str, Type]:
    """The field of a struct that is meant, and its type. Raises InvalidArgument."""
    for field, inner in zip(kind.fields, kind.inner, strict=False):
        if fold(field) == fold(name):
            return field, inner
    raise InvalidArgument(f"{shown}: {kind} has no field {name!r}")


def _alike(parts: Sequence[str], names: Sequence[str]) -> bool:
    return len(parts) == len(names) and all(fold(a) == fold(b) for a, b in zip(parts, names, strict=True))
