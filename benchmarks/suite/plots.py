"""Plots of one workload: rate and latency over the workload's axis."""

from __future__ import annotations

from pathlib import Path

from benchmarks.suite.figures import Results
from benchmarks.suite.model import OURS
from benchmarks.suite.processes import needs_modules


def missing() -> str | None:
    """How to install what draws; None: it is there."""
    return needs_modules("matplotlib")


def draw(title: str, axis: str, results: Results, to: Path) -> list[Path]:
    """Returns the files, named after `to`; none where nothing draws, or where there is nothing to draw."""
    if missing() or not results.samples:
        return []
    return [
        _plot(title, axis, results, measure, label, to.with_name(f"{to.name}-{measure}.png"))
        for measure, label in (("rate", "operations/s"), ("p50", "median latency, ms"), ("p99", "p99 latency, ms"))
    ]


def _plot(title: str, axis: str, results: Results, measure: str, label: str, file: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
    colours = matplotlib.colormaps["tab20"]
    axes.set_prop_cycle(color=[colours(number) for number in range(colours.N)])
    for name in results.contenders():
        spreads = {point: results.spread(name, point, measure) for point in results.points()}
        known = {point: spread for point, spread in spreads.items() if spread}
        middle = [spread.median for spread in known.values()]
        errors = [
            [spread.median - spread.low for spread in known.values()],
            [spread.high - spread.median for spread in known.values()],
        ]
        ours = name.startswith(OURS)
        axes.errorbar(
            list(known), middle, yerr=errors, label=name, marker="o", capsize=3, linewidth=2.5 if ours else 1.2
        )
    axes.set(xlabel=axis, ylabel=label, title=title, yscale="log")
    axes.set_xscale("symlog", base=2)
    axes.set_xticks(results.points(), [f"{point:,}" for point in results.points()])
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small", ncols=2)
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return file
