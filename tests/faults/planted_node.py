"""A node with a fault put into it on purpose, one of tests/sim/planted: what judges a cluster must find it.

python -m tests.faults.planted_node FAULT CONFIG
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.sim.planted.faults import PLANTED
from tests.sim.planted.rows import PLANTED_ROWS
from tests.sim.world import seams
from txndeploy.node import tethered

ROOT = Path(__file__).parents[2]


@contextmanager
def planted(fault: str) -> Iterator[None]:
    """The nodes of every cluster that is started meanwhile have it."""

    def command(config: Path) -> list[str]:
        plain = tethered_command(config)
        return [plain[0], "-m", "tests.faults.planted_node", fault, *plain[3:]]

    tethered_command = tethered.command
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tethered, "command", command)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, sys.path)]))
        yield


if __name__ == "__main__":
    with seams.replaced({**PLANTED, **PLANTED_ROWS}[sys.argv[1]].seams()):
        raise SystemExit(tethered.main(Path(sys.argv[2])))
