"""The commands of `txnctl` that keep the past, and go back to it."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

import txnclient
from txnclient import CommitReceipt
from txndeploy.ctl import selection
from txndeploy.terminal import output, past
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, plain

commands = typer.Typer(rich_markup_mode=None)
savepoint_app = typer.Typer(help="Keep tables as they are now, under a name.", no_args_is_help=True)
commands.add_typer(savepoint_app, name="savepoint")


@savepoint_app.command("create")
@tells_errors
def create(
    cluster: ClusterOption,
    name: str,
    tables: Annotated[list[str] | None, typer.Option("--table", help="Only this one; or more than one.")] = None,
    keep: Annotated[str, typer.Option(help="For how long: 12h, 30d; or `always`, until it is released.")] = "30d",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Give a name to what all tables, or some, are now: it stays readable, and can be restored."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        made = client.savepoint(name, tables or None, keep=None if keep == "always" else keep)
        show(past.savepoints([made]), as_json=as_json)


@savepoint_app.command("list")
@tells_errors
def list_all(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List savepoints, with the bytes of files that are kept for each, about."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        show(past.savepoints(client.savepoints()), as_json=as_json)


@savepoint_app.command("release")
@tells_errors
def release(
    cluster: ClusterOption,
    name: str,
    as_operator: Annotated[bool, typer.Option("--as-operator", help="Whosever it is.")] = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Release a savepoint: what only it has kept is removed."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.release_savepoint(name, as_operator=as_operator)
    console().print(f"savepoint {plain(name)} is released.")


@tells_errors
def undo(
    cluster: ClusterOption,
    txn_id: int,
    label: Annotated[str, typer.Option(help="What listings show; by default it names the transaction.")] = "",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 60.0,
) -> None:
    """Take back what a committed transaction did, in all its tables, as a transaction of its own.

    It is refused where a later one has changed the same rows; what others have done to other rows stays. The undo can
    be undone, too.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        _tell(client.undo(txn_id, label=label), f"transaction {txn_id} is undone", as_json=as_json)


@commands.command()
@tells_errors
def restore(
    cluster: ClusterOption,
    savepoint: Annotated[str, typer.Option(help="Its name.")] = "",
    since: Annotated[str, typer.Option("--time", help="A time (UTC, unless it says its zone), or how long ago.")] = "",
    timestamp: Annotated[int | None, typer.Option(help="A commit's, as txn list --json shows it.")] = None,
    tables: Annotated[list[str] | None, typer.Option("--table", help="Only this one; or more than one.")] = None,
    label: Annotated[str, typer.Option(help="What listings show.")] = "",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 60.0,
) -> None:
    """Make tables, or all, what they were at a savepoint or a time, as one transaction. It can be undone."""
    points: list[int | str | datetime] = [
        each for each in (savepoint, selection.since(since, "--time"), timestamp) if each not in ("", None)
    ]
    if len(points) != 1:
        raise typer.BadParameter("say one of --savepoint, --time and --timestamp", param_hint="--savepoint")
    with txnclient.connect(cluster, timeout=timeout) as client:
        _tell(client.restore(points[0], tables or None, label=label), "restored", as_json=as_json)


def _tell(receipt: CommitReceipt, what: str, *, as_json: bool) -> None:
    told = {"txn_id": receipt.txn_id, "commit_timestamp": receipt.commit_timestamp, "tables": list(receipt.tables)}
    if as_json:
        typer.echo(output.as_json({"receipt": told}))
        return
    changed = f"{', '.join(receipt.tables)} changed" if receipt.tables else "nothing had changed"
    console().print(f"{what} by transaction {receipt.txn_id}: {plain(changed)}.")


@commands.command()
@tells_errors
def timeline(
    cluster: ClusterOption,
    since: Annotated[str, typer.Option(help="A time (UTC, unless it says its zone), or how long ago.")] = "1d",
    table: Annotated[str, typer.Option(help="Only those in which this table, or another participant, took part.")] = "",
    label: Annotated[str, typer.Option(help="Only those with this label.")] = "",
    as_json: JsonOption = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """List transactions that are over, the oldest first, also those whose records are forgotten."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        found = client.timeline(since=selection.since(since), table=table, label=label)
        show(past.timeline(found), as_json=as_json)
