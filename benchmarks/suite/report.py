"""The report: tables in Markdown and in the terminal, plots, and everything as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.suite import plots
from benchmarks.suite.figures import FOREIGN_MUCH, Results, Spread
from benchmarks.suite.machine import Machine
from benchmarks.suite.model import OURS, Contender, Settings, Workload
from benchmarks.suite.runner import Plan

SLOW_DISK = (
    "Every server is started below `strace --seccomp-bpf`, which stops it at its fsync and fdatasync calls alone and "
    "lets each return {ms:g} ms later; the same for everybody. Its own CPU counts as that of others."
)


@dataclass(frozen=True)
class Part:
    """One pass over a workload."""

    workload: Workload
    settings: Settings
    plan: Plan
    contenders: Sequence[Contender]
    results: Results

    @property
    def name(self) -> str:
        slow = self.settings.fsync_ms
        return self.workload.name + (f"-fsync-{slow:g}-ms" if slow else "")

    @property
    def title(self) -> str:
        slow = self.settings.fsync_ms
        return self.workload.title + (f", {slow:g} ms added to every fsync" if slow else "")

    @property
    def goals(self) -> list[tuple[str, str, str, str]]:
        """What, what is wanted, what was measured, and whether that reaches it: those for this disk."""
        rows = []
        for goal in self.workload.goals:
            if goal.fsync_ms != self.settings.fsync_ms:
                continue
            spread = self.results.judge(goal)
            measured = "not measured" if spread is None else spread.text("{:,.2f}")
            verdict = "" if spread is None else "reached" if goal.reached(spread.median) else "missed"
            rows.append((goal.text, goal.wanted, measured, verdict))
        return rows


GOAL_HEADINGS = ("goal", "wanted", "measured", "")


def write(parts: Sequence[Part], machine: Machine, command: str, out: Path) -> Path:
    """Returns the page; plots and results.json lie beside it."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(_as_json(parts, machine, command), indent=1))
    lines = ["# Benchmarks", "", f"Made with `{command}`.", ""]
    lines += _table(("machine", ""), machine.rows())
    lines += [
        "Medians over the rounds, with [the least..the most]. In each round every contender runs once, and ratios are "
        f"of runs in the same round. A row marked * had a run in which others used {FOREIGN_MUCH:.0%} of the machine's "
        "CPU or more.",
        "",
    ]
    for part in parts:
        lines += _part(part, out)
    page = out / "report.md"
    page.write_text("\n".join(lines))
    return page


def show(parts: Sequence[Part], console: Console) -> None:
    for part in parts:
        headings, rows = rates(part)
        by = f"{part.title}: {headings[0]}, by {part.workload.axis}"
        short = ["", *(f"{point:,}" for point in part.results.points())]
        console.print(table_of(by, short, rows))
        if part.goals:
            console.print(table_of("goals", GOAL_HEADINGS, part.goals))
        for line in _troubles(part):
            console.print(line, highlight=False, markup=False)


def rates(part: Part) -> tuple[list[str], list[list[str]]]:
    """Operations a second, with the median latency, by contender and point."""
    results, axis = part.results, part.workload.axis
    rows = []
    for name in results.contenders():
        cells = [name + _mark(results, name)]
        for point in results.points():
            rate, p50 = results.spread(name, point, "rate"), results.spread(name, point, "p50")
            cells.append(f"{rate.text(_form(rate.median))} ({p50.median:.3g} ms)" if rate and p50 else "failed")
        rows.append(cells)
    return [f"{part.workload.operation}s/s (p50)", *(f"{point:,} {axis}" for point in results.points())], rows


def _part(part: Part, out: Path) -> list[str]:
    results, points = part.results, part.results.points()
    lines = [f"## {part.title}", ""]
    if part.workload.about:
        lines += [part.workload.about, ""]
    if part.settings.fsync_ms:
        lines += [SLOW_DISK.format(ms=part.settings.fsync_ms), ""]
    lines += [f"{part.plan.rounds} rounds, {part.plan.seconds:g} s a point, after a warm-up.", ""]
    about = [(c.name, c.about, results.versions.get(c.name, "")) for c in part.contenders]
    lines += _table(("contender", "what it does", "version"), about)
    lines += _table(*rates(part))
    columns = [f"{point:,} {part.workload.axis}" for point in points]
    lines += _table(["p99, ms", *columns], _measures(results, "p99", "{:,.1f}"))
    lines += _table([f"CPU, us a {part.workload.operation}", *columns], _cpu(results))
    for extra in sorted({name for sample in results.samples.values() for name in sample.extra}):
        lines += _table([extra, *columns], _measures(results, extra, "{:,.4g}"))
    if ratios := _ratios(results):
        lines += _table(["ratio of the rates", *columns], ratios)
    if part.goals:
        lines += _table(GOAL_HEADINGS, part.goals)
    lines += [f"- {line}" for line in _troubles(part)]
    for file in plots.draw(part.title, part.workload.axis, results, out / part.name):
        lines += ["", f"![{file.stem}]({file.name})"]
    return [*lines, ""]


def _measures(results: Results, measure: str, form: str) -> list[list[str]]:
    rows = []
    for name in results.contenders():
        spreads = [results.spread(name, point, measure) for point in results.points()]
        if any(spreads):
            rows.append([name, *(spread.text(form) if spread else "" for spread in spreads)])
    return rows


def _cpu(results: Results) -> list[list[str]]:
    """By role, such as `41 leader + 23 follower + 21 client`."""
    rows = []
    for name in results.contenders():
        cells = [name]
        for point in results.points():
            roles = list(dict.fromkeys(role for sample in results.of(name, point).values() for role in sample.cpu_us))
            spreads = {role: results.spread(name, point, f"cpu {role}") for role in roles}
            cells.append(" + ".join(f"{spread.median:,.0f} {role}" for role, spread in spreads.items() if spread))
        rows.append(cells)
    return rows


def _ratios(results: Results) -> list[list[str]]:
    """The rates of each of ours over those of each peer."""
    names = results.contenders()
    rows = []
    for ours in (name for name in names if name.startswith(OURS)):
        for peer in (name for name in names if not name.startswith(OURS)):
            found = [results.ratio(ours, peer, point, "rate") for point in results.points()]
            rows.append([f"{ours} / {peer}", *(ratio.text("{:,.2f}") if ratio else "" for ratio in found)])
    return rows


def _troubles(part: Part) -> list[str]:
    told = [f"{name}: {line}" for name, lines in part.results.problems.items() for line in lines]
    return told + part.results.failures()


def _mark(results: Results, name: str) -> str:
    noisy = any(sample.foreign >= FOREIGN_MUCH for (of, _, _), sample in results.samples.items() if of == name)
    return " *" if noisy else ""


def _form(value: float) -> str:
    return "{:,.0f}" if value >= 100 else "{:,.3g}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    if not rows:
        return []
    lines = [headings, ["---"] * len(headings), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]


def spread_rows(values: Mapping[str, Sequence[float]]) -> list[tuple[str, str]]:
    """A row of each name: the median of its values, with [the least..the most]."""
    spreads = {name: Spread.of(each) for name, each in values.items()}
    return [(name, spread.text("{:,.1f}")) for name, spread in spreads.items() if spread]


def table_of(title: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table for the terminal."""
    table = Table(title=title, title_justify="left")
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _as_json(parts: Sequence[Part], machine: Machine, command: str) -> dict[str, object]:
    return {
        "command": command,
        "machine": asdict(machine),
        "parts": [
            {
                "workload": part.workload.name,
                "settings": asdict(part.settings),
                "plan": asdict(part.plan),
                "versions": part.results.versions,
                "problems": part.results.problems,
                "goals": [dict(zip(("goal", "wanted", "measured", "verdict"), row, strict=True)) for row in part.goals],
                "samples": [
                    {"contender": name, "point": point, "round": number, "rate": sample.rate, **asdict(sample)}
                    for (name, point, number), sample in part.results.samples.items()
                ],
            }
            for part in parts
        ],
    }
