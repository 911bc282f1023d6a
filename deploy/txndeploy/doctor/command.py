"""`txnctl doctor`: examines a cluster and its storage; exit code 0 = healthy, 1 = findings, 2 = not all was seen."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress

import txnclient
from txndeploy.doctor.examination import Examination, Wishes
from txndeploy.doctor.report import NOT_SEEN, Report

console = Console()


def doctor(
    cluster: Annotated[
        str,
        typer.Option("--cluster", "-c", envvar="TXN_CLUSTER", help="Addresses of nodes: host:port, comma-separated."),
    ],
    table: Annotated[str, typer.Option(help="Only this table's storage.")] = "",
    storage: Annotated[bool, typer.Option(help="Look at the tables' files, too.")] = True,
    fix: Annotated[bool, typer.Option("--fix", help="Have directories that are nobody's removed.")] = False,
    whole_writes: Annotated[
        bool, typer.Option("--whole-writes", help="With --fix: also those that hold a whole write.")
    ] = False,
    stuck_seconds: Annotated[float, typer.Option(help="What takes longer to end is stuck.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to keep trying, for each question.")] = 10.0,
) -> None:
    """Verify that every lock and every file is somebody's, that none is missing, and that the groups are well.

    Exit code 0: healthy; 1: findings that are not mended; 2: not everything could be looked at. Run it where the
    tables' storage can be reached. It changes nothing without --fix.
    """
    wishes = Wishes(table, storage, fix, whole_writes, stuck_seconds)
    with txnclient.connect(cluster, timeout=timeout) as client:
        examination = Examination(client, wishes)
        with Progress(console=console, transient=True, disable=as_json) as progress:
            task = progress.add_task("", total=None)
            for step in examination.steps():
                progress.update(task, description=step.what, completed=step.done, total=step.total)
    report = examination.report
    if as_json:
        typer.echo(report.to_json())
    else:
        _show(report)
    raise typer.Exit(report.exit_code)


def _show(report: Report) -> None:
    if report.findings:
        console.print(report.table())
    for line in report.not_seen:
        console.print(f"[red]not looked at:[/red] {escape(line)}", highlight=False, soft_wrap=True)
    for line in report.seen:
        console.print(f"looked at {line}", highlight=False)
    if report.exit_code != NOT_SEEN:
        console.print("[green]healthy[/green]" if not report.exit_code else "[yellow]see above[/yellow]")
