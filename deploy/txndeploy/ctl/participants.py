"""The commands of `txnctl` that have to do with foreign participants."""

from __future__ import annotations

import functools
from typing import Annotated

import typer

import txnclient
from txnclient.calls.channel import parse_addresses
from txndeploy.logs import Level, LogFormat
from txndeploy.node import foreign_host
from txndeploy.terminal import listings
from txndeploy.terminal.commands import (
    ClusterOption,
    JsonOption,
    LogFormatOption,
    LogLevelOption,
    TimeoutOption,
    show,
    tells_errors,
)
from txndeploy.terminal.output import console, plain
from txnstatus.foreign import check_foreign_name
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
participant_app = typer.Typer(help="Foreign participants: systems besides the tables.", no_args_is_help=True)
commands.add_typer(participant_app, name="participant")


@participant_app.command("postgres")
@tells_errors
def participant_postgres(
    context: typer.Context,
    name: Annotated[str, typer.Option(help="What programs and operators call it; for the life of the cluster.")],
    listen: Annotated[str, typer.Option(help="host:port to serve on.")],
    join: Annotated[str, typer.Option(envvar="TXN_CLUSTER", help="Addresses of nodes: host:port, comma-separated.")],
    dsn: Annotated[
        str,
        typer.Option(envvar="TXN_POSTGRES_DSN", help="The database, as libpq takes it: text, or a URI. No password."),
    ] = "",
    advertise: Annotated[str, typer.Option(help="host:port at which the nodes reach it; by default as --listen.")] = "",
    log_level: LogLevelOption = Level.INFO,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> None:
    """Let a PostgreSQL database take part in transactions; in the foreground, until SIGTERM or Ctrl-C.

    The server needs max_prepared_transactions. The role is a superuser, or the one that programs work with.
    """
    check_foreign_name(name)
    (address,), addresses = parse_addresses(listen), parse_addresses(join)
    reached_at = advertise or address
    try:
        from txnparticipant.foreign.postgres import PostgresParticipant, has_password
    except ModuleNotFoundError as error:
        raise RuntimeError(f"{error.name} is not installed: pip install 'txnstatus[server,postgres]'") from error
    source = context.get_parameter_source("dsn")
    if source is not None and source.name == "COMMANDLINE" and has_password(dsn):
        raise typer.BadParameter(
            "all on this machine could read its password by ps: give it by TXN_POSTGRES_DSN, or as libpq does, "
            "by PGPASSWORD or PGPASSFILE",
            param_hint="--dsn",
        )
    make = functools.partial(PostgresParticipant, name=name, conninfo=dsn)
    raise typer.Exit(foreign_host.run(name, make, address, reached_at, addresses, log_level, log_format))


@participant_app.command("list")
@tells_errors
def participant_list(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List foreign participants, where they are, whether they answer, and who waits for them."""
    show(listings.foreign(cluster, timeout), as_json=as_json)


@participant_app.command("remove")
@tells_errors
def participant_remove(
    cluster: ClusterOption,
    name: str,
    gone: Annotated[bool, typer.Option("--gone-for-good", help="Say so: its part of what commits is lost.")] = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Give up on a foreign participant that is gone for good, so that transactions it took part in can end.

    What it had prepared counts as done, though nobody does it. The name cannot be used again.
    """
    if not gone:
        raise typer.BadParameter("its data must be gone for good: say --gone-for-good", param_hint="NAME")
    with txnclient.connect(cluster, timeout=timeout) as client:
        request = admin_pb2.RemoveForeignRequest(name=name)
        client.call("txnstatus.Admin/RemoveForeign", request, admin_pb2.RemoveForeignResponse)
    console().print(f"{plain(name)} is removed.")
