"""The commands of `txnctl upgrade`: which version each node is of, and the feature level of the cluster."""

from __future__ import annotations

import json
from typing import Annotated

import typer

import txnclient
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import Field, Listing, console
from txnstatus import features
from txnstatus.errors import InvalidArgument
from txnstatus.features import Levels
from txnstatus.proto import admin_pb2

commands = typer.Typer(rich_markup_mode=None)
upgrade_app = typer.Typer(help="Versions of the nodes, and the cluster's feature level.", no_args_is_help=True)
commands.add_typer(upgrade_app, name="upgrade")
MAX_LEVEL = (1 << 32) - 1
"""The highest that goes over the wire."""
FIELDS = (
    Field("node", "node", whole=True),
    Field("version", "version"),
    Field("levels", "feature levels that it does"),
    Field("answers", "answers"),
)


@upgrade_app.command("show")
@tells_errors
def upgrade_show(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """Show the feature level, and what each node does. One that does not answer: as it has said before."""
    answer = _ask(cluster, admin_pb2.RaiseLevelRequest(only_ask=True), timeout)
    listing = _versions(answer)
    if as_json:
        typer.echo(json.dumps({"level": answer.level, **listing.document()}))
    else:
        show(listing, as_json=False)


@upgrade_app.command("finish")
@tells_errors
def upgrade_finish(
    cluster: ClusterOption,
    level: Annotated[int | None, typer.Option(help="Without: the newest that the node which is asked does.")] = None,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Raise the feature level, for good: versions that do not do it are refused from then on.

    Every node has to do it. Until then all nodes can go back to the version before, one after the other.
    """
    if level is not None and not features.FIRST <= level <= MAX_LEVEL:
        raise InvalidArgument(
            f"there is no feature level {level}: levels are {features.FIRST}, {features.FIRST + 1} and so on",
            hint="txnctl upgrade show: what each node does",
        )
    answer = _ask(cluster, admin_pb2.RaiseLevelRequest(level=level or 0), timeout)
    console().print(f"The cluster is at feature level {answer.level}.")


def _ask(cluster: str, request: admin_pb2.RaiseLevelRequest, timeout: float) -> admin_pb2.RaiseLevelResponse:
    with txnclient.connect(cluster, timeout=timeout) as client:
        return client.call("txnstatus.Admin/RaiseLevel", request, admin_pb2.RaiseLevelResponse)


def _versions(answer: admin_pb2.RaiseLevelResponse) -> Listing:
    rows = [
        {
            "node": each.node_id,
            "version": each.version or None,
            "levels": str(Levels(each.oldest_level, each.newest_level)) if each.newest_level else None,
            "answers": each.answers,
        }
        for each in answer.nodes
    ]
    return Listing("nodes", FIELDS, rows, title=f"feature level {answer.level}")
