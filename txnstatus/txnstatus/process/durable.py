"""Names and small files that survive a power cut: a file's sync does not make its name durable."""

from __future__ import annotations

import os
from collections.abc import Sequence
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
    write_together([(path, data, mode)])


def write_together(files: Sequence[tuple[Path, bytes, int]]) -> None:
    """Files that go together, each as by `write_file`: all are there before the first one has its name, so that whoever
    reads them meanwhile finds a mixture for a moment only."""
    news = [_new(path) for path, _, _ in files]
    try:
        for new, (_, data, mode) in zip(news, files, strict=True):
            _write_new(new, data, mode)
    except OSError:
        for new in news:
            new.unlink(missing_ok=True)
        raise
    for new, (path, _, _) in zip(news, files, strict=True):
        new.rename(path)
    for directory in dict.fromkeys(path.parent for path, _, _ in files):
        sync(directory)


def _new(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _write_new(path: Path, data: bytes, mode: int) -> None:
    path.unlink(missing_ok=True)
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
