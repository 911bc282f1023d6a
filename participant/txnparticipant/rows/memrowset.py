"""MemRowSets: the rows that transactions changed by primary key, in memory until they are flushed to files.

What is in a row, nobody here knows: rows are bytes, judged by the shard's leader before it proposed them. Keys are in
plain sight, because who changed the same ones is decided on every replica alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from txnparticipant.rows.changed_keys import KEY_COST_BYTES, ChangedKeys
from txnparticipant.versions.mvcc import Manifest
from txnstatus.replicated import Stored
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId
from txnstatus.values import value


class RowBatch(Stored, dict=True, gc=True):
    """What one write changes: rows to be there, or keys to be gone."""

    write_id: str
    deletes: bool
    rows: bytes
    """An Arrow IPC stream; empty where nothing changes."""
    keys: tuple[bytes, ...]
    outcome: bytes = b""
    """What the writer was answered, for when it asks again."""

    @cached_property
    def key_set(self) -> frozenset[bytes]:
        return frozenset(self.keys)

    @cached_property
    def cost(self) -> int:
        """Bytes that the batch takes in memory, about."""
        return len(self.rows) + sum(map(len, self.keys)) + KEY_COST_BYTES * (1 + len(self.keys))

    def overwritten(self) -> RowBatch:
        """The batch without its rows, for the answer alone: the transaction has overwritten the table after it."""
        return RowBatch(self.write_id, self.deletes, b"", (), self.outcome)


@value
class RowSet:
    """All that a committed transaction changed row by row."""

    txn_id: TxnId
    commit_ts: Timestamp
    batches: tuple[RowBatch, ...]
    """Batches in the order in which they were written: of two changes of a key the later counts."""

    @property
    def cost(self) -> int:
        """Bytes that it takes in memory, about."""
        return sum(batch.cost for batch in self.batches)


def changed_keys(batches: Iterable[RowBatch]) -> tuple[bytes, ...]:
    """The keys of their rows, each once."""
    return tuple(dict.fromkeys(chain.from_iterable(batch.keys for batch in batches)))


@value
class Flush:
    """A file with the changes of several transactions, each row with its commit timestamp."""

    flush_id: str
    manifest: Manifest
    first_ts: Timestamp
    last_ts: Timestamp


@value
class Fold:
    """A compaction that has put row changes into files."""

    switch_ts: Timestamp
    """Readers at and above it see the files in their place."""
    as_of: Timestamp
    """The last commit of which they have the changes."""


@value
class SeenRows:
    """The row changes that a reader sees."""

    above: Timestamp
    """A timestamp: of what is in the flushes, nothing is seen that was committed below it."""
    row_sets: tuple[RowSet, ...]
    """Row sets in the order of their commits."""
    flushes: tuple[Flush, ...]

    def with_own(self, own: PreparedRows, at: Timestamp) -> SeenRows:
        """What a reader inside a transaction sees at its snapshot: what it changed itself is later than all else."""
        seen = SeenRows(own_time(at), (), ()) if own.clears else self
        if not own.batches:
            return seen
        changed = RowSet(own.txn_id, own_time(at), own.batches)
        return SeenRows(seen.above, (*seen.row_sets, changed), seen.flushes)


def own_time(at: Timestamp) -> Timestamp:
    """When a transaction that reads at a timestamp has written what it wrote itself: after all that it sees of others.

    Of what has one time, as a commit has, rows come after files.
    """
    return Timestamp(at + 1)


NO_ROWS = SeenRows(NO_TIMESTAMP, (), ())


@value
class PreparedRows:
    txn_id: TxnId
    batches: tuple[RowBatch, ...]
    clears: bool
    """Whether the transaction overwrites the whole table. Its rows came after that, or are none."""


@value
class RowsView:
    """The row changes of a table as they are now; what happens to the table later does not touch it."""

    row_sets: tuple[RowSet, ...]
    flushes: tuple[Flush, ...]
    cleared: tuple[Timestamp, ...]
    folded: tuple[Fold, ...]
    prepared: tuple[PreparedRows, ...]

    def at(self, ts: Timestamp, outcomes: Mapping[TxnId, Timestamp]) -> SeenRows:
        """`outcomes`: as for `mvcc.visible`."""
        decided = [(txn, outcomes[txn.txn_id]) for txn in self.prepared if outcomes.get(txn.txn_id, NO_TIMESTAMP)]
        above = max(
            [commit_ts for commit_ts in self.cleared if commit_ts <= ts]
            + [Timestamp(fold.as_of + 1) for fold in self.folded if fold.switch_ts <= ts]
            + [commit_ts for txn, commit_ts in decided if txn.clears],
            default=NO_TIMESTAMP,
        )
        row_sets = list(self.row_sets)
        row_sets += [RowSet(txn.txn_id, commit_ts, txn.batches) for txn, commit_ts in decided if txn.batches]
        seen = sorted((each for each in row_sets if above <= each.commit_ts <= ts), key=lambda each: each.commit_ts)
        flushes = tuple(each for each in self.flushes if each.first_ts <= ts and above <= each.last_ts)
        return SeenRows(above, tuple(seen), flushes)


@dataclass(slots=True)
class TableRows:
    """The row changes of one table."""

    unflushed: dict[TxnId, RowSet] = field(default_factory=dict)
    """Committed rows in memory by transaction, in the order in which they were finalised here."""
    flushes: dict[str, Flush] = field(default_factory=dict)
    flushing: list[str] = field(default_factory=list)
    """Flush ids whose directories are claimed, and in no flush yet."""
    given_up: list[str] = field(default_factory=list)
    """Flush ids of what will never be a flush: their directories are to be cleaned."""
    cleared: list[Timestamp] = field(default_factory=list)
    """Commits of overwrites of the whole table: a reader at or above one sees no row change below it."""
    folded: list[Fold] = field(default_factory=list)
    """Compactions in their order. Of those below all readers only the last one counts."""
    spent: list[str] = field(default_factory=list)
    """Flush ids of what was folded and nobody reads any more: their directories are to be cleaned."""
    newest_gone: Timestamp = NO_TIMESTAMP
    """The last commit among changes that were folded and are gone."""
    keys: ChangedKeys = field(default_factory=ChangedKeys)
    unflushed_bytes: int = 0
    newest: Timestamp = NO_TIMESTAMP
    """The last commit among the changes that are here, or were."""

    def view(self, prepared: Iterable[PreparedRows]) -> RowsView:
        return RowsView(
            tuple(self.unflushed.values()),
            tuple(self.flushes.values()),
            tuple(self.cleared),
            tuple(self.folded),
            tuple(prepared),
        )

    def publish(self, row_set: RowSet) -> None:
        self.unflushed[row_set.txn_id] = row_set
        self.unflushed_bytes += row_set.cost
        self.newest = max(self.newest, row_set.commit_ts)

    def clear(self, commit_ts: Timestamp) -> None:
        """What was cleared before the oldest change that is left says nothing more."""
        oldest = min(
            [each.commit_ts for each in self.unflushed.values()] + [each.first_ts for each in self.flushes.values()],
            default=commit_ts,
        )
        self.cleared = [*(each for each in self.cleared if each > oldest), commit_ts]

    def changed_at(self, ts: Timestamp) -> bool:
        """Whether a reader at the timestamp sees row changes."""
        seen = self.view(()).at(ts, {})
        return bool(seen.row_sets or seen.flushes)

    def open_flush(self, flush_id: str) -> None:
        if flush_id not in self.flushing:
            self.flushing.append(flush_id)

    def give_up(self, flush_id: str) -> None:
        """No flush will come of it: its directory is to be cleaned."""
        if flush_id in self.flushing:
            self.flushing.remove(flush_id)
        if flush_id not in self.given_up:
            self.given_up.append(flush_id)

    def cleaned(self, flush_id: str) -> None:
        """Its directory is gone for good; of one that was not given up, nothing is said."""
        for claims in (self.given_up, self.spent):
            if flush_id in claims:
                claims.remove(flush_id)

    def flush(self, flush_id: str, manifest: Manifest, txn_ids: Iterable[TxnId]) -> None:
        flushed = [self.unflushed.pop(txn_id) for txn_id in txn_ids]
        self.unflushed_bytes -= sum(row_set.cost for row_set in flushed)
        timestamps = [row_set.commit_ts for row_set in flushed]
        self.flushing.remove(flush_id)
        self.add(Flush(flush_id, manifest, min(timestamps), max(timestamps)))

    def add(self, flush: Flush) -> None:
        self.flushes[flush.flush_id] = flush
        self.newest = max(self.newest, flush.last_ts)

    # ---- what was folded into files

    @property
    def is_folded_until(self) -> Timestamp:
        """The last commit of which all row changes are in files."""
        return self.folded[-1].as_of if self.folded else NO_TIMESTAMP

    @property
    def not_folded(self) -> list[Flush]:
        """Flushes with changes that are in no other files, and that a reader of now sees."""
        cleared = self.cleared[-1] if self.cleared else NO_TIMESTAMP
        return [
            each for each in self.flushes.values() if each.last_ts > self.is_folded_until and each.last_ts >= cleared
        ]

    def foldable(self, at: Timestamp, most_bytes: int) -> Timestamp:
        """The last timestamp, up to this one, at which the changes that were not folded are so few bytes in files, but
        for those of one file."""
        size = 0
        flushes = sorted((each for each in self.not_folded if each.last_ts <= at), key=lambda each: each.last_ts)
        for number, flush in enumerate(flushes):
            size += flush.manifest.data_bytes
            if number and size > most_bytes:
                return flushes[number - 1].last_ts
        return at

    def retire_folded(self, up_to: Timestamp) -> None:
        """Nobody reads below the timestamp any more: what was folded by then goes."""
        below = [each for each in self.folded if each.switch_ts <= up_to]
        if not below:
            return
        last = below[-1].as_of
        row_sets = [each for each in self.unflushed.values() if each.commit_ts <= last]
        flushes = [each for each in self.flushes.values() if each.last_ts <= last]
        for row_set in row_sets:
            del self.unflushed[row_set.txn_id]
            self.unflushed_bytes -= row_set.cost
        for flush in flushes:
            del self.flushes[flush.flush_id]
            self.spent.append(flush.flush_id)
        gone = [each.commit_ts for each in row_sets] + [each.last_ts for each in flushes]
        self.newest_gone = max([self.newest_gone, *gone])
        self.folded = self.folded[len(below) - 1 :]

    def retire(self) -> None:
        """Nobody reads any of it any more: what is in files is to be cleaned."""
        self.given_up += self.flushes
        for gone in (self.unflushed, self.flushes, self.cleared, self.folded):
            gone.clear()
        self.newest_gone = NO_TIMESTAMP
        self.keys, self.unflushed_bytes, self.newest = ChangedKeys(), 0, NO_TIMESTAMP
