"""A file system of fsspec that is like HDFS, on this machine's disk, for nodes and programs that find it by its name.

It has directories, and a rename that is atomic and replaces nothing; no file is written twice, or added to; and one
that is being written is seen. What it is asked is in a log.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fsspec import AbstractFileSystem, register_implementation

from tests.integration.files.object_store import found_by

NAME = "hdfslike"
ROOT = Path(__file__).parents[3]


class HdfsLike(AbstractFileSystem):
    """Paths are below the directory that the variable HDFS_LIKE names."""

    protocol = NAME

    def _at(self, path: str, asked: str = "") -> Path:
        base = Path(os.environ["HDFS_LIKE"])
        if asked:
            with (base / "log").open("a") as log:
                log.write(f"{asked} {path}\n")
        return base / "files" / self._strip_protocol(path)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        found = self._at(path).stat()
        kind = "directory" if self._at(path).is_dir() else "file"
        return {"name": self._strip_protocol(path), "size": found.st_size, "type": kind}

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        if self._at(path).is_file():
            return [self.info(path)] if detail else [path]
        names = [f"{self._strip_protocol(path)}/{each.name}" for each in self._at(path, "list").iterdir()]
        return [self.info(name) for name in names] if detail else names

    def mkdir(self, path: str, create_parents: bool = True, **_: Any) -> None:
        self._at(path).mkdir(parents=create_parents, exist_ok=True)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        there = self._at(path, "delete")
        if there.is_dir() and recursive:
            shutil.rmtree(there)
        else:
            there.unlink()

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        if self._at(path2, "rename").exists():
            raise FileExistsError(f"{path2} is there, and a rename replaces nothing")
        self._at(path1).rename(self._at(path2))

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        match mode:
            case "rb":
                return self._at(path, "read").open("rb")
            case "wb":
                return self._at(path, "create").open("xb")
        raise NotImplementedError(f"{path} is opened as {mode!r}: files are read, or written once")


def asked_of(base: Path) -> list[tuple[str, str]]:
    """What it was asked, of which path."""
    lines = (base / "log").read_text().splitlines()
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


@contextmanager
def hdfs_like(base: Path) -> Iterator[Mapping[str, str]]:
    """The variables by which processes find it, by packages' entry points; this process has them meanwhile."""
    package = base / "package" / f"{NAME}-1.0.dist-info"
    package.mkdir(parents=True)
    (base / "files").mkdir()
    (base / "log").touch()
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[fsspec.specs]\n{NAME} = {__name__}:HdfsLike\n")
    register_implementation(NAME, HdfsLike, clobber=True)
    path = os.pathsep.join([str(package.parent), str(ROOT), *sys.path])
    with found_by({"HDFS_LIKE": str(base), "PYTHONPATH": path}) as variables:
        yield variables
