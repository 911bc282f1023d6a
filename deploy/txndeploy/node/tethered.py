"""A process that ends with the thread that started it, however that ends: LocalCluster leaves no processes behind.

Whoever starts it says so in the environment, by VARIABLE.

The kernel sees to it, so it holds after a kill -9 as well, and for a node that is stopped. Linux only; elsewhere such a
process stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from txndeploy.node import process
from txnstatus import features
from txnstatus.features import Levels

PR_SET_PDEATHSIG = 1
VARIABLE = "TXN_TETHERED_TO"
"""The number of the process that starts this one."""


def command(config: Path) -> list[str]:
    """What to start as a node."""
    return [sys.executable, "-m", "txndeploy.node.tethered", str(config)]


def main(config: Path, levels: Levels = features.OWN) -> int:
    """Runs the node; returns the exit code. `levels`: the feature levels that the program does."""
    return process.run(config, levels) if tie() else 1


def tie() -> bool:
    """Has this process end with the one that started it; False: that ended before it could be noticed."""
    if sys.platform != "linux":
        return True
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    return os.getppid() == int(os.environ[VARIABLE])


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
