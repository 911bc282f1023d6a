"""`txnctl doctor`: examines a cluster and its storage; exit code 0 = healthy, 1 = findings, 2 = not all was seen."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
from rich.text import Text

import txnclient
from txndeploy.doctor.examination import Examination, Wishes
from txndeploy.doctor.report import NOT_SEEN, Report
from txndeploy.terminal.commands import ClusterOption, JsonOption, tells_errors
from txndeploy.terminal.output import console, plain

commands = typer.Typer(rich_markup_mode=None)


@commands.command()
@tells_errors
def doctor(
    cluster: ClusterOption,
    table: Annotated[str, typer.Option(help="Only this table's storage.")] = "",
    storage: Annotated[bool, typer.Option(help="Look at the tables' files, too.")] = True,
    deep: Annotated[bool, typer.Option("--deep", help="Read all data files, whole: is one damaged?")] = False,
    fix: Annotated[bool, typer.Option("--fix", help="Have directories that are nobody's removed.")] = False,
    whole_writes: Annotated[
        bool, typer.Option("--whole-writes", help="With --fix: also those that hold a whole write.")
    ] = False,
    stuck_seconds: Annotated[float, typer.Option(help="What takes longer to end is stuck.")] = 60.0,
    as_json: JsonOption = False,
    timeout: Annotated[float, typer.Option(help="Seconds to keep trying, for each question.")] = 10.0,
) -> None:
    """Verify that every lock and every file is somebody's, that none is missing, and that the groups are well.

    Exit code 0: healthy; 1: findings that are not mended; 2: not everything could be looked at. Run it where the
    tables' storage can be reached. It changes nothing without --fix.
    """
    wishes = Wishes(table, storage, deep, fix, whole_writes, stuck_seconds)
    with txnclient.connect(cluster, timeout=timeout) as client:
        examination = Examination(client, wishes)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
        with Progress(*columns, console=console(stderr=True), transient=True, disable=as_json) as progress:
            task = progress.add_task("", total=None)
            for step in examination.steps():
                progress.update(task, description=plain(step.what), completed=step.done, total=step.total)
    report = examination.report
    if as_json:
        typer.echo(report.to_json())
    else:
        _show(report)
    raise typer.Exit(report.exit_code)


def _show(report: Report) -> None:
    out = console()
    if report.findings:
        out.print(report.table())
    for line in report.not_seen:
        out.print(Text.assemble(("not looked at: ", "red"), plain(line)), soft_wrap=True)
    for line in report.seen:
        out.print(f"looked at {plain(line)}")
    if report.exit_code != NOT_SEEN:
        out.print(Text("see above", "yellow") if report.exit_code else Text("healthy", "green"))
