"""The tables' storage: directories of files in memory, shared by all machines, in place of txnstatus.storage."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

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

    def delete_directory(self, uri: str) -> None:
        """In place of txnstatus.storage.delete_directory."""
        if self._rng.random() < self.failing:
            raise OSError(f"{uri}: the store does not answer")
        self.on_delete(uri)
        self.directories.pop(uri, None)

    def seams(self) -> list[tuple[str, Any]]:
        """What it takes the place of; as `seams.replaced` has it."""
        return [
            ("txnparticipant.cleaner:delete_directory", self.delete_directory),
            ("txnparticipant.cleaner:delete_if_empty", lambda _uri: None),
            ("txnstatus.locations:file_system", self.file_system),
            ("txnstatus.locations:Location.resolved", lambda location: location),
        ]

    def file_system(self, uri: str) -> tuple[None, str]:
        """In place of txnstatus.storage.file_system: every location is usable."""
        return None, uri
