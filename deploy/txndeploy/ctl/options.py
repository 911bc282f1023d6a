"""The commands of `txnctl` that show the cluster's groups and options, and set options."""

from __future__ import annotations

import typer

import txnclient
from txndeploy.terminal import listings
from txndeploy.terminal.commands import (
    NEGATIVE_NUMBERS,
    ClusterOption,
    JsonOption,
    TimeoutOption,
    ValueArgument,
    show,
    tells_errors,
)
from txnstatus.catalog.catalog import from_wire
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
config_app = typer.Typer(help="Options that may change while the cluster runs.", no_args_is_help=True)
commands.add_typer(config_app, name="config")


@commands.command()
@tells_errors
def status(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """Which node leads which group."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        found = listings.groups(client, listings.catalog(client))
    show(found, as_json=as_json)


@config_app.command("list")
@tells_errors
def config_list(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List the options of the cluster, with their values now."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        state = listings.catalog(client)
    show(listings.options(state), as_json=as_json)


@config_app.command("set", context_settings=NEGATIVE_NUMBERS)
@tells_errors
def config_set(
    cluster: ClusterOption, name: str, value: ValueArgument, as_json: JsonOption = False, timeout: TimeoutOption = 10.0
) -> None:
    """Change an option on all nodes, without a restart, for good. Times are in milliseconds."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        request = admin_pb2.SetOptionRequest(name=name, value=value)
        answer = client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)
    show(listings.options(from_wire(answer.catalog)), as_json=as_json)
