"""The commands of `txnctl savepoint`."""

from __future__ import annotations

from typing import Annotated

import typer

import txnclient
from txndeploy.terminal import past
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, plain

savepoint_app = typer.Typer(help="Keep tables as they are now, under a name.", no_args_is_help=True)


@savepoint_app.command("create")
@tells_errors
def create(
    cluster: ClusterOption,
    name: str,
    tables: Annotated[list[str] | None, typer.Option("--table", help="Only this one; or more than one.")] = None,
    keep: Annotated[str, typer.Option(help="For how long: 12h, 30d; or `always`, until it is released.")] = "30d",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Give a name to what all tables, or some, are now: it stays readable, and can be restored."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        made = client.savepoint(name, tables or None, keep=None if keep == "always" else keep)
        show(past.savepoints([made]), as_json=as_json)


@savepoint_app.command("list")
@tells_errors
def list_all(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List savepoints, with the bytes of files that are kept for each, about."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        show(past.savepoints(client.savepoints()), as_json=as_json)


@savepoint_app.command("release")
@tells_errors
def release(cluster: ClusterOption, name: str, timeout: TimeoutOption = 30.0) -> None:
    """Release a savepoint: what only it has kept is removed."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.release_savepoint(name)
    console().print(f"savepoint {plain(name)} is released.")
