"""What `txnctl` and the demo show: listings, as tables for people and as JSON for programs.

Nothing that anybody wrote is markup, and no control character of it reaches the terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from txndeploy.plain import plain as plain

PIPED_COLUMNS = 10_000
"""The width of what is no terminal: there, lines are not broken."""
DASH = "-"
WIDE_COLUMNS = 120
"""Width from which on there is room for everything."""


def console(*, stderr: bool = False) -> Console:
    """Prints what it is given as it is."""
    piped = not (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, markup=False, emoji=False, highlight=False, width=PIPED_COLUMNS if piped else None)


def lines(text: str) -> str:
    """Several lines, each of them plain."""
    return "\n".join(map(plain, text.split("\n")))


@contextmanager
def status_line(what: str) -> Iterator[Callable[[str], None]]:
    """What goes on, in a line that goes again; what it gives changes the line."""
    with console(stderr=True).status(Text(plain(what))) as line:
        yield lambda now: line.update(Text(plain(now)))


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a listing."""

    key: str
    """The name in JSON, which stays."""
    heading: str
    style: Callable[[Any], str] | None = None
    """The colour in which a value is shown."""
    whole: bool = False
    """Whether its values are never broken over lines."""
    grouped: bool = False
    """Whether digits of its numbers come in groups of three."""
    brief_chars: int | None = None
    """Most characters of a value in a table on a terminal, where long ones leave no room for the others."""
    wide: bool = False
    """Whether narrow terminals do without it."""
    hidden: bool = False
    """Whether tables leave it out; JSON has it, and so has a record of one thing."""


@dataclass(frozen=True, slots=True)
class Listing:
    name: str
    """What there is a list of; in JSON, its key."""
    fields: Sequence[Field]
    rows: Sequence[Mapping[str, Any]]
    """Values by key: text, numbers, times, lists of text; None = there is none."""
    title: str = ""
    more: bool | None = None
    """Whether there is more than is listed; None: there cannot be."""

    def to_json(self) -> str:
        return as_json(self.document())

    def document(self) -> dict[str, Any]:
        """The listing as programs get it."""
        document: dict[str, Any] = {self.name: [{each.key: row[each.key] for each in self.fields} for row in self.rows]}
        if self.more is not None:
            document["more"] = self.more
        return document

    def table(self, columns: int = PIPED_COLUMNS) -> Table:
        """`columns`: the width that there is; where it is a terminal's, long values are cut, as their fields say."""
        table = Table(
            title=Text(plain(self.title or self.name)), title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
        )
        fields = [each for each in self.fields if not each.hidden and (columns >= WIDE_COLUMNS or not each.wide)]
        for each in fields:
            values = [row[each.key] for row in self.rows]
            justify: Literal["left", "right"] = "right" if any(type(value) is int for value in values) else "left"
            table.add_column(Text(each.heading), justify=justify, no_wrap=each.whole, overflow="fold")
        for row in self.rows:
            table.add_row(*(_cell(each, row[each.key], brief=columns < PIPED_COLUMNS) for each in fields))
        return table


def record(title: str, fields: Sequence[Field], row: Mapping[str, Any]) -> Table:
    """One thing, a line for each field."""
    table = Table(
        title=Text(plain(title)), title_justify="left", show_header=False, box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for each in fields:
        table.add_row(Text(each.heading), _cell(each, row[each.key]))
    return table


def as_json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, default=_json_value)


def _json_value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    raise TypeError(type(value).__name__)


def _cell(field: Field, value: Any, *, brief: bool = False) -> Text:
    shown = f"{value:,}" if field.grouped and value is not None else _shown(value)
    if brief and field.brief_chars and len(shown) > field.brief_chars:
        shown = f"{shown[: field.brief_chars]}…"
    return Text(shown, field.style(value) if field.style else "")


def _shown(value: Any) -> str:
    match value:
        case None | "" | [] | ():
            return DASH
        case bool():
            return "yes" if value else "no"
        case datetime():
            return moment(value)
        case list() | tuple():
            return "\n".join(plain(str(each)) for each in value)
        case _:
            return plain(str(value))
