"""A node of a newer version, of a level more: `python -m tests.integration.upgrade.newer`."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.integration.upgrade.versions import NEWER_LEVEL
from txndeploy.node import tethered
from txnstatus import features

if __name__ == "__main__":
    raise SystemExit(tethered.main(Path(sys.argv[1]), features.Levels(features.FIRST, NEWER_LEVEL)))
