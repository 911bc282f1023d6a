"""A backup's directory: it takes its name once it is whole, and what is read of it is checked first."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from txndeploy.backup import data, renewing
from txndeploy.backup import manifest as manifests
from txndeploy.backup.cut import Cut
from txndeploy.backup.data import Copy
from txndeploy.backup.manifest import DataFiles, GroupFile, Manifest
from txndeploy.node.machines import group_machine
from txnstatus.catalog.catalog import CATALOG
from txnstatus.errors import AlreadyExists, InvalidArgument
from txnstatus.process.disk import OsDisk
from txnstatus.process.durable import make_directory, sync
from txnstatus.process.failpoints import failpoint
from txnstatus.raft import snapshot
from txnstatus.raft.snapshot import Meta, SnapshotCorrupt
from txnstatus.types import HybridClock

DISK = OsDisk()


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Gives a directory beside the wanted one, which takes its place once the block has ended, durable with all files.

    Of a block that fails nothing is left; of a process that is killed, a directory with `.unfinished-` in its name,
    which nobody takes for the wanted one. Raises AlreadyExists where there is something.
    """
    _check_free(directory)
    make_directory(directory.parent)
    unfinished = Path(tempfile.mkdtemp(prefix=f"{directory.name}.unfinished-", dir=directory.parent))
    try:
        yield unfinished
        for path in sorted(unfinished.rglob("*"), reverse=True):
            sync(path)
        sync(unfinished)
        failpoint("backup.before_rename")
        _check_free(directory)
        unfinished.rename(directory)
        sync(directory.parent)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _check_free(directory: Path) -> None:
    if directory.is_symlink():
        raise AlreadyExists(f"{directory} is a link: name the place to which it leads")
    if directory.exists() and any(directory.iterdir() if directory.is_dir() else (directory,)):
        raise AlreadyExists(f"{directory} is there already: give a directory that is not")


def put(directory: Path, group: str, parts: Iterable[bytes]) -> GroupFile:
    """Writes the file of a group. It is not durable yet."""
    name = manifests.file_of(group)
    digest, size = hashlib.sha256(), 0
    with (directory / name).open("xb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            size += len(part)
    return GroupFile(group, name, size, digest.hexdigest())


def put_list(directory: Path, copies: Sequence[Copy], elsewhere: int) -> DataFiles:
    """Writes the list of the tables' files, of which as many more lie elsewhere. It is not durable yet."""
    listed = b"".join(data.encode(copies))
    (directory / data.LIST).write_bytes(listed)
    total = sum(each.bytes for each in copies)
    return DataFiles(len(copies), total, elsewhere, len(listed), hashlib.sha256(listed).hexdigest())


def seal(directory: Path, manifest: Manifest) -> None:
    """The last that is written: what has no manifest is no backup."""
    failpoint("backup.before_manifest")
    (directory / manifests.NAME).write_bytes(manifests.encode(manifest))


def _manifest(directory: Path) -> Manifest:
    try:
        return manifests.decode((directory / manifests.NAME).read_bytes())
    except OSError as error:
        raise InvalidArgument(f"{directory} is no backup: {manifests.NAME} cannot be read: {error.strerror}") from error


class Backup:
    """One that is there, and whose files are what was written."""

    def __init__(self, directory: Path, manifest: Manifest | None = None) -> None:
        """`manifest`: what it is to say, where it does not yet. Raises InvalidArgument, naming what is missing or
        damaged; the tables' files are looked at when they are put back."""
        self.directory = directory
        self.manifest = manifest or _manifest(directory)
        for said in self.manifest.groups:
            try:
                with (directory / said.file).open("rb") as file:
                    digest = hashlib.file_digest(file, "sha256").hexdigest()
                manifests.check_file(said, (directory / said.file).stat().st_size, digest)
                snapshot.verify(DISK, directory / said.file, said.group)
            except OSError as error:
                raise InvalidArgument(f"{said.file} of {directory} cannot be read: {error.strerror}") from error
            except SnapshotCorrupt as error:
                raise InvalidArgument(str(error)) from error
        if CATALOG not in self.groups:
            raise InvalidArgument(f"{directory} has no catalog")
        if self.manifest.data is not None:
            self._listed(self.manifest.data)

    @property
    def groups(self) -> list[str]:
        return [each.group for each in self.manifest.groups]

    def copies(self) -> list[Copy]:
        """The tables' files that are in it. Raises InvalidArgument where it is without, or the list is damaged."""
        said = self.manifest.data
        if said is None:
            raise InvalidArgument(f"{self.directory} is without the tables' files")
        return data.decode(self._listed(said))

    def _listed(self, said: DataFiles) -> bytes:
        """The list of the tables' files. Raises InvalidArgument where it is not there, or damaged."""
        try:
            listed = (self.directory / data.LIST).read_bytes()
        except OSError as error:
            raise InvalidArgument(f"{data.LIST} of {self.directory} cannot be read: {error.strerror}") from error
        if (len(listed), hashlib.sha256(listed).hexdigest()) != (said.bytes, said.sha256):
            raise InvalidArgument(f"{data.LIST} of {self.directory} is not what was written")
        return listed

    def meta(self, group: str) -> Meta:
        return snapshot.read_meta(DISK, self._path(group), group)

    def chunks(self, group: str) -> Iterator[bytes]:
        return snapshot.read_chunks(DISK, self._path(group))

    def cut(self) -> Cut:
        """All of it, in memory. Raises InvalidArgument for states of another release."""
        try:
            state = renewing.catalog_of(self.chunks(CATALOG))
            groups = {}
            for group in self.groups:
                if group != CATALOG:
                    machine = groups[group] = group_machine(lambda: state.range_span, HybridClock(lambda: 0))
                    restoring = machine.restoring()
                    for chunk in self.chunks(group):
                        restoring.add(chunk)
                    restoring.finish()
        except ValueError as error:
            raise InvalidArgument(f"{self.directory} cannot be read: {error}") from error
        return Cut(state, groups)

    def _path(self, group: str) -> Path:
        return self.directory / manifests.file_of(group)
