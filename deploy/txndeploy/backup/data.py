"""The tables' files in a backup: all that readers of the cut, or of its past, may need; and how they are put back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar

from txndeploy.backup.cut import Cut
from txnparticipant.shard import audit
from txnparticipant.shard.audit import Known, Use
from txnparticipant.shard.commands import manifest_to_wire
from txnparticipant.versions.directories import WriteDirectory, directory_named
from txnstatus.errors import DataDamaged, InvalidArgument
from txnstatus.lake import manifest as manifests
from txnstatus.lake import parallel
from txnstatus.lake.storage import located, make_directory, make_durable
from txnstatus.types import DECIDED_COMMIT

FOLDER = "data"
LIST = "data.jsonl"
PART_BYTES = 4 << 20
AT_ONCE = 64
"""Files that are copied before it is told how far that is."""
PER_FOLDER = 1_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Copy:
    """A file of a table, and its copy in a backup."""

    uri: str
    bytes: int
    file: str
    """Path of the copy, in the backup's directory."""
    crc32: int = 0


def wanted(cut: Cut) -> tuple[list[Copy], int]:
    """The files that are in use at the cut, or will be, and how many others there are that lie outside of their tables'
    places.

    Raises OSError, DataDamaged for manifests that cannot be read.
    """
    found: dict[str, int] = {}
    elsewhere = 0
    for shard in cut.shards():
        for table in shard.tables():
            for name, known in audit.directories(table):
                if known.use is not Use.IN_USE and not _is_to_be_published(cut, name, known):
                    continue
                found |= {file.path: file.bytes for file in known.files}
                if known.manifest is None:
                    continue
                ref = manifest_to_wire(replace(known.manifest, partitions=()))
                found[ref.path] = ref.bytes
                for file in manifests.read(ref):
                    if audit.place_of(file.path, table.location) is None:
                        elsewhere += 1
                    else:
                        found[file.path] = file.bytes
    return [
        Copy(uri, size, f"{FOLDER}/{number // PER_FOLDER}/{number}") for number, (uri, size) in enumerate(found.items())
    ], elsewhere


def _is_to_be_published(cut: Cut, name: str, known: Known) -> bool:
    """Whether a directory is of a write that is to commit: that is decided, and its shard has not heard of it yet."""
    directory = directory_named(name)
    if known.use is not Use.CLAIMED or known.manifest is None or not isinstance(directory, WriteDirectory):
        return False
    ranged = cut.range_of(directory.txn_id)
    record = ranged.find(directory.txn_id) if ranged else None
    return record is not None and record.state in DECIDED_COMMIT


def copy_out(copies: Sequence[Copy], directory: Path, tell: Callable[[str], None]) -> list[Copy]:
    """Copies them into the backup; returns them with their CRCs. Raises OSError, DataDamaged for a wrong size."""
    for folder in sorted({Path(each.file).parent for each in copies}):
        (directory / folder).mkdir(parents=True)

    def copied(each: Copy) -> Copy:
        system, path = located(each.uri)
        crc, size = 0, 0
        with system.open_input_stream(path) as source, (directory / each.file).open("xb") as target:
            while part := source.read(PART_BYTES):
                target.write(part)
                crc, size = zlib.crc32(part, crc), size + len(part)
        if size != each.bytes:
            raise DataDamaged(f"{each.uri} has {size} bytes where {each.bytes} were written")
        return replace(each, crc32=crc)

    return _in_parts(copied, copies, tell, "copied")


def put_back(copies: Sequence[Copy], directory: Path, tell: Callable[[str], None]) -> int:
    """Writes those that are not where they were, in this size; returns how many. They are durable then.

    Raises OSError, InvalidArgument where the copy is not what was copied.
    """

    def put(each: Copy) -> str:
        system, path = located(each.uri)
        info = system.get_file_info(path)
        if info.is_file and info.size == each.bytes:
            return ""
        check(each, directory)
        make_directory(system, path.rpartition("/")[0])
        with (directory / each.file).open("rb") as source, system.open_output_stream(path) as target:
            while part := source.read(PART_BYTES):
                target.write(part)
        return each.uri

    written = [uri for uri in _in_parts(put, copies, tell, "looked at") if uri]
    make_durable(written)
    return len(written)


def check(each: Copy, directory: Path) -> None:
    """Raises OSError, InvalidArgument where the copy is not what was copied."""
    crc, size = 0, 0
    with (directory / each.file).open("rb") as source:
        while part := source.read(PART_BYTES):
            crc, size = zlib.crc32(part, crc), size + len(part)
    if (size, crc) != (each.bytes, each.crc32):
        raise InvalidArgument(f"{each.file}, the copy of {each.uri}, is not what was copied")


def encode(copies: Sequence[Copy]) -> Iterator[bytes]:
    """The list of them, a line for each."""
    return (json.dumps(asdict(each)).encode() + b"\n" for each in copies)


def decode(data: bytes) -> list[Copy]:
    """Raises InvalidArgument, also for names that lead out of the directory."""
    try:
        copies = [Copy(**json.loads(line)) for line in data.splitlines()]
    except (ValueError, TypeError) as error:
        raise InvalidArgument(f"{LIST} does not read: {error}") from error
    for number, each in enumerate(copies):
        if each.file != f"{FOLDER}/{number // PER_FOLDER}/{number}":
            raise InvalidArgument(f"{LIST}: {each.file!r:.100} is no copy of a backup")
    return copies


def _in_parts(work: Callable[[Copy], T], copies: Sequence[Copy], tell: Callable[[str], None], done: str) -> list[T]:
    """Several at a time; it is told how far that is."""
    results: list[T] = []
    left = iter(copies)
    while part := list(islice(left, AT_ONCE)):
        results += parallel.each(work, part)
        tell(f"{len(results)} of {len(copies)} files {done}")
    return results
