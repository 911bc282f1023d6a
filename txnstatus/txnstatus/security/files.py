"""Files that are read again when they have changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from txnstatus.errors import InvalidArgument

log = logging.getLogger(__name__)
T = TypeVar("T")


def sign(path: Path) -> tuple[int, int, int]:
    """Inode, time and size: by them it is seen that a file is another one. Raises InvalidArgument."""
    try:
        stat = path.stat()  # what a link leads to: projected files are links
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


def read(path: Path) -> bytes:
    """Raises InvalidArgument."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror}") from error


class Followed(Generic[T]):
    """What a file says by now. Safe to use from many threads."""

    def __init__(self, path: Path, parse: Callable[[bytes], T]) -> None:
        """`parse` raises InvalidArgument, in whose sentence there is no secret. So does this."""
        self._path, self._parse = path, parse
        self._lock = threading.Lock()
        self._sign = self._failed = sign(path)
        self._value = parse(read(path))

    def now(self) -> T:
        """What does not parse, or is not there, is left for later: it may be half way written."""
        with self._lock:
            try:
                found = sign(self._path)
                if found not in (self._sign, self._failed):
                    self._failed = found
                    self._value = self._parse(read(self._path))
                    self._sign = found
                    log.info("%s was read again", self._path)
            except InvalidArgument as error:
                log.warning("%s stays as it was read before: %s", self._path, error.message)
            return self._value

    def after_fork(self) -> None:
        """Another thread may have held the lock."""
        self._lock = threading.Lock()
