"""Statements of a script, or of one who types, and what comes of them as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from txnclient import Client
from txnclient.ducksql.scripts import pieces
from txnclient.session import Conversation
from txndeploy.terminal.output import Field, Listing, console
from txnstatus.errors import InvalidArgument

if TYPE_CHECKING:
    import pyarrow as pa

MOST_ROWS = 1000
"""Most rows that a terminal is shown."""


def run(client: Client, session: Conversation, script: str, *, as_json: bool) -> None:
    """Runs statements, and what begins with a backslash, and prints what each comes to. Raises what one raises."""
    if script.lstrip().startswith("\\"):
        describe(client, script, as_json=as_json)
        return
    for piece in pieces(script):
        show(session.sql(piece.text), as_json=as_json)


def show(rows: pa.Table, *, as_json: bool) -> None:
    """A statement's rows; of one that has none, with `as_json`, an empty document."""
    if as_json:
        typer.echo(json.dumps({"columns": rows.column_names, "rows": _rows(rows)}, default=_json_value))
        return
    out = console()
    if not rows.num_columns:
        out.print("done")
        return
    shown = rows.slice(0, MOST_ROWS) if out.is_terminal else rows
    fields = [Field(str(number), name) for number, name in enumerate(rows.column_names)]
    listed = [{str(number): _plain(value) for number, value in enumerate(row)} for row in _rows(shown)]
    more = "" if shown.num_rows == rows.num_rows else f", of which {shown.num_rows} are shown"
    count = f"{rows.num_rows} row{'' if rows.num_rows == 1 else 's'}{more}"
    out.print(Listing("rows", fields, listed, title=count).table(out.width))


def describe(client: Client, command: str, *, as_json: bool) -> None:
    r"""Runs `\d`, which lists tables, or `\d database.table`, which shows one. Raises InvalidArgument for another."""
    from txndeploy.terminal import listings  # whoever asks for rows alone does without

    word, *names = command.split()
    if word != "\\d" or len(names) > 1:
        raise InvalidArgument(f"{command.strip()!r:.100} is no command of this shell", hint=HELP)
    if not names:
        _list(listings.data_tables(client), as_json=as_json)
        return
    info = client.table(names[0].rstrip(";"))
    _list(listings.columns(info), as_json=as_json)
    if info.properties and not as_json:
        _list(listings.properties(info), as_json=False)


HELP = r"\d lists tables, \d database.table shows one, \q ends; all else is SQL, with ; at its end"


def _list(listing: Listing, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({listing.name: listing.rows}, default=_json_value))
    else:
        out = console()
        out.print(listing.table(out.width))


def _rows(rows: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples: two columns may have one name."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def _plain(value: Any) -> Any:
    """A value as a listing shows it: NULL is told from an empty text."""
    match value:
        case None:
            return "NULL"
        case "" | bool() | float() | Decimal() | bytes() | list() | dict():
            return repr(value) if isinstance(value, str | bytes) else str(value)
        case datetime():
            return value.isoformat(" ")
    return value


def _json_value(value: Any) -> Any:
    match value:
        case bytes():
            return value.hex()
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            return dict(value)
        case _:
            return str(value)
