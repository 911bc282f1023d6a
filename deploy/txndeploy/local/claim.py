"""Whose a cluster's directory is: one process runs the nodes in it, and others find out which."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

NAME = "cluster.lock"
PATIENCE_SECONDS = 10.0
"""Time within which whoever has taken a directory has said so in it."""
POLL_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that runs the nodes in a directory."""

    pid: int
    addresses: str
    """Addresses of the nodes, for `txnclient.connect`."""


class DirectoryInUse(RuntimeError):
    """Somebody else runs the nodes in it."""

    def __init__(self, directory: Path, holder: Holder | None) -> None:
        by = f"process {holder.pid}, with nodes at {holder.addresses}" if holder else "a process that does not say who"
        super().__init__(f"{directory} is in use by {by}")
        self.directory, self.holder = directory, holder


class Claim:
    """A lock on the directory that goes with its process, however that ends; the file of it stays.

    Children that are forked and live longer would keep it: nodes are started anew, and inherit nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: int | None = None

    def take(self) -> None:
        """Raises DirectoryInUse. Harmless where this has it already."""
        if self._file is not None:
            return
        file = os.open(self._directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _locked(file):
            holder = _read(file)
            if holder is not None or time.monotonic() > deadline:
                os.close(file)
                raise DirectoryInUse(self._directory, holder)
            time.sleep(POLL_SECONDS)  # it was taken a moment ago, by somebody who has not said so yet
        os.ftruncate(file, 0)
        self._file = file

    def tell(self, addresses: str) -> None:
        """For those who come."""
        assert self._file is not None
        os.pwrite(self._file, json.dumps({"pid": os.getpid(), "addresses": addresses}).encode(), 0)

    def release(self) -> None:
        if self._file is None:
            return
        file, self._file = self._file, None
        with contextlib.suppress(OSError):  # the disk may be gone; who held it is read of the living only
            os.ftruncate(file, 0)
        os.close(file)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: int) -> Holder | None:
    """None: nothing yet, or what a process has left that is dead."""
    try:
        said = json.loads(os.pread(file, 1 << 16, 0))
        os.kill(said["pid"], 0)
    except (ValueError, ProcessLookupError):
        return None
    except PermissionError:
        pass  # it lives, and is somebody else's
    return Holder(said["pid"], said["addresses"])
