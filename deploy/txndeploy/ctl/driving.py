"""The command of `txnctl` that runs a Spark driver with the catalog."""

from __future__ import annotations

import signal
from typing import Annotated, NoReturn

import typer

import txnclient
from txnclient.sparksql import serving
from txndeploy.terminal.commands import ClusterOption, tells_errors

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
@tells_errors
def spark(
    cluster: ClusterOption,
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="spark-sql, spark-shell, spark-submit, ..., its options."),
    ],
    name: Annotated[str, typer.Option(help="The catalog's name in SQL.")] = "txn",
) -> None:
    """Run a driver of Spark's that is no Python program, with the tables as a catalog: `txnctl spark -- spark-sql`.

    This process answers what the driver asks of tables, and ends with it, with its exit code.
    """
    signal.signal(signal.SIGTERM, _ended)
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the driver's, which may end a query alone
    with txnclient.connect(cluster) as client:
        raise typer.Exit(serving.run(client, command, name=name))


def _ended(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
