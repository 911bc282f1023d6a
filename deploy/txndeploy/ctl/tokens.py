"""The commands of `txnctl` for the key by which tokens of transactions are signed."""

from __future__ import annotations

import typer

import txnclient
from txndeploy.terminal.commands import ClusterOption, TimeoutOption, tells_errors
from txndeploy.terminal.output import console
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
token_app = typer.Typer(help="Tokens of transactions.", no_args_is_help=True)
commands.add_typer(token_app, name="token")


@token_app.command("rotate")
@tells_errors
def token_rotate(cluster: ClusterOption, timeout: TimeoutOption = 10.0) -> None:
    """Sign by a new key from now on. Tokens of the key before hold on; a second time, they do not."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        known = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
        request = admin_pb2.TurnTicketKeyRequest(after=known.ticket_key)
        turned = client.call("txnstatus.Admin/TurnTicketKey", request, admin_pb2.TurnTicketKeyResponse)
    console().print(f"Tokens are signed by key {turned.number}; those of key {turned.number - 1} still hold.")
