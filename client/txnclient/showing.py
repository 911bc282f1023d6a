"""How things show themselves in a notebook: as small tables, in which nothing that anybody wrote is markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from html import escape
from typing import TypeVar

T = TypeVar("T")
MOST_SHOWN = 60
"""Most rows of a list that a notebook is shown."""


class Shown(list[T]):
    """A list, such as a timeline, that a notebook shows with a row for each, and that is a list in all else."""

    def __init__(self, title: str, columns: str, each: Iterable[T]) -> None:
        """`columns`: attributes of each, with spaces between them."""
        super().__init__(each)
        self._title, self._columns = title, columns.split()

    def _repr_html_(self) -> str:
        shown = self[:MOST_SHOWN]
        left_out = f", of which {len(shown)} are shown" if len(shown) < len(self) else ""
        names = [name.replace("_", " ") for name in self._columns]
        rows = ([getattr(each, name) for name in self._columns] for each in shown)
        return listed(f"{self._title}: {len(self)}{left_out}", names, rows)


def facts(title: str, known: Mapping[str, object]) -> str:
    """One thing as HTML: a row for each fact; what there is not is left out."""
    rows = ([name, value] for name, value in known.items() if value not in (None, "", (), []))
    return _table(title, (), rows)


def listed(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Several things as HTML, a row for each."""
    return _table(title, columns, rows)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{_shown(each)}</th>" for each in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_shown(each)}</td>' for each in row)}</tr>" for row in rows)
    return (
        f"<table><caption>{_shown(title)}</caption>"
        f"{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
    )


def _shown(value: object) -> str:
    match value:
        case bool():
            said = "yes" if value else "no"
        case datetime():
            said = value.isoformat(" ", "seconds")
        case list() | tuple():
            said = ", ".join(map(str, value))
        case Enum():
            said = value.name
        case None:
            said = ""
        case _:
            said = str(value)
    return escape(said)
