"""Names and small files that survive a power cut: a file's sync does not make its name durable."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: Path | str) -> None:
    """Makes durable what a file holds, or the names in a directory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Makes the directory and its parents, and their names durable."""
    missing = []
    while not path.exists():
        missing.append(path)
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync(directory.parent)


def write_file(path: Path, data: bytes, mode: int = 0o666) -> None:
    """The whole file under its name, or, after an OSError, what was there before.

    `mode`: its permissions, less the umask; it has no others at any time, so nobody else ever reads a secret.
    """
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    try:
        with open(new, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        new.unlink(missing_ok=True)
        raise
    new.rename(path)
    sync(path.parent)
