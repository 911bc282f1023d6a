"""The commands of `txnctl` that are about one node: to run it, to replace it, to make it of a backup."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Annotated

import typer

import txnclient
from txndeploy.backup.files import Backup
from txndeploy.backup.restoring import restore
from txndeploy.local.cluster import wait_until
from txndeploy.node import config as configuration
from txndeploy.node import process
from txndeploy.terminal import listings
from txndeploy.terminal.commands import ClusterOption, TimeoutOption, storage_errors, tells_errors
from txndeploy.terminal.output import console, plain, status_line
from txnstatus.catalog.catalog import founding_id
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
node_app = typer.Typer(help="Run a node, replace one, or make one of a backup.", no_args_is_help=True)
commands.add_typer(node_app, name="node")
ConfigOption = Annotated[Path, typer.Option(help="The node's configuration (TOML).")]


@node_app.command("run")
def node_run(config: ConfigOption) -> None:
    """Run one node in the foreground, until SIGTERM or Ctrl-C."""
    raise typer.Exit(process.run(config))


@node_app.command("replace")
@tells_errors
def node_replace(
    cluster: ClusterOption,
    old: Annotated[str, typer.Argument(help="The dead node; it must never come back.")],
    new: Annotated[str, typer.Argument(help="The new one: a name that no node has had.")],
    address: Annotated[str, typer.Option(help="The new node's host:port.")],
    timeout: TimeoutOption = 300.0,
) -> None:
    """Let a new node take a dead one's place in every group, while the cluster serves.

    Start the new node first, with `joins = true` in its configuration.
    """
    with txnclient.connect(cluster, timeout=10.0) as client, status_line(f"{new} takes the place of {old}") as tell:
        request = admin_pb2.ReplaceNodeRequest(old_node=old, new_node=new, address=address)
        client.call("txnstatus.Admin/ReplaceNode", request, admin_pb2.ReplaceNodeResponse)

        def done() -> bool:
            state = listings.catalog(client)
            left = [name for name, members in state.groups.items() if old in members]
            tell(f"{new} takes the place of {old}; groups to go: {', '.join(left) or 'none'}")
            return old not in state.nodes

        wait_until(done, f"{new} in the place of {old}", timeout)
    console().print(f"{plain(new)} has taken the place of {plain(old)}.")


@node_app.command("restore")
@tells_errors
def node_restore(
    backup: Annotated[Path, typer.Argument(help="The backup's directory.")],
    config: ConfigOption,
    cluster_id: Annotated[
        str | None,
        typer.Option("--cluster-id", help="As the first node's restore has said it; without, a new one is drawn."),
    ] = None,
) -> None:
    """Make the data directory of a node of a new cluster, of a backup. It must not be there; start the node afterwards.

    Do so for each node of the new cluster, with its configuration and the id that the first one is told.
    """
    settings = configuration.load(config)
    drawn = cluster_id or founding_id(settings.cluster_name, secrets.randbits(128))
    with status_line(f"restoring {settings.node_id}") as tell, storage_errors(settings.data_dir):
        groups = restore(Backup(backup), settings, drawn, tell)
    out = console()
    out.print(
        f"{plain(settings.node_id)} has {plain(', '.join(groups) or 'no group')}, in {plain(str(settings.data_dir))}."
    )
    if cluster_id is None:
        out.print(f"For the other nodes: --cluster-id {plain(drawn)}", soft_wrap=True)
