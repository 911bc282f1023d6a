"""The simulator catches what the consensus library loses as it is shipped."""

from __future__ import annotations

from pathlib import Path

from tests.sim.stock import Stock

SEEDS = 10


def test_pysyncobj_as_it_is_shipped_loses_acknowledged_commands(tmp_path: Path) -> None:
    lost: dict[int, int] = {}
    for seed in range(SEEDS):
        directory = tmp_path / str(seed)
        directory.mkdir()
        stock = Stock(seed, directory)
        lost[seed] = len(stock.play())
        assert stock.acknowledged, "nothing was acknowledged, so nothing is shown"
    assert any(lost.values()), f"in {SEEDS} seeds it lost nothing: is this world too kind?"
