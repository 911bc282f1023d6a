"""The tables' storage: directories of files in memory, shared by all machines, in place of txnstatus.lake.storage."""

from __future__ import annotations

import contextlib
import random
import uuid
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from pyarrow import fs

from tests.sim.world import seams
from txnstatus.lake import storage, timeline

SCHEME = "file:///"
ROOT = f"{SCHEME}warehouse"


class Warehouse:
    """Stands for an object store: it neither loses nor tears, but it fails now and then.

    Of tables of rows the files are real, in a file system of pyarrow's own that lives in memory; of others there are
    only names.
    """

    def __init__(self, rng: random.Random, now: Callable[[], float]) -> None:
        self.directories: dict[str, dict[str, float]] = {}
        """The files of each, and when they were written."""
        self.files = fs._MockFileSystem()
        self.failing = 0.0
        """Chance that a request fails."""
        self.on_delete: Callable[[str], None] = lambda _: None
        self.on_chapter: Callable[[str], None] = lambda _: None
        """Hears of each file of the timeline that is there."""
        self._sizes: dict[str, int] = {}
        """The bytes of files that are real."""
        self._rng, self._now = rng, now

    def write(self, directory: str, name: str) -> str:
        """The file's URI."""
        self.directories.setdefault(directory, {})[name] = self._now()
        return f"{directory}/{name}"

    def exists(self, uri: str) -> bool:
        directory, name = _parted(uri)
        return name in self.directories.get(directory, ())

    def listing(self, location: str) -> dict[str, dict[str, int]]:
        """As txnstatus.lake.storage.tree; what is only a name has one byte."""
        start = f"{location}/"
        below = {uri: files for uri, files in self.directories.items() if uri.startswith(start)}
        return {
            uri[len(start) :]: {name: self._sizes.get(f"{uri}/{name}", 1) for name in files}
            for uri, files in below.items()
        }

    # ---- in place of what txnstatus.lake.storage has by these names

    def seams(self) -> list[tuple[str, Any]]:
        return [
            *(
                seam
                for name in ("file_system", "located", "make_durable", "delete_directory", "delete_if_empty")
                for seam in seams.everywhere(name, getattr(storage, name), getattr(self, name))
            ),
            ("txnstatus.lake.locations:Location.resolved", lambda location: location),
            ("txnstatus.lake.timeline:file_system", self._failing_file_system),
            ("txnstatus.lake.timeline:uuid", SimpleNamespace(uuid4=self._draw)),
        ]

    def file_system(self, uri: str) -> tuple[fs.FileSystem, str]:
        """Every location is usable."""
        return self.files, uri.removeprefix(SCHEME)

    located = file_system

    def _failing_file_system(self, uri: str) -> tuple[fs.FileSystem, str]:
        self._fail(uri)
        return self.file_system(uri)

    def _draw(self) -> uuid.UUID:
        return uuid.UUID(int=self._rng.getrandbits(128))

    @contextlib.contextmanager
    def well(self) -> Iterator[None]:
        """No request fails meanwhile."""
        before, self.failing = self.failing, 0.0
        try:
            yield
        finally:
            self.failing = before

    def make_durable(self, uris: Iterable[str]) -> None:
        """To be called for every file that is real."""
        for uri in uris:
            self._fail(uri)
            if timeline.FOLDER in uri:
                self.on_chapter(uri)
                continue
            self.write(*_parted(uri))
            self._sizes[uri] = self.files.get_file_info(uri.removeprefix(SCHEME)).size

    def delete_directory(self, uri: str) -> None:
        self._fail(uri)
        self.on_delete(uri)
        self.directories.pop(uri, None)
        path = uri.removeprefix(SCHEME)
        if self.files.get_file_info(path).type is not fs.FileType.NotFound:
            self.files.delete_dir(path)

    def delete_if_empty(self, _uri: str) -> None:
        """An object store has no directories of its own."""

    def _fail(self, uri: str) -> None:
        if self._rng.random() < self.failing:
            raise OSError(f"{uri}: the store does not answer")


def _parted(uri: str) -> tuple[str, str]:
    """The directory of a write or a flush, and the path of the file in it."""
    parts = uri.split("/")
    end = next(number for number, part in enumerate(parts, 1) if part.startswith(storage.PREFIXES))
    return "/".join(parts[:end]), "/".join(parts[end:])
