"""What a listing looks like on terminals, and in a pipe."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from txnclient import DataDamaged, NotFound
from txnclient.info import TableInfo
from txnclient.read.table_files import TableFiles
from txndeploy.ctl import participants
from txndeploy.ctl.commands import app
from txndeploy.terminal import listings
from txndeploy.terminal.output import PIPED_COLUMNS, Field, Listing, lines, plain
from txnstatus.catalog.catalog import CatalogState
from txnstatus.schema import Column, Schema

FIELDS = (
    Field("id", "id", whole=True),
    Field("state", "state"),
    Field("owner", "owner"),
    Field("label", "label"),
    Field("begin", "begin"),
    Field("end", "end", wide=True),
    Field("tables", "tables"),
    Field("why", "why", brief_chars=60),
    Field("more", "more", hidden=True),
)
ROW: dict[str, Any] = {
    "id": 12_345,
    "state": "FINALIZE_IN_PROGRESS",
    "owner": "ann [/b]",
    "label": "nightly load [red] \x1b[31m",
    "begin": datetime(2026, 1, 31, 12, 0, 5, tzinfo=UTC),
    "end": None,
    "tables": ["shop.orders", "shop.audit"],
    "why": "because " * 40,
    "more": "said to programs only",
}


def rendered(width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, markup=False).print(Listing("things", FIELDS, [ROW]).table(width))
    return out.getvalue()


@pytest.mark.parametrize("width", [60, 70, 80, 120, 200])
def test_a_terminal_is_not_too_narrow_for_any_character(width: int) -> None:
    """At 80 columns a reason had two of them, and lost every other letter."""
    shown = rendered(width)
    assert max(map(len, shown.splitlines())) <= width
    together = "".join(shown.split())
    assert together.count("because"[:2]) >= 60 // len("because ")
    assert "…" in together
    for character in "".join(ROW["state"] + ROW["owner"] + "[red]\\x1b[31m"):
        assert character in together or character == " "
    assert ("end" in shown) == (width >= 120)
    assert "programs" not in shown


def test_in_a_pipe_a_row_is_a_line() -> None:
    shown = rendered(PIPED_COLUMNS)
    (line,) = [line for line in shown.splitlines() if "12345" in line]
    assert r"nightly load [red] \x1b[31m" in line
    assert ROW["why"].strip() in line
    assert "2026-01-31 12:00:05" in line


def test_json_has_everything_and_iso_times() -> None:
    document = json.loads(Listing("things", FIELDS, [ROW], more=True).to_json())
    (row,) = document["things"]
    assert document["more"] is True
    assert row == {**ROW, "begin": "2026-01-31T12:00:05.000000Z"}


def test_what_cannot_be_printed_is_spelt_out() -> None:
    assert plain("a\x1b[31m\x07\u202eé\n") == r"a\x1b[31m\x07\u202eé\n"
    assert lines("a\nb\x00") == "a\nb\\x00"


SCHEMA = Schema((Column("id", "bigint"),))


class Rotten:
    """A client, and its snapshot, of tables of which one alone can be read."""

    def tables(self) -> list[TableInfo]:
        return [TableInfo(name, name, "file:///t", SCHEMA, "wait") for name in ("a.a", "b.b", "c.c")]

    def snapshot(self) -> Rotten:
        return self

    def __enter__(self) -> Rotten:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def table_files(self, name: str) -> TableFiles:
        if name == "a.a":
            raise DataDamaged("manifest x is damaged")
        if name == "b.b":
            raise NotFound("table b.b does not exist")
        return TableFiles(name, SCHEMA, ())


def test_a_table_that_cannot_be_read_hides_no_other() -> None:
    """The listing ended with the first table whose manifest was damaged, or that was dropped meanwhile."""
    rows = listings.data_tables(Rotten()).rows  # type: ignore[arg-type]
    assert [(row["name"], row["rows"], row["files"], row["row_changes"]) for row in rows] == [
        ("a.a", None, None, None),
        ("b.b", None, None, None),
        ("c.c", 0, 0, False),
    ]


def test_every_column_of_the_replicas_has_a_heading() -> None:
    """The last one had none: a dash stood below nothing, and "drained" said nothing of what it was."""
    headings = [field.heading for field in listings.groups(None, CatalogState(1, {}, {}, {}, 3, 4)).fields]  # type: ignore[arg-type]
    assert all(headings), headings


@pytest.mark.parametrize(
    "command",
    [
        ("config", "set", "user_connections", f"{1 << 63}"),
        ("limit", "set", "alice", "user_connections", f"{-(1 << 63) - 1}"),
    ],
)
def test_a_number_that_does_not_go_over_the_wire_is_refused(command: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*command, "--cluster", "127.0.0.1:1"])
    assert result.exit_code == 2, result.output
    assert "Input should be" in result.output


@pytest.mark.parametrize("dsn", ["postgresql://ada:hunter2@db/air", "host=db password=hunter2 user=ada"])
def test_a_password_that_all_could_read_is_not_taken(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command was given, whoever is on the machine reads by `ps` for as long as it runs."""
    begun = list[str]()
    monkeypatch.setattr(
        participants.foreign_host, "run", lambda _name, make, *_: begun.append(make.keywords["conninfo"])
    )
    command = ["participant", "postgres", "--name", "billing", "--listen", "127.0.0.1:7060", "--join", "127.0.0.1:7051"]
    refused = CliRunner().invoke(app, [*command, "--dsn", dsn])
    assert (refused.exit_code, begun) == (2, [])
    assert "TXN_POSTGRES_DSN" in refused.output
    assert "hunter2" not in refused.output
    CliRunner().invoke(app, command, env={"TXN_POSTGRES_DSN": dsn})
    CliRunner().invoke(app, [*command, "--dsn", "postgresql://ada@db/air"])
    assert begun == [dsn, "postgresql://ada@db/air"]
