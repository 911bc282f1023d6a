"""Makes a backup of another one, with the tables in other places. Nothing runs meanwhile, and no node is needed.

States say where manifests, files of dead rows and lineages are, and what bytes these have; the files, where others are.
So what says where something is, is written anew, and then what names it. Data files are as they were.
"""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from txndeploy.backup import data, files
from txndeploy.backup.cut import Cut
from txndeploy.backup.data import Copy
from txndeploy.backup.files import Backup
from txndeploy.backup.manifest import Manifest
from txndeploy.backup.places import Place, Places, placed
from txnstatus.catalog.catalog import CATALOG, range_number
from txnstatus.errors import InvalidArgument
from txnstatus.lake import moved
from txnstatus.proto import common_pb2 as common
from txnstatus.proto import participant_pb2 as pb
from txnstatus.proto import table_pb2 as table_pb
from txnstatus.raft.parts import address, split
from txnstatus.raft.snapshot import framed

_REWRITERS: Mapping[type[Message], Callable[[bytes, moved.To], bytes]] = {
    table_pb.ManifestRef: moved.manifest,
    table_pb.DeadRowsRef: moved.dead_rows,
    table_pb.LineageRef: moved.lineage,
}
"""What names a file that says where others are → what says it of other places."""


def move(
    backup: Backup, directory: Path, roots: Mapping[str, str], tell: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Makes a backup in `directory`, whose tables below an old root are below its new one. `roots`: old → new, URIs.

    Raises InvalidArgument for a backup without the tables' files, and where a table or a file of one cannot be moved,
    by its name; AlreadyExists where the directory is not free; OSError.
    """
    copies, had = backup.copies(), backup.manifest.data
    assert had is not None
    tell("checking what is in the backup")
    cut = backup.cut()
    places = placed(_places(cut), roots)
    kinds = {ref.path: type(ref) for group in cut.groups for chunk in backup.chunks(group) for ref in _refs(chunk)}
    with files.new_directory(directory) as unfinished:
        new = _copies(backup, copies, kinds, places, unfinished, tell)
        ends = dict(zip((each.uri for each in copies), new, strict=True))
        groups = []
        for group in backup.groups:
            tell(f"writing {group}")
            its = backup.chunks(group)
            chunks = its if group == CATALOG else (renamed(chunk, places, ends) for chunk in its)
            groups.append(files.put(unfinished, group, framed(group, backup.meta(group), chunks)))
        listed = files.put_list(unfinished, new, had.elsewhere)
        manifest = replace(backup.manifest, groups=tuple(groups), data=listed)
        files.seal(unfinished, manifest)
    return manifest


def _places(cut: Cut) -> Iterator[Place]:
    for shard in cut.shards():
        yield from (Place(table.name, table.location, table.properties) for table in shard.tables())


def _copies(
    backup: Backup,
    copies: Iterable[Copy],
    kinds: Mapping[str, type[Message]],
    places: Places,
    directory: Path,
    tell: Callable[[str], None],
) -> list[Copy]:
    """The copies in the new backup, in their order: most are the same files, as links where the disk is the same."""
    made: list[Copy] = []
    for each in copies:
        new = replace(each, uri=places.now(each.uri))
        target = directory / each.file
        target.parent.mkdir(parents=True, exist_ok=True)
        kind = kinds.get(each.uri)
        if kind is None or new.uri == each.uri:
            _same(backup.directory / each.file, target)
        else:
            data.check(each, backup.directory)
            to = places.of_listed if kind is table_pb.ManifestRef else places.now
            written = _REWRITERS[kind]((backup.directory / each.file).read_bytes(), to)
            target.write_bytes(written)
            new = replace(new, bytes=len(written), crc32=zlib.crc32(written))
        made.append(new)
        if len(made) % data.AT_ONCE == 0:
            tell(f"{len(made)} files are there")
    return made


def _same(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def renamed(chunk: bytes, places: Places, ends: Mapping[str, Copy]) -> bytes:
    """A chunk of a group's state. `ends`: URI → what is to be put where it was, of the files that are in the backup."""
    found = _of_shard(chunk)
    if found is None:
        return chunk
    part, wire = found
    for each in _all(wire):
        if isinstance(each, common.TableInfo | pb.ShardSnapshot.Gone) and each.location:
            each.location = places.now(each.location)
    for ref in _refs_in(wire):
        _rename(ref, places, ends.get(ref.path))
    return address(part) + wire.SerializeToString(deterministic=True)


def _rename(ref: Any, places: Places, copy: Copy | None) -> None:
    """A reference says the new place. What is not in the backup is of a transaction that is not to commit: its bytes do
    not count."""
    ref.path = places.now(ref.path)
    if copy is not None:
        ref.bytes, ref.crc32 = copy.bytes, copy.crc32


def _refs(chunk: bytes) -> Iterator[Any]:
    found = _of_shard(chunk)
    if found is not None:
        yield from _refs_in(found[1])


def _refs_in(wire: Message) -> Iterator[Any]:
    return (each for each in _all(wire) if type(each) in _REWRITERS)


def _of_shard(chunk: bytes) -> tuple[str, pb.ShardSnapshot] | None:
    part, rest = split(chunk)
    if not part or range_number(part) is not None:
        return None
    return part, pb.ShardSnapshot.FromString(rest)


def _all(message: Message) -> Iterator[Message]:
    """It, and the messages in it, at any depth."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if field.is_repeated else (value,):
                yield from _all(each)


def roots_of(options: Iterable[str]) -> dict[str, str]:
    """Roots as `OLD=NEW` says them. Raises InvalidArgument."""
    roots: dict[str, str] = {}
    for each in options:
        old, given, new = each.partition("=")
        if not (given and old and new):
            raise InvalidArgument(f"--root {each!r:.200} is not OLD=NEW, as file:///lake=s3://bucket/lake")
        if old in roots:
            raise InvalidArgument(f"--root {old} is given twice")
        roots[old] = new
    return roots
