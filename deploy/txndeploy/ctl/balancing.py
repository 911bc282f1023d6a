"""`txnctl rebalance`: replicas are moved until every node has as many as the others."""

from __future__ import annotations

from typing import Annotated

import typer

import txnclient
from txndeploy.local.cluster import wait_until
from txndeploy.terminal import listings, moves
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, plain, status_line
from txnstatus.catalog.catalog import from_wire
from txnstatus.catalog.placement import plan
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
@tells_errors
def rebalance(
    cluster: ClusterOption,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what moves and would; change nothing.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="Begin no more moves, take back those under way.")] = False,
    as_json: JsonOption = False,
    timeout: TimeoutOption = 3600.0,
) -> None:
    """Move replicas until every node has as many as the others, one at a time in each group, while the cluster serves.

    The cluster goes on with it when this command is ended, or a node is. A replica comes and catches up before another
    one goes. Drained nodes keep what they have.
    """
    with txnclient.connect(cluster, timeout=10.0) as client:
        if dry_run:
            state = listings.catalog(client)
            show(moves.moves(state, plan(state.placement)), as_json=as_json)
            return
        answer = client.call(
            "txnstatus.Admin/Rebalance", admin_pb2.RebalanceRequest(stops=stop), admin_pb2.RebalanceResponse
        )
        show(moves.moves(from_wire(answer.catalog)), as_json=as_json)
        with status_line("replicas move") as tell:

            def done() -> bool:
                state = listings.catalog(client)
                left = state.moves
                if left:
                    tell(f"{len(left)} moves to go: {left[0].group}, {left[0].old_node} to {left[0].new_node}")
                # Whoever is asked may know of a catalog from before.
                return not left and state.version >= answer.catalog.version

            wait_until(done, "the moves", timeout)
    if not as_json:
        console().print(plain("Nothing moves."))
