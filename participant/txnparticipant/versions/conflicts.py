"""Overwrites: who wins when two transactions overwrite the same part of a table. The first to prepare does.

An object is a partition, with all below it, or the whole table. Two transactions are in conflict when they overwrite
objects of which one is the other or below it, and neither saw the other's result (first-committer-wins, as snapshot
isolation has it). What holds nothing can be overwritten too, so an empty partition is no way round. Appends overwrite
nothing, so they never conflict, however many there are.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Reversible, Sequence
from itertools import chain
from operator import attrgetter

import msgspec

from txnparticipant.versions.directories import COMPACTIONS
from txnparticipant.versions.mvcc import FileSet, PendingWrite
from txnstatus.errors import Conflict
from txnstatus.partitions import WHOLE_TABLE, above
from txnstatus.types import NO_TIMESTAMP, AbortCause, AbortCode, Timestamp, TxnId


class Overwrite(msgspec.Struct, frozen=True, gc=False):
    """The last overwrite of one object."""

    object: str
    txn_id: TxnId
    commit_ts: Timestamp = NO_TIMESTAMP
    """Unset while the transaction is prepared."""


class Overwrites:
    """The overwrites of one table: the last committed one of each object, and those of the prepared."""

    def __init__(self) -> None:
        self._committed: dict[str, Overwrite] = {}
        self._latest_below: dict[str, Overwrite] = {}
        """Object → the latest overwrite of one below it, where there is one."""
        self._prepared: dict[str, Overwrite] = {}
        self._prepared_below: defaultdict[str, dict[TxnId, Overwrite]] = defaultdict(dict)
        """Object → of each transaction that overwrites something below it, the first of these."""

    def in_the_way(self, txn_id: TxnId, writes: Iterable[PendingWrite]) -> tuple[Overwrite, str] | None:
        """The overwrite because of which the transaction cannot prepare, and of what it is in the way."""
        for write in writes:
            if self._are_free(write.overwrites, write.base_ts):
                continue
            for name in write.overwrites:
                if other := self.since(txn_id, name, write.base_ts):
                    return other, name
        return None

    def since(self, txn_id: TxnId, name: str, base_ts: Timestamp) -> Overwrite | None:
        """One of the object, or of a part of it, that somebody else prepared, or committed after the timestamp."""
        for other in self._overlapping(name):
            if other.txn_id != txn_id and (not other.commit_ts or other.commit_ts > base_ts):
                return other
        return None

    def prepare(self, txn_id: TxnId, writes: Iterable[PendingWrite]) -> None:
        names = _objects(writes)
        self._prepared.update((name, Overwrite(name, txn_id)) for name in names)
        for parent, first in _first_below(names).items():
            self._prepared_below[parent][txn_id] = self._prepared[first]

    def commit(self, txn_id: TxnId, writes: Iterable[PendingWrite], commit_ts: Timestamp) -> None:
        names = _objects(writes)
        below = _first_below(names)
        self._take_back(txn_id, names, below)
        overwrites = {name: Overwrite(name, txn_id, commit_ts) for name in names}
        _keep_latest(self._committed, overwrites)
        _keep_latest(self._latest_below, {parent: overwrites[first] for parent, first in below.items()})

    def abort(self, txn_id: TxnId, writes: Iterable[PendingWrite]) -> None:
        """Takes back the overwrites of a transaction that was prepared."""
        names = _objects(writes)
        self._take_back(txn_id, names, _first_below(names))

    def committed(self) -> list[Overwrite]:
        """The committed overwrites, sorted by object."""
        return [self._committed[name] for name in sorted(self._committed)]

    def restore(self, overwrite: Overwrite) -> None:
        """One that is committed."""
        _keep_latest(self._committed, {overwrite.object: overwrite})
        _keep_latest(self._latest_below, dict.fromkeys(_first_below([overwrite.object]), overwrite))

    def check_invariants(self, prepared: Mapping[TxnId, Iterable[PendingWrite]]) -> None:
        """`prepared`: the writes of the transactions that are. Raises AssertionError."""
        expected = {name: txn_id for txn_id, writes in prepared.items() for name in _objects(writes)}
        assert {name: overwrite.txn_id for name, overwrite in self._prepared.items()} == expected
        for name in expected:
            owners = {other.txn_id for other in self._overlapping(name) if not other.commit_ts}
            assert owners == {expected[name]}, f"{owners} overwrite {name!r} at once"

    def _take_back(self, txn_id: TxnId, names: Iterable[str], below: Iterable[str]) -> None:
        deque(map(self._prepared.pop, names), maxlen=0)
        for parent in below:
            del self._prepared_below[parent][txn_id]
            if not self._prepared_below[parent]:
                del self._prepared_below[parent]

    def _are_free(self, names: Sequence[str], base_ts: Timestamp) -> bool:
        """Whether none of the objects overlaps any that is prepared, or was committed after the timestamp.

        What `since` says of each, said of thousands at once: as a rule all of them are.
        """
        covering = {*names, *_first_below(names)}
        if not (self._prepared.keys().isdisjoint(covering) and self._prepared_below.keys().isdisjoint(names)):
            return False
        committed = [self._committed[name] for name in self._committed.keys() & covering]
        committed += [self._latest_below[name] for name in self._latest_below.keys() & set(names)]
        return max(map(attrgetter("commit_ts"), committed), default=NO_TIMESTAMP) <= base_ts

    def _overlapping(self, name: str) -> Iterator[Overwrite]:
        for covering in above(name):
            if covering in self._prepared:
                yield self._prepared[covering]
            if covering in self._committed:
                yield self._committed[covering]
        yield from self._prepared_below.get(name, {}).values()
        if name in self._latest_below:
            yield self._latest_below[name]


def first_committer_wins(
    table: str,
    txn_id: TxnId,
    writes: Collection[PendingWrite],
    overwrites: Overwrites,
    file_sets: Mapping[str, FileSet],
) -> Conflict | None:
    """The refusal to prepare, if another transaction has overwritten, or is about to, what this one does."""
    found = overwrites.in_the_way(txn_id, writes) or _taken(txn_id, writes, file_sets)
    if found is None:
        return None
    winner, name = found
    lost = full_name(table, name)
    message = f"{lost} was overwritten by transaction {winner.txn_id}, which was first"
    if winner.object != name:
        message = f"{lost} overlaps {full_name(table, winner.object)}, overwritten by {winner.txn_id}, which was first"
    cause = AbortCause(AbortCode.CONFLICT, message, table, winner.txn_id, (lost,))
    return Conflict(message, txn_id=txn_id, hint="run the transaction again", cause=cause)


def _taken(
    txn_id: TxnId, writes: Iterable[PendingWrite], file_sets: Mapping[str, FileSet]
) -> tuple[Overwrite, str] | None:
    """A file set that somebody else removes, too. The objects tell it already where bases are what they say."""
    replaced = map(file_sets.__getitem__, chain.from_iterable(write.replaces for write in writes))
    taken = next((each for each in replaced if each.replaced_by not in (None, txn_id, COMPACTIONS)), None)
    if taken is None or taken.replaced_by is None:
        return None
    return Overwrite(taken.partition, taken.replaced_by, taken.replaced_ts), taken.partition


def _objects(writes: Iterable[PendingWrite]) -> dict[str, None]:
    """The objects, each once and in order: a transaction may overwrite a partition twice, by one write or several."""
    return dict.fromkeys(sorted(name for write in writes for name in write.overwrites))


def _first_below(names: Reversible[str]) -> dict[str, str]:
    """Each object that has some of the names below it, and the first of those. `names`: sorted.

    Of 5,000 partitions most are in the same one: what is above that is looked at once.
    """
    found = {name.rpartition("/")[0]: name for name in reversed(names) if name}
    for parent, first in list(found.items()):
        for higher in above(parent)[1:]:
            found[higher] = min(first, found.get(higher, first))
    return found


def _keep_latest(kept: dict[str, Overwrite], overwrites: Mapping[str, Overwrite]) -> None:
    kept.update(
        (name, each) for name, each in overwrites.items() if name not in kept or kept[name].commit_ts < each.commit_ts
    )


def full_name(table: str, name: str) -> str:
    return table if name == WHOLE_TABLE else f"{table}/{name}"
