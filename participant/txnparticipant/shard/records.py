"""What a shard keeps of one transaction on one table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from txnparticipant.rows.key_places import Changed
from txnparticipant.rows.memrowset import RowBatch, changed_keys
from txnparticipant.shard.saved_work import SavedWork
from txnparticipant.versions.mvcc import PendingWrite, partition_of
from txnstatus.id_sets import NO_IDS, IdSet
from txnstatus.key_ranges import KeyOrder
from txnstatus.partitions import WHOLE_TABLE, covers
from txnstatus.schema import Schema
from txnstatus.types import NO_TIMESTAMP, ParticipantState, Timestamp, TxnId

MAX_LOOKS = 64
"""Writes of one transaction whose keys are compared with those of others one by one: each takes a look at them all."""
MAX_RENAMES = 100
"""Former names that a table keeps."""
NOTHING = Changed()
LIVE = (ParticipantState.OPEN, ParticipantState.COMMIT_IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class Dropped:
    """How a table came to its end."""

    txn_id: TxnId
    owner: str
    commit_ts: Timestamp
    """A reader below it still sees the table, as long as what it needs is kept."""
    older: IdSet = NO_IDS
    """Transactions that began before the one that dropped it: they may mean this table."""


@dataclass(frozen=True, slots=True)
class Renamed:
    """How a table came to another name."""

    was: str
    now: str
    at: Timestamp
    """A reader below it finds the table by the name that it had."""
    request_id: str
    """The request, sent again, changes nothing."""
    older: IdSet = NO_IDS
    """Transactions that began before it: by either name they may mean another table."""


@dataclass(frozen=True, slots=True)
class FormerNames:
    """What a table was called before."""

    renames: tuple[Renamed, ...] = ()
    """The last ones, by their timestamps."""
    freed: Renamed | None = None
    """How another table, which had this one's name before it was made, came to another one."""

    def at(self, at: Timestamp, now: str) -> str:
        """What it was called at the timestamp. `now`: what it is called."""
        return next((each.was for each in self.renames if at < each.at), now)

    def after(self, renamed: Renamed) -> FormerNames:
        return FormerNames((*self.renames, renamed)[-MAX_RENAMES:], self.freed)

    def has_made(self, request_id: str) -> bool:
        """Whether the rename that was asked for by this request is among them."""
        return any(each.request_id == request_id for each in self.renames)


class TableTxn(msgspec.Struct, gc=False):
    """One transaction on one table."""

    txn_id: TxnId
    owner: str
    state: ParticipantState
    prepare_ts: Timestamp = NO_TIMESTAMP
    commit_ts: Timestamp = NO_TIMESTAMP
    claimed: list[str] = []
    """Writes whose directories it holds; once it has ended, those that are to be cleaned."""
    writes: dict[str, PendingWrite] = {}
    superseded: list[str] = []
    """Writes that an overwrite of this transaction replaced: adding one again must not bring it back. And what failed
    before a rollback and may yet come, writes and other rollbacks."""
    rows: dict[str, RowBatch] = {}
    """The transaction's MemRowSet: batches by write id, in the order in which they were written."""
    snapshot: Timestamp = NO_TIMESTAMP
    """The timestamp at which its rows were judged."""
    drops: bool = False
    """Whether the table goes with its commit."""
    keys_from: Timestamp = NO_TIMESTAMP
    """The last change of keys when it opened its first write: it looks for the keys of its files above that."""
    older: IdSet = NO_IDS
    """Transactions that began before it, if it drops the table."""
    savepoints: dict[str, SavedWork] = {}
    """What it had written at each of its savepoints, in the order in which they were set."""
    overwritten: dict[str, RowBatch] = {}
    """Batches of `rows` that were overwritten, as a savepoint has them."""
    rolled_back: list[str] = []
    """Ids of its last rollbacks to savepoints: one that comes again must not take back what was written since."""
    rollbacks: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether it changes nothing of what is in the table: then it is in nobody's way."""
        return not (self.writes or self.rows)

    @property
    def clears_table(self) -> bool:
        """Whether it overwrites the whole table. Rows that it still has came after that."""
        return any(WHOLE_TABLE in write.overwrites for write in self.writes.values())

    @property
    def position(self) -> int:
        """How many writes, of files or rows, it has made, and how often it went back: it only grows."""
        return len(self.rows) + len(self.writes) + len(self.superseded) + self.rollbacks

    @property
    def row_keys(self) -> tuple[bytes, ...]:
        """The keys that it changes row by row, each once."""
        return changed_keys(self.rows.values())

    @property
    def row_bytes(self) -> int:
        """Bytes of its rows in memory, with those that only savepoints have."""
        return sum(batch.cost for batch in chain(self.rows.values(), self.overwritten.values())) if self.rows else 0

    @property
    def all_writes(self) -> Iterator[PendingWrite]:
        """Its writes, and those that it has no more and savepoints have, which may come back."""
        yield from self.writes.values()
        seen = set(self.writes)
        for saved in self.savepoints.values():
            for write_id, write in saved.writes.items():
                if write_id not in seen:
                    seen.add(write_id)
                    yield write

    @property
    def needs_keys_above(self) -> Timestamp | None:
        """The timestamp above which others' changes of keys must be known while it is unfinished; None: it has none."""
        needed = [self.snapshot] * bool(self.rows) + [self.keys_from] * bool(self.claimed)
        return min(needed, default=None)

    def add_write(self, write: PendingWrite) -> None:
        """What it overwrites of earlier writes is gone, rows too; savepoints have it as it was."""
        if WHOLE_TABLE in write.overwrites:
            saved = {write_id for each in self.savepoints.values() for write_id in each.rows}
            self.overwritten |= {id_: batch for id_, batch in self.rows.items() if id_ in saved and batch.keys}
            self.rows = {write_id: batch.overwritten() for write_id, batch in self.rows.items()}
        if overwrites := frozenset(write.overwrites):
            for earlier in self.writes.values():
                earlier.partitions = tuple(p for p in earlier.partitions if not covers(overwrites, p))
        gone = [id_ for id_, earlier in self.writes.items() if not earlier.is_left]
        for write_id in gone:
            del self.writes[write_id]
        self.superseded += gone
        self.writes[write.write_id] = write

    def forget_rows(self) -> None:
        """They are nobody's any more; nor is what savepoints have."""
        for gone in (self.rows, self.overwritten, self.savepoints, self.rolled_back):
            gone.clear()

    def changed(self, schema: Schema) -> Changed:
        """All that it changes by key."""
        if self.is_empty:
            return NOTHING
        return _together([Changed(self.row_keys), *(changed for changed, _ in self.file_keys(schema))])

    def file_keys(self, schema: Schema) -> list[tuple[Changed, Timestamp]]:
        """The keys of its files, each with the timestamp at which they were looked for.

        Of very many writes several are taken as one, of all keys between theirs and since the first looked.
        """
        looks = [
            (added_by(write, schema), write.claim.snapshot) for write in self.writes.values() if write.claim is not None
        ]
        size = -(-len(looks) // MAX_LOOKS)
        return (
            looks
            if size <= 1
            else [_as_one(part, schema) for part in (looks[at : at + size] for at in range(0, len(looks), size))]
        )


def _together(parts: Sequence[Changed]) -> Changed:
    keys = dict.fromkeys(chain.from_iterable(part.keys for part in parts))
    return Changed(tuple(keys), tuple(each for part in parts for each in part.ranges))


def _as_one(looks: Sequence[tuple[Changed, Timestamp]], schema: Schema) -> tuple[Changed, Timestamp]:
    changed = _together([each for each, _ in looks])
    ranges = (KeyOrder(schema).cover(changed.ranges),) if changed.ranges else ()
    return replace(changed, ranges=ranges), min(at for _, at in looks)


def added_by(write: PendingWrite, schema: Schema) -> Changed:
    """The keys of a write's files, and of the rows in files that it deletes."""
    claim = write.claim
    if claim is None or not (write.partitions or write.deletes):
        return Changed()
    if claim.range is None:
        return Changed(claim.keys)
    partitions: tuple[str, ...] = ()
    if schema.keys_tell_partitions:
        deleted = map(partition_of, write.deletes.file_sets) if write.deletes else ()
        partitions = tuple(sorted({*write.partitions, *deleted}))
    return Changed((), (replace(claim.range, partitions=partitions),))
