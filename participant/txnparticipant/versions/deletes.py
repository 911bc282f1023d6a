"""Rows that are deleted by position: which of which file are gone when, and who deleted them.

What one write deletes is a delete set, as what it adds are file sets. To readers it is a file of positions; what of it
has to be compared with others' deletes of the same rows is kept here, too, as long as there is room.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pyroaring import BitMap

from txnparticipant.versions.mvcc import DeadRowsRef, Deletes, DeleteSet, FileDeletes, PendingWrite, Prepared
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId

K = TypeVar("K")
V = TypeVar("V")

COST_BYTES = 300
"""What a file's positions take in memory besides their own bytes."""
KEPT_BYTES = 8 << 20
"""Bytes of one table's positions: beyond it those that were committed first go, and file sets are all that is told."""


class Overlap(NamedTuple):
    """Rows that two transactions delete."""

    txn_id: TxnId
    """The one that was first."""
    file: str
    """The path of a file below the table's location; a file set where no file is told."""
    positions: tuple[int, ...]
    """The first few; none where they are not told."""


@dataclass(slots=True)
class DeleteSets:
    """The delete sets of one table."""

    all: dict[str, DeleteSet] = field(default_factory=dict)
    """Id → delete set, in the order in which they were finalised here."""
    _touching: dict[str, dict[str, None]] = field(default_factory=dict)
    """File set → ids of the delete sets that have rows of it."""
    _newest: dict[str, Timestamp] = field(default_factory=dict)
    """File set → the last commit that deleted rows of it."""
    _told: dict[str, None] = field(default_factory=dict)
    """Ids of those that tell positions, in the order in which these go."""
    _by_file: defaultdict[str, dict[str, FileDeletes]] = field(default_factory=lambda: defaultdict(dict))
    """File → id of a delete set that tells positions → which rows of the file it has."""
    _bytes: int = 0
    _prepared: defaultdict[str, dict[TxnId, None]] = field(default_factory=lambda: defaultdict(dict))
    """File set → the prepared transactions that delete rows of it."""
    _prepared_by_file: defaultdict[str, dict[TxnId, list[FileDeletes]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def add(self, committed: DeleteSet) -> None:
        id_ = committed.id
        self.all[id_] = committed
        for file_set in committed.file_sets:
            self._touching.setdefault(file_set, {})[id_] = None
            if committed.is_carried:
                continue
            self._newest[file_set] = max(committed.commit_ts, self._newest.get(file_set, NO_TIMESTAMP))
        if committed.files:
            self._told[id_] = None
            self._bytes += _cost(committed.files)
            for each in committed.files:
                self._by_file[each.file][id_] = each
        while self._bytes > KEPT_BYTES:
            self._tell_no_more(self.all[next(iter(self._told))])

    def drop_with(self, file_sets: Iterable[str]) -> list[DeleteSet]:
        """The file sets are gone for good. Returns the delete sets that have no rows of any other."""
        spent = []
        for file_set in file_sets:
            self._newest.pop(file_set, None)
            for id_ in self._touching.pop(file_set, ()):
                found = self.all[id_]
                found.file_sets.discard(file_set)
                if not found.file_sets:
                    spent.append(found)
                    self._tell_no_more(found)
                    del self.all[id_]
        return spent

    def prepare(self, txn_id: TxnId, writes: Iterable[PendingWrite]) -> None:
        for deletes in _deletes(writes):
            self.prepare_also(txn_id, deletes)

    def prepare_also(self, txn_id: TxnId, deletes: Deletes) -> None:
        """More of a transaction that is prepared: the same rows, by where a compaction has moved them."""
        for each in deletes.files:
            self._prepared[each.file_set][txn_id] = None
            self._prepared_by_file[each.file].setdefault(txn_id, []).append(each)

    def end(self, txn_id: TxnId, writes: Iterable[PendingWrite]) -> None:
        """The transaction has ended; it may never have been prepared."""
        for deletes in _deletes(writes):
            for each in deletes.files:
                _take(self._prepared, each.file_set, txn_id)
                _take(self._prepared_by_file, each.file, txn_id)

    def later(self, file_sets: Iterable[str], above: Timestamp) -> list[DeleteSet]:
        """Delete sets that have rows of these file sets, and were committed above the timestamp."""
        ids = dict.fromkeys(id_ for file_set in file_sets for id_ in self._touching.get(file_set, ()))
        return [found for id_ in ids if (found := self.all[id_]).commit_ts > above]

    # ---- who was first

    def touched(self, file_sets: Iterable[str]) -> list[str]:
        """File sets among these that a transaction has deleted rows of, or is about to: few of many, as a rule."""
        return [each for each in file_sets if each in self._newest or each in self._prepared]

    def since(self, txn_id: TxnId, file_set: str, above: Timestamp) -> TxnId | None:
        """A transaction that deletes rows of the file set: committed above the timestamp, or prepared."""
        later = (found.txn_id for found in self._later(file_set, above))
        return next((each for each in (*later, *self._prepared.get(file_set, ())) if each != txn_id), None)

    def overlap(self, txn_id: TxnId, deletes: Deletes, at_most: int) -> Overlap | None:
        """Rows among these that another transaction deleted above the snapshot, or is about to."""
        for file_set in deletes.file_sets:
            for found in self._later(file_set, deletes.snapshot):
                if not found.files and found.txn_id != txn_id:
                    return Overlap(found.txn_id, file_set, ())
        for ours in deletes.files:
            for other, theirs in self._others(ours.file, deletes.snapshot):
                if other != txn_id and (shared := _both(ours, theirs, at_most)) is not None:
                    return Overlap(other, ours.file, shared)
        return None

    def _later(self, file_set: str, above: Timestamp) -> Iterator[DeleteSet]:
        if self._newest.get(file_set, NO_TIMESTAMP) > above:
            for id_ in self._touching[file_set]:
                if self.all[id_].commit_ts > above and not self.all[id_].is_carried:
                    yield self.all[id_]

    def _others(self, file: str, above: Timestamp) -> Iterator[tuple[TxnId, FileDeletes]]:
        for id_, each in self._by_file.get(file, {}).items():
            if self.all[id_].commit_ts > above:
                yield self.all[id_].txn_id, each
        for txn_id, prepared in self._prepared_by_file.get(file, {}).items():
            yield from ((txn_id, each) for each in prepared)

    def _tell_no_more(self, found: DeleteSet) -> None:
        if found.files:
            del self._told[found.id]
            self._bytes -= _cost(found.files)
            for each in found.files:
                _take(self._by_file, each.file, found.id)
            found.files = ()

    def check_invariants(self, file_sets: Collection[str], prepared: Mapping[TxnId, Iterable[PendingWrite]]) -> None:
        """`prepared`: the writes of the transactions that are. Raises AssertionError."""
        for found in self.all.values():
            assert found.file_sets, f"deletes no row of anything: {found}"
            assert found.file_sets <= set(file_sets), f"deletes rows of what is gone: {found}"
        anew = DeleteSets()
        for found in self.all.values():
            anew.add(found)
        for txn_id, writes in prepared.items():
            anew.prepare(txn_id, writes)
        for name in ("_touching", "_newest", "_by_file", "_bytes", "_prepared", "_prepared_by_file"):
            assert getattr(self, name) == getattr(anew, name), f"the index {name} of what is deleted"
        assert self._told.keys() == anew._told.keys(), "the index of those that tell positions"
        assert self._bytes <= KEPT_BYTES, "more is told than there is room for"


def visible_deletes(
    delete_sets: Iterable[DeleteSet],
    prepared: Iterable[Prepared],
    outcomes: Mapping[TxnId, Timestamp],
    ts: Timestamp,
    seen: Collection[str],
) -> Iterator[DeadRowsRef]:
    """What a reader at `ts` leaves out of what it has `seen`: ids of file sets. `outcomes`: as `visible`'s.

    Some of it may be of other files: what a write deletes is in one file.
    """
    for found in delete_sets:
        if found.commit_ts <= ts and not found.file_sets.isdisjoint(seen):
            yield found.ref
    for txn in prepared:
        if outcomes.get(txn.txn_id, NO_TIMESTAMP):
            for deletes in _deletes(txn.writes):
                if not deletes.file_sets.keys().isdisjoint(seen):
                    yield deletes.ref


def own_deletes(writes: Iterable[PendingWrite]) -> Iterator[DeadRowsRef]:
    return (deletes.ref for deletes in _deletes(writes))


def _deletes(writes: Iterable[PendingWrite]) -> Iterator[Deletes]:
    return (deletes for write in writes for _, deletes in write.all_deletes)


def _both(ours: FileDeletes, theirs: FileDeletes, at_most: int) -> tuple[int, ...] | None:
    """Positions that both have; none are named where one of the two tells none. None: they have none in common."""
    if not ours.positions or not theirs.positions:
        return ()
    shared = BitMap.deserialize(ours.positions) & BitMap.deserialize(theirs.positions)
    return tuple(shared[:at_most]) if shared else None


def _take(index: dict[str, dict[K, V]], name: str, key: K) -> None:
    """Takes an entry out that may be there."""
    if name in index:
        index[name].pop(key, None)
        if not index[name]:
            del index[name]


def _cost(files: Collection[FileDeletes]) -> int:
    return sum(COST_BYTES + len(each.file) + len(each.positions) for each in files)
