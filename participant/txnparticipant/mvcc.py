"""Which files a reader at a timestamp sees. Files are added and removed by whole writes, called file sets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId


@dataclass(frozen=True, slots=True)
class Manifest:
    """Where one write's list of files is, and what it holds."""

    path: str
    bytes: int
    crc32: int
    file_count: int
    row_count: int
    data_bytes: int


def file_set_id(txn_id: TxnId, write_id: str) -> str:
    """Write ids come from clients; with the transaction's id before it, one is unique in its table."""
    return f"{txn_id}_{write_id}"


@dataclass(slots=True)
class FileSet:
    """A committed write."""

    write_id: str
    txn_id: TxnId
    manifest: Manifest
    commit_ts: Timestamp
    replaced_by: TxnId | None = None
    """The transaction that removes it; prepared while `replaced_ts` is unset, else committed."""
    replaced_ts: Timestamp = NO_TIMESTAMP

    @property
    def id(self) -> str:
        return file_set_id(self.txn_id, self.write_id)

    def visible_at(self, ts: Timestamp) -> bool:
        return self.commit_ts <= ts and not (self.replaced_ts and self.replaced_ts <= ts)


@dataclass(slots=True)
class PendingWrite:
    """A write of a transaction that has not committed here yet."""

    write_id: str
    manifest: Manifest
    replaces: tuple[str, ...] = ()
    """Ids of the file sets that it removes."""
    from_writes: tuple[str, ...] = ()
    """Other writes in whose directories its files lie."""


@dataclass(slots=True)
class Prepared:
    """A transaction that is prepared here, and may or may not be committed already."""

    txn_id: TxnId
    prepare_ts: Timestamp
    writes: Sequence[PendingWrite] = field(default_factory=tuple)


def undecided_at(prepared: Iterable[Prepared], ts: Timestamp) -> list[TxnId]:
    """Those whose outcome a reader at `ts` must ask for: a commit timestamp is never below the prepare's."""
    return [txn.txn_id for txn in prepared if txn.prepare_ts <= ts]


def visible(
    file_sets: Iterable[FileSet],
    prepared: Iterable[Prepared],
    outcomes: Mapping[TxnId, Timestamp],
    ts: Timestamp,
) -> list[Manifest]:
    """The manifests a reader at `ts` sees.

    `outcomes` has, for every transaction of `undecided_at`, its commit timestamp at or below `ts`, or NO_TIMESTAMP.
    """
    committed = [txn for txn in prepared if outcomes.get(txn.txn_id, NO_TIMESTAMP)]
    removed = {replaced for txn in committed for write in txn.writes for replaced in write.replaces}
    seen = [fs.manifest for fs in file_sets if fs.visible_at(ts) and fs.id not in removed]
    # A later overwrite may already have removed what an earlier one of these added.
    added = {file_set_id(txn.txn_id, write.write_id): write.manifest for txn in committed for write in txn.writes}
    return seen + [manifest for written, manifest in added.items() if written not in removed]
