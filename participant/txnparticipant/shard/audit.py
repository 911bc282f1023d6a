"""Audit: compares what a table knows of its directories with what lies in its location.

Two moments are never the same one. So whoever looks lists the storage first and asks the table then, and whatever is
found counts only if it is found again, by another listing and another answer after it (`findings.confirmed`):

- What is on storage and nobody's, twice: a directory is claimed before it exists, and its claim goes after it is gone.
  What a begin has claimed the table may not have heard of: it is nobody's only where its transaction has ended.
  If it was claimed at the first listing and not at the answer, it was removed in between: somebody has made it anew.
- What is in use and not there, twice: it was in use before, at and after the second listing.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from urllib.parse import unquote

from txnparticipant.shard import commands as cmd
from txnparticipant.shard.table import TableState
from txnparticipant.versions.directories import COMPACTIONS, FlushDirectory, directory_named, directory_of
from txnparticipant.versions.mvcc import DeadRowsRef, FileSet, LineageRef, Manifest, PendingWrite
from txnstatus.codec import Codec
from txnstatus.findings import Finding, Kind
from txnstatus.limits import MAX_LISTED, MAX_PAGE_BYTES
from txnstatus.proto import audit_pb2 as pb
from txnstatus.proto import common_pb2 as common
from txnstatus.table_properties import LOG, published_as
from txnstatus.types import TxnId
from txnstatus.values import value

MANIFEST_NAME = "_manifest.json"
NAMED = 3
"""Files that a finding names; of the others it says how many."""


class Use(enum.IntEnum):
    """What becomes of a directory."""

    GOING = pb.DIRECTORY_GOING
    CLAIMED = pb.DIRECTORY_CLAIMED
    IN_USE = pb.DIRECTORY_IN_USE


@value
class KnownFile:
    """A file that must be there."""

    path: str
    bytes: int
    crc32: int


@dataclass(frozen=True, slots=True)
class Known:
    """A directory that a table has to do with."""

    use: Use
    manifest: Manifest | None = None
    """The manifest that must be in it."""
    files: tuple[KnownFile, ...] = ()
    """Files that must be in it, too: of deleted rows, and lineages."""


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a manifest."""

    story: str


_KNOWN_FILE = Codec(KnownFile, pb.KnownFile)
Listing = Mapping[str, Mapping[str, int]]
"""What lies in a location: by name, the files below and their bytes. A file right there has the name "" below."""
NOTHING: Mapping[str, int] = {}
Contents = Mapping[str, Mapping[str, int] | Damage]
"""A manifest's URI → its files' URIs → bytes; manifests that nobody read are not in it."""


# ---- what a table knows


def directories(table: TableState) -> Iterator[tuple[str, Known]]:
    """Each directory's name and what is known of it, as at this call, whatever becomes of the table.

    A database has none.

    Where one comes twice, the later counts.
    """
    going = [(txn_id, tuple(write_ids)) for txn_id, write_ids in table.retired.items()]
    going += [(record.txn_id, tuple(record.claimed)) for record in table.uncleaned.values()]
    claimed = [
        (record.txn_id, write_id, record.writes.get(write_id))
        for record in table.unfinished.values()
        for write_id in record.claimed
    ]
    claimed += [(COMPACTIONS, wanted, None) for wanted in table.compactions.open]
    files: dict[str, list[KnownFile]] = {}
    for known in _files_beside(table):
        files.setdefault(known.path.split("/")[-2], []).append(known)
    rows = table.rows
    flushes = [(flush_id, Known(Use.GOING)) for flush_id in (*rows.given_up, *rows.spent)]
    flushes += [(flush_id, Known(Use.CLAIMED)) for flush_id in rows.flushing]
    flushes += [(each.flush_id, Known(Use.IN_USE, each.manifest)) for each in rows.flushes.values()]
    found = _named(going, claimed, list(table.used), list(table.file_sets.values()), files, flushes)
    return chain(found, [(LOG, Known(Use.CLAIMED))] if published_as(table.properties) else ())


def _files_beside(table: TableState) -> Iterator[KnownFile]:
    """Files that are in the directories of writes and compactions, and in no manifest."""
    pending = (write for txn in table.unfinished.values() for write in txn.writes.values())
    refs: list[DeadRowsRef | LineageRef] = [each.ref for each in table.deletes.all.values()]
    refs += [deletes.ref for write in pending for _, deletes in write.all_deletes]
    refs += [each.lineage for each in table.compactions.switched.values()]
    return (KnownFile(ref.path, ref.bytes, ref.crc32) for ref in refs)


def _named(
    going: Iterable[tuple[TxnId, Iterable[str]]],
    claimed: Iterable[tuple[TxnId, str, PendingWrite | None]],
    used: Iterable[tuple[TxnId, str]],
    file_sets: Iterable[FileSet],
    files: Mapping[str, Sequence[KnownFile]],
    flushes: Iterable[tuple[str, Known]],
) -> Iterator[tuple[str, Known]]:
    for txn_id, write_ids in going:
        for write_id in write_ids:
            yield directory_of(txn_id, write_id).name, Known(Use.GOING)
    for txn_id, write_id, write in claimed:
        name = directory_of(txn_id, write_id).name
        yield name, Known(Use.CLAIMED, write.manifest if write else None, tuple(files.get(name, ())))
    for whose in used:
        name = directory_of(*whose).name
        yield name, Known(Use.IN_USE, None, tuple(files.get(name, ())))
    for file_set in file_sets:
        name = directory_of(file_set.txn_id, file_set.write_id).name
        yield name, Known(Use.IN_USE, file_set.manifest, tuple(files.get(name, ())))
    for flush_id, known in flushes:
        yield FlushDirectory(flush_id).name, known


def to_wire(name: str, known: Known) -> pb.KnownDirectory:
    manifest = cmd.manifest_to_wire(known.manifest) if known.manifest else None
    return pb.KnownDirectory(
        name=name, use=known.use.value, manifest=manifest, files=map(_KNOWN_FILE.to_wire, known.files)
    )


def from_wire(wire: pb.KnownDirectory) -> Known:
    """Raises ValueError for a use of another release."""
    return Known(
        Use(wire.use),
        cmd.manifest_from_wire(wire.manifest) if wire.HasField("manifest") else None,
        tuple(map(_KNOWN_FILE.from_wire, wire.files)),
    )


def participants(tables: Iterable[TableState], after: tuple[str, int]) -> pb.AuditShardResponse:
    """The tables with their unfinished transactions, and whoever has a lock, though it may have ended; one page.

    `after`: the id of the last table of the page before, and that of the last of its transactions there, 0 for none.
    """
    response, size = pb.AuditShardResponse(), 0
    for count, (table, item) in enumerate(_audited(tables, after)):
        size += item.ByteSize()
        if count >= MAX_LISTED or (count and size > MAX_PAGE_BYTES):
            response.more = True
            break
        if isinstance(item, common.TableInfo):
            response.participants.add(info=item)
            continue
        if not response.participants:
            response.participants.add(info=common.TableInfo(table_id=table.table_id, name=table.name))
        response.participants[-1].unfinished.append(item)
    return response


def _audited(
    tables: Iterable[TableState], after: tuple[str, int]
) -> Iterator[tuple[TableState, common.TableInfo | pb.UnfinishedTxn]]:
    """Each table, and then each of its transactions, by their ids."""
    table_id, last = after
    for table in sorted((each for each in tables if each.table_id >= table_id), key=lambda each: each.table_id):
        is_first = table.table_id != table_id
        if is_first:
            yield table, table.info()
        for txn_id in sorted(table.unfinished.keys() | table.locks.txn_ids()):
            if is_first or txn_id > last:
                yield table, _unfinished(table, txn_id)


def _unfinished(table: TableState, txn_id: TxnId) -> pb.UnfinishedTxn:
    return pb.UnfinishedTxn(
        txn_id=txn_id,
        state=f"PARTICIPANT_{table.txns[txn_id].state.name}" if txn_id in table.txns else None,
        locks=[claim.lock.object for claim in table.locks.held_by(txn_id)],
    )


def transaction_to_wire(table: TableState, txn_id: TxnId) -> pb.AuditTransactionResponse:
    """What the table knows of one transaction."""
    record = table.txns.get(txn_id)
    return pb.AuditTransactionResponse(
        state=f"PARTICIPANT_{record.state.name}" if record else None,
        prepare_timestamp=record.prepare_ts if record else 0,
        commit_timestamp=record.commit_ts if record else 0,
        locks=[claim.lock.object for claim in table.locks.held_by(txn_id)],
    )


# ---- what lies there


def findings(
    where: str,
    location: str,
    known: Mapping[str, Known],
    listing: Listing,
    contents: Contents,
    elsewhere: Mapping[str, int] = NOTHING,
) -> Iterator[Finding]:
    """What does not agree. `where`: the table, for people. `elsewhere`: URI → bytes of files that are not in the
    location and are there.
    """
    for name, files in listing.items():
        if name not in known:
            yield _nobodys(where, name, files)
    listed: set[tuple[str, str]] = set()
    all_read = True
    for name, directory in sorted(known.items()):
        for file in directory.files:  # each by itself: they come one after the other
            what = f"{name}/{file.path.rpartition('/')[2]}"
            yield from _files(where, location, what, {file.path: file.bytes}, listing, NOTHING)
        manifest = directory.manifest
        if manifest is None:
            continue
        listed.add((name, MANIFEST_NAME))
        content = contents.get(manifest.path)
        all_read = all_read and isinstance(content, Mapping)
        if _size(manifest.path, location, listing) is None:
            yield Finding(Kind.MISSING_MANIFEST, where, name, f"{manifest.path}: {_of_files(manifest)} with it")
        elif isinstance(content, Damage):
            yield Finding(Kind.DAMAGED_MANIFEST, where, name, content.story)
        elif content is not None:
            yield from _files(where, location, name, content, listing, elsewhere)
            listed.update(place for uri in content if (place := place_of(uri, location)) is not None)
    if all_read:
        yield from _unlisted(where, known, listing, listed)


def place_of(uri: str, location: str) -> tuple[str, str] | None:
    """The name in the location and the path below it. None: it lies elsewhere."""
    if not uri.startswith(f"{location}/"):
        return None
    name, _, below = unquote(uri[len(location) + 1 :]).partition("/")
    return name, below


def _size(uri: str, location: str, listing: Listing) -> int | None:
    place = place_of(uri, location)
    return listing.get(place[0], {}).get(place[1]) if place else None


def _nobodys(where: str, name: str, files: Mapping[str, int]) -> Finding:
    there = f"{len(files)} files, {sum(files.values()):,} bytes"
    if directory_named(name) is None:
        return Finding(Kind.STRAY, where, name, f"nothing that this service put into the location: {there}")
    if MANIFEST_NAME in files:
        return Finding(Kind.WHOLE_WRITE, where, name, f"a whole write that no transaction of the table has: {there}")
    return Finding(Kind.ORPHAN, where, name, f"nobody's: {there}")


def _files(
    where: str, location: str, what: str, content: Mapping[str, int], listing: Listing, elsewhere: Mapping[str, int]
) -> Iterator[Finding]:
    missing, wrong = [], []
    for uri, size in sorted(content.items()):
        found = elsewhere.get(uri) if place_of(uri, location) is None else _size(uri, location, listing)
        if found is None:
            missing.append(uri)
        elif found != size:
            wrong.append(f"{uri} ({found:,} bytes, {size:,} were written)")
    for kind, uris in ((Kind.MISSING_FILE, missing), (Kind.WRONG_SIZE, wrong)):
        if uris:
            yield Finding(kind, where, what, f"{len(uris)} of {len(content)} files: {_some(uris)}")


def _unlisted(
    where: str, known: Mapping[str, Known], listing: Listing, listed: set[tuple[str, str]]
) -> Iterator[Finding]:
    """What tasks left behind whose work did not count."""
    found = [
        size
        for name, files in listing.items()
        if name in known and known[name].use is Use.IN_USE
        for below, size in files.items()
        if (name, below) not in listed and not below.rpartition("/")[2].startswith(("_", "."))
    ]
    if found:
        story = f"{len(found)} files, {sum(found):,} bytes, beside files in use: no manifest lists them"
        yield Finding(Kind.UNLISTED_FILES, where, "", story)


def _of_files(manifest: Manifest) -> str:
    return f"{manifest.file_count} files, {manifest.row_count:,} rows"


def _some(uris: list[str]) -> str:
    more = len(uris) - NAMED
    return ", ".join(islice(uris, NAMED)) + (f" and {more} more" if more > 0 else "")
