"""SimDisk: a `txnstatus.process.disk.Disk` in memory that can lose power, fill up, fail and rot.

A power cut leaves of a file what was synced, and some part of what was not: a first part of it, of which pieces may
be zeros. Of a directory it leaves the names as they were at the last sync, and some first part of the changes since.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from txnstatus.raft import frames

SECTOR = 512


@dataclass(slots=True, eq=False)
class _Inode:
    data: bytearray = field(default_factory=bytearray)
    durable: bytes = b""
    appended_only: bool = True
    """Whether the file was only appended to since the last sync."""

    def sync(self) -> None:
        self.durable = bytes(self.data)
        self.appended_only = True

    def lose_power(self, rng: random.Random) -> None:
        if not self.appended_only and rng.random() < 0.5:
            self.data = bytearray(self.durable)
        elif self.appended_only:
            start = len(self.durable)
            del self.data[rng.randint(start, len(self.data)) :]
            if start < len(self.data) and rng.random() < 0.5:
                # Sectors reach the disk in any order.
                hole = rng.randrange(start, len(self.data))
                self.data[hole : hole + SECTOR] = bytes(len(self.data[hole : hole + SECTOR]))
        self.sync()


_Names = dict[Path, _Inode]


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the names in one directory; all of it reaches the disk, or nothing."""

    directory: Path
    removed: Path | None
    added: tuple[Path, _Inode] | None

    def apply(self, names: _Names) -> None:
        if self.removed is not None:
            names.pop(self.removed, None)
        if self.added is not None:
            names[self.added[0]] = self.added[1]


class SimDisk:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._names: _Names = {}
        self._durable_names: _Names = {}
        self._changes: list[_Change] = []
        self._directories: set[Path] = set()
        self._life = 0
        self.capacity: int | None = None
        """Bytes of all files; None = without end."""
        self.before: Callable[[str, Path], None] = lambda _operation, _path: None
        """Hears of every operation before it has any effect; what it raises is what the caller gets."""
        self.fails_next_sync = False
        self.on_failed_sync: Callable[[], None] = lambda: None
        self.syncs = 0
        self.bytes_written = 0
        self.open_files = 0
        """Files that were opened, or made, and not closed."""

    # ---- faults

    def lose_power(self) -> None:
        """Files that are open now fail ever after."""
        self._life += 1
        names = dict(self._durable_names)
        for directory in dict.fromkeys(change.directory for change in self._changes):
            changes = [change for change in self._changes if change.directory == directory]
            for change in changes[: self._rng.randint(0, len(changes))]:
                change.apply(names)
        self._names = names
        for inode in {id(inode): inode for inode in names.values()}.values():
            inode.lose_power(self._rng)
        self._durable_names = dict(names)
        self._changes.clear()

    def rot_at(self, paths: list[Path]) -> tuple[Path, int] | None:
        """A byte by chance in whole frames of these files; None = there is none that can be told from a torn end.

        The last frame of a journal that does not read is what a power cut leaves, so that one must not rot here.
        """
        spans = [(path, start, end) for path in paths for start, end in _checked_frames(path, self._names[path].data)]
        if not spans:
            return None
        path, start, end = self._rng.choice(spans)
        return path, self._rng.randrange(start, end)

    def flip_bit(self, path: Path, position: int | None = None) -> int:
        """Damages a byte, by chance unless `position` says which; returns where."""
        inode = self._names[path]
        position = self._rng.randrange(len(inode.data)) if position is None else position
        inode.data[position] ^= 1 << self._rng.randrange(8)
        inode.durable = bytes(inode.data)
        return position

    def overwrite(self, path: Path, data: bytes) -> None:
        """What somebody else did to a file: durable, and past all faults."""
        inode = self._names.get(path) or _Inode()
        inode.data = bytearray(data)
        inode.sync()
        self._names[path] = self._durable_names[path] = inode

    def files(self, directory: Path) -> list[Path]:
        """All below it."""
        return sorted(path for path in self._names if directory in path.parents)

    def wipe(self, directory: Path) -> None:
        """Removes all files below, durably."""
        for names in (self._names, self._durable_names):
            for path in [path for path in names if directory in path.parents]:
                del names[path]
        self._changes = [c for c in self._changes if directory != c.directory and directory not in c.directory.parents]

    @property
    def used(self) -> int:
        return sum(len(inode.data) for inode in self._names.values())

    # ---- Disk

    def create(self, path: Path) -> _SimFile:
        self.before("create", path)
        self._check_parent(path)
        self._check_room(path)
        inode = _Inode()
        self._change(_Change(path.parent, None, (path, inode)))
        return _SimFile(self, path, inode)

    def open(self, path: Path) -> _SimFile:
        self.before("open", path)
        return _SimFile(self, path, self._inode(path))

    def read(self, path: Path, offset: int = 0, length: int = -1) -> bytes:
        self.before("read", path)
        data = self._inode(path).data
        return bytes(data[offset:] if length < 0 else data[offset : offset + length])

    def size(self, path: Path) -> int | None:
        inode = self._names.get(path)
        return None if inode is None else len(inode.data)

    def identity(self, path: Path) -> object:
        return self._names.get(path)

    def names(self, directory: Path) -> list[str]:
        self.before("names", directory)
        return sorted(path.name for path in self._names if path.parent == directory)

    def rename(self, old: Path, new: Path) -> None:
        self.before("rename", old)
        if old.parent != new.parent:
            raise ValueError(f"{old} and {new}: names of one directory, so that one sync makes the change durable")
        self._change(_Change(new.parent, old, (new, self._inode(old))))

    def unlink(self, path: Path) -> None:
        self.before("unlink", path)
        if path in self._names:
            self._change(_Change(path.parent, path, None))

    def make_directory(self, path: Path) -> None:
        self.before("make_directory", path)
        if path not in self._directories:
            self._check_room(path)
        self._directories |= {path, *path.parents}

    def sync_directory(self, path: Path) -> None:
        self.before("sync_directory", path)
        self.syncs += 1
        if self.fails_next_sync:
            raise self._failed_sync(path)
        for change in self._changes:
            if change.directory == path:
                change.apply(self._durable_names)
        self._changes = [change for change in self._changes if change.directory != path]

    # ---- inside

    def _failed_sync(self, path: Path) -> OSError:
        self.fails_next_sync = False
        self.on_failed_sync()
        return OSError(errno.EIO, os.strerror(errno.EIO), str(path))

    def _change(self, change: _Change) -> None:
        change.apply(self._names)
        self._changes.append(change)

    def _inode(self, path: Path) -> _Inode:
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._names[path]

    def _check_room(self, path: Path) -> None:
        if self.capacity is not None and self.used >= self.capacity:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _check_parent(self, path: Path) -> None:
        if path.parent not in self._directories:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))


def _checked_frames(path: Path, data: bytearray) -> list[tuple[int, int]]:
    """Where the frames are that a start must find damaged."""
    found, offset = [], 0
    while (frame := frames.read_frame(bytes(data), offset)) is not None:
        end = offset + frames.HEADER_BYTES + len(frame[1])
        found.append((offset, end))
        offset = end
    if path.suffix == ".log" and len(found) > 1:
        found.pop()  # the seal, or what may be torn
    return found


class _SimFile:
    def __init__(self, disk: SimDisk, path: Path, inode: _Inode) -> None:
        self._disk = disk
        self._path = path
        self._inode = inode
        self._life = disk._life
        self._closed = False
        disk.open_files += 1

    def write(self, data: bytes) -> None:
        self._begin("write")
        disk, room = self._disk, len(data)
        if disk.capacity is not None:
            room = max(0, min(room, disk.capacity - disk.used))
        self._inode.data += data[:room]
        disk.bytes_written += room
        if room < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))

    def sync(self) -> None:
        self._begin("sync")
        self._disk.syncs += 1
        if self._disk.fails_next_sync:
            # The kernel may drop what it could not write, and says so once: the next sync would succeed.
            self._inode.lose_power(self._disk._rng)
            raise self._disk._failed_sync(self._path)
        self._inode.sync()

    def truncate(self, length: int) -> None:
        self._begin("truncate")
        if length < len(self._inode.durable):
            self._inode.appended_only = False
        del self._inode.data[length:]

    def close(self) -> None:
        """Nothing is made durable by it."""
        self._check_open("close")
        self._closed = True
        self._disk.open_files -= 1

    def _check_open(self, operation: str) -> None:
        if self._closed:
            raise OSError(errno.EBADF, f"{operation} of a file that is closed", str(self._path))

    def _begin(self, operation: str) -> None:
        self._check_open(operation)
        if self._life != self._disk._life:
            raise OSError(errno.EIO, f"{operation} through a file that was open in a power cut", str(self._path))
        self._disk.before(operation, self._path)
