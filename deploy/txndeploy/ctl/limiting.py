"""The commands of `txnctl` for what single users may take, in place of what is set for all."""

from __future__ import annotations

from typing import Annotated

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
from txndeploy.terminal.output import console, plain
from txnstatus.catalog.catalog import CatalogState, from_wire
from txnstatus.errors import NotAuthorized
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
limit_app = typer.Typer(help="Limits of users: what one may take of a node, or have open.", no_args_is_help=True)
commands.add_typer(limit_app, name="limit")

UserArgument = Annotated[str, typer.Argument(help="What a certificate calls its user.")]
NameArgument = Annotated[str, typer.Argument(help="user_begins_per_second, say: `limit show` has them all.")]


@limit_app.command("set", context_settings=NEGATIVE_NUMBERS)
@tells_errors
def limit_set(
    cluster: ClusterOption,
    user: UserArgument,
    name: NameArgument,
    value: ValueArgument,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Set a limit of one user, on all nodes, for good: it holds in place of the option of that name."""
    state = _changed(cluster, admin_pb2.SetLimitRequest(identity=user, name=name, value=value), timeout)
    console().print(f"{plain(name)} = {state.limit(user, name)} for {plain(user)}.")


@limit_app.command("unset")
@tells_errors
def limit_unset(cluster: ClusterOption, user: UserArgument, name: NameArgument, timeout: TimeoutOption = 10.0) -> None:
    """Let the option hold for a user again, as for all."""
    state = _changed(cluster, admin_pb2.SetLimitRequest(identity=user, name=name, restores=True), timeout)
    console().print(f"{plain(name)} = {state.limit(user, name)} for {plain(user)}, as for all.")


@limit_app.command("show")
@tells_errors
def limit_show(
    cluster: ClusterOption,
    user: Annotated[str, typer.Argument(help="What holds for this one; else for all, and whoever has others.")] = "",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Show the limits of users: one's own, and those of all to an operator."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    if user and answer.HasField("limits_of") and user != answer.limits_of:
        raise NotAuthorized(f"{answer.limits_of} is shown his own limits, and those of {user} an operator alone")
    show(listings.limits(from_wire(answer.catalog), user), as_json=as_json)


def _changed(cluster: str, request: admin_pb2.SetLimitRequest, timeout: float) -> CatalogState:
    with txnclient.connect(cluster, timeout=timeout) as client:
        answer = client.call("txnstatus.Admin/SetLimit", request, admin_pb2.SetLimitResponse)
    return from_wire(answer.catalog)
