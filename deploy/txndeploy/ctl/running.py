"""The commands of `txnctl` that run nodes, and a cluster on this machine."""

from __future__ import annotations

import shlex
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer

import txnclient
from txndeploy.ctl.watching import watch
from txndeploy.local.certificates import credentials_of
from txndeploy.local.claim import DirectoryInUse
from txndeploy.local.cluster import LocalCluster, default_directory, wait_until
from txndeploy.node import process
from txndeploy.terminal import listings
from txndeploy.terminal.commands import ClusterOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, lines, plain, status_line
from txnstatus.catalog.catalog import from_wire
from txnstatus.proto import admin_pb2
from txnstatus.security.tls import VARIABLE

commands = typer.Typer(rich_markup_mode=None)
node_app = typer.Typer(help="Run a node, or replace one.", no_args_is_help=True)
commands.add_typer(node_app, name="node")


@node_app.command("run")
def node_run(config: Annotated[Path, typer.Option(help="The node's configuration (TOML).")]) -> None:
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
            answer = client.call(
                "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
            )
            state = from_wire(answer.catalog)
            left = [name for name, members in state.groups.items() if old in members]
            tell(f"{new} takes the place of {old}; groups to go: {', '.join(left) or 'none'}")
            return old not in state.nodes

        wait_until(done, f"{new} in the place of {old}", timeout)
    console().print(f"{plain(new)} has taken the place of {plain(old)}.")


@commands.command()
@tells_errors
def up(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes a new cluster gets.")] = 3,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where its data is kept; a cluster found there is started again.")
    ] = None,
    grpc: Annotated[bool, typer.Option("--grpc", help="The nodes of a new cluster serve gRPC, too.")] = False,
    http: Annotated[
        bool, typer.Option("--http", help="The nodes of a new cluster serve metrics and /readyz over HTTP, too.")
    ] = False,
    compactor: Annotated[bool, typer.Option(help="Compactions are done, by a process beside the nodes.")] = True,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="A new cluster has no TLS: whoever is on this machine may do anything.")
    ] = False,
) -> None:
    """Run a cluster on this machine, until Ctrl-C. The data stays.

    Where another process runs the nodes in the directory, it says which one and where they are, and ends: use those.
    Of a node, or the compactor, that ends by itself it says how, and goes on with the others; exit code 1: all nodes
    have ended.
    """
    where = directory or default_directory()
    ended = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: ended.set())
    try:
        with status_line(f"starting the cluster in {where}"):
            cluster = LocalCluster(where, nodes, grpc=grpc, http=http, compactor=compactor, secure=not insecure)
            cluster.__enter__()
    except DirectoryInUse as used:
        _attach(used)
        return
    try:
        show(listings.nodes(cluster), as_json=False)
        if grpc and not any(config.grpc_address for config in cluster.configs.values()):
            console().print("The cluster found there serves no gRPC: --grpc is for a new one.", style="yellow")
        if http and not any(config.http_address for config in cluster.configs.values()):
            console().print("The cluster found there serves no HTTP: --http is for a new one.", style="yellow")
        _show_exports(cluster.addresses, cluster.credentials)
        console().print("Ctrl-C ends the nodes.")
        some_run = watch(cluster, ended, lambda said: console().print(lines(said), style="yellow", soft_wrap=True))
    finally:
        with status_line("ending the nodes"):
            cluster.stop_in_turn()
    if not some_run:
        raise typer.Exit(1)


def _attach(used: DirectoryInUse) -> None:
    """Tells of the cluster that another process runs, once it serves."""
    if used.holder is None:
        raise used
    addresses, credentials = used.holder.addresses, credentials_of(used.directory)
    with (
        status_line(f"{used}: waiting for them"),
        txnclient.connect(addresses, timeout=60.0, credentials=credentials) as client,
    ):
        client.last_commit()
    console().print(f"{plain(str(used))}. Nothing is started here; they end with that process.", soft_wrap=True)
    _show_exports(addresses, credentials)


def _show_exports(addresses: str, credentials: Path | None) -> None:
    console().print(f"\nexport TXN_CLUSTER={addresses}", soft_wrap=True)
    if credentials is not None:
        console().print(f"export {VARIABLE}={plain(shlex.quote(str(credentials)))}", soft_wrap=True)


@commands.command()
@tells_errors
def demo(
    directory: Annotated[Path | None, typer.Option("--dir", help="Where to work; by default a temporary one.")] = None,
    keep: Annotated[bool, typer.Option(help="Keep the data, to look at it with `txnctl up --dir`.")] = False,
) -> None:
    """The main job: one transaction over five tables from PySpark, on three nodes, through the loss of a leader."""
    from txndeploy.demo import load

    raise typer.Exit(load.run(console(), directory, keep=keep))
