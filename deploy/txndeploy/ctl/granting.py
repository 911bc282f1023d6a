"""The commands of `txnctl` that say who may do what."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

import txnclient
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import Field, Listing, console, plain
from txnstatus.roles import Role, called

commands = typer.Typer(rich_markup_mode=None)

OnOption = Annotated[str | None, typer.Option("--on", help="A table, database.table, or a database.")]
EverywhereOption = Annotated[bool, typer.Option("--everywhere", help="On the cluster, and all that is in it.")]
RoleArgument = Annotated[Role, typer.Argument(help="What somebody is to be there.")]
IdentityArgument = Annotated[str, typer.Argument(help="What a certificate calls its user.")]


@commands.command()
@tells_errors
def grant(
    cluster: ClusterOption,
    role: RoleArgument,
    identity: IdentityArgument,
    on: OnOption = None,
    everywhere: EverywhereOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Give somebody a role on a table, a database or the cluster."""
    where = _where(on, everywhere=everywhere)
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.grant(role, identity, on=where)
    console().print(f"{plain(identity)} is {role} of {plain(called(where or ''))}.")


@commands.command()
@tells_errors
def revoke(
    cluster: ClusterOption,
    role: RoleArgument,
    identity: IdentityArgument,
    on: OnOption = None,
    everywhere: EverywhereOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Take a role back that was granted there. What is granted on what it is in stays."""
    where = _where(on, everywhere=everywhere)
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.revoke(role, identity, on=where)
    console().print(f"{plain(identity)} has no grant to be {role} of {plain(called(where or ''))}.")


@commands.command()
@tells_errors
def grants(
    cluster: ClusterOption,
    identity: Annotated[str, typer.Argument(help="Only this one's.")] = "",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Show what is granted: to oneself, and to anybody on what one owns."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        found = client.grants(identity)
    rows = [{**dataclasses.asdict(each), "called": called(each.on or "")} for each in found]
    fields = (Field("identity", "who"), Field("role", "is"), Field("called", "of"), Field("on", "on", hidden=True))
    show(Listing("grants", fields, rows, title="grants"), as_json=as_json)


def _where(on: str | None, *, everywhere: bool) -> str | None:
    """Raises typer.BadParameter."""
    if everywhere == bool(on):
        raise typer.BadParameter("say one of --on and --everywhere", param_hint="--on")
    return on
