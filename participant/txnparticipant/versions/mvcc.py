"""Which files a reader at a timestamp sees.

Files are added and removed in file sets: the files of one write that are in one partition of the table; all files of
the write, where the table has no partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from txnparticipant.versions.directories import COMPACTIONS, CompactionDirectory, directory_named
from txnstatus.key_ranges import KeyRange
from txnstatus.partitions import WHOLE_TABLE, above
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId
from txnstatus.values import value


@value
class Manifest:
    """The place of one write's list of files, and what it holds."""

    path: str
    bytes: int
    crc32: int
    file_count: int
    row_count: int
    data_bytes: int
    partitions: tuple[str, ...] = ()
    """The partitions in which its files are (see txnstatus.partitions), or those that are meant; sorted."""


def file_set_id(txn_id: TxnId, write_id: str, partition: str) -> str:
    """Write ids come from clients; with the transaction's id before it, one is unique in its table.

    It is the name of the directory, without what all have, so whoever knows a file knows its file set.
    """
    if txn_id == COMPACTIONS:
        return f"{CompactionDirectory(write_id).name.removeprefix('delta_')}/{partition}"
    return f"{txn_id}_{write_id}/{partition}"


def partition_of(file_set: str) -> str:
    """The partition of a file set, given its id."""
    return file_set.partition("/")[2]


def written_by(file_set: str) -> TxnId:
    """The transaction that wrote a file set, given its id; COMPACTIONS, where it was one of these."""
    written = file_set.partition("_")[0]
    return TxnId(int(written)) if written.isdecimal() else COMPACTIONS


class FileSet(msgspec.Struct, gc=False):
    """What a committed write added to one partition."""

    write_id: str
    txn_id: TxnId
    partition: str
    manifest: Manifest
    """The whole write's manifest."""
    commit_ts: Timestamp
    replaced_by: TxnId | None = None
    """The transaction that removes it; prepared while `replaced_ts` is unset, else committed. Or COMPACTIONS."""
    replaced_ts: Timestamp = NO_TIMESTAMP
    from_writes: tuple[str, ...] = ()
    """Other writes of the transaction in whose directories its files lie."""
    as_of: Timestamp = NO_TIMESTAMP
    """The timestamp up to which row changes are in it, where a compaction has folded them in."""

    @property
    def changed_after(self) -> Timestamp:
        """The timestamp from which on row changes hide rows of it: of one commit, rows come after files."""
        return self.as_of or self.commit_ts

    @property
    def id(self) -> str:
        return file_set_id(self.txn_id, self.write_id, self.partition)

    @property
    def used_writes(self) -> set[str]:
        """The writes in whose directories its files and its manifest lie."""
        return {self.write_id, *self.from_writes}

    def visible_at(self, ts: Timestamp) -> bool:
        return self.commit_ts <= ts and not (self.replaced_ts and self.replaced_ts <= ts)


def by_write(file_sets: Iterable[FileSet]) -> Iterable[list[FileSet]]:
    """Groups them: those of one write have all in common but their partitions and their ends."""
    found: dict[tuple[TxnId, str], list[FileSet]] = {}
    for file_set in file_sets:
        found.setdefault((file_set.txn_id, file_set.write_id), []).append(file_set)
    return found.values()


@value
class KeyClaim:
    """The keys that a write's files add to a table with a primary key, where nobody had them."""

    snapshot: Timestamp
    """The timestamp at which they were looked for."""
    keys: tuple[bytes, ...] = ()
    """All of them; none where there is a range."""
    range: KeyRange | None = None
    own_writes: int | None = None
    """How many writes of the transaction itself were looked at, too; None: the caller vouches for the keys."""


@value
class ColumnRange:
    """The values of a column, from the lowest to the highest, as text that manifests have."""

    column: str
    lowest: bytes
    highest: bytes


@value
class Looked:
    """What a write looked for, did not find, and so adds: rows with all these columns in these ranges."""

    snapshot: Timestamp
    ranges: tuple[ColumnRange, ...]
    """Ranges of different columns; none: any row might have been found."""


@value
class DeadRowsRef:
    """The place of a file that says which rows of data files a write deletes."""

    path: str
    bytes: int
    crc32: int
    row_count: int
    file_count: int


@value
class FileDeletes:
    """Rows of one data file that are deleted."""

    file: str
    """The file's path below the table's location."""
    file_set: str
    """The id of the file set that it is in."""
    row_count: int
    positions: bytes
    """A portable roaring bitmap; empty: it is not told which, so any row may be one."""


@value
class Deletes:
    """Rows that one write deletes, by their positions in files."""

    ref: DeadRowsRef
    files: tuple[FileDeletes, ...]
    snapshot: Timestamp
    """The timestamp at which they were found."""

    @property
    def file_sets(self) -> dict[str, None]:
        """Ids of the file sets that they are in, each once."""
        return dict.fromkeys(each.file_set for each in self.files)


@value
class HiddenRows:
    """Rows of files that a compaction has left as they are, and that the row changes hide which it has folded in."""

    ref: DeadRowsRef
    file_sets: tuple[str, ...]
    """Ids of those that they are in."""


@value
class LineageRef:
    """The place of a file that says what became of the rows of a compaction's inputs."""

    path: str
    bytes: int
    crc32: int


@value
class Moved:
    """What a write says of the inputs of a compaction, said of its outputs."""

    compaction_id: str
    deletes: Deletes | None = None
    """Rows that are deleted; None: none of them is in the outputs."""
    replaces: tuple[str, ...] = ()
    """Ids of the outputs of which all is replaced."""


@dataclass(slots=True)
class DeleteSet:
    """What a committed write deleted; or what others had deleted of its inputs by the time a compaction switched."""

    write_id: str
    txn_id: TxnId
    ref: DeadRowsRef
    commit_ts: Timestamp
    file_sets: set[str]
    """Ids of the file sets that it has rows of, and that are still kept."""
    files: tuple[FileDeletes, ...] = ()
    """The positions, for whoever deletes rows of the same files; empty: they are told no more."""
    compaction_id: str = ""
    """The compaction that has moved the rows to where these are; empty: they are as the write has them."""

    @property
    def id(self) -> str:
        moved = f"_{self.compaction_id}" if self.compaction_id else ""
        return f"{self.txn_id}_{self.write_id}{moved}"

    @property
    def is_carried(self) -> bool:
        """Whether it repeats what the delete sets of a compaction's inputs say: with those it was compared."""
        return self.txn_id == COMPACTIONS

    @property
    def directory(self) -> tuple[TxnId, str]:
        """The write in whose directory its file lies."""
        found = directory_named(self.ref.path.split("/")[-2]) if self.compaction_id else None
        if isinstance(found, CompactionDirectory):
            return COMPACTIONS, found.compaction_id
        return self.txn_id, self.write_id


@dataclass(slots=True)
class PendingWrite:
    """A write of a transaction that has not committed here yet."""

    write_id: str
    manifest: Manifest
    partitions: tuple[str, ...]
    """Partitions of the files that no later overwrite of the same transaction has replaced."""
    overwrites: tuple[str, ...] = ()
    """The partitions that it replaces, each with all below it; WHOLE_TABLE alone; none = it only adds."""
    base_ts: Timestamp = NO_TIMESTAMP
    """An overwrite's: it replaces what a reader at this timestamp sees."""
    replaces: tuple[str, ...] = ()
    """Ids of the file sets that it removes."""
    from_writes: tuple[str, ...] = ()
    """Other writes in whose directories its files lie."""
    claim: KeyClaim | None = None
    deletes: Deletes | None = None
    looked: Looked | None = None
    holds: tuple[ColumnRange, ...] = ()
    """What is known of the rows of its files; of other columns nothing is."""
    moved: tuple[Moved, ...] = ()
    """The same of files that were compacted since: one for each compaction, in their order."""

    @property
    def all_deletes(self) -> Iterator[tuple[str, Deletes]]:
        """Its deletes in each of the positions that they have, with the compaction that has moved them there."""
        if self.deletes is not None:
            yield "", self.deletes
        yield from ((moved.compaction_id, moved.deletes) for moved in self.moved if moved.deletes is not None)

    @property
    def touched(self) -> Iterator[str]:
        """Ids of the file sets that it deletes rows of, or replaces."""
        yield from self.replaces
        for _, deletes in self.all_deletes:
            yield from deletes.file_sets

    @property
    def clears_as_of(self) -> Timestamp | None:
        """The timestamp of which it replaces all that a reader sees, row changes, too; None: it does not."""
        return self.base_ts if WHOLE_TABLE in self.overwrites else None

    @property
    def is_left(self) -> bool:
        """Whether there is anything to it that a later overwrite of the same transaction has not replaced."""
        return bool(self.partitions or self.overwrites or self.deletes)

    def published(self, txn_id: TxnId, ts: Timestamp) -> list[FileSet]:
        """The file sets that its commit adds."""
        write_id, manifest, others = self.write_id, self.manifest, self.from_writes
        return [FileSet(write_id, txn_id, each, manifest, ts, from_writes=others) for each in self.partitions]

    def deleted(self, txn_id: TxnId, ts: Timestamp) -> Iterator[DeleteSet]:
        """The delete sets that its commit adds."""
        for moved_by, deletes in self.all_deletes:
            yield DeleteSet(self.write_id, txn_id, deletes.ref, ts, set(deletes.file_sets), deletes.files, moved_by)


@dataclass(slots=True)
class Prepared:
    """A transaction that is prepared here, and may or may not be committed already."""

    txn_id: TxnId
    prepare_ts: Timestamp
    writes: Sequence[PendingWrite] = field(default_factory=tuple)


def undecided_at(prepared: Iterable[Prepared], ts: Timestamp) -> list[TxnId]:
    """Transactions whose outcome a reader at `ts` must ask for: none commits below its prepare timestamp."""
    return [txn.txn_id for txn in prepared if txn.prepare_ts <= ts]


def visible(
    file_sets: Iterable[FileSet],
    prepared: Iterable[Prepared],
    outcomes: Mapping[TxnId, Timestamp],
    ts: Timestamp,
) -> list[Manifest]:
    """The manifests a reader at `ts` sees, each with the partitions of it that are seen.

    `outcomes` has, for every transaction of `undecided_at`, its commit timestamp at or below `ts`, or NO_TIMESTAMP.
    """
    return _by_manifest((each.manifest, each.partition) for each in _seen(file_sets, prepared, outcomes, ts))


def visible_ids(
    file_sets: Iterable[FileSet], prepared: Iterable[Prepared], outcomes: Mapping[TxnId, Timestamp], ts: Timestamp
) -> set[str]:
    """The ids of the file sets that a reader at `ts` sees, as of `visible`."""
    return {each.id for each in _seen(file_sets, prepared, outcomes, ts)}


def _seen(
    file_sets: Iterable[FileSet], prepared: Iterable[Prepared], outcomes: Mapping[TxnId, Timestamp], ts: Timestamp
) -> Iterator[FileSet]:
    committed = [(txn, commit_ts) for txn in prepared if (commit_ts := outcomes.get(txn.txn_id, NO_TIMESTAMP))]
    removed = {replaced for txn, _ in committed for write in txn.writes for replaced in write.replaces}
    for each in file_sets:
        if each.visible_at(ts) and not (removed and each.id in removed):
            yield each
    # A later overwrite may already have removed what an earlier one of these added.
    for txn, commit_ts in committed:
        for write in txn.writes:
            yield from (each for each in write.published(txn.txn_id, commit_ts) if each.id not in removed)


def together(file_sets: Iterable[FileSet]) -> list[Manifest]:
    """Their manifests, each once, with the partitions that they are in."""
    return _by_manifest((each.manifest, each.partition) for each in file_sets)


def _by_manifest(seen: Iterable[tuple[Manifest, str]]) -> list[Manifest]:
    """Each manifest once, with those of its partitions that are seen."""
    found: dict[str, tuple[Manifest, list[str]]] = {}
    """Manifests by their paths: the hash of one that names 10,000 partitions takes as long as they do."""
    for manifest, partition in seen:
        found.setdefault(manifest.path, (manifest, []))[1].append(partition)
    return [replace(manifest, partitions=_named(partitions)) for manifest, partitions in found.values()]


def _named(partitions: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(filter(WHOLE_TABLE.__ne__, partitions)))


def with_own(
    seen: Iterable[Manifest],
    own: Iterable[PendingWrite],
    times: Mapping[str, Timestamp],
    replaced: Collection[tuple[str, str]] = (),
) -> list[Manifest]:
    """What a reader inside a transaction sees: `seen` of the others, and over it the transaction's own writes.

    An overwrite leaves what came after its base. `times`: as `commit_times` has them. `replaced`: paths of manifests,
    and partitions, that it replaces, too: what was compacted after its base has nothing that came after it.
    """
    writes = list(own)
    bases: dict[str, Timestamp] = {}
    """The latest base on which each object is overwritten."""
    for write in writes:
        for name in write.overwrites:
            bases[name] = max(write.base_ts, bases.get(name, NO_TIMESTAMP))
    others = [
        (manifest, partition)
        for manifest in seen
        for partition in manifest.partitions or (WHOLE_TABLE,)
        if (manifest.path, partition) not in replaced
        and not any(each in bases and times[manifest.path] <= bases[each] for each in above(partition))
    ]
    return _by_manifest([*others, *((write.manifest, partition) for write in writes for partition in write.partitions)])


def commit_times(
    file_sets: Iterable[FileSet], prepared: Iterable[Prepared], outcomes: Mapping[TxnId, Timestamp]
) -> dict[str, Timestamp]:
    """When the files of each manifest, by its path, were committed; or up to when row changes are in them."""
    times = {file_set.manifest.path: file_set.changed_after for file_set in file_sets}
    for txn in prepared:
        commit_ts = outcomes.get(txn.txn_id, NO_TIMESTAMP)
        times.update((write.manifest.path, commit_ts) for write in txn.writes if commit_ts)
    return times
