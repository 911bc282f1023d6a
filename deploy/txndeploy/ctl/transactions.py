"""The commands of `txnctl` that look at transactions and locks, and end transactions."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Annotated

import typer

import txnclient
from txnclient import TxnState
from txndeploy.ctl import history, selection
from txndeploy.terminal import listings, output
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, lines

commands = typer.Typer(rich_markup_mode=None)
txn_app = typer.Typer(help="Look at transactions, and end them.", no_args_is_help=True)
commands.add_typer(txn_app, name="txn")
txn_app.command("undo")(history.undo)

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


@commands.command()
@tells_errors
def explain(cluster: ClusterOption, txn_id: int, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """Say why a transaction is as it is: what it waits for, since when, and what one can do about it."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        found = client.explain(txn_id)
    if as_json:
        typer.echo(output.as_json({"explanation": dataclasses.asdict(found)}))
        return
    console().print(lines(f"transaction {found.txn_id} {found.story[0]}."), soft_wrap=True)
    for each in found.story[1:]:
        console().print(lines(f"{each}."), soft_wrap=True)
    for each in found.advice:
        console().print(lines(f"→ {each}"), style="cyan", soft_wrap=True)


@commands.command()
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
