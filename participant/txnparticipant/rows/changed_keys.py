"""ChangedKeys: who changed which keys last, as far back as a transaction that is under way has to know.

A key is changed by a row write, or comes with a file. Files with many rows say only between which keys theirs lie; so
whoever has one in between, or such a range that meets theirs, is taken to have changed the same. Kept on every replica
alike. What it costs goes by what a transaction changes, not by how much others did.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import repeat
from typing import NamedTuple

from txnparticipant.rows.key_places import NEVER, Changed, Places
from txnstatus.key_ranges import KeyOrder, KeyRange
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId, timestamp

KEY_COST_BYTES = 100
"""What a key, or a partition's name, takes in memory besides its own bytes."""
KEPT_BYTES = 32 << 20
"""Bytes of one table's keys: beyond it the oldest go, and with them the transactions that began before."""
KEPT_SPAN = timestamp(60_000_000)
"""Keys are kept for so long, in hybrid time, though nobody needs them: a snapshot may be older than its first write."""


class Commit(NamedTuple):
    """What one transaction changed; no other one of the table has the same timestamp and id."""

    commit_ts: Timestamp
    txn_id: TxnId
    keys: tuple[bytes, ...]
    """Keys of the rows that it changed, each once."""
    ranges: tuple[KeyRange, ...] = ()
    """Ranges of the keys of its files that are not named."""

    @property
    def cost(self) -> int:
        partitions = [name for each in self.ranges for name in each.partitions]
        ends = sum(len(each.lowest or b"") + len(each.highest or b"") for each in self.ranges)
        count = 1 + len(self.keys) + len(self.ranges) + len(partitions)
        return KEY_COST_BYTES * count + sum(map(len, self.keys)) + ends + sum(map(len, partitions))


class Met(NamedTuple):
    """Where one transaction's keys met those of another."""

    winner: TxnId
    keys: list[bytes]
    """Keys that both changed, sorted; or one of the one's, in a range of the other's."""
    ranges: list[KeyRange]
    """A range of the winner's that one of the loser's has met, where no key is known."""


@dataclass(slots=True)
class ChangedKeys:
    """The changed keys of one table."""

    above: Timestamp = NO_TIMESTAMP
    """All that was committed above it is here."""
    newest: Timestamp = NO_TIMESTAMP
    """The last commit that is here, or was."""
    _last: dict[bytes, tuple[Timestamp, TxnId]] = field(default_factory=dict)
    _places: Places = field(default_factory=Places, compare=False)
    _prepared: dict[bytes, TxnId] = field(default_factory=dict)
    """Key → the transaction that changes it, whose outcome is open: no two of them change the same row."""
    _prepared_ranges: dict[TxnId, tuple[KeyRange, ...]] = field(default_factory=dict)
    _prepared_places: dict[TxnId, Places] = field(default_factory=dict, compare=False)
    _commits: list[Commit] = field(default_factory=list)
    """A heap of commits, the oldest in front."""
    _bytes: int = 0

    def __post_init__(self) -> None:
        self.newest = max(self.newest, self.above)

    def met(
        self, changed: Changed, snapshot: Timestamp, order: KeyOrder, decided: Container[TxnId] | None = None
    ) -> Met | None:
        """The first transaction that changed any of this above the snapshot, or is about to; and what both did.

        `decided`: those that are prepared and count; None: all of them.
        """
        prepared = [each for each in self._prepared_places if decided is None or each in decided]
        among = frozenset(prepared)
        met: defaultdict[tuple[Timestamp, TxnId], list[bytes]] = defaultdict(list)
        for key in self._last.keys() & changed.keys:
            if self._last[key][0] > snapshot:
                met[self._last[key]].append(key)
        for key in self._prepared.keys() & changed.keys if among else ():
            if self._prepared[key] in among:
                met[NEVER, self._prepared[key]].append(key)
        if met:
            first = min(met)
            return Met(first[1], sorted(met[first]), [])
        if not (changed.ranges or self._places.ranges or self._prepared_ranges):
            return None
        ours = Places.of(changed, order)
        for places in (self._places, *(self._prepared_places[each] for each in prepared)):
            if (pair := places.met_by(ours, max(snapshot, self.above))) is not None:
                keys = [each.what for each in pair if isinstance(each.what, bytes)]
                theirs = [each.what for each in pair[:1] if isinstance(each.what, KeyRange) and not keys]
                return Met(pair[0].txn_id, keys, theirs)
        return None

    def prepare(self, txn_id: TxnId, changed: Changed, order: KeyOrder) -> None:
        self._prepared.update(dict.fromkeys(changed.keys, txn_id))
        if changed.ranges:
            self._prepared_ranges[txn_id] = changed.ranges
        self._prepared_places[txn_id] = Places.of(changed, order, txn_id)

    def end(self, txn_id: TxnId, keys: Iterable[bytes]) -> None:
        """The transaction has ended; it may never have been prepared."""
        self._prepared_ranges.pop(txn_id, None)
        if self._prepared_places.pop(txn_id, None) is not None:
            deque(map(self._prepared.pop, keys, repeat(None)), maxlen=0)

    def add(self, commit: Commit, order: KeyOrder) -> None:
        """What nobody would be compared with any more is left out."""
        if commit.commit_ts <= self.above:
            return
        heappush(self._commits, commit)
        self._bytes += commit.cost
        change = commit.commit_ts, commit.txn_id
        if commit.commit_ts > self.newest:
            self._last.update(dict.fromkeys(commit.keys, change))
        else:
            for key in commit.keys:
                self._last[key] = max(change, self._last.get(key, change))
        self.newest = max(self.newest, commit.commit_ts)
        self._places.add(Changed(commit.keys, commit.ranges), *change, order)

    def may_drop(self) -> bool:
        """Whether `drop` could find anything."""
        return bool(self._commits) and (self._bytes > KEPT_BYTES or self._is_old())

    def drop(self, needed_above: Timestamp | None) -> None:
        """`needed_above`: the oldest snapshot at which an unfinished transaction changes keys."""
        gone: list[Commit] = []
        while self._commits:
            needed = needed_above is not None and self._commits[0].commit_ts > needed_above
            if self._bytes <= KEPT_BYTES and (needed or not self._is_old()):
                break
            commit = heappop(self._commits)
            gone.append(commit)
            self._bytes -= commit.cost
            self.above = commit.commit_ts
            change = commit.commit_ts, commit.txn_id
            for key in commit.keys:
                if self._last.get(key) == change:
                    del self._last[key]
        if gone:
            self._places.drop((each for commit in gone for each in commit.ranges), self.above)

    def _is_old(self) -> bool:
        return bool(self._commits) and self._commits[0].commit_ts + KEPT_SPAN <= self.newest

    def check_prepared(self, expected: Mapping[TxnId, Changed]) -> None:
        """Raises AssertionError. `expected`: what each transaction changes that is prepared."""
        keys = {key: txn_id for txn_id, changed in expected.items() for key in changed.keys}
        assert self._prepared == keys, f"prepared keys are {self._prepared}, not {keys}"
        ranges = {txn_id: changed.ranges for txn_id, changed in expected.items() if changed.ranges}
        assert self._prepared_ranges == ranges, f"prepared ranges are {self._prepared_ranges}, not {ranges}"

    def __iter__(self) -> Iterator[Commit]:
        """The oldest first."""
        return iter(sorted(self._commits))
