"""All faults mixed, often two at once, drawn from a seed: `make soak SECONDS=600 SEED=7`.

What this host cannot do (mount disks, turn clocks) is left out.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.clocks import LIBRARIES
from tests.faults.disks import can_mount
from tests.faults.history import now
from tests.faults.nemesis import draw, torment
from tests.faults.rig import running
from txndeploy.local.namespaces import best_network

SECONDS = float(os.environ.get("TXN_SOAK_SECONDS", "20"))
SEED = int(os.environ.get("TXN_SEED", "1"))
SECONDS_PER_FAULT = 20
"""The floor of faults; most take less, and a busy host more."""


@pytest.mark.campaign
@pytest.mark.timeout(300 + 4 * SECONDS)
def test_whatever_was_promised_holds_whatever_fails(tmp_path: Path) -> None:
    floor = max(2, int(SECONDS / SECONDS_PER_FAULT))
    clocks = (0, 0, 0) if LIBRARIES else ()
    network = best_network(SEED)
    with running(
        tmp_path / "cluster", SEED, min_faults=floor, network=network, clocks=clocks, disks=can_mount()
    ) as rig:
        while now() - rig.started < SECONDS or sum(rig.faults.values()) < floor:
            torment(rig, [draw(rig)])
