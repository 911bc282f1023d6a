"""The commands of `txnctl` that show what was done on a node, and whether its record was changed."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from txndeploy.errors import ConfigError
from txndeploy.terminal.commands import JsonOption, show, tells_errors
from txndeploy.terminal.output import Field, Listing, console, plain
from txnstatus.security import trail_files
from txnstatus.trail import Link, TrailBroken, read, split, verified

commands = typer.Typer(rich_markup_mode=None)
audit_app = typer.Typer(help="Show what was done on a node, and whether that was changed since.", no_args_is_help=True)
commands.add_typer(audit_app, name="audit")

DirectoryArgument = Annotated[Path, typer.Argument(help="The directory `trail` in a node's data_dir, or a copy of it.")]


@audit_app.command("show")
@tells_errors
def show_trail(
    directory: DirectoryArgument,
    who: Annotated[str, typer.Option(help="Only what this one did.")] = "",
    did: Annotated[str, typer.Option(help="Only this, such as Admin/Grant, or login.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most this many, the last ones.")] = 100,
    as_json: JsonOption = False,
) -> None:
    """Show operators' actions, grants, aborts of others, drops, and who was refused."""
    try:
        told = [read(text) for text in _lines(directory)]
    except TrailBroken as error:
        raise ConfigError(str(error)) from error
    found = [each for each in told if who in ("", each["who"]) and did in ("", each["did"])]
    fields = (
        Field("n", "number", hidden=True),
        Field("at", "at (UTC)"),
        Field("node", "node", wide=True),
        Field("who", "who"),
        Field("did", "did"),
        Field("what", "what"),
        Field("outcome", "outcome"),
    )
    rows = [{**each, "at": datetime.fromisoformat(each["at"])} for each in found[-limit:]]
    if not as_json:
        rows = [{**row, "what": ", ".join(f"{key}={value}" for key, value in row["what"].items())} for row in rows]
    show(Listing("audit", fields, rows, title="what was done"), as_json=as_json)


@audit_app.command("verify")
@tells_errors
def verify(
    directory: DirectoryArgument,
    known: Annotated[
        str, typer.Option(help="NUMBER:HASH that an earlier call has said: that line is to be there.")
    ] = "",
) -> None:
    """Check that no line was changed, left out, put in or moved. Exit code 1: one was.

    What was cut off at the end, and a last line that was changed, show by `--known` only: keep what this says somewhere
    else.
    """
    wanted, count, last, seen = _link(known), 0, Link(0, ""), False
    try:
        for _, last in verified(_lines(directory)):
            count += 1
            seen = seen or last == wanted
    except TrailBroken as error:
        raise ConfigError(f"{directory} was changed: {error}") from error
    if wanted is not None and not seen:
        raise ConfigError(f"{directory} has no line {wanted.number} with that hash: it was changed, or cut off")
    console().print(f"{count} lines follow each from the one before. The last one is {last.number}:{last.digest}")
    for file in trail_files.files(directory)[-1:]:
        if torn := split(file.read_bytes())[1]:
            console().print(f"{plain(file.name)} ends in {torn} bytes of a line that is being written, or never was.")


def _lines(directory: Path) -> list[bytes]:
    """Raises ConfigError."""
    try:
        found = list(trail_files.lines(directory))
    except OSError as error:
        raise ConfigError(f"cannot read {directory}: {error.strerror}") from error
    if not found:
        raise ConfigError(f"{directory} has no trail: there are no files trail-NUMBER.jsonl")
    return found


def _link(text: str) -> Link | None:
    """Raises typer.BadParameter."""
    if not text:
        return None
    number, colon, digest = text.partition(":")
    if not colon or not number.isdigit():
        raise typer.BadParameter("NUMBER:HASH is wanted, as txnctl audit verify says it", param_hint="--known")
    return Link(int(number), digest)
