"""The commands of `txnctl group` and `txnctl database`: where tables are."""

from __future__ import annotations

from typing import Annotated

import typer

import txnclient
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import Field, Listing, console, plain

commands = typer.Typer(rich_markup_mode=None)
group_app = typer.Typer(help="Add groups of replicas, each with a log of its own.", no_args_is_help=True)
database_app = typer.Typer(help="Say where new tables of a database are, and look at it.", no_args_is_help=True)
commands.add_typer(group_app, name="group")
commands.add_typer(database_app, name="database")


@group_app.command("add")
@tells_errors
def add(cluster: ClusterOption, timeout: TimeoutOption = 60.0) -> None:
    """Add a group, on the nodes that there are. New tables can be placed there; what there is stays where it is."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        console().print(f"{plain(client.add_group())} is there.")


@database_app.command("list")
@tells_errors
def database_list(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List the databases whose new tables have a group. Those of all others are where the hashes of their names say."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        rows = [{"database": name, "group": group} for name, group in sorted(client.placements().items())]
    fields = (Field("database", "database"), Field("group", "group of its new tables"))
    show(Listing("databases", fields, rows, title="placed databases"), as_json=as_json)


@database_app.command("place")
@tells_errors
def place(
    cluster: ClusterOption,
    database: str,
    group: Annotated[str, typer.Argument(help="Such as group-1; empty: by the hashes of the tables' names.")],
    timeout: TimeoutOption = 10.0,
) -> None:
    """Have new tables of a database be in a group. Those that are there stay where they are."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.place_database(database, group or None)
    where = f"in {group}" if group else "where the hashes of their names say"
    console().print(f"New tables of {plain(database)} are {plain(where)}.")
