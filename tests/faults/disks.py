"""Disks that lose power, fail, or are full. They are mounted, so they need root; `close` unmounts them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.support import wait_until

EXT4_IOC_SHUTDOWN = 0x8004587D
NO_LOG_FLUSH = 2
FILLER = "filler"

DiskT = TypeVar("DiskT", "Disk", "SmallDisk")


class _Room:
    """What can be filled, for as long as one likes."""

    path: Path

    def fill(self) -> None:
        """Takes all the room there is; once what was written has its place, there is often a little more."""
        for _ in range(2):
            with (self.path / FILLER).open("ab", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                os.fsync(file.fileno())

    def make_room(self) -> None:
        """For good: also when the power is cut right after it."""
        (self.path / FILLER).unlink()
        fd = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


class Disk(_Room):
    """An ext4 file system in a file, which the kernel can shut down without writing its log back.

    From then on all that reaches it fails with EIO; after `back` only what was synced is there, bytes and names alike.
    """

    def __init__(self, path: Path, megabytes: int = 128) -> None:
        self.path = path
        self._image = path.with_suffix(".img")
        path.mkdir(parents=True)
        with self._image.open("wb") as file:
            file.truncate(megabytes << 20)
        _run("mkfs.ext4", "-q", "-F", self._image)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-o", "loop", self._image, self.path)

    def cut(self) -> None:
        fd = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, EXT4_IOC_SHUTDOWN, struct.pack("I", NO_LOG_FLUSH))
        finally:
            os.close(fd)

    def back(self) -> None:
        """Nobody may have a file open on it."""
        _run("umount", self.path)
        self._mount()

    def close(self) -> None:
        _run("umount", self.path)


class SmallDisk(_Room):
    """A file system in memory that has room for `kilobytes`."""

    def __init__(self, path: Path, kilobytes: int) -> None:
        self.path = path
        path.mkdir(parents=True)
        _run("mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", path)

    def close(self) -> None:
        _run("umount", self.path)


def can_mount() -> bool:
    """As far as one can tell without trying."""
    return os.geteuid() == 0 and shutil.which("mkfs.ext4") is not None


@contextmanager
def mounted(make: type[DiskT], paths: list[Path], *arguments: int) -> Iterator[list[DiskT]]:
    """Disks at the paths; skips the test where they cannot be had."""
    if not can_mount():
        pytest.skip("needs root and mkfs.ext4: it mounts file systems of its own")
    disks: list[DiskT] = []
    try:
        for path in paths:
            try:
                disks.append(make(path, *arguments))
            except subprocess.CalledProcessError as error:
                pytest.skip(f"cannot mount a file system here: {error.stderr.decode().strip()}")
        yield disks
    finally:
        for disk in disks:
            wait_until(lambda disk=disk: _closed(disk), f"{disk.path} can be unmounted")  # type: ignore[misc]


def _closed(disk: Disk | SmallDisk) -> bool:
    try:
        disk.close()
    except subprocess.CalledProcessError:
        return False  # a process that was killed a moment ago still holds it
    return True


def _run(*arguments: str | Path) -> None:
    subprocess.run(arguments, check=True, capture_output=True)
