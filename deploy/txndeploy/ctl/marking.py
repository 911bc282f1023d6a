"""The commands of `txnctl` about marks: how far sources have been taken."""

from __future__ import annotations

import typer

import txnclient
from txndeploy.terminal import past
from txndeploy.terminal.commands import ClusterOption, JsonOption, TimeoutOption, show, tells_errors
from txndeploy.terminal.output import console, plain

commands = typer.Typer(rich_markup_mode=None)
app = typer.Typer(help="How far sources have been taken, by streams and consumers.", no_args_is_help=True)
commands.add_typer(app, name="marks")


@app.command("list")
@tells_errors
def list_all(cluster: ClusterOption, as_json: JsonOption = False, timeout: TimeoutOption = 10.0) -> None:
    """List the sources, with who has taken them where."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        show(past.marks(client.marks()), as_json=as_json)


@app.command("remove")
@tells_errors
def remove(cluster: ClusterOption, source: str, timeout: TimeoutOption = 30.0) -> None:
    """Forget how far a source has been taken: whoever takes from it begins anew."""
    with txnclient.connect(cluster, timeout=timeout) as client:
        client.remove_mark(source)
    console().print(f"the mark of {plain(source)} is removed.")
