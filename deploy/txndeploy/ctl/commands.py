"""The commands of `txnctl`."""

from __future__ import annotations

import functools
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, ParamSpec

import typer
from rich.console import Console

import txnclient
from txnclient import TxnError, TxnState
from txnclient.calls.channel import parse_addresses
from txndeploy import terminal
from txndeploy.doctor.command import doctor
from txndeploy.local.cluster import LocalCluster, default_directory, wait_until
from txndeploy.node import foreign_host, process
from txndeploy.node.config import ConfigError
from txnstatus.catalog.catalog import from_wire
from txnstatus.foreign import check_foreign_name
from txnstatus.proto import admin_pb2

P = ParamSpec("P")

console = Console()
app = typer.Typer(help="Runs and inspects a txnstatus cluster.", no_args_is_help=True, pretty_exceptions_enable=False)
txn_app = typer.Typer(help="Look at transactions, and end them.", no_args_is_help=True)
table_app = typer.Typer(help="Look at tables, and drop them.", no_args_is_help=True)
app.add_typer(txn_app, name="txn")
node_app = typer.Typer(help="Run a node, or replace one.", no_args_is_help=True)
config_app = typer.Typer(help="Options that may change while the cluster runs.", no_args_is_help=True)
app.add_typer(table_app, name="table")
app.add_typer(config_app, name="config")
app.add_typer(node_app, name="node")
participant_app = typer.Typer(help="Foreign participants: systems besides the tables.", no_args_is_help=True)
app.add_typer(participant_app, name="participant")

app.command("doctor")(doctor)

ClusterOption = Annotated[
    str,
    typer.Option("--cluster", "-c", envvar="TXN_CLUSTER", help="Addresses of nodes: host:port, comma-separated."),
]
TimeoutOption = Annotated[float, typer.Option(help="Seconds to keep trying.")]


def _tells_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Errors are for people here: what happened and what to do, and exit code 1."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except typer.Exit:
            raise  # a RuntimeError, of all things
        except (TxnError, ConfigError, TimeoutError, RuntimeError) as error:
            console.print(f"[red]error:[/red] {error}", highlight=False, soft_wrap=True)
            raise typer.Exit(1) from None

    return run


# ---- running


@node_app.command("run")
def node_run(config: Annotated[Path, typer.Option(help="The node's configuration (TOML).")]) -> None:
    """Run one node in the foreground, until SIGTERM or Ctrl-C."""
    raise typer.Exit(process.run(config))


@node_app.command("replace")
@_tells_errors
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
    with txnclient.connect(cluster, timeout=10.0) as client, console.status(f"{new} takes the place of {old}") as line:
        request = admin_pb2.ReplaceNodeRequest(old_node=old, new_node=new, address=address)
        client.call("txnstatus.Admin/ReplaceNode", request, admin_pb2.ReplaceNodeResponse)

        def done() -> bool:
            answer = client.call(
                "txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse
            )
            state = from_wire(answer.catalog)
            left = [name for name, members in state.groups.items() if old in members]
            line.update(f"{new} takes the place of {old}; groups to go: {', '.join(left) or 'none'}")
            return old not in state.nodes

        wait_until(done, f"{new} in the place of {old}", timeout)
    console.print(f"{new} has taken the place of {old}.")


@app.command()
@_tells_errors
def up(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes a new cluster gets.")] = 3,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where its data is kept; a cluster found there is started again.")
    ] = None,
    grpc: Annotated[bool, typer.Option("--grpc", help="The nodes of a new cluster serve gRPC, too.")] = False,
) -> None:
    """Run a cluster on this machine, until Ctrl-C. The data stays."""
    where = directory or default_directory()
    ended = threading.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: ended.set())
    with console.status(f"starting the cluster in {where}"):
        cluster = LocalCluster(where, nodes, grpc=grpc)
        cluster.__enter__()
    try:
        console.print(terminal.nodes(cluster))
        if grpc and not any(config.grpc_address for config in cluster.configs.values()):
            console.print("The cluster found there serves no gRPC: --grpc is for a new one.", style="yellow")
        console.print(f"\nexport TXN_CLUSTER={cluster.addresses}", highlight=False, soft_wrap=True)
        console.print("Ctrl-C ends the nodes.")
        ended.wait()
    finally:
        with console.status("ending the nodes"):
            cluster.stop()


@app.command()
@_tells_errors
def demo(
    directory: Annotated[Path | None, typer.Option("--dir", help="Where to work; by default a temporary one.")] = None,
    keep: Annotated[bool, typer.Option(help="Keep the data, to look at it with `txnctl up --dir`.")] = False,
) -> None:
    """The main job: one transaction over five tables from PySpark, on three nodes, through the loss of a leader."""
    from txndeploy.demo import load

    raise typer.Exit(load.run(console, directory, keep=keep))


@app.command()
@_tells_errors
def status(cluster: ClusterOption, timeout: TimeoutOption = 10.0) -> None:
    """Which node leads which group."""
    console.print(terminal.groups(cluster, timeout))


# ---- transactions


@txn_app.command("list")
@_tells_errors
def txn_list(
    cluster: ClusterOption,
    state: Annotated[list[str] | None, typer.Option(help="Only this state; may be repeated.")] = None,
    label: Annotated[str, typer.Option(help="Only this label.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most this many, newest first.")] = 50,
    timeout: TimeoutOption = 10.0,
) -> None:
    """List transactions, newest first."""
    known = {each.name: each for each in TxnState}
    for name in state or ():
        if name.upper() not in known:
            raise typer.BadParameter(f"{name!r} is no state; there are {', '.join(known)}", param_hint="--state")
    with txnclient.connect(cluster, timeout=timeout) as client:
        newest = client.transactions([known[name.upper()] for name in state or ()], label, limit=limit + 1)
    console.print(terminal.transactions(newest[:limit]))
    if len(newest) > limit:
        console.print("there are older ones: --limit")


@txn_app.command("show")
@_tells_errors
def txn_show(cluster: ClusterOption, txn_id: int, timeout: TimeoutOption = 10.0) -> None:
    """Show one transaction."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        console.print(terminal.transaction(client.get(txn_id)))


@txn_app.command("abort")
@_tells_errors
def txn_abort(
    cluster: ClusterOption,
    txn_id: int,
    reason: Annotated[str, typer.Option(help="Kept in the transaction's record.")],
    timeout: TimeoutOption = 10.0,
) -> None:
    """Abort anybody's transaction, as an operator."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.abort(txn_id, reason)
        console.print(terminal.transaction(client.get(txn_id)))


@app.command()
@_tells_errors
def locks(
    cluster: ClusterOption,
    table: Annotated[str, typer.Option(help="Only of this table or database, and of what is below.")] = "",
    partition: Annotated[str, typer.Option(help="Only of this partition of the table: column=value/...")] = "",
    extended: Annotated[bool, typer.Option(help="Also the transactions' states, labels and owners.")] = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Show who holds and who waits for which lock."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        console.print(terminal.locks(client.locks(table, partition, extended=extended), extended=extended))


# ---- options


@config_app.command("list")
@_tells_errors
def config_list(cluster: ClusterOption, timeout: TimeoutOption = 10.0) -> None:
    """List the options of the cluster, with their values now."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    console.print(terminal.options(from_wire(answer.catalog)))


@config_app.command("set")
@_tells_errors
def config_set(cluster: ClusterOption, name: str, value: int, timeout: TimeoutOption = 10.0) -> None:
    """Change an option on all nodes, without a restart, for good. Times are in milliseconds."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        request = admin_pb2.SetOptionRequest(name=name, value=value)
        answer = client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)
    console.print(terminal.options(from_wire(answer.catalog)))


# ---- foreign participants


@participant_app.command("postgres")
@_tells_errors
def participant_postgres(
    name: Annotated[str, typer.Option(help="What programs and operators call it; for the life of the cluster.")],
    listen: Annotated[str, typer.Option(help="host:port to serve on.")],
    join: Annotated[str, typer.Option(envvar="TXN_CLUSTER", help="Addresses of nodes: host:port, comma-separated.")],
    dsn: Annotated[
        str, typer.Option(envvar="TXN_POSTGRES_DSN", help="The database, as libpq takes it: text, or a URI.")
    ] = "",
    advertise: Annotated[str, typer.Option(help="host:port at which the nodes reach it; by default as --listen.")] = "",
) -> None:
    """Let a PostgreSQL database take part in transactions; in the foreground, until SIGTERM or Ctrl-C.

    The server needs max_prepared_transactions. The role is a superuser, or the one that programs work with.
    """
    check_foreign_name(name)
    (address,), addresses = parse_addresses(listen), parse_addresses(join)
    reached_at = advertise or address
    try:
        from txnparticipant.foreign.postgres import PostgresParticipant
    except ModuleNotFoundError as error:
        raise RuntimeError(f"{error.name} is not installed: pip install 'txnstatus[server,postgres]'") from error
    make = functools.partial(PostgresParticipant, name=name, conninfo=dsn)
    raise typer.Exit(foreign_host.run(name, make, address, reached_at, addresses))


@participant_app.command("list")
@_tells_errors
def participant_list(cluster: ClusterOption, timeout: TimeoutOption = 10.0) -> None:
    """List foreign participants, where they are, whether they answer, and who waits for them."""
    console.print(terminal.foreign(cluster, timeout))


@participant_app.command("remove")
@_tells_errors
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
    console.print(f"{name} is removed.")


# ---- tables


@table_app.command("list")
@_tells_errors
def table_list(cluster: ClusterOption, timeout: TimeoutOption = 10.0) -> None:
    """List tables, with what a reader sees of them now."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        console.print(terminal.data_tables(client))


@table_app.command("show")
@_tells_errors
def table_show(cluster: ClusterOption, name: str, timeout: TimeoutOption = 10.0) -> None:
    """Show a table's columns."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        console.print(terminal.columns(client.table(name)))


@table_app.command("drop")
@_tells_errors
def table_drop(
    cluster: ClusterOption,
    name: str,
    ignore_missing: Annotated[bool, typer.Option(help="A table that is not there is no error.")] = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Drop a table. Its name is free at once; its files go when nobody can read them any more.

    Snapshots of before the drop go on reading it for snapshot_retention_seconds; there is no way back.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.drop_table(name, ignore_missing=ignore_missing)
    console.print(f"{name} is dropped.")
