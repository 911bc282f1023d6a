"""The commands of `txnctl`."""

from __future__ import annotations

import functools
import signal
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

import txnclient
from txnclient import TxnState
from txnclient.calls.channel import parse_addresses
from txndeploy.ctl import compacting, driving, history, marking, placing, selection, speaking, tables
from txndeploy.ctl.watching import watch
from txndeploy.doctor.command import doctor
from txndeploy.local.claim import DirectoryInUse
from txndeploy.local.cluster import LocalCluster, default_directory, wait_until
from txndeploy.node import foreign_host, process
from txndeploy.terminal import listings, output
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, lines, plain, status_line
from txnstatus.catalog.catalog import from_wire
from txnstatus.foreign import check_foreign_name
from txnstatus.proto import admin_pb2

app = typer.Typer(
    help="Runs and inspects a txnstatus cluster.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
txn_app = typer.Typer(help="Look at transactions, and end them.", no_args_is_help=True)
app.add_typer(txn_app, name="txn")
node_app = typer.Typer(help="Run a node, or replace one.", no_args_is_help=True)
config_app = typer.Typer(help="Options that may change while the cluster runs.", no_args_is_help=True)
app.add_typer(tables.app, name="table")
app.add_typer(history.savepoint_app, name="savepoint")
app.add_typer(marking.app, name="marks")
app.add_typer(placing.group_app, name="group")
app.add_typer(placing.database_app, name="database")
app.add_typer(config_app, name="config")
app.add_typer(node_app, name="node")
participant_app = typer.Typer(help="Foreign participants: systems besides the tables.", no_args_is_help=True)
app.add_typer(participant_app, name="participant")

app.command("doctor")(doctor)
app.command("restore")(history.restore)
app.command("timeline")(history.timeline)
txn_app.command("undo")(history.undo)
app.command("compactor")(compacting.compactor)
app.command("compactions")(compacting.compactions)
app.command("spark")(driving.spark)
app.command("sql")(speaking.sql)

# ---- running


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


@app.command()
@tells_errors
def up(
    nodes: Annotated[int, typer.Option(min=1, max=9, help="How many nodes a new cluster gets.")] = 3,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Where its data is kept; a cluster found there is started again.")
    ] = None,
    grpc: Annotated[bool, typer.Option("--grpc", help="The nodes of a new cluster serve gRPC, too.")] = False,
    compactor: Annotated[bool, typer.Option(help="Compactions are done, by a process beside the nodes.")] = True,
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
            cluster = LocalCluster(where, nodes, grpc=grpc, compactor=compactor)
            cluster.__enter__()
    except DirectoryInUse as used:
        _attach(used)
        return
    try:
        show(listings.nodes(cluster), as_json=False)
        if grpc and not any(config.grpc_address for config in cluster.configs.values()):
            console().print("The cluster found there serves no gRPC: --grpc is for a new one.", style="yellow")
        console().print(f"\nexport TXN_CLUSTER={cluster.addresses}", soft_wrap=True)
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
    with status_line(f"{used}: waiting for them"), txnclient.connect(used.holder.addresses, timeout=60.0) as client:
        client.last_commit()
    console().print(f"{plain(str(used))}. Nothing is started here; they end with that process.", soft_wrap=True)
    console().print(f"\nexport TXN_CLUSTER={used.holder.addresses}", soft_wrap=True)


@app.command()
@tells_errors
def demo(
    directory: Annotated[Path | None, typer.Option("--dir", help="Where to work; by default a temporary one.")] = None,
    keep: Annotated[bool, typer.Option(help="Keep the data, to look at it with `txnctl up --dir`.")] = False,
) -> None:
    """The main job: one transaction over five tables from PySpark, on three nodes, through the loss of a leader."""
    from txndeploy.demo import load

    raise typer.Exit(load.run(console(), directory, keep=keep))


@app.command()
@tells_errors
def status(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """Which node leads which group."""
    show(listings.groups(cluster, timeout), as_json=as_json)


# ---- transactions


StateOption = Annotated[list[str] | None, typer.Option("--state", help="Only this state; may be repeated.")]
LabelOption = Annotated[str, typer.Option("--label", help="Only this label.")]
OwnerOption = Annotated[str, typer.Option("--owner", help="Only of this owner.")]
TableOption = Annotated[str, typer.Option("--table", help="Only those in which this table takes part.")]


@txn_app.command("list")
@tells_errors
def txn_list(
    cluster: ClusterOption,
    state: StateOption = None,
    label: LabelOption = "",
    owner: OwnerOption = "",
    table: TableOption = "",
    since: Annotated[
        str, typer.Option(help="Only those begun since then: 2026-01-31, 2026-01-31T12:00 (UTC), or 2h ago: 2h.")
    ] = "",
    ids: Annotated[list[int] | None, typer.Option("--id", help="Only this id; may be repeated.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most this many, newest first.")] = 50,
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """List transactions, newest first."""
    states, begun = selection.states(state), selection.since(since)
    with txnclient.connect(cluster, timeout=timeout) as client:
        newest = client.transactions(
            states, label, owner=owner, participant=table, ids=ids or (), since=begun, limit=limit + 1
        )
        selection.check_ids(client, ids or [], newest)
    more = len(newest) > limit
    show(listings.transactions(newest[:limit], more=more), as_json=as_json)
    if more and not as_json:
        console().print("there are older ones: --limit")


@txn_app.command("show")
@tells_errors
def txn_show(cluster: ClusterOption, txn_id: int, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """Show one transaction, and what it has come to in each participant."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        row = dict(listings.txn_row(client.get(txn_id)))
        found = listings.participants(client.participants(txn_id))
    if as_json:
        typer.echo(output.as_json({"transaction": {**row, "participants": found.rows}}))
        return
    fields = [each for each in listings.TXN if each.key != "participants"]
    console().print(output.record(f"transaction {txn_id}", fields, row))
    if found.rows:
        show(found, as_json=False)


@txn_app.command("abort")
@tells_errors
def txn_abort(
    cluster: ClusterOption,
    reason: Annotated[str, typer.Option(help="Kept in the transactions' records.")],
    txn_ids: Annotated[list[int] | None, typer.Argument(help="Which ones. Or say it by --older-than.")] = None,
    older_than: Annotated[str, typer.Option(help="All open ones begun so long ago or longer: 90s, 30m, 1h, 2d.")] = "",
    label: LabelOption = "",
    owner: OwnerOption = "",
    table: TableOption = "",
    yes: Annotated[bool, typer.Option("--yes", help="With --older-than: do not ask.")] = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Abort anybody's transactions, as an operator.

    Exit code 1: one at least is not aborted, such as one that is committed. To abort again what is aborted is no error.
    """
    selection.check_abort(txn_ids or [], older_than, (label, owner, table))
    with txnclient.connect(cluster, timeout=timeout) as client:
        if not older_than:
            chosen = list(dict.fromkeys(txn_ids or []))
        else:
            before = datetime.now(UTC) - selection.duration(older_than, "--older-than")
            old = client.transactions([TxnState.OPEN], label, owner=owner, participant=table, until=before)
            chosen = [txn.txn_id for txn in old]
            if old and not yes:
                if as_json:
                    raise typer.BadParameter("say --yes, too: nobody can be asked", param_hint="--json")
                show(listings.transactions(old), as_json=False)
                typer.confirm(f"Abort these {len(old)}?", abort=True)
        outcomes = [selection.aborted(client, txn_id, reason) for txn_id in chosen]
    show(listings.aborts(outcomes), as_json=as_json)
    if not all(outcome["aborted"] for outcome in outcomes):
        raise typer.Exit(1)


@app.command()
@tells_errors
def locks(
    cluster: ClusterOption,
    table: Annotated[str, typer.Option(help="Only of this table or database, and of what is below.")] = "",
    partition: Annotated[str, typer.Option(help="Only of this partition of the table: column=value/...")] = "",
    extended: Annotated[bool, typer.Option(help="Also the transactions' states and labels.")] = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Show who holds and who waits for which lock."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        show(listings.locks(client.locks(table, partition, extended=extended), extended=extended), as_json=as_json)


# ---- options


@config_app.command("list")
@tells_errors
def config_list(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List the options of the cluster, with their values now."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        answer = client.call("txnstatus.Admin/GetCluster", admin_pb2.GetClusterRequest(), admin_pb2.GetClusterResponse)
    show(listings.options(from_wire(answer.catalog)), as_json=as_json)


@config_app.command("set")
@tells_errors
def config_set(
    cluster: ClusterOption, name: str, value: int, as_json: JsonOption = False, timeout: TimeoutOption = 10.0
) -> None:
    """Change an option on all nodes, without a restart, for good. Times are in milliseconds."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        request = admin_pb2.SetOptionRequest(name=name, value=value)
        answer = client.call("txnstatus.Admin/SetOption", request, admin_pb2.SetOptionResponse)
    show(listings.options(from_wire(answer.catalog)), as_json=as_json)


# ---- foreign participants


@participant_app.command("postgres")
@tells_errors
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
