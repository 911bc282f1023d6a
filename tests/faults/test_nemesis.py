"""Faults of processes, disks, clocks and of the network, under load: whatever clients were told stays true.

Every kind comes once in every run; the campaign has each several times, in both networks, and pairs. The history is
checked at the end (tests/faults). `make soak` mixes all of them for longer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults.clocks import LIBRARIES
from tests.faults.disks import can_mount
from tests.faults.nemesis import FAULTS, possible, torment
from tests.faults.rig import running
from txndeploy.local.namespaces import Namespaces, NoNamespaces, best_network
from txndeploy.local.network import Network
from txndeploy.local.proxies import Proxies

SEED = int(os.environ.get("TXN_SEED", "1"))
Faults = Sequence[tuple[str, ...]]
IN_BEST_NETWORK: Faults = [
    ("kill",), ("partition",), ("split",), ("loss",), ("reset",), ("slow disks",), ("full disk",), ("failed disk",),
    ("kill two",), ("bridge", "power cut"),
]  # fmt: skip
THROUGH_PROXIES: Faults = [
    ("mute",), ("delay",), ("clog",), ("pause",), ("restart",), ("slow disk",), ("deaf", "kill"), ("kill all",),
    ("rolling restart",), ("clock jumps",), ("clocks apart",),
]  # fmt: skip


def test_every_kind_of_fault_is_in_one_of_the_lists() -> None:
    assert {name for names in (*IN_BEST_NETWORK, *THROUGH_PROXIES) for name in names} == set(FAULTS)


def test_every_kind_of_fault_in_the_best_network(tmp_path: Path) -> None:
    _every(IN_BEST_NETWORK, tmp_path, network=best_network(SEED), disks=can_mount())


def test_every_kind_of_fault_through_proxies(tmp_path: Path) -> None:
    _every(THROUGH_PROXIES, tmp_path, network=Proxies(SEED), clocks=(0, 0, 0) if LIBRARIES else ())


def _every(faults: Faults, directory: Path, **options: object) -> None:
    """Each once; what this host cannot do is named."""
    with running(directory / "cluster", SEED, min_faults=1, **options) as rig:
        here = [names for names in faults if set(names) <= set(possible(rig))]
        torment(rig, here, shortest=0.3, longest=1.0)
        assert rig.faults.total() == len(here)
    if left_out := [" + ".join(names) for names in faults if names not in here]:
        pytest.skip(f"all but {', '.join(left_out)}: needs root, mkfs.ext4 and libfaketime (apt-get install faketime)")


# ---- the campaign


@pytest.mark.campaign
@pytest.mark.parametrize(
    "names",
    [
        ["kill", "pause", "kill", "pause", "kill two"],
        ["restart", "kill all", "rolling restart"],
    ],
    ids=lambda names: ", ".join(dict.fromkeys(names)),
)
def test_processes_die_stop_and_come_back(names: list[str], tmp_path: Path) -> None:
    with running(tmp_path / "cluster", SEED, min_faults=len(names)) as rig:
        torment(rig, [(name,) for name in names])


@pytest.fixture(params=[Namespaces, Proxies])
def network(request: pytest.FixtureRequest) -> Network:
    """Where packets vanish, and where connections are held back: they break in different ways."""
    try:
        made: Network = request.param(SEED)
    except NoNamespaces as error:
        pytest.skip(str(error))
    return made


@pytest.mark.campaign
@pytest.mark.parametrize(
    "names",
    [
        ["partition", "split", "bridge"],
        ["mute", "deaf", "mute", "deaf"],
        ["delay", "loss", "clog", "reset"],
    ],
    ids=", ".join,
)
def test_the_network_between_nodes_fails(names: list[str], network: Network, tmp_path: Path) -> None:
    with running(tmp_path / "cluster", SEED, min_faults=3, network=network) as rig:
        torment(rig, [(name,) for name in names if name in possible(rig)], shortest=1.0, longest=3.0)


@pytest.mark.campaign
@pytest.mark.parametrize(
    "names",
    [
        [("partition", "kill"), ("kill", "deaf"), ("pause", "kill"), ("mute", "kill all"), ("slow disks", "partition")],
        [("full disk", "partition"), ("split", "full disk"), ("failed disk", "kill"), ("bridge", "power cut")],
    ],
    ids=["processes", "disks"],
)
def test_two_things_fail_at_once(names: list[tuple[str, str]], tmp_path: Path) -> None:
    """More than the cluster can serve through, at times; never more than it can keep its word through."""
    disks = any("disk" in name for pair in names for name in pair)
    with running(tmp_path / "cluster", SEED, min_faults=len(names), network=best_network(SEED), disks=disks) as rig:
        torment(rig, names)


@pytest.mark.campaign
def test_wall_clocks_jump(tmp_path: Path) -> None:
    """By five minutes, ahead and back: timestamps rise all the same, and nobody expires who is alive."""
    names = ["clock jumps", "clocks apart", "clock jumps"]
    with running(tmp_path / "cluster", SEED, min_faults=len(names), clocks=(0, 0, 0)) as rig:
        torment(rig, [(name,) for name in names])


@pytest.mark.campaign
@pytest.mark.parametrize("hours", [5, 36])
def test_wall_clocks_are_hours_apart(hours: int, tmp_path: Path) -> None:
    """From the beginning, and while leaders change. With 36, no node believes the timestamps of the one ahead."""
    names = ["kill", "restart", "kill all", "kill", "clocks apart"]
    apart = (-hours * 3600, 0, hours * 3600)
    with running(tmp_path / "cluster", SEED, min_faults=len(names), clocks=apart) as rig:
        torment(rig, [(name,) for name in names])
