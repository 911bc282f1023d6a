"""ChangedKeys: who changed which keys last, as far back as a transaction that is under way has to know.

A key is changed by a row write, or comes with a file. Files with many rows say only between which keys theirs lie; so
whoever has one in between, or such a range that meets theirs, is taken to have changed the same. Kept on every replica
alike. What it costs goes by the rows that a transaction changes, not by how many others did; only for a range is all
looked at that came after its snapshot.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from txnstatus.key_ranges import KeyOrder, KeyRange
from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId, timestamp
from txnstatus.values import value

KEY_COST_BYTES = 100
"""What a key takes in memory besides its own bytes."""
KEPT_BYTES = 32 << 20
"""Bytes of one table's keys: beyond it the oldest go, and with them the transactions that began before."""
KEPT_SPAN = timestamp(60_000_000)
"""Keys are kept for so long, in hybrid time, though nobody needs them: a snapshot may be older than its first write."""


@value
class Changed:
    """What one transaction changes in a table by key."""

    keys: tuple[bytes, ...] = ()
    """Keys, each once."""
    ranges: tuple[KeyRange, ...] = ()
    """Ranges in which there are more."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.ranges)


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
        ends = sum(len(each.lowest or b"") + len(each.highest or b"") for each in self.ranges)
        names = sum(map(len, self.keys)) + sum(len(name) for each in self.ranges for name in each.partitions)
        return KEY_COST_BYTES * (1 + len(self.keys) + len(self.ranges)) + names + ends


class Met(NamedTuple):
    """Where one transaction's keys met those of another."""

    winner: TxnId
    keys: list[bytes]
    """Keys that both changed, or one, in a range of the other's; sorted."""
    ranges: list[KeyRange]
    """Ranges of the winner's that one of the loser's has met."""


@dataclass(slots=True)
class ChangedKeys:
    """The changed keys of one table."""

    above: Timestamp = NO_TIMESTAMP
    """All that was committed above it is here."""
    newest: Timestamp = NO_TIMESTAMP
    """The last commit that is here, or was."""
    _last: dict[bytes, tuple[Timestamp, TxnId]] = field(default_factory=dict)
    _ranges: dict[tuple[Timestamp, TxnId], tuple[KeyRange, ...]] = field(default_factory=dict)
    _prepared: dict[bytes, TxnId] = field(default_factory=dict)
    """Key → the transaction that changes it, whose outcome is open: no two of them change the same row."""
    _prepared_ranges: dict[TxnId, tuple[KeyRange, ...]] = field(default_factory=dict)
    _commits: list[Commit] = field(default_factory=list)
    """A heap of commits, the oldest in front."""
    _bytes: int = 0

    def __post_init__(self) -> None:
        self.newest = max(self.newest, self.above)

    def met(self, changed: Changed, snapshot: Timestamp, order: KeyOrder) -> Met | None:
        """The first transaction that changed any of this above the snapshot, or is about to; and what both did."""
        met: defaultdict[tuple[Timestamp, TxnId], dict[bytes | KeyRange, None]] = defaultdict(dict)
        for key in changed.keys:
            commit_ts, txn_id = self._last.get(key, (NO_TIMESTAMP, TxnId(0)))
            if commit_ts > snapshot:
                met[commit_ts, txn_id][key] = None
            elif (prepared := self._prepared.get(key)) is not None:
                met[_NEVER, prepared][key] = None
        for who, theirs in self._later_ranges(snapshot):
            for key in order.within(changed.keys, theirs):
                met[who][key] = None
            if any(order.overlap(theirs, ours) for ours in changed.ranges):
                met[who][theirs] = None
        for ours in changed.ranges:
            for who, keys in self._later_keys(snapshot).items():
                for key in order.within(keys, ours):
                    met[who][key] = None
        if not met:
            return None
        first = min(met)
        keys = sorted(each for each in met[first] if isinstance(each, bytes))
        return Met(first[1], keys, [each for each in met[first] if isinstance(each, KeyRange)])

    def comparisons(self, looks: Collection[tuple[Changed, Timestamp]]) -> int:
        """How many keys and ranges `met` would compare with ranges, for all of these."""
        since = min((snapshot for _, snapshot in looks), default=_NEVER)
        ranges, keys = sum(len(each.ranges) for each, _ in looks), sum(len(each.keys) for each, _ in looks)
        later = sum(1 for _ in self._later_ranges(since))
        if not ranges:
            return keys * later
        changed = sum(len(commit.keys) for commit in self._commits if commit.commit_ts > since) + len(self._prepared)
        return keys * later + ranges * (later + changed)

    def _later_ranges(self, snapshot: Timestamp) -> Iterator[tuple[tuple[Timestamp, TxnId], KeyRange]]:
        for who, ranges in self._ranges.items():
            if who[0] > snapshot:
                yield from ((who, each) for each in ranges)
        for txn_id, ranges in self._prepared_ranges.items():
            yield from (((_NEVER, txn_id), each) for each in ranges)

    def _later_keys(self, snapshot: Timestamp) -> dict[tuple[Timestamp, TxnId], Collection[bytes]]:
        """The last changes of keys above the snapshot, and those to come."""
        found: defaultdict[tuple[Timestamp, TxnId], list[bytes]] = defaultdict(list)
        for key, change in self._last.items():
            if change[0] > snapshot:
                found[change].append(key)
        for key, txn_id in self._prepared.items():
            found[_NEVER, txn_id].append(key)
        return dict(found)

    def prepare(self, txn_id: TxnId, changed: Changed) -> None:
        self._prepared.update(dict.fromkeys(changed.keys, txn_id))
        if changed.ranges:
            self._prepared_ranges[txn_id] = changed.ranges

    def end(self, txn_id: TxnId, keys: Iterable[bytes]) -> None:
        """The transaction has ended; it may never have been prepared."""
        self._prepared_ranges.pop(txn_id, None)
        for key in keys:
            if self._prepared.get(key) == txn_id:
                del self._prepared[key]

    def add(self, commit: Commit) -> None:
        """What nobody would be compared with any more is left out."""
        if commit.commit_ts <= self.above:
            return
        heappush(self._commits, commit)
        self._bytes += commit.cost
        self.newest = max(self.newest, commit.commit_ts)
        change = commit.commit_ts, commit.txn_id
        for key in commit.keys:
            self._last[key] = max(change, self._last.get(key, change))
        if commit.ranges:
            self._ranges[change] = commit.ranges

    def may_drop(self) -> bool:
        """Whether `drop` could find anything."""
        return self._bytes > KEPT_BYTES or self._is_old()

    def drop(self, needed_above: Timestamp | None) -> None:
        """`needed_above`: the oldest snapshot at which an unfinished transaction changes keys."""
        while self._commits:
            needed = needed_above is not None and self._commits[0].commit_ts > needed_above
            if self._bytes <= KEPT_BYTES and (needed or not self._is_old()):
                return
            commit = heappop(self._commits)
            self._bytes -= commit.cost
            self.above = commit.commit_ts
            change = commit.commit_ts, commit.txn_id
            self._ranges.pop(change, None)
            for key in commit.keys:
                if self._last.get(key) == change:
                    del self._last[key]

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


_NEVER = Timestamp((1 << 63) - 1)
"""A timestamp later than any commit."""
