"""The command of `txnctl` that speaks SQL: a shell, or statements from the command line or standard input."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import txnclient
from txndeploy.ctl.lasting import lasting
from txndeploy.terminal.commands import JsonOption, TimeoutOption, tells_errors

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
@tells_errors
def sql(
    cluster: Annotated[
        str, typer.Option("--cluster", envvar="TXN_CLUSTER", help="Addresses of nodes: host:port, comma-separated.")
    ],
    command: Annotated[
        list[str] | None, typer.Option("--command", "-c", help="Statements to run, in place of a shell; repeatable.")
    ] = None,
    as_json: JsonOption = False,
    timeout: TimeoutOption = 30.0,
) -> None:
    """Speak SQL to the tables, without Spark: a shell, or `-c 'SELECT ...'`, or what comes from standard input.

    Each statement is a transaction, or they are one between BEGIN and COMMIT; what is not committed in the end is
    rolled back. The first error ends statements that are no shell's. With --json a document a statement, one a line.
    """
    with txnclient.connect(cluster, timeout=timeout) as client:
        with lasting():
            opened = client.sql_session("txnctl sql")
            from txnclient.ducksql.sessions import DuckSession
            from txndeploy.speaking import interactive, results
        with opened as session:
            if not command and sys.stdin.isatty():
                assert isinstance(session, DuckSession)
                interactive.converse(client, session, as_json=as_json)
                return
            for script in command or [sys.stdin.read()]:
                results.run(client, session, script, as_json=as_json)
