"""`python -m tests.sim SEED | A..B`: worlds of the simulator, replayed or by the thousand."""

from __future__ import annotations

import typer

from tests.sim.campaign.command import simulate

if __name__ == "__main__":
    typer.run(simulate)
