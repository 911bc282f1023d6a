"""The command line of the simulator: one seed is replayed and told, many are a campaign."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.sim.campaign import campaign, scenario, shrink
from tests.sim.campaign.campaign import Report
from tests.sim.campaign.result import Result
from tests.sim.campaign.scenario import PROFILES
from tests.sim.world import world

console = Console(highlight=False, soft_wrap=True)
PROGRESS_SECONDS = 10.0
"""Time between two lines of progress where there is no terminal for a bar."""


def simulate(
    seeds: Annotated[str, typer.Argument(help="One seed, or A..B for all from A up to, not including, B.")],
    profile: Annotated[str | None, typer.Option(help=f"Instead of one by chance: {', '.join(PROFILES)}.")] = None,
    log: Annotated[Path | None, typer.Option(help="Where the story of a single seed goes; by default here.")] = None,
    quiet: Annotated[bool, typer.Option(help="A single seed: only the outcome.")] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="By default one for each core.")] = None,
    report: Annotated[Path | None, typer.Option(help="Many seeds: where their figures go, as JSON.")] = None,
) -> None:
    """Run the service in the deterministic simulator; a seed that fails is cut down and shown."""
    if profile is not None and profile not in PROFILES:
        raise typer.BadParameter(f"there are {', '.join(PROFILES)}", param_hint="--profile")
    first, dots, last = seeds.partition("..")
    try:
        numbers = range(int(first), int(last) if dots else int(first) + 1)
    except ValueError:
        raise typer.BadParameter(f"{seeds!r} is neither a number nor A..B", param_hint="SEEDS") from None
    if report is not None and not dots:
        raise typer.BadParameter("figures are of many seeds, A..B", param_hint="--report")
    failed = _campaign(numbers, profile, processes, report) if dots else _replay(numbers[0], profile, log, quiet=quiet)
    raise typer.Exit(1 if failed else 0)


def _replay(seed: int, profile: str | None, path: Path | None, *, quiet: bool) -> bool:
    made = scenario.make(seed, profile)
    console.print(str(made))
    if quiet:
        result = world.run(made)
    elif path is not None:
        with path.open("w") as file:
            result = world.run(made, lambda at, who, text: print(f"{at:10.4f} {who:8} {text}", file=file))
    else:
        result = world.run(made, lambda at, who, text: console.print(f"{at:10.4f} {who:8} {text}", markup=False))
    _outcome(result)
    return result.failed


def _campaign(seeds: range, profile: str | None, processes: int | None, path: Path | None) -> bool:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    told_at = 0.0
    with _sigterm_interrupts(), bar:
        task = bar.add_task("simulating", total=len(seeds))

        def on_result(so_far: Report, result: Result) -> None:
            nonlocal told_at
            bar.advance(task)
            if result.failed:
                console.print(f"seed {result.scenario.seed}: {result.violations[0]}", style="red", markup=False)
            if not console.is_terminal and so_far.wall_seconds - told_at >= PROGRESS_SECONDS:
                told_at = so_far.wall_seconds
                console.print(_progress(so_far, len(seeds)))

        report = campaign.run(seeds, profile, processes, on_result)
    if report.seeds < len(seeds):
        console.print(f"interrupted: {report.seeds:,} of {len(seeds):,} seeds", style="yellow")
    _show(report)
    if path is not None:
        path.write_text(report.to_json())
    console.print("profiles: " + ", ".join(f"{name} {count:,}" for name, count in report.profiles.most_common()))
    if report.failed and report.seeds == len(seeds):
        worst = min(report.failed, key=lambda result: len(result.scenario.faults))
        console.print(f"\ncutting seed {worst.scenario.seed} down ...")
        _outcome(shrink.shrink(worst, world.run))
        profile_option = f" --profile {profile}" if profile else ""
        console.print(f"replay: python -m tests.sim {worst.scenario.seed}{profile_option}")
    return bool(report.failed)


def _progress(report: Report, total: int) -> str:
    hours, failed = report.virtual_seconds / 3600, len(report.failed)
    return f"{report.wall_seconds:5.0f} s: {report.seeds:,} of {total:,} seeds, {hours:.2f} hours, {failed} failed"


@contextlib.contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM ends a campaign as ctrl-C does: what it found so far is told."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _outcome(result: Result) -> None:
    if not result.failed:
        console.print(
            f"[green]holds[/green]: {result.virtual_seconds:.1f} s, {result.commands} commands, "
            f"{result.acked_commits} commits acknowledged, {result.reads} scans; digest {result.digest:08x}"
        )
        return
    console.print(f"[red]fails[/red] after {result.virtual_seconds:.3f} s; digest {result.digest:08x}")
    console.print(str(result.scenario), markup=False)
    for violation in result.violations[:3]:
        console.print(violation, style="red", markup=False)


def _show(report: Report) -> None:
    table = Table("seeds", "simulated hours", "times real time", "commands", "commits acked", "scans", "failed")
    hours = report.virtual_seconds / 3600
    speed = report.virtual_seconds / max(report.wall_seconds, 1e-9)
    table.add_row(
        f"{report.seeds:,}",
        f"{hours:.2f}",
        f"{speed:.0f}",
        f"{report.commands:,}",
        f"{report.acked_commits:,}",
        f"{report.reads:,}",
        f"{len(report.failed)}",
    )
    console.print(table)
    faults = ", ".join(f"{kind} {count:,}" for kind, count in report.faults.most_common())
    console.print(f"faults: {faults or 'none'}; begins refused at a cap: {report.refused_begins:,}")
