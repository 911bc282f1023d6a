"""Files by URI, on any file system that pyarrow has; what is written locally is synced, name and all."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from txnstatus.errors import InvalidArgument
from txnstatus.lake import parallel, stores
from txnstatus.lake.stores import Store
from txnstatus.names import PARTITION_PREFIX
from txnstatus.process.durable import sync

if TYPE_CHECKING:
    from pyarrow import fs

WRITE_PREFIX = "delta_"
"""The beginning of the names of writes' directories."""
BASE_PREFIX = "base_"
"""The beginning of the names of directories with all of a partition, rewritten by a compaction."""
PREFIXES = (WRITE_PREFIX, BASE_PREFIX)
OBJECT_STORES = frozenset({"s3", "gcs", "abfs"})
"""Names that pyarrow has for file systems without directories, in which a file is there once all of it is."""
BY_FSSPEC = "fsspec+"
"""What URIs begin with that are in a file system of fsspec's, before the name that this has there."""
SLOW_SYNC_SECONDS = 0.002
"""Time that the first of several syncs takes, beyond which the others go side by side."""


def file_system(uri: str) -> tuple[fs.FileSystem, str]:
    """The file system and the path in it. Raises InvalidArgument."""
    from pyarrow import fs

    if uri.startswith("s3://") and (store := stores.load().of(uri)):
        return _system_of_store(store), unquote(uri.removeprefix("s3://"))
    if uri.startswith(BY_FSSPEC):
        return _by_fsspec(uri)
    # A small file is one request then, and not an upload of several parts.
    asked = f"{uri}?allow_delayed_open=true" if uri.startswith("s3://") else uri
    try:
        system, path = fs.FileSystem.from_uri(asked)
    except (OSError, ValueError) as error:
        raise InvalidArgument(f"{uri!r} is not a usable location: {error}") from error
    return system, path


def _by_fsspec(uri: str) -> tuple[fs.FileSystem, str]:
    """Raises InvalidArgument, also for this machine's own files: as such they would not be synced."""
    from pyarrow import fs

    said = unquote(uri.removeprefix(BY_FSSPEC))
    scheme, _, path = said.partition("://")
    if scheme in ("file", "local"):
        raise InvalidArgument(f"{uri!r} is not a usable location: it is on a disk, file://{path}")
    try:
        import fsspec  # type: ignore[import-untyped]

        # Others write there, too: what a directory had is no news.
        system, path = fsspec.url_to_fs(said, use_listings_cache=False)
    except (ImportError, OSError, ValueError) as error:
        hint = "pip install 'txnstatus[fsspec]', and what its file system is made of"
        raise InvalidArgument(f"{uri!r} is not a usable location: {error}", hint=hint) from error
    return fs.PyFileSystem(fs.FSSpecHandler(system)), path


@lru_cache(maxsize=100)
def _system_of_store(store: Store) -> fs.FileSystem:
    return store.file_system()


@lru_cache(maxsize=1_000)
def _file_system_of_table(uri: str, _store: Store | None) -> tuple[fs.FileSystem, str]:
    """Making one anew takes longer than what it is then asked to do."""
    return file_system(uri)


def located(uri: str) -> tuple[fs.FileSystem, str]:
    """As `file_system`, and sooner for the second file of a table's writes and compactions."""
    for prefix in PREFIXES:
        table, write, name = uri.rpartition(f"/{prefix}")
        if write:
            store = stores.load().of(table) if table.startswith("s3://") else None
            system, location = _file_system_of_table(table, store)
            return system, f"{location}{write}{unquote(name)}"
    return file_system(uri)


def is_near(uri: str) -> bool:
    """Whether reading is hardly waiting: the file system is this machine's own."""
    from pyarrow import fs

    return isinstance(located(uri)[0], fs.LocalFileSystem)


def has_directories(system: fs.FileSystem) -> bool:
    """Whether a file needs a directory, and one that is being written is seen by others: not so in an object store."""
    return system.type_name not in OBJECT_STORES


def make_directory(system: fs.FileSystem, path: str) -> None:
    """A directory for files that are about to be written, where the file system has any."""
    if has_directories(system):
        system.create_dir(path, recursive=True)


def parquet_files(directory: str) -> list[tuple[str, int]]:
    """URI and size of every Parquet file below the directory, in order."""
    from pyarrow import fs

    system, root = file_system(directory)
    found = system.get_file_info(fs.FileSelector(root, recursive=True))
    return sorted(
        (directory + quote(info.path[len(root) :], safe="/="), info.size)
        for info in found
        if info.type is fs.FileType.File and info.base_name.endswith(".parquet")
    )


def partition_in_path(path: str) -> str:
    """The partition of a data file, by the directories that a write is split into."""
    parts = (unquote(part) for part in path.split("/"))
    return "/".join(part.removeprefix(PARTITION_PREFIX) for part in parts if part.startswith(PARTITION_PREFIX))


def partition_directory(partition: str) -> str:
    """The path below a write's directory in which the files of a partition are."""
    return "".join(f"/{PARTITION_PREFIX}{part}" for part in partition.split("/") if part)


def tree(location: str) -> dict[str, dict[str, int]] | None:
    """All that lies in a directory: by name, the paths of the files below and their bytes. None: there is none.

    A file right there has the path "" below its name.
    """
    from pyarrow import fs

    system, root = file_system(location)
    if system.get_file_info(root).type is fs.FileType.NotFound:
        return None
    found: dict[str, dict[str, int]] = {}
    # What is removed meanwhile is no error.
    for info in system.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
        name, _, below = info.path[len(root) :].lstrip("/").partition("/")
        files = found.setdefault(name, {})
        if info.type is fs.FileType.File:
            files[below] = info.size
    return found


def read_file(uri: str) -> bytes:
    """Raises OSError."""
    system, path = located(uri)
    with system.open_input_stream(path) as stream:
        return bytes(stream.read())


def put_file(uri: str, data: bytes) -> None:
    """Not durable yet when it returns."""
    system, path = located(uri)
    make_directory(system, path.rsplit("/", 1)[0])
    with system.open_output_stream(path) as stream:
        stream.write(data)


def put_whole(uri: str, data: bytes) -> None:
    """As `put_file`, of a file in a directory that others list: they see all of it or none."""
    system, path = located(uri)
    if not has_directories(system):
        put_file(uri, data)
        return
    folder, _, name = path.rpartition("/")
    system.create_dir(folder, recursive=True)
    with system.open_output_stream(f"{folder}/.{name}") as stream:
        stream.write(data)
    system.move(f"{folder}/.{name}", path)


def write_file(uri: str, data: bytes, beside: Iterable[str] = ()) -> None:
    """Durable when it returns, and so are the files `beside` it: one pass over their directories does for all."""
    put_file(uri, data)
    make_durable([*beside, uri])


def duplicate(uri: str, new: str) -> None:
    """Makes a second file of one that never changes: another name for it, where the file system has such, else a copy.

    It lives as long as either of them. Not durable yet when it returns. Raises OSError, and FileNotFoundError.
    """
    from pyarrow import fs

    (system, path), (there, target) = located(uri), located(new)
    make_directory(there, target.rsplit("/", 1)[0])
    if isinstance(system, fs.LocalFileSystem) and isinstance(there, fs.LocalFileSystem):
        try:
            Path(target).hardlink_to(path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
        else:
            return
    fs.copy_files(path, target, source_filesystem=system, destination_filesystem=there)


_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""What says that a file system has no other name for a file, or not there, or no more of them."""


def delete_file(uri: str) -> None:
    """Only ever one that this process has made, and nobody has heard of. Raises OSError."""
    system, path = located(uri)
    system.delete_file(path)


def delete_directory(uri: str) -> None:
    """Idempotent. Only ever the own directory of a write or a compaction. Raises OSError."""
    from pyarrow import fs

    table, _, name = uri.rpartition("/")
    if not name.startswith(PREFIXES):
        raise InvalidArgument(f"{uri!r} is not a write's directory")
    system, location = _file_system_of_table(table, id(stores.load()) if uri.startswith("s3://") else 0)
    path = f"{location}/{unquote(name)}"
    if system.get_file_info(path).type is not fs.FileType.NotFound:
        system.delete_dir(path)


def delete_if_empty(uri: str) -> None:
    """A table's directory, where there are any: in an object store it goes with its last file. Raises OSError."""
    from pyarrow import fs

    system, path = file_system(uri)
    if not isinstance(system, fs.LocalFileSystem):
        return
    try:
        Path(path).rmdir()
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def make_durable(uris: Iterable[str]) -> None:
    """Syncs local files of writes, and the names that lead to them; object stores need nothing.

    Neither Spark nor pyarrow syncs what it writes, and a commit may not outlive its files.
    """
    from pyarrow import fs

    files: list[str] = []
    directories: set[str] = set()
    databases: set[str] = set()
    for uri in uris:
        system, path = located(uri)
        if not isinstance(system, fs.LocalFileSystem):
            continue
        files.append(path)
        database = _database_of(path)
        directories.update(_above(path, database))
        databases.add(database)
    if not files:
        return
    unknown = {(each, Path(each).stat().st_ino) for each in databases} - _named
    directories.update(above for database, _ in unknown for above in _above(database, "/"))
    _sync([*files, *sorted(directories, key=len, reverse=True)])
    _named.update(unknown)


def _sync(paths: Sequence[str]) -> None:
    """One after the other where that is quick: threads take longer to begin than a few such syncs do."""
    began = time.perf_counter()
    for number, path in enumerate(paths):
        sync(path)
        if not number and time.perf_counter() - began > SLOW_SYNC_SECONDS:
            parallel.each(sync, paths[1:])
            return


_named: set[tuple[str, int]] = set()
"""What holds tables' directories, with its inode, and has been given a durable name all the way up by this process.

The service removes a table's directory, and may make it again: its name is synced each time. It removes none above.
"""


def _above(path: str, top: str) -> Iterator[str]:
    """The directories that lead to it, from `top` on, which is one of them."""
    while path != top:
        path = _up(path)
        yield path


def _database_of(path: str) -> str:
    """What holds the table's directory, given a file of a write."""
    for above in _above(path, "/"):
        if above.rpartition("/")[2].startswith(PREFIXES):
            return _up(_up(above))
    return _up(_up(_up(path)))


def _up(path: str) -> str:
    """The directory that it is in. As text: of each write this is asked often."""
    return path.rpartition("/")[0] or "/"
