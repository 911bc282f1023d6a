"""What a shard keeps of a table, with the records of its transactions. Only the methods here change either of them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from txnparticipant.locks.locks import Answer, Lock, LockTable, Otherwise, Verdict, with_parents
from txnparticipant.rows.changed_keys import Commit
from txnparticipant.rows.key_places import Changed
from txnparticipant.rows.memrowset import RowBatch, RowSet, TableRows
from txnparticipant.shard import txn_savepoints
from txnparticipant.shard.records import LIVE, Dropped, FormerNames, Renamed, TableTxn
from txnparticipant.shard.schemas import NewSchema, Schemas, described
from txnparticipant.versions.additions import Addition, Additions
from txnparticipant.versions.compactions import Compactions
from txnparticipant.versions.conflicts import Overwrites
from txnparticipant.versions.deletes import DeleteSets
from txnparticipant.versions.directories import COMPACTIONS, FlushDirectory, directory_of
from txnparticipant.versions.mvcc import DeleteSet, FileSet, PendingWrite, by_write
from txnstatus.errors import TxnError
from txnstatus.id_sets import IdSet
from txnstatus.key_ranges import KeyOrder
from txnstatus.names import is_database_name
from txnstatus.proto import common_pb2 as common
from txnstatus.schema import Schema
from txnstatus.table_properties import Property
from txnstatus.types import NO_TIMESTAMP, ConflictStrategy, ParticipantState, Timestamp, TxnId


@dataclass(slots=True)
class TableState:
    """A table; or a database, which has locks and nothing else.

    Others read its fields. Every change is a method that leaves all of them in agreement, as `invariants.py` has it.
    """

    table_id: str
    name: str
    location: str
    schema: Schema
    request_id: str
    """The creation's: the same request, sent again, is answered alike."""
    conflicts: str = ConflictStrategy.FIRST_COMMITTER_WINS
    properties: tuple[Property, ...] = ()
    schemas: Schemas = field(default_factory=Schemas)
    """What `schema` was before."""
    created: Timestamp = NO_TIMESTAMP
    """The last commit before it was: to a reader below there is no such table."""
    made: Timestamp = NO_TIMESTAMP
    """The time of its creation, by a leader's clock."""
    before: Dropped | None = None
    """How the table of this name before it came to its end."""
    readable_from: Timestamp = NO_TIMESTAMP
    """What a reader below it would need may be gone. It rises only as far as what is removed makes it."""
    held_at: Counter[Timestamp] = field(default_factory=Counter, compare=False)
    """Timestamps of the shard's savepoints at which it stays readable, each with how many these are."""
    former: FormerNames = field(default_factory=FormerNames)
    dropped: Dropped | None = None
    txns: dict[TxnId, TableTxn] = field(default_factory=dict)
    unfinished: dict[TxnId, TableTxn] = field(default_factory=dict)
    """The OPEN and COMMIT_IN_PROGRESS among `txns`: work goes by these, not by history."""
    uncleaned: dict[TxnId, TableTxn] = field(default_factory=dict)
    """The ones of `txns` that have ended and still hold directories."""
    dropping: TableTxn | None = None
    """The live one among `txns` that drops the table: nobody else prepares meanwhile."""
    file_sets: dict[str, FileSet] = field(default_factory=dict)
    """Id → file set, in the order in which they were finalised here."""
    replaced: list[tuple[Timestamp, str]] = field(default_factory=list)
    """Timestamps at which which of `file_sets` went, in that order. What is to be retired is in front."""
    used: Counter[tuple[TxnId, str]] = field(default_factory=Counter)
    """How many of `file_sets`, of `deletes` and of what was compacted have files in the directory of a write."""
    overwrites: Overwrites = field(default_factory=Overwrites)
    deletes: DeleteSets = field(default_factory=DeleteSets)
    """Rows of `file_sets` that are deleted by position."""
    compactions: Compactions = field(default_factory=Compactions)
    additions: Additions = field(default_factory=Additions)
    """What was added to `file_sets` lately, where there is no primary key."""
    retired: dict[TxnId, list[str]] = field(default_factory=dict)
    """Writes whose directories no file set needs any more, to be cleaned."""
    fresh: dict[TxnId, None] = field(default_factory=dict, compare=False)
    """Transactions of `uncleaned` and `retired` that the cleaner has not heard of as they are now. A leader's asks."""
    locks: LockTable = field(default_factory=LockTable)
    """Locks of `unfinished` transactions."""
    rows: TableRows = field(default_factory=TableRows)
    """The committed row changes; those of `unfinished` are in their records, and have `pending_row_bytes`."""
    pending_row_bytes: int = 0
    _info: common.TableInfo | None = field(default=None, init=False, compare=False, repr=False)

    @classmethod
    def database(cls, table_id: str) -> TableState | None:
        """The database with this id, SHARD.DATABASE; None: it is not the id of one."""
        name = table_id.partition(".")[2]
        return cls(table_id, name, "", Schema(()), "") if is_database_name(name) else None

    def alter(self, properties: tuple[Property, ...], columns: NewSchema | None = None) -> None:
        if columns is not None:
            self.schemas, self.schema = self.schemas.after(self.schema, columns), columns.schema
        self.properties, self._info = properties, None

    def rename(self, renamed: Renamed) -> None:
        self.name, self.former, self._info = renamed.now, self.former.after(renamed), None

    # ---- a transaction's work; each keeps its record from here on

    def claim(self, txn: TableTxn, write_id: str) -> None:
        """Nothing is written to a directory that is not claimed."""
        if not txn.claimed:
            txn.keys_from = self.rows.keys.newest
        if write_id not in txn.claimed:
            txn.claimed.append(write_id)
        self._keep(txn)

    def add_write(self, txn: TableTxn, write: PendingWrite) -> None:
        """What it overwrites of the transaction's own earlier writes is gone, rows too."""
        self.pending_row_bytes -= txn.row_bytes
        txn.add_write(write)
        self.pending_row_bytes += txn.row_bytes
        self._keep(txn)

    def save_or_roll_back(self, txn: TableTxn, command: txn_savepoints.Step) -> TxnError | None:
        """Returns the refusal, if there is one; then nothing has changed."""
        before, refusal = txn.row_bytes, txn_savepoints.take(txn, command)
        if refusal is None:
            self.pending_row_bytes += txn.row_bytes - before
            self._keep(txn)
        return refusal

    def add_rows(self, txn: TableTxn, batch: RowBatch, snapshot: Timestamp) -> None:
        txn.snapshot, txn.rows[batch.write_id] = snapshot, batch
        self.pending_row_bytes += batch.cost
        self._keep(txn)

    def acquire(self, txn: TableTxn, locks: Iterable[Lock], otherwise: Otherwise, since: Timestamp) -> Answer:
        """Nothing has changed where this closes a circle."""
        answer = self.locks.acquire(txn.txn_id, locks, otherwise, since)
        if answer.verdict is not Verdict.CIRCLE:
            self._keep(txn)
        return answer

    def will_drop(self, txn: TableTxn, older: IdSet) -> None:
        txn.drops, txn.older = True, older
        self._keep(txn)

    def prepare(self, txn: TableTxn, prepare_ts: Timestamp) -> tuple[TxnId, ...]:
        """Returns those whose locks this lets in: what is prepared waits for none itself."""
        txn.state, txn.prepare_ts = ParticipantState.COMMIT_IN_PROGRESS, prepare_ts
        self._keep(txn)
        if not txn.is_empty:
            self._promise(txn, None, txn.txn_id)
            self._index_prepared(txn)
        return self.locks.stop_waiting(txn.txn_id)

    def publish(self, txn: TableTxn, commit_ts: Timestamp) -> tuple[TxnId, ...]:
        """Returns those whose locks this lets in."""
        changed = txn.changed(self.schema)
        if txn.writes:
            self._publish_files(txn, commit_ts)
        if txn.rows and (batches := tuple(batch for batch in txn.rows.values() if batch.keys)):
            self.rows.publish(RowSet(txn.txn_id, commit_ts, batches))
        if changed:
            self.rows.keys.add(Commit(commit_ts, txn.txn_id, changed.keys, changed.ranges), KeyOrder(self.schema))
        if self.schema.primary_key and txn.clears_table:
            self.rows.clear(commit_ts)
        if txn.drops:
            self._drop(txn, commit_ts)
        return self._end(txn, ParticipantState.COMMITTED, commit_ts, changed)

    def discard(self, txn: TableTxn) -> tuple[TxnId, ...]:
        """Returns those whose locks this lets in."""
        if txn.state is ParticipantState.COMMIT_IN_PROGRESS and not txn.is_empty:
            self._promise(txn, txn.txn_id, None)
            self.overwrites.abort(txn.txn_id, txn.writes.values())
            self.deletes.end(txn.txn_id, txn.writes.values())
        txn.prepare_ts = NO_TIMESTAMP
        return self._end(txn, ParticipantState.ABORTED, NO_TIMESTAMP, txn.changed(self.schema))

    def withdraw(self, txn: TableTxn) -> None:
        """Takes its record back, with the rows and claims that it has: as if it had never been here."""
        changed = txn.changed(self.schema)
        del self.txns[txn.txn_id], self.unfinished[txn.txn_id]
        self._drop_rows(txn, changed)

    def forget(self, txn_id: TxnId) -> None:
        """Drops the record of a transaction that has ended, and has nothing left to be cleaned."""
        self.txns.pop(txn_id, None)

    def restore(self, txn: TableTxn) -> None:
        """A record as a snapshot has it."""
        self._keep(txn)
        self.pending_row_bytes += txn.row_bytes
        if txn.state is ParticipantState.COMMIT_IN_PROGRESS:
            self._index_prepared(txn)

    # ---- what is committed, and what of it is to be cleaned

    def add(self, file_sets: Sequence[FileSet]) -> None:
        """Adds file sets of one write."""
        self.file_sets.update((each.id, each) for each in file_sets)
        for write_id in file_sets[0].used_writes:
            self.used[file_sets[0].txn_id, write_id] += len(file_sets)
        for each in [each for each in file_sets if each.replaced_ts]:
            insort(self.replaced, (each.replaced_ts, each.id))

    def add_deletes(self, deleted: DeleteSet) -> None:
        """A delete set; nothing of it is kept for file sets that the same transaction took out again."""
        deleted.file_sets.intersection_update(self.file_sets)
        if deleted.file_sets:
            self.deletes.add(deleted)
            self.used[deleted.directory] += 1

    def replace(self, file_sets: Iterable[str], at: Timestamp) -> None:
        """`file_sets`: their ids."""
        gone = sorted(zip(repeat(at), file_sets))
        for _, id_ in gone:
            self.file_sets[id_].replaced_ts = at
        self.replaced += gone
        if gone and self.replaced[-len(gone) - 1 : -len(gone)] > gone[:1]:
            self.replaced.sort()

    def retire(self, up_to: Timestamp) -> None:
        """Drops what was removed by then, for those who read from then on. Unneeded directories are to be cleaned."""
        count = self.replaced_until(up_to)
        gone = [self.file_sets.pop(file_set_id) for _, file_set_id in self.replaced[:count]]
        self.readable_from = max([self.readable_from, *(replaced_ts for replaced_ts, _ in self.replaced[:count])])
        for together in by_write(gone):
            for write_id in sorted(together[0].used_writes):
                self._leave((together[0].txn_id, write_id), len(together))
        for spent in self.deletes.drop_with(each.id for each in gone):
            self._leave(spent.directory)
        for switched in self.compactions.retire(up_to):
            self._leave((COMPACTIONS, switched.compaction_id))
            self.readable_from = max(self.readable_from, switched.switch_ts)
        self.rows.retire_folded(up_to)
        del self.replaced[:count]
        if self.dropped is not None and self.dropped.commit_ts <= up_to:
            self.readable_from = max(self.readable_from, self.dropped.commit_ts)
            self.rows.retire()

    def _leave(self, directory: tuple[TxnId, str], parts: int = 1) -> None:
        """The directory has lost so many of the file sets and delete sets that have files in it."""
        self.used[directory] -= parts
        if not self.used[directory]:
            del self.used[directory]
            self.leave_to_cleaner(*directory)

    def leave_to_cleaner(self, txn_id: TxnId, write_id: str) -> None:
        """The directory of a write that nothing needs."""
        if write_id not in self.writes_to_clean(txn_id):
            self._set_retired(txn_id, [*self.retired.get(txn_id, ()), write_id])

    def cleaned(self, txn_id: TxnId, write_ids: Iterable[str]) -> bool:
        """These directories are gone for good. Returns whether it was time: a live transaction's are not cleaned."""
        gone, txn, before = set(write_ids), self.txns.get(txn_id), self.retired.get(txn_id, [])
        left = [write_id for write_id in before if write_id not in gone]
        self._set_retired(txn_id, left)
        if txn is None or txn.state in LIVE:
            return left != before
        txn.claimed = [write_id for write_id in txn.claimed if write_id not in gone]
        self._keep(txn)
        return True

    def writes_to_clean(self, txn_id: TxnId) -> tuple[str, ...]:
        """Writes of a transaction that has ended whose directories nobody will ever see, or see again."""
        ended = self.uncleaned.get(txn_id)
        return (*(ended.claimed if ended else ()), *self.retired.get(txn_id, ()))

    def take_fresh(self) -> list[TxnId]:
        """Transactions of which more or less is to be cleaned than when this was asked for the last time."""
        fresh, self.fresh = list(self.fresh), {}
        return fresh

    # ---- questions

    @property
    def is_database(self) -> bool:
        return is_database_name(self.table_id.partition(".")[2])

    def has_object(self, name: str) -> bool:
        """Whether it is this participant's to lock: itself, or a partition."""
        return name == self.name or (not self.is_database and name.startswith(f"{self.name}/"))

    def with_parents(self, locks: Iterable[Lock]) -> tuple[Lock, ...]:
        """These locks, with those of their parents that are this participant's."""
        return tuple(lock for lock in with_parents(locks) if self.has_object(lock.object))

    def directory(self, txn_id: TxnId, write_id: str) -> str:
        """The place of one write's files: unique, so that a listing of it is exact and cleaning it is safe."""
        return f"{self.location}/{directory_of(txn_id, write_id).name}"

    def flush_directory(self, flush_id: str) -> str:
        """The place of one flush's file of row changes."""
        return f"{self.location}/{FlushDirectory(flush_id).name}"

    def replaced_until(self, horizon: Timestamp) -> int:
        """How many file sets were removed at or below the timestamp."""
        return bisect_right(self.replaced, horizon, key=lambda entry: entry[0])

    def info(self) -> common.TableInfo:
        """Not to be changed: every first write is answered with it, so it is made once."""
        if self._info is None:
            its = self.table_id, self.name, self.location, self.schema, self.conflicts, self.properties, self.made
            self._info = described(*its)
        return self._info

    # ---- inside

    def _keep(self, txn: TableTxn) -> None:
        """Puts the record where its state and its claims say; what has ended never lives again."""
        txn_id, live = txn.txn_id, txn.state in LIVE
        self.txns[txn_id] = txn
        if live:
            self.unfinished[txn_id] = txn
        else:
            self.unfinished.pop(txn_id, None)
            if txn.claimed:
                self.uncleaned[txn_id] = txn
            else:
                self.uncleaned.pop(txn_id, None)
            self._note_cleanable(txn_id)
        if txn.drops and live:
            self.dropping = txn
        elif self.dropping is txn:
            self.dropping = None

    def _note_cleanable(self, txn_id: TxnId) -> None:
        if txn_id in self.uncleaned or txn_id in self.retired:
            self.fresh[txn_id] = None
        else:
            self.fresh.pop(txn_id, None)

    def _set_retired(self, txn_id: TxnId, write_ids: list[str]) -> None:
        if write_ids:
            self.retired[txn_id] = write_ids
        else:
            self.retired.pop(txn_id, None)
        self._note_cleanable(txn_id)

    def _promise(self, txn: TableTxn, before: TxnId | None, after: TxnId | None) -> None:
        """What it replaces is the second's that was the first's: not what was compacted, and is replaced as that."""
        for id_ in (id_ for write in txn.writes.values() for id_ in write.replaces):
            if self.file_sets[id_].replaced_by == before:
                self.file_sets[id_].replaced_by = after

    def _index_prepared(self, txn: TableTxn) -> None:
        self.overwrites.prepare(txn.txn_id, txn.writes.values())
        self.deletes.prepare(txn.txn_id, txn.writes.values())
        if changed := txn.changed(self.schema):
            self.rows.keys.prepare(txn.txn_id, changed, KeyOrder(self.schema))

    def _publish_files(self, txn: TableTxn, commit_ts: Timestamp) -> None:
        for write in txn.writes.values():
            if added := write.published(txn.txn_id, commit_ts):
                self.add(added)
                if not self.schema.primary_key:
                    self.additions.add(Addition(commit_ts, txn.txn_id, write.holds))
            for deleted in write.deleted(txn.txn_id, commit_ts):
                self.add_deletes(deleted)
        # Once each: two of its writes may have replaced the same.
        replaced = dict.fromkeys(id_ for write in txn.writes.values() for id_ in write.replaces)
        self.replace([id_ for id_ in replaced if self.file_sets[id_].replaced_by == txn.txn_id], commit_ts)
        self.overwrites.commit(txn.txn_id, txn.writes.values(), commit_ts)
        self.deletes.end(txn.txn_id, txn.writes.values())
        txn.claimed = [write_id for write_id in txn.claimed if not self.used[txn.txn_id, write_id]]

    def _drop(self, txn: TableTxn, commit_ts: Timestamp) -> None:
        """All that is there is removed, as by an overwrite, and the table with it."""
        left = [id_ for id_, file_set in self.file_sets.items() if not file_set.replaced_ts]
        for id_ in left:
            self.file_sets[id_].replaced_by = txn.txn_id
        self.replace(left, commit_ts)
        for wanted in self.compactions.drop(commit_ts):
            self.leave_to_cleaner(COMPACTIONS, wanted)
        self.dropped = Dropped(txn.txn_id, txn.owner, commit_ts, txn.older)

    def _end(self, txn: TableTxn, state: ParticipantState, commit_ts: Timestamp, changed: Changed) -> tuple[TxnId, ...]:
        txn.writes.clear()
        txn.superseded.clear()
        txn.state, txn.commit_ts = state, commit_ts
        self._keep(txn)
        self._drop_rows(txn, changed)
        return self.locks.release(txn.txn_id)

    def _drop_rows(self, txn: TableTxn, changed: Changed) -> None:
        """They are published, or nobody's any more; so keys that only it was compared with may go, too."""
        keys = self.rows.keys
        keys.end(txn.txn_id, changed.keys)
        self.pending_row_bytes -= txn.row_bytes
        txn.forget_rows()
        txn.snapshot = txn.keys_from = NO_TIMESTAMP
        if keys.may_drop():
            needed = [at for other in self.unfinished.values() if (at := other.needs_keys_above) is not None]
            keys.drop(min(needed, default=None))
