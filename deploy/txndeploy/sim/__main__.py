"""`python -m txndeploy.sim`, as `txnctl sim`."""

from __future__ import annotations

import typer

from txndeploy.sim.command import simulate

if __name__ == "__main__":
    typer.run(simulate)
