"""The commands of `txnctl` that run a cluster on this machine."""

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
from txndeploy.local.cluster import LocalCluster, default_directory
from txndeploy.terminal.commands import show, tells_errors
from txndeploy.terminal.output import Field, Listing, console, lines, plain, status_line
from txnstatus.security.tls import VARIABLE

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
@tells_errors
def up(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes a new cluster gets.")] = 3,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where its data is kept; a cluster found there is started again.")
    ] = None,
    grpc: Annotated[bool, typer.Option("--grpc", help="The nodes of a new cluster serve gRPC, too.")] = False,
    http: Annotated[
        bool, typer.Option("--http", help="The nodes of a new cluster serve metrics and the console over HTTP, too.")
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
        show(_nodes(cluster), as_json=False)
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


def _nodes(cluster: LocalCluster) -> Listing:
    fields = (
        Field("node", "node", whole=True),
        Field("address", "address", whole=True),
        Field("grpc_address", "gRPC", whole=True),
        Field("http_address", "HTTP", whole=True),
        Field("leads", "leads"),
        Field("log", "log"),
    )
    rows = []
    for name, config in cluster.configs.items():
        status = cluster.status(name)
        rows.append(
            {
                "node": name,
                "address": config.nodes[name].address,
                "grpc_address": config.grpc_address,
                "http_address": config.http_address,
                "leads": [group.group for group in status.groups if group.leader] if status else ["(no answer)"],
                "log": str(cluster.log_path(name)),
            }
        )
    return Listing("nodes", fields, rows, title=f"cluster in {cluster.directory}")


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
