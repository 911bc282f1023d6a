"""The commands of `txnctl table`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import txnclient
from txnclient import TableInfo
from txndeploy.ctl import compacting, importing
from txndeploy.terminal import listings, output
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, plain
from txnstatus import table_properties

commands = typer.Typer(rich_markup_mode=None)
app = typer.Typer(help="Look at tables, alter, rename, compact and drop them.", no_args_is_help=True)
commands.add_typer(app, name="table")
app.command("compact")(compacting.compact)
app.command("optimize")(compacting.optimize)
app.command("import")(importing.import_files)
app.command("iceberg")(importing.publish_iceberg)

KNOWN = f"There are {', '.join(table_properties.KNOWN)}"


@app.command("list")
@tells_errors
def list_all(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List tables, with what a reader sees of them now."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        show(listings.data_tables(client), as_json=as_json)


@app.command("show")
@tells_errors
def show_one(cluster: ClusterOption, name: str, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """Show a table's columns, and what it has for itself: its properties."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        _show(client.table(name), as_json=as_json)


@app.command("set")
@tells_errors
def alter(
    cluster: ClusterOption,
    name: str,
    properties: Annotated[
        list[str], typer.Argument(help=f"NAME=VALUE, more than one if you like; NAME= goes by the cluster's. {KNOWN}.")
    ],
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Change a table's properties, all of these or none; the others stay, and what is under way goes on."""
    wanted: dict[str, str | None] = {}
    for each in properties:
        key, sign, value = each.partition("=")
        if not sign or not key:
            raise typer.BadParameter(f"{each!r}: say NAME=VALUE, or NAME= for none", param_hint="PROPERTIES")
        if key in wanted:
            raise typer.BadParameter(f"{key} comes twice", param_hint="PROPERTIES")
        wanted[key] = value or None
    with txnclient.connect(cluster, timeout=timeout) as client:
        _show(client.alter_table(name, properties=wanted), as_json=as_json)


@app.command("columns")
@tells_errors
def columns(
    cluster: ClusterOption,
    name: str,
    add: Annotated[
        str, typer.Option(help="Columns to add, as DDL: 'gate string COMMENT 'at departure', seats int'.")
    ] = "",
    rename: Annotated[list[str] | None, typer.Option(help="OLD=NEW; may be repeated.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column that is to be no more; may be repeated.")] = None,
    widen: Annotated[
        list[str] | None, typer.Option(help="COLUMN=TYPE, which has room for more values: 'seats=bigint'; repeatable.")
    ] = None,
    comment: Annotated[list[str] | None, typer.Option(help="COLUMN=TEXT; may be repeated.")] = None,
    move: Annotated[
        list[str] | None, typer.Option(help="COLUMN=THE ONE BEFORE IT, or COLUMN= for the first one; repeatable.")
    ] = None,
    default: Annotated[
        list[str] | None, typer.Option(help="COLUMN=VALUE in rows to come that are written without it; repeatable.")
    ] = None,
    drop_default: Annotated[list[str] | None, typer.Option(help="A column that is null there; repeatable.")] = None,
    drop_not_null: Annotated[list[str] | None, typer.Option(help="A column that may be null; may be repeated.")] = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Add, rename, drop and change columns of a table, all of it or nothing.

    Nothing is rewritten; earlier snapshots stay.
    """
    wanted: dict[str, Any] = {
        "add": add or None,
        "rename": _pairs("--rename", rename, "OLD=NEW"),
        "drop": drop or (),
        "widen": _pairs("--widen", widen, "COLUMN=TYPE"),
        "comments": _pairs("--comment", comment, "COLUMN=TEXT", may_be_empty=True),
        "move": _pairs("--move", move, "COLUMN=COLUMN", may_be_empty=True),
        "drop_not_null": drop_not_null or (),
        "defaults": {
            **_pairs("--default", default, "COLUMN=VALUE", may_be_empty=True),
            **dict.fromkeys(drop_default or ()),
        },
    }
    if not any(wanted.values()):
        raise typer.BadParameter("say what is to become of columns", param_hint="--add, --rename, --drop and others")
    with txnclient.connect(cluster, timeout=timeout) as client:
        _show(client.alter_table(name, **wanted), as_json=as_json)


def _pairs(option: str, given: list[str] | None, form: str, *, may_be_empty: bool = False) -> dict[str, str]:
    """What comes before the first `=` → what comes after it."""
    found: dict[str, str] = {}
    for each in given or ():
        name, sign, value = each.partition("=")
        if not (name and sign and (value or may_be_empty)) or name in found:
            raise typer.BadParameter(f"{each!r}: say {form}, once for each column", param_hint=option)
        found[name] = value
    return found


def _show(info: TableInfo, *, as_json: bool) -> None:
    found = listings.columns(info)
    if as_json:
        about: dict[str, object] = {"name": info.name, "location": info.location, "conflicts": info.conflicts}
        about |= {"placement": info.placement, "shard": info.shard}
        typer.echo(output.as_json({"table": {**about, "properties": dict(info.properties), "columns": found.rows}}))
        return
    show(found, as_json=False)
    shard = "" if info.shard is None else f", shard {info.shard}"
    console().print(f"{plain(info.name)} is in {plain(info.placement)}{shard}.")
    if info.properties:
        show(listings.properties(info), as_json=False)


@app.command("rename")
@tells_errors
def rename(
    cluster: ClusterOption,
    name: str,
    new_name: Annotated[str, typer.Argument(help="Of the same database: air.flights.")],
    timeout: TimeoutOption = 30.0,
) -> None:
    """Give a table another name in its database. Its files, and all that it has, stay where they are.

    It waits for transactions that are at work on the table. Snapshots of before go on reading it by the old name, which
    is free at once.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        info = client.rename_table(name, new_name)
    console().print(f"{plain(name)} is called {plain(info.name)}.")


@app.command("drop")
@tells_errors
def drop(
    cluster: ClusterOption,
    name: str,
    ignore_missing: Annotated[bool, typer.Option(help="A table that is not there is no error.")] = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Drop a table. Its name is free at once; its files go when nobody can read them any more.

    Snapshots of before the drop go on reading it for snapshot_retention_seconds; there is no way back.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.drop_table(name, ignore_missing=ignore_missing)
    console().print(f"{plain(name)} is dropped.")
