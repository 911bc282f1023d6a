"""What Raft does to a disk: all of it goes through `Disk`, so that a test can take the disk's place.

The rules that the journal and the snapshots are written against: bytes survive a power cut once their file is synced,
names once their directory is. What a failed sync leaves is unknown, and stays unknown however often it is repeated.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from txnstatus.process.descriptors import KeptDescriptors

GONE = ".gone"
"""What the name of a directory that is being wiped ends with."""


class DiskFull(Exception):
    """There was no room, and nothing was written: it may be tried again when there is."""

    def __init__(self, what: str, error: OSError) -> None:
        super().__init__(f"no room for {what}: {error.strerror}")


class DiskFile(Protocol):
    """A file that is open for appending."""

    def write(self, data: bytes) -> None:
        """Appends. On an OSError some first part of the data may be in the file."""

    def sync(self) -> None:
        """Makes durable what the file holds, not its name."""

    def truncate(self, length: int) -> None: ...
    def close(self) -> None: ...


class Disk(Protocol):
    """Every method may raise OSError. A change of a name is durable once `sync_directory` of its directory returned."""

    def create(self, path: Path) -> DiskFile:
        """An empty file, in place of one that may be there."""

    def open(self, path: Path) -> DiskFile:
        """A file that is there. Raises FileNotFoundError."""

    def read(self, path: Path, offset: int = 0, length: int = -1) -> bytes:
        """At most `length` bytes from `offset`; all that follow, if it is negative. Raises FileNotFoundError."""

    def size(self, path: Path) -> int | None:
        """None = there is no such file."""

    def identity(self, path: Path) -> object:
        """Equal for as long as the name leads to the same file; None = there is no such file."""

    def names(self, directory: Path) -> list[str]:
        """Sorted."""

    def rename(self, old: Path, new: Path) -> None:
        """Puts `old` in the place of what may be at `new`; at any moment one of the two is there, whole."""

    def unlink(self, path: Path) -> None:
        """No error if there is no such file."""

    def wipe(self, directory: Path) -> None:
        """The directory and all in it, where it exists: at any moment all of it is there, or nothing. After a crash it
        may be there again."""

    def make_directory(self, path: Path) -> None:
        """With its parents, and all their names durable. No error if it is there."""

    def sync_directory(self, path: Path) -> None: ...


def is_full(error: OSError) -> bool:
    """Whether there was no room: of all errors the only one after which the disk can still be trusted."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class OsDisk:
    """The disk of this machine."""

    def __init__(self, kept_descriptors: int = 0) -> None:
        """`kept_descriptors`: for files that are to be opened when the process has no others left."""
        self._descriptors = KeptDescriptors(kept_descriptors)

    def create(self, path: Path) -> DiskFile:
        return _OsFile(self._descriptors, path, os.O_CREAT | os.O_TRUNC)

    def open(self, path: Path) -> DiskFile:
        return _OsFile(self._descriptors, path, 0)

    def read(self, path: Path, offset: int = 0, length: int = -1) -> bytes:
        with self._opened(path) as fd, open(fd, "rb", closefd=False) as file:
            file.seek(offset)
            return file.read(length)

    def size(self, path: Path) -> int | None:
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return None

    def identity(self, path: Path) -> object:
        try:
            found = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found.st_dev, found.st_ino

    def names(self, directory: Path) -> list[str]:
        return sorted(entry.name for entry in directory.iterdir())

    def rename(self, old: Path, new: Path) -> None:
        old.replace(new)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def wipe(self, directory: Path) -> None:
        gone = directory.with_name(directory.name + GONE)
        if gone.exists():
            shutil.rmtree(gone)
        if directory.exists():
            directory.rename(gone)
            self.sync_directory(directory.parent)
            shutil.rmtree(gone)

    def make_directory(self, path: Path) -> None:
        missing = []
        while not path.exists():
            missing.append(path)
            path = path.parent
        for directory in reversed(missing):
            directory.mkdir(exist_ok=True)
            self.sync_directory(directory.parent)

    def sync_directory(self, path: Path) -> None:
        with self._opened(path) as fd:
            os.fsync(fd)

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        fd = self._descriptors.open(path, os.O_RDONLY)
        try:
            yield fd
        finally:
            self._descriptors.close(fd)


class _OsFile:
    def __init__(self, descriptors: KeptDescriptors, path: Path, flags: int) -> None:
        self._descriptors = descriptors
        self._fd = descriptors.open(path, os.O_RDWR | os.O_APPEND | flags)

    def write(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            # A short write is how a disk says that it is nearly full: the next one says it.
            left = left[os.write(self._fd, left) :]

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._fd, length)

    def close(self) -> None:
        self._descriptors.close(self._fd)
