"""Faults of processes and of the network, under load: whatever clients were told stays true.

One run for each kind, with the history checked at the end (tests/faults). `make soak` mixes all of them for longer.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.nemesis import possible, torment
from tests.faults.rig import running
from txndeploy.local.namespaces import Namespaces, NoNamespaces, best_network
from txndeploy.local.network import Network
from txndeploy.local.proxies import Proxies

SEED = int(os.environ.get("TXN_SEED", "1"))


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


def test_wall_clocks_jump(tmp_path: Path) -> None:
    """By five minutes, ahead and back: timestamps rise all the same, and nobody expires who is alive."""
    names = ["clock jumps", "clocks apart", "clock jumps"]
    with running(tmp_path / "cluster", SEED, min_faults=len(names), clocks=(0, 0, 0)) as rig:
        torment(rig, [(name,) for name in names])


@pytest.mark.parametrize("hours", [5, 36])
def test_wall_clocks_are_hours_apart(hours: int, tmp_path: Path) -> None:
    """From the beginning, and while leaders change. With 36, no node believes the timestamps of the one ahead."""
    names = ["kill", "restart", "kill all", "kill", "clocks apart"]
    apart = (-hours * 3600, 0, hours * 3600)
    with running(tmp_path / "cluster", SEED, min_faults=len(names), clocks=apart) as rig:
        torment(rig, [(name,) for name in names])
