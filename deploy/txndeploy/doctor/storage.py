"""Storage: what lies in the tables' places against what the shards know, looked at until it is certain."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain, islice

from txndeploy.doctor.places import Place, Table, own, parts
from txnparticipant.shard import audit
from txnparticipant.shard.audit import MANIFEST_NAME, Contents, Damage, Known, KnownFile
from txnparticipant.shard.commands import manifest_to_wire
from txnparticipant.versions.directories import WriteDirectory, directory_named
from txnparticipant.versions.mvcc import Manifest
from txnstatus.errors import InternalError, TxnError
from txnstatus.findings import Finding, Kind, Severity, confirmed
from txnstatus.lake import data_files
from txnstatus.lake import manifest as manifests
from txnstatus.lake.manifest import DataFile
from txnstatus.lake.storage import file_system, read_file, tree
from txnstatus.proto import table_pb2 as pb

LOOKS = 4
"""Looks at one place, until two in a row agree."""
READERS = 16
DEEP_READERS = 4
"""Threads that read whole files: each is busy with decoding, and has a batch of rows in memory."""
DEEP_FILES = 256
"""Files that are handed to them at a time."""


class NotSeen(Exception):
    """A place could not be looked at; says why."""


@dataclass(slots=True)
class Seen:
    """One look at a place."""

    findings: list[Finding] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    directories: int = 0
    files: int = 0
    bytes: int = 0

    @property
    def is_clean(self) -> bool:
        return not self.unreadable and all(each.kind.severity is Severity.NOTE for each in self.findings)


class StorageAudit:
    """The audit of one run: what was read once, and was good, is not read again."""

    def __init__(self, known: Callable[[Table], Mapping[str, Known]], outcome: Callable[[int], str]) -> None:
        """`known` asks the table's shard; `outcome`, how a transaction ended. Empty: it may go on."""
        self._known, self._outcome = known, outcome
        self._over: set[int] = set()
        """Transactions that are known to have ended: of each it is asked once, whatever it has left behind."""
        self._contents: dict[str, Mapping[str, int]] = {}
        self.files_read = self.bytes_read = 0

    def look(self, place: Place) -> Seen:
        """Raises NotSeen, or what `known` raises."""
        before: Seen | None = None
        for _ in range(LOOKS):
            seen = self._look(place)
            seen.findings = [each for each in seen.findings if not self._is_under_way(each)]
            if seen.is_clean:
                return seen
            if before is not None and not seen.unreadable:
                seen.findings = list(confirmed(before.findings, seen.findings))
                return seen
            before = seen
        raise NotSeen(f"{place.name}: {'; '.join(seen.unreadable)}")

    def _is_under_way(self, found: Finding) -> bool:
        """Whether a transaction may still make something of it: its table hears of what a begin has claimed when files
        are added, or the transaction ends.
        """
        if found.kind not in (Kind.ORPHAN, Kind.WHOLE_WRITE):
            return False
        directory = directory_named(found.what)
        if not isinstance(directory, WriteDirectory):
            return False
        txn_id = directory.txn_id
        if txn_id not in self._over and self._outcome(txn_id):
            self._over.add(txn_id)
        return txn_id not in self._over

    def read(self, place: Place) -> Iterator[tuple[int, int, Finding | str]]:
        """Reads all data files of the place, whole. Of each: how many are done, of about how many, and what is wrong:
        a finding, why it cannot be told, or nothing. What is not there is the audit's to find.
        """
        for table in place.tables:
            known = list(self._known(table).values())
            wanted = [each.manifest for each in known if each.manifest]
            beside = [file for each in known for file in each.files]
            total, done = sum(each.file_count for each in wanted) + len(beside), 0
            files: Iterator[DataFile | KnownFile] = chain((file for each in wanted for file in _files(each)), beside)
            with ThreadPoolExecutor(DEEP_READERS) as pool:
                while part := list(islice(files, DEEP_FILES)):
                    for file, fault in zip(part, pool.map(_fault, part), strict=True):
                        done += 1
                        if isinstance(fault, OSError):
                            yield done, total, f"{file.path} cannot be read: {fault}"
                            continue
                        self.files_read, self.bytes_read = self.files_read + 1, self.bytes_read + file.bytes
                        yield done, total, fault and Finding(Kind.DAMAGED_FILE, table.name, file.path, fault)

    def _look(self, place: Place) -> Seen:
        """The storage first: see txnparticipant.shard.audit."""
        location = place.tables[0].location
        try:
            there = tree(location)
        except (OSError, TxnError) as error:
            raise NotSeen(f"{place.name}: {location} cannot be listed: {error}") from error
        known = [self._known(table) for table in place.tables]
        if there is None and any(each.manifest for names in known for each in names.values()):
            raise NotSeen(f"{place.name}: {location} does not exist here, and the cluster has files in it")
        listing = own(there or {}, place)
        seen = Seen(
            directories=len(listing),
            files=sum(map(len, listing.values())),
            bytes=sum(size for files in listing.values() for size in files.values()),
        )
        for table, names, part in zip(place.tables, known, parts(listing, known), strict=True):
            present = [
                each.manifest
                for each in names.values()
                if each.manifest and _is_there(each.manifest, table.location, part)
            ]
            contents, unreadable = self._read(present)
            seen.unreadable += unreadable
            elsewhere, unseen = _elsewhere(contents, table.location)
            seen.unreadable += unseen
            seen.findings += audit.findings(table.name, table.location, names, part, contents, elsewhere)
        return seen

    def _read(self, wanted: Iterable[Manifest]) -> tuple[Contents, list[str]]:
        """With what could not be read: storage that does not answer, or a file that is gone since it was listed."""
        contents: dict[str, Mapping[str, int] | Damage] = {}
        unread: list[Manifest] = []
        for each in wanted:
            if each.path in self._contents:
                contents[each.path] = self._contents[each.path]
            else:
                unread.append(each)
        unreadable = []
        with ThreadPoolExecutor(READERS) as pool:
            for each, found in zip(unread, pool.map(_content, unread), strict=True):
                if isinstance(found, OSError):
                    unreadable.append(f"{each.path} cannot be read: {found}")
                    continue
                contents[each.path] = found
                if not isinstance(found, Damage):
                    self._contents[each.path] = found
        return contents, unreadable


def _elsewhere(contents: Contents, location: str) -> tuple[dict[str, int], list[str]]:
    """URI → bytes of the files that manifests name and that are not in the location: they were imported, and are looked
    at one by one. With what could not be looked at.
    """
    named = (uri for files in contents.values() if not isinstance(files, Damage) for uri in files)
    wanted = [uri for uri in named if audit.place_of(uri, location) is None]
    found: dict[str, int] = {}
    unseen = []
    with ThreadPoolExecutor(READERS) as pool:
        for uri, size in zip(wanted, pool.map(_size_of, wanted), strict=True):
            if isinstance(size, int):
                found[uri] = size
            elif size is not None:
                unseen.append(f"{uri} cannot be looked at: {size}")
    return found, unseen


def _size_of(uri: str) -> int | Exception | None:
    """None: there is no such file."""
    try:
        system, path = file_system(uri)
        info = system.get_file_info(path)
    except (OSError, TxnError) as error:
        return error
    return info.size if info.is_file else None


def _files(manifest: Manifest) -> list[DataFile]:
    """None of one that cannot be read: the audit says so."""
    try:
        return manifests.read(_whole(manifest))
    except InternalError:
        return []


def _fault(file: DataFile | KnownFile) -> str | OSError:
    try:
        if isinstance(file, DataFile):
            return data_files.examine(file)
        data = read_file(file.path)
        whole = len(data) == file.bytes and zlib.crc32(data) == file.crc32
        return "" if whole else f"{file.path} is damaged: {len(data)} bytes of {file.bytes}, or another CRC"
    except InternalError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return ""
        return error.__cause__ if isinstance(error.__cause__, OSError) else error.message
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error


def _whole(manifest: Manifest) -> pb.ManifestRef:
    """With all its files, not only those of the partitions that are meant."""
    ref = manifest_to_wire(manifest)
    del ref.partitions[:]
    return ref


def _is_there(manifest: Manifest, location: str, listing: audit.Listing) -> bool:
    place = audit.place_of(manifest.path, location)
    return place is not None and place[1] in listing.get(place[0], {})


def _content(manifest: Manifest) -> Mapping[str, int] | Damage | OSError:
    try:
        return {file.path: file.bytes for file in manifests.read(_whole(manifest))}
    except InternalError as error:
        return error.__cause__ if isinstance(error.__cause__, OSError) else Damage(error.message)


def refusals(place: Place, names: Sequence[str]) -> dict[str, str]:
    """What is not to be adopted whatever the shard says, and why."""
    if place.is_shared:
        return dict.fromkeys(names, "the location is shared: whose it is cannot be told")
    return {name: why for name in names if (why := _of_another(place.tables[0], name))}


def _of_another(table: Table, name: str) -> str:
    """A manifest says for which table it was written. One that does not read was written for none."""
    try:
        found = manifests.table_of(read_file(f"{table.location}/{name}/{MANIFEST_NAME}"))
    except OSError:
        return ""
    return "" if found in (None, table.table_id) else f"it was written for table {found}, and this is {table.table_id}"
