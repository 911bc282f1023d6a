"""The command line of the suite."""

from __future__ import annotations

import gc
import logging
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.suite import machine, plots, report
from benchmarks.suite.model import OURS, Contender, Settings, Workload
from benchmarks.suite.report import Part
from benchmarks.suite.runner import Plan, run, steps
from benchmarks.suite.workloads import ALL

NumberT = TypeVar("NumberT", int, float)

QUICK_SECONDS = 1.0
QUICK_POINTS = 2
REFRESHES_A_SECOND = 1
"""The progress bar is drawn by the process that drives the load."""


def main(
    only: Annotated[str, typer.Option(help="Workloads, comma-separated; see --list.")] = "",
    peers: Annotated[str, typer.Option(help="Whom to run beside ours, comma-separated: all, none, or names.")] = "all",
    in_flight: Annotated[str, typer.Option(help="Instead of 1,16,64,256, where that is the axis.")] = "",
    points: Annotated[str, typer.Option(help="Of each workload that is run, instead of its own.")] = "",
    rounds: Annotated[int, typer.Option(min=1)] = 5,
    seconds: Annotated[float, typer.Option(help="Of each point in each round.")] = 5.0,
    warm_up: Annotated[float, typer.Option(help="Seconds, before the points of a round.")] = 2.0,
    rounds_of: Annotated[str, typer.Option(help="In how many durable rounds peers do a transaction.")] = "4,2",
    fsync_ms: Annotated[str, typer.Option(help="Passes: so many ms are added to every fsync.")] = "0,1",
    quick: Annotated[bool, typer.Option(help="One short round of few points: that everything works.")] = False,
    directory: Annotated[Path, typer.Option(help="Where the data lies meanwhile; on a disk.")] = Path("/var/tmp"),
    out: Annotated[Path, typer.Option(help="Where the report and suite.log are written.")] = Path("bench-report"),
    list_: Annotated[bool, typer.Option("--list", help="What there is, and what is not installed.")] = False,
) -> None:
    """Runs this project and its peers in turn on this machine, and writes a report."""
    console = Console()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # servers and data do not stay
    chosen = _chosen(only)
    settings = Settings(rounds_of=_rounds_of(rounds_of), quick=quick)
    _check_peers(peers, chosen, settings)
    if list_:
        _list(chosen, settings, console)
        return
    if (install := plots.missing()) is not None:
        console.print(f"There will be no plots: {install}", markup=False)
    out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(filename=out / "suite.log", format="%(asctime)s %(name)s %(message)s")
    parts: list[Part] = []
    about = machine.inspect(directory)
    gc.freeze()  # what is imported is looked through for garbage for a fifth of a second, again and again under load
    with tempfile.TemporaryDirectory(prefix="txnstatus-bench-", dir=directory) as work:
        Path(work).chmod(0o755)  # servers that refuse root enter it as somebody else
        for workload in chosen:
            for slow in _numbers("0" if quick else fsync_ms, float):
                if slow and not workload.slow_disk:
                    continue
                at = _numbers(points, int) or workload.points_of(_numbers(in_flight, int))
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

        results = run(contenders, plan, below, told)
    return Part(workload, settings, plan, contenders, results)


def _chosen(only: str) -> list[Workload]:
    names = [name for name in only.split(",") if name]
    unknown = set(names) - {workload.name for workload in ALL}
    if unknown:
        raise typer.BadParameter(f"no such workload: {', '.join(sorted(unknown))}; see --list")
    return [workload for workload in ALL if not names or workload.name in names]


def _rounds_of(text: str) -> tuple[int, ...]:
    numbers = _numbers(text, int)
    if not numbers or not set(numbers) <= {2, 4}:
        raise typer.BadParameter(f"--rounds-of {text}: expected 4, 2 or both")
    return numbers


def _check_peers(peers: str, workloads: Sequence[Workload], settings: Settings) -> None:
    known = {contender.name for workload in workloads for contender in workload.contenders(settings)}
    unknown = set(peers.split(",")) - known - {"all", "none"}
    if unknown:
        raise typer.BadParameter(f"no such peer: {', '.join(sorted(unknown))}; see --list")


def _contending(contenders: Sequence[Contender], peers: str) -> list[Contender]:
    """Ours, and those of the peers that are wanted."""
    wanted = peers.split(",")
    return [c for c in contenders if c.name.startswith(OURS) or peers == "all" or c.name in wanted]


def _numbers(text: str, kind: Callable[[str], NumberT]) -> tuple[NumberT, ...]:
    try:
        return tuple(kind(part) for part in text.split(",") if part)
    except ValueError:
        raise typer.BadParameter(f"{text!r}: expected numbers, comma-separated") from None


def _list(workloads: Sequence[Workload], settings: Settings, console: Console) -> None:
    for workload in workloads:
        console.print(f"[bold]{workload.name}[/bold]  {workload.title}")
        for contender in workload.contenders(settings):
            missing = contender.missing()
            note = f"  (not installed: {missing})" if missing else ""
            console.print(f"    {contender.name:24} {contender.about}{note}", markup=False, highlight=False)


def _command() -> str:
    return shlex.join(["python", "-m", "benchmarks.suite", *sys.argv[1:]])


if __name__ == "__main__":
    typer.run(main)
