"""The tables' storage: directories of files in memory, shared by all machines, in place of txnstatus.storage."""

from __future__ import annotations

import random
from collections.abc import Callable

ROOT = "file:///warehouse"


class Warehouse:
    """Stands for an object store: it neither loses nor tears, but it fails now and then."""

    def __init__(self, rng: random.Random, now: Callable[[], float]) -> None:
        self.directories: dict[str, dict[str, float]] = {}
        """The files of each, and when they were written."""
        self.failing = 0.0
        """Chance that a request fails."""
        self.on_delete: Callable[[str], None] = lambda _: None
        self._rng, self._now = rng, now

    def write(self, directory: str, name: str) -> str:
        """The file's URI."""
        self.directories.setdefault(directory, {})[name] = self._now()
        return f"{directory}/{name}"

    def exists(self, uri: str) -> bool:
        directory, _, name = uri.rpartition("/")
        return name in self.directories.get(directory, ())

    def listing(self, location: str) -> dict[str, dict[str, int]]:
        """As txnstatus.storage.tree; every file has one byte."""
        start = f"{location}/"
        below = {uri[len(start) :]: files for uri, files in self.directories.items() if uri.startswith(start)}
        return {name: dict.fromkeys(files, 1) for name, files in below.items()}

    def delete_directory(self, uri: str) -> None:
        """In place of txnstatus.storage.delete_directory."""
        if self._rng.random() < self.failing:
            raise OSError(f"{uri}: the store does not answer")
        self.on_delete(uri)
        self.directories.pop(uri, None)

    def file_system(self, uri: str) -> tuple[None, str]:
        """In place of txnstatus.storage.file_system: every location is usable."""
        return None, uri
