"""The command of `txnctl` that shows and sets how much the logs of nodes tell."""

from __future__ import annotations

from typing import Annotated, Any

import typer

import txnclient
from txndeploy.terminal import listings
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import Field, Listing
from txnstatus.errors import InvalidArgument, Unavailable
from txnstatus.proto import admin_pb2 as pb

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
@tells_errors
def log_level(
    cluster: ClusterOption,
    level: Annotated[
        str, typer.Argument(help="DEBUG, INFO, WARNING, ERROR, or CONFIGURED. Without, the levels are shown.")
    ] = "",
    logger: Annotated[
        str, typer.Option(help="Only this logger's, and of those below it: txnstatus.raft, say. Without: all.")
    ] = "",
    node: Annotated[list[str], typer.Option(help="Only this node's; may be said again. Without: all nodes.")] = [],  # noqa: B006
    as_json: JsonOption = False,
    timeout: TimeoutOption = 10.0,
) -> None:
    """Show or change how much nodes' logs tell, while they run.

    It lasts until a node ends, or reads its configuration again (SIGHUP), and so does CONFIGURED bring that back. Nodes
    that do not answer are named in the end; the others have done as they were told.
    """
    request = pb.SetLogLevelRequest(logger=logger, level=level.upper())
    rows: list[dict[str, Any]] = []
    silent: dict[str, str] = {}
    with txnclient.connect(cluster, timeout=timeout) as client:
        nodes = listings.catalog(client).nodes
        if unknown := next((each for each in node if each not in nodes), None):
            raise InvalidArgument(f"there is no node {unknown!r}; there are: {', '.join(sorted(nodes))}")
        for name in sorted(node or nodes):
            channel = client.session.channel.to(nodes[name].address, f"node/{name}")
            try:
                answer = channel.call("txnstatus.Admin/SetLogLevel", request, pb.SetLogLevelResponse, timeout=timeout)
            except Unavailable as error:
                silent[name] = error.message
                continue
            finally:
                channel.close()
            rows += [{"node": name, "logger": each.logger, "level": each.level} for each in answer.levels]
    fields = (Field("node", "node"), Field("logger", "logger"), Field("level", "tells"))
    show(Listing("levels", fields, rows, title="levels of the logs"), as_json=as_json)
    if silent:
        raise Unavailable(
            "; ".join(f"{name} did not answer: {why}" for name, why in silent.items()),
            hint="again, once they are back: a node starts with the levels that its configuration says",
        )
