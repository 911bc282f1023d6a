"""The commands of `txnctl` that are about one node: to run it, have it come, go or rest, to make it of a backup."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

import txnclient
from txnclient.read import instants
from txndeploy.backup import data, recovering
from txndeploy.backup.files import Backup
from txndeploy.backup.restoring import restore
from txndeploy.local.cluster import wait_until
from txndeploy.node import config as configuration
from txndeploy.node import process
from txndeploy.terminal import listings
from txndeploy.terminal.commands import ClusterOption, TimeoutOption, storage_errors, tells_errors
from txndeploy.terminal.output import console, lines, moment, plain, status_line
from txnstatus.catalog.founding import founding_id
from txnstatus.catalog.nodes import Drain
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
node_app = typer.Typer(help="Run, add, drain, replace and remove nodes, make one of a backup.", no_args_is_help=True)
commands.add_typer(node_app, name="node")
TOLD = 10
"""Torn transactions that are named."""
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
    console().print(f"{plain(new)} has taken the place of {plain(old)}. {_stop(old)}")


@node_app.command("add")
@tells_errors
def node_add(
    cluster: ClusterOption,
    node: Annotated[str, typer.Argument(help="A name that no node has had.")],
    address: Annotated[str, typer.Option(help="The new node's host:port.")],
    roles: Annotated[str, typer.Option(help="Some of manager, status, participant.")] = "manager,status,participant",
    timeout: TimeoutOption = 60.0,
) -> None:
    """Let a node join, that has been started with `joins = true`. `txnctl rebalance` gives it replicas."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        request = admin_pb2.AddNodeRequest(node_id=node, address=address, roles=roles.split(","))
        client.call("txnstatus.Admin/AddNode", request, admin_pb2.AddNodeResponse)
    console().print(f"{plain(node)} is a node, and holds nothing yet: txnctl rebalance")


@node_app.command("drain")
@tells_errors
def node_drain(
    cluster: ClusterOption,
    node: Annotated[str, typer.Argument(help="The node that leads nothing from now on.")],
    move: Annotated[bool, typer.Option("--move", help="Move its replicas to other nodes, too: it leaves.")] = False,
    timeout: TimeoutOption = 600.0,
) -> None:
    """Have others lead what a node leads, before maintenance, until `txnctl node undrain`: also after a restart.

    With --move it gives its replicas away, one after the other, and can be removed then. That goes on when this command
    is ended.
    """
    drain = Drain.LEAVES if move else Drain.LEADS_NOTHING
    with txnclient.connect(cluster, timeout=10.0) as client, status_line(f"{node} is drained") as tell:
        request = admin_pb2.DrainNodeRequest(node_id=node, drain=drain.name)
        client.call("txnstatus.Admin/DrainNode", request, admin_pb2.DrainNodeResponse)

        def done() -> bool:
            state = listings.catalog(client)
            rows = listings.groups(client, state).rows
            led = [row["group"] for row in rows if row["node"] == node and row["role"] == "leader"]
            held = [name for name, members in state.groups.items() if node in members] if move else []
            tell(f"{node} leads {', '.join(led) or 'nothing'}" + (f", holds {', '.join(held)}" if held else ""))
            return not led and not held

        wait_until(done, f"{node} drained", timeout)
    console().print(f"{plain(node)} {'holds' if move else 'leads'} nothing.")


@node_app.command("undrain")
@tells_errors
def node_undrain(cluster: ClusterOption, node: str, timeout: TimeoutOption = 10.0) -> None:
    """Let a node lead again that was drained. Replicas that it gave away come back by `txnctl rebalance`."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        request = admin_pb2.DrainNodeRequest(node_id=node, drain=Drain.SERVES.name)
        client.call("txnstatus.Admin/DrainNode", request, admin_pb2.DrainNodeResponse)
    console().print(f"{plain(node)} serves.")


@node_app.command("remove")
@tells_errors
def node_remove(cluster: ClusterOption, node: str, timeout: TimeoutOption = 10.0) -> None:
    """Let a node go for good that holds no replica, as after `txnctl node drain --move`. Stop it then."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.call(
            "txnstatus.Admin/RemoveNode", admin_pb2.RemoveNodeRequest(node_id=node), admin_pb2.RemoveNodeResponse
        )
    console().print(f"{plain(node)} is no node any more. {_stop(node)}")


@node_app.command("restore")
@tells_errors
def node_restore(
    backup: Annotated[Path, typer.Argument(help="The backup's directory.")],
    config: ConfigOption,
    with_data: Annotated[
        bool, typer.Option("--data", help="Put the tables' files back, too, where they are missing: on one node.")
    ] = False,
    torn: Annotated[
        bool, typer.Option("--torn", help="Also of a backup that contradicts itself, as `node recover` may make one.")
    ] = False,
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
        found = Backup(backup)
        put_back = data.put_back(found.copies(), backup, tell) if with_data else None
        groups = restore(found, settings, drawn, tell, torn=torn)
    out = console()
    out.print(
        f"{plain(settings.node_id)} has {plain(', '.join(groups) or 'no group')}, in {plain(str(settings.data_dir))}."
    )
    if put_back is not None:
        out.print(f"{put_back:,} files of tables were put back.")
    if cluster_id is None:
        out.print(f"For the other nodes: --cluster-id {plain(drawn)}", soft_wrap=True)


@node_app.command("recover")
@tells_errors
def node_recover(
    data_dir: Annotated[Path, typer.Option("--from", help="The data directory of a node that is left, and stopped.")],
    backup: Annotated[Path, typer.Argument(help="Where to make the backup; it must not be there yet.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Make a backup of what one node has, where a majority is lost for good: `txnctl node restore` goes on from there.

    It says first what may be lost. The node's directory stays as it is.
    """
    out = console()
    with storage_errors(data_dir), recovering.opened(data_dir) as found:
        out.print(lines("\n".join(_told(found))), soft_wrap=True)
        if not yes:
            typer.confirm("Make a backup of this?", abort=True)
        manifest = recovering.write(found, backup)
    out.print(f"{plain(str(backup))} has {len(manifest.groups)} groups.", soft_wrap=True)


def _told(found: recovering.Found) -> Iterator[str]:
    """What is there, and what may be lost, in sentences."""
    last = instants.to_datetime(found.last_commit) if found.last_commit else None
    yield f"This node knows of commits of cluster {found.cluster_id} up to {moment(last) if last else 'none'} (UTC)."
    yield "Lost is what was acknowledged, and had not reached this node: nobody can tell how much that is."
    yield "What was asked for last, and never acknowledged, may take effect."
    if found.missing:
        yield f"Lost with all they had: {', '.join(found.missing)}, of which this node has no replica."
    for story in found.torn[:TOLD]:
        yield f"Torn: {story}"
    if len(found.torn) > TOLD:
        yield f"and {len(found.torn) - TOLD} more that are torn."
    if found.torn:
        yield "Nodes are made of it by --torn: look at the tables of these transactions then."
    yield "No node of the old cluster may run again: its tables' places are the new cluster's."


def _stop(node: str) -> str:
    return f"Stop {plain(node)} if it runs: whoever asks it hears of the cluster as it was."
