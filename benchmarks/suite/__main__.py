"""The command line of the suite."""

from __future__ import annotations

import gc
import logging
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, ParamSpec

import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.suite import machine, measures, plots, report
from benchmarks.suite.model import OURS, Contender, Settings, Workload
from benchmarks.suite.options import at_least, numbers
from benchmarks.suite.ours import PREFIX
from benchmarks.suite.report import Part
from benchmarks.suite.runner import Plan, run, steps
from benchmarks.suite.workloads import ALL
from txnstatus.process import interpreter

P = ParamSpec("P")
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

QUICK_SECONDS = 1.0
QUICK_POINTS = 2
REFRESHES_A_SECOND = 1
"""The progress bar is drawn by the process that drives the load."""


@app.callback(invoke_without_command=True)
def compare(
    context: typer.Context,
    only: Annotated[str, typer.Option(help="Workloads, comma-separated; see --list.")] = "",
    peers: Annotated[str, typer.Option(help="Whom to run beside ours, comma-separated: all, none, or names.")] = "all",
    in_flight: Annotated[str, typer.Option(help="Instead of 1,16,64,256, where that is the axis.")] = "",
    points: Annotated[str, typer.Option(help="Of each workload that is run, instead of its own.")] = "",
    rounds: Annotated[int, at_least(1)] = 5,
    seconds: Annotated[float, at_least(0.01, "Of each point in each round.")] = 5.0,
    warm_up: Annotated[float, at_least(0, "Seconds, before the points of a round.")] = 2.0,
    rounds_of: Annotated[str, typer.Option(help="In how many durable rounds peers do a transaction.")] = "4,2",
    fsync_ms: Annotated[str, typer.Option(help="Passes: so many ms are added to every fsync.")] = "0,1",
    quick: Annotated[bool, typer.Option(help="One short round of few points: that everything works.")] = False,
    directory: Annotated[Path, typer.Option(help="Where the data lies meanwhile; on a disk.")] = Path("/var/tmp"),
    out: Annotated[Path, typer.Option(help="Where the report and suite.log are written.")] = Path("bench-report"),
    list_: Annotated[bool, typer.Option("--list", help="What there is, and what is not installed.")] = False,
) -> None:
    """Runs this project and its peers in turn on this machine, and writes a report; or takes one measure of ours."""
    if context.invoked_subcommand is not None:
        sources = [context.get_parameter_source(name) for name in context.params]
        if any(source is not None and source.name == "COMMANDLINE" for source in sources):
            raise typer.BadParameter(f"{context.invoked_subcommand} takes its options after its name")
        return
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # servers and data do not stay
    chosen = _chosen(only)
    settings = Settings(rounds_of=_rounds_of(rounds_of), quick=quick)
    _check_peers(peers, chosen, settings)
    flights, slower = (
        numbers("--in-flight", in_flight, int, 1),
        numbers("--fsync-ms", "0" if quick else fsync_ms, float, 0),
    )
    for workload in chosen:
        _points(workload, points)
    if list_:
        _list(chosen, settings, console)
        return
    if (install := plots.missing()) is not None:
        console.print(f"There will be no plots: {install}", markup=False)
    out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=out / "suite.log", format="%(asctime)s %(name)s %(message)s")
    parts: list[Part] = []
    about = _machine(directory)
    console.print(f"Ours and all clients run {about.python}", markup=False)
    if not interpreter.runs_profiled():
        console.print(
            "That takes a fifth more CPU. `make bench PYTHON=/usr/bin/python3` runs another one", style="yellow"
        )
    gc.freeze()  # what is imported is looked through for garbage for a fifth of a second, again and again under load
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=directory) as work:
        Path(work).chmod(0o755)  # servers that refuse root enter it as somebody else
        for workload in chosen:
            for slow in slower:
                if slow and not workload.slow_disk:
                    continue
                at = _points(workload, points) or workload.points_of(flights)
                plan = Plan(at, min(workload.rounds or rounds, rounds), seconds, warm_up)
                if quick:
                    plan = Plan(at[:QUICK_POINTS], 1, QUICK_SECONDS, 0.0)
                part_settings = replace(settings, fsync_ms=slow)
                contenders = _contending(workload.contenders(part_settings), peers)
                parts.append(_pass(workload, part_settings, plan, contenders, Path(work), console))
                page = report.write(parts, about, _command(), out)  # what there is so far survives an interrupt
    report.show(parts, console)
    console.print(f"The report: {page}")


def _pass(
    workload: Workload, settings: Settings, plan: Plan, contenders: Sequence[Contender], below: Path, console: Console
) -> Part:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, refresh_per_second=REFRESHES_A_SECOND) as progress:
        task = progress.add_task(workload.name, total=steps(plan, len(contenders)))

        def told(what: str) -> None:
            progress.update(task, advance=1, description=f"{workload.name}: {what}")

        def on_the_way(what: str) -> None:
            progress.update(task, description=f"{workload.name}: {what}")
            if not console.is_terminal:
                console.print(f"{workload.name}: {what}")

        results = run(contenders, plan, below, told, on_the_way)
    return Part(workload, settings, plan, contenders, results)


def _chosen(only: str) -> list[Workload]:
    names = [name for name in only.split(",") if name]
    unknown = set(names) - {workload.name for workload in ALL}
    if unknown:
        raise typer.BadParameter(f"no such workload: {', '.join(sorted(unknown))}; see --list")
    return [workload for workload in ALL if not names or workload.name in names]


def _rounds_of(text: str) -> tuple[int, ...]:
    found = numbers("--rounds-of", text, int, 1)
    if not found or not set(found) <= {2, 4}:
        raise typer.BadParameter(f"{text}: expected 4, 2 or both", param_hint="--rounds-of")
    return found


def _points(workload: Workload, text: str) -> tuple[int, ...]:
    """Nothing in flight is no load; where the axis counts what is there besides, none is a point."""
    return numbers("--points", text, int, min(1, *workload.points))


def _machine(directory: Path) -> machine.Machine:
    try:
        return machine.inspect(directory)
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--directory") from None


def _check_peers(peers: str, workloads: Sequence[Workload], settings: Settings) -> None:
    known = {contender.name for workload in workloads for contender in workload.contenders(settings)}
    unknown = set(peers.split(",")) - known - {"all", "none"}
    if unknown:
        raise typer.BadParameter(f"no such peer: {', '.join(sorted(unknown))}; see --list")


def _contending(contenders: Sequence[Contender], peers: str) -> list[Contender]:
    """Ours, and those of the peers that are wanted."""
    wanted = peers.split(",")
    return [c for c in contenders if c.name.startswith(OURS) or peers == "all" or c.name in wanted]


def _list(workloads: Sequence[Workload], settings: Settings, console: Console) -> None:
    for workload in workloads:
        console.print(f"[bold]{workload.name}[/bold]  {workload.title}")
        for contender in workload.contenders(settings):
            missing = contender.missing()
            note = f"  (not installed: {missing})" if missing else ""
            console.print(f"    {contender.name:24} {contender.about}{note}", markup=False, highlight=False)
    console.print("\n[bold]measures[/bold]  of ours alone, each a command: python -m benchmarks.suite NAME --help")
    for name, _, about in _measures():
        console.print(f"    {name:24} {about.splitlines()[0]}", markup=False, highlight=False, soft_wrap=True)


def _command() -> str:
    return shlex.join(["python", "-m", "benchmarks.suite", *sys.argv[1:]])


def _measures() -> list[tuple[str, Callable[..., Iterable[RenderableType]], str]]:
    """Each with its name and what it tells."""
    return [(m.__name__.rpartition(".")[2].replace("_", "-"), m.measure, m.__doc__ or "") for m in measures.ALL]


def _shown(measure: Callable[P, Iterable[RenderableType]]) -> Callable[P, None]:
    @wraps(measure)
    def show(*args: P.args, **kwargs: P.kwargs) -> None:
        for shown in measure(*args, **kwargs):
            Console().print(shown, highlight=False)

    return show


for _name, _measure, _about in _measures():
    app.command(_name, help=_about)(_shown(_measure))


if __name__ == "__main__":
    app()
