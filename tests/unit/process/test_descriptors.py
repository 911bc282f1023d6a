"""Descriptors that are kept for the disk."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from txnstatus.process.descriptors import KeptDescriptors, raise_limit
from txnstatus.process.disk import OsDisk


@pytest.fixture
def few() -> Iterator[None]:
    """This process may have a few more descriptors than it has."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 20, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def take_all() -> list[int]:
    taken = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return taken


@pytest.mark.usefixtures("few")
def test_files_open_while_connections_have_all_other_descriptors(tmp_path: Path) -> None:
    """The next segment of a journal could not be opened, which ends a node."""
    disk = OsDisk(kept_descriptors=4)
    taken = take_all()
    try:
        for number in range(50):
            file = disk.create(tmp_path / f"{number}")
            file.write(b"x")
            file.sync()
            disk.sync_directory(tmp_path)
            file.close()
            assert disk.read(tmp_path / f"{number}") == b"x"
            taken += take_all()  # what a closed file gives back is kept, and nobody else's
    finally:
        for descriptor in taken:
            os.close(descriptor)


@pytest.mark.usefixtures("few")
def test_when_those_are_used_up_too_the_error_is_the_systems(tmp_path: Path) -> None:
    kept = KeptDescriptors(2)
    taken = take_all()
    opened = [kept.open(tmp_path, os.O_RDONLY) for _ in range(2)]
    with pytest.raises(OSError, match="Too many open files"):
        kept.open(tmp_path, os.O_RDONLY)
    for descriptor in opened:
        kept.close(descriptor)
    kept.close(kept.open(tmp_path, os.O_RDONLY))
    for descriptor in taken:
        os.close(descriptor)


@pytest.mark.usefixtures("few")
def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raise_limit() == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
