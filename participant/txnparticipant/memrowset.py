"""MemRowSets: the rows that transactions changed by primary key, in memory until they are flushed to files.

What is in a row, nobody here knows: rows are bytes, judged by the shard's leader before it proposed them. Keys are in
plain sight, because who changed the same ones is decided on every replica alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from txnparticipant.mvcc import Manifest
from txnstatus.proto import participant_pb2 as pb
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId, timestamp

KEY_COST_BYTES = 100
"""What a key takes in memory besides its own bytes."""
KEPT_KEYS_BYTES = 16 << 20
"""Of one table's flushed rows: beyond it the oldest keys go, and with them the transactions that began before."""
KEPT_KEYS_SPAN = timestamp(60_000_000)
"""Keys are kept for so long, in hybrid time, though nobody needs them: a snapshot may be older than its first write."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """What one write changes: rows to be there, or keys to be gone."""

    write_id: str
    deletes: bool
    rows: bytes
    """An Arrow IPC stream; empty once it is flushed, and where nothing changes."""
    keys: tuple[bytes, ...]
    outcome: bytes = b""
    """What the writer was answered, for when it asks again."""
    key_set: frozenset[bytes] = field(init=False, compare=False, repr=False)
    bytes: int = field(init=False, compare=False, repr=False)
    """In memory, about."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "key_set", frozenset(self.keys))
        cost = len(self.rows) + sum(map(len, self.keys)) + KEY_COST_BYTES * (1 + len(self.keys))
        object.__setattr__(self, "bytes", cost)

    def without_rows(self) -> RowBatch:
        return RowBatch(self.write_id, self.deletes, b"", self.keys)

    def to_wire(self) -> pb.RowBatch:
        return pb.RowBatch(
            write_id=self.write_id, deletes=self.deletes, rows=self.rows, keys=self.keys, outcome=self.outcome
        )

    @classmethod
    def from_wire(cls, wire: pb.RowBatch) -> RowBatch:
        return cls(wire.write_id, wire.deletes, wire.rows, tuple(wire.keys), wire.outcome)


@dataclass(frozen=True, slots=True)
class RowSet:
    """All that a committed transaction changed row by row."""

    txn_id: TxnId
    commit_ts: Timestamp
    batches: tuple[RowBatch, ...]
    """In the order in which they were written: of two changes of a key the later counts."""
    flushed: bool = False
    """The rows are in a file; the keys are still here, for those who were open at the time."""

    @property
    def bytes(self) -> int:
        return sum(batch.bytes for batch in self.batches)


@dataclass(frozen=True, slots=True)
class Flush:
    """A file with the changes of several transactions, each row with its commit timestamp."""

    flush_id: str
    manifest: Manifest
    first_ts: Timestamp
    last_ts: Timestamp


@dataclass(frozen=True, slots=True)
class SeenRows:
    """The row changes that a reader sees."""

    above: Timestamp
    """Of what is in the flushes, only what was committed above it."""
    row_sets: tuple[RowSet, ...]
    """In the order of their commits."""
    flushes: tuple[Flush, ...]

    def with_own(self, own: PreparedRows, at: Timestamp) -> SeenRows:
        """For a reader inside a transaction, at its snapshot: with what it changed itself, later than all else."""
        seen = SeenRows(at, (), ()) if own.clears else self
        if not own.batches:
            return seen
        changed = RowSet(own.txn_id, Timestamp(at + 1), own.batches)
        return SeenRows(seen.above, (*seen.row_sets, changed), seen.flushes)


@dataclass(frozen=True, slots=True)
class PreparedRows:
    txn_id: TxnId
    batches: tuple[RowBatch, ...]
    clears: bool
    """It overwrites the whole table."""


@dataclass(frozen=True, slots=True)
class RowsView:
    """The row changes of a table as they are now; what happens to the table later does not touch it."""

    row_sets: tuple[RowSet, ...]
    flushes: tuple[Flush, ...]
    cleared: tuple[Timestamp, ...]
    prepared: tuple[PreparedRows, ...]

    def at(self, ts: Timestamp, outcomes: Mapping[TxnId, Timestamp]) -> SeenRows:
        """`outcomes`: as for `mvcc.visible`."""
        decided = [(txn, outcomes[txn.txn_id]) for txn in self.prepared if outcomes.get(txn.txn_id, NO_TIMESTAMP)]
        above = max(
            [commit_ts for commit_ts in self.cleared if commit_ts <= ts]
            + [commit_ts for txn, commit_ts in decided if txn.clears],
            default=NO_TIMESTAMP,
        )
        row_sets = [row_set for row_set in self.row_sets if not row_set.flushed]
        row_sets += [RowSet(txn.txn_id, commit_ts, txn.batches) for txn, commit_ts in decided if txn.batches]
        seen = sorted((each for each in row_sets if above < each.commit_ts <= ts), key=lambda each: each.commit_ts)
        flushes = tuple(each for each in self.flushes if each.first_ts <= ts and above < each.last_ts)
        return SeenRows(above, tuple(seen), flushes)


@dataclass(slots=True)
class TableRows:
    """The row changes of one table."""

    row_sets: dict[TxnId, RowSet] = field(default_factory=dict)
    """In the order in which they were finalised here."""
    flushes: dict[str, Flush] = field(default_factory=dict)
    flushing: list[str] = field(default_factory=list)
    """Flush ids whose directories are claimed, and in no flush yet."""
    given_up: list[str] = field(default_factory=list)
    """Likewise, of what will never be a flush; to be cleaned."""
    cleared: list[Timestamp] = field(default_factory=list)
    """Commits of overwrites of the whole table: a reader at or above one sees no row change at or below it."""
    keys_above: Timestamp = NO_TIMESTAMP
    """The keys of all that was committed above it are here."""

    @property
    def unflushed_bytes(self) -> int:
        return sum(row_set.bytes for row_set in self.unflushed)

    @property
    def newest(self) -> Timestamp:
        """The last commit among the changes that are here."""
        commits = [each.commit_ts for each in self.row_sets.values()] + [each.last_ts for each in self.flushes.values()]
        return max(commits, default=NO_TIMESTAMP)

    @property
    def unflushed(self) -> tuple[RowSet, ...]:
        return tuple(row_set for row_set in self.row_sets.values() if not row_set.flushed)

    def view(self, prepared: Iterable[PreparedRows]) -> RowsView:
        return RowsView(
            tuple(self.row_sets.values()), tuple(self.flushes.values()), tuple(self.cleared), tuple(prepared)
        )

    def publish(self, row_set: RowSet) -> None:
        self.row_sets[row_set.txn_id] = row_set

    def clear(self, commit_ts: Timestamp) -> None:
        """What was cleared before the oldest change that is left says nothing more."""
        oldest = min(
            [each.commit_ts for each in self.row_sets.values()] + [each.first_ts for each in self.flushes.values()],
            default=commit_ts,
        )
        self.cleared = [*(each for each in self.cleared if each >= oldest), commit_ts]

    def changed_at(self, ts: Timestamp) -> bool:
        """Whether a reader at the timestamp sees row changes."""
        seen = self.view(()).at(ts, {})
        return bool(seen.row_sets or seen.flushes)

    def flush(self, flush_id: str, manifest: Manifest, txn_ids: Iterable[TxnId]) -> None:
        flushed = [self.row_sets[txn_id] for txn_id in txn_ids]
        for row_set in flushed:
            without_rows = tuple(batch.without_rows() for batch in row_set.batches)
            self.row_sets[row_set.txn_id] = RowSet(row_set.txn_id, row_set.commit_ts, without_rows, flushed=True)
        timestamps = [row_set.commit_ts for row_set in flushed]
        self.flushing.remove(flush_id)
        self.flushes[flush_id] = Flush(flush_id, manifest, min(timestamps), max(timestamps))

    def drop_keys(self, needed_above: Timestamp | None) -> None:
        """`needed_above`: the oldest snapshot at which an unfinished transaction writes rows."""
        if not any(row_set.flushed for row_set in self.row_sets.values()):
            return
        newest = max(row_set.commit_ts for row_set in self.row_sets.values())
        flushed = sorted(
            (row_set for row_set in self.row_sets.values() if row_set.flushed), key=lambda each: each.commit_ts
        )
        kept = sum(row_set.bytes for row_set in flushed)
        for row_set in flushed:
            wanted = needed_above is not None and row_set.commit_ts > needed_above
            if kept <= KEPT_KEYS_BYTES and (wanted or row_set.commit_ts + KEPT_KEYS_SPAN > newest):
                return
            kept -= row_set.bytes
            del self.row_sets[row_set.txn_id]
            self.keys_above = max(self.keys_above, row_set.commit_ts)
