"""A node that ends with the thread that started it, however that ends: LocalCluster leaves no processes behind.

The kernel sees to it, so it holds after a kill -9 as well, and for a node that is stopped. Linux only; elsewhere such a
node stays.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from pathlib import Path

from txndeploy.node import process

PR_SET_PDEATHSIG = 1


def command(config: Path) -> list[str]:
    """What to start, from the process whose child the node is to be."""
    return [sys.executable, "-m", "txndeploy.node.tethered", str(os.getpid()), str(config)]


def main(parent: int, config: Path) -> int:
    """Returns the exit code."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            return 1  # it ended before it could be noticed
    return process.run(config)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]), Path(sys.argv[2])))
