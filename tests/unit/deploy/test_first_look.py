"""Which groups a node may have had a replica of, and lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.sim.world.disk import SimDisk
from txndeploy.node.first_look import FirstLook
from txnstatus.process.disk import Disk, OsDisk

DIRECTORY = Path("/n1")
JOURNAL = Path("/n1/raft/catalog/journal")


@pytest.fixture
def disk() -> SimDisk:
    disk = SimDisk(random.Random(0))
    disk.make_directory(JOURNAL)
    disk.overwrite(JOURNAL / "1.log", b"entries")
    return disk


def test_nothing_is_certain_before_the_first_look(disk: SimDisk) -> None:
    look = FirstLook(disk, DIRECTORY, JOURNAL)
    assert not look.was_taken
    assert not look.never_here("status-0")


def test_what_came_later_was_never_here(disk: SimDisk) -> None:
    FirstLook(disk, DIRECTORY, JOURNAL).take(["catalog", "status-0"])
    disk.lose_power()
    look = FirstLook(disk, DIRECTORY, JOURNAL)
    assert look.was_taken
    assert [look.never_here(name) for name in ("catalog", "status-0", "status-1")] == [False, False, True]


def test_who_founded_the_cluster_never_had_anything(disk: SimDisk) -> None:
    FirstLook(disk, DIRECTORY, JOURNAL).take(())
    disk.lose_power()
    assert FirstLook(disk, DIRECTORY, JOURNAL).never_here("status-0")


@pytest.mark.parametrize("position", [0, 10, -1])
def test_a_damaged_file_is_no_look(disk: SimDisk, position: int) -> None:
    FirstLook(disk, DIRECTORY, JOURNAL).take(["status-0"])
    data = bytearray(disk.read(DIRECTORY / "first-look"))
    data[position] ^= 1
    disk.overwrite(DIRECTORY / "first-look", bytes(data))
    look = FirstLook(disk, DIRECTORY, JOURNAL)
    assert not look.was_taken
    assert not look.never_here("status-1")


def test_without_room_it_was_not_taken(disk: SimDisk) -> None:
    look = FirstLook(disk, DIRECTORY, JOURNAL)
    disk.capacity = disk.used
    look.take(["status-0"])
    assert not look.was_taken
    disk.capacity = None
    look.take(["status-0"])
    assert look.was_taken


@pytest.mark.parametrize("kind", ["os", "sim"])
def test_without_the_catalogs_journal_there_was_no_look(kind: str, disk: SimDisk, tmp_path: Path) -> None:
    files: Disk = OsDisk() if kind == "os" else disk
    directory = tmp_path if kind == "os" else DIRECTORY
    FirstLook(files, directory, directory / "journal").take(())
    assert not FirstLook(files, directory, directory / "journal").was_taken
