"""File descriptors: as many as this process may have, and some that are kept for the disk.

Connections take what there is. A journal that cannot open its next segment ends its process; so whoever opens files
here has some to fall back on.
"""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

NO_MORE = (errno.EMFILE, errno.ENFILE)


def raise_limit() -> int:
    """Raises the soft limit of this process to its hard one. Returns how many descriptors it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard if hard != resource.RLIM_INFINITY else 1 << 20


class KeptDescriptors:
    """Opens and closes files, where no descriptor is left with one of those it keeps. Safe to use from threads."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._null = os.open(os.devnull, os.O_RDONLY) if count else -1
        self._kept = [os.dup(self._null) for _ in range(count)]

    def open(self, path: Path, flags: int) -> int:
        """Raises OSError."""
        while True:
            try:
                return os.open(path, flags, 0o600)
            except OSError as error:
                if error.errno not in NO_MORE or not self._give_one():
                    raise

    def close(self, descriptor: int) -> None:
        """Where some are missing, the file's becomes one of those that are kept: nobody else gets it in between."""
        if len(self._kept) < self._count:
            os.dup2(self._null, descriptor, inheritable=False)
            self._kept.append(descriptor)
        else:
            os.close(descriptor)

    def _give_one(self) -> bool:
        try:
            os.close(self._kept.pop())
        except IndexError:
            return False
        return True
