"""ChangedKeys: who changed which rows last, as far back as a transaction that is under way has to know.

Kept on every replica alike. What it costs goes by the rows that a transaction changes, not by how many others did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from txnstatus.types import NO_TIMESTAMP, Timestamp, TxnId, timestamp

KEY_COST_BYTES = 100
"""What a key takes in memory besides its own bytes."""
KEPT_BYTES = 32 << 20
"""Bytes of one table's keys: beyond it the oldest go, and with them the transactions that began before."""
KEPT_SPAN = timestamp(60_000_000)
"""Keys are kept for so long, in hybrid time, though nobody needs them: a snapshot may be older than its first write."""


class Commit(NamedTuple):
    commit_ts: Timestamp
    txn_id: TxnId
    keys: tuple[bytes, ...]
    """Keys of the rows that it changed, each once."""

    @property
    def cost(self) -> int:
        return KEY_COST_BYTES + sum(map(len, self.keys)) + KEY_COST_BYTES * len(self.keys)


@dataclass(slots=True)
class ChangedKeys:
    """The changed keys of one table."""

    above: Timestamp = NO_TIMESTAMP
    """All that was committed above it is here."""
    _last: dict[bytes, tuple[Timestamp, TxnId]] = field(default_factory=dict)
    _prepared: dict[bytes, TxnId] = field(default_factory=dict)
    """Key → the transaction that changes it, whose outcome is open: no two of them change the same row."""
    _commits: list[Commit] = field(default_factory=list)
    """A heap of commits, the oldest in front."""
    _bytes: int = 0

    def changed_since(self, keys: Iterable[bytes], snapshot: Timestamp) -> tuple[TxnId, list[bytes]] | None:
        """The first transaction that changed any of the rows above the snapshot, or is about to; and which rows."""
        winners: dict[tuple[Timestamp, TxnId], list[bytes]] = {}
        for key in keys:
            commit_ts, txn_id = self._last.get(key, (NO_TIMESTAMP, TxnId(0)))
            if commit_ts > snapshot:
                winners.setdefault((commit_ts, txn_id), []).append(key)
            elif (prepared := self._prepared.get(key)) is not None:
                winners.setdefault((_NEVER, prepared), []).append(key)
        if not winners:
            return None
        first = min(winners)
        return first[1], sorted(winners[first])

    def prepare(self, txn_id: TxnId, keys: Iterable[bytes]) -> None:
        self._prepared.update(dict.fromkeys(keys, txn_id))

    def end(self, txn_id: TxnId, keys: Iterable[bytes]) -> None:
        """The transaction has ended; it may never have been prepared."""
        for key in keys:
            if self._prepared.get(key) == txn_id:
                del self._prepared[key]

    @property
    def first_prepared(self) -> TxnId | None:
        return min(self._prepared.values(), default=None)

    def add(self, commit: Commit) -> None:
        """What nobody would be compared with any more is left out."""
        if commit.commit_ts <= self.above:
            return
        heappush(self._commits, commit)
        self._bytes += commit.cost
        change = commit.commit_ts, commit.txn_id
        for key in commit.keys:
            self._last[key] = max(change, self._last.get(key, change))

    @property
    def last_commit(self) -> Commit | None:
        """The latest of the commits that are here."""
        return max(self._commits, default=None)

    def may_drop(self, newest: Timestamp) -> bool:
        """Whether `drop` could find anything. `newest`: the table's last change of rows."""
        return self._bytes > KEPT_BYTES or self._is_old(newest)

    def drop(self, newest: Timestamp, needed_above: Timestamp | None) -> None:
        """`needed_above`: the oldest snapshot at which an unfinished transaction writes rows."""
        while self._commits:
            needed = needed_above is not None and self._commits[0].commit_ts > needed_above
            if self._bytes <= KEPT_BYTES and (needed or not self._is_old(newest)):
                return
            commit = heappop(self._commits)
            self._bytes -= commit.cost
            self.above = commit.commit_ts
            for key in commit.keys:
                if self._last.get(key) == (commit.commit_ts, commit.txn_id):
                    del self._last[key]

    def _is_old(self, newest: Timestamp) -> bool:
        return bool(self._commits) and self._commits[0].commit_ts + KEPT_SPAN <= newest

    def __iter__(self) -> Iterator[Commit]:
        """The oldest first."""
        return iter(sorted(self._commits))


_NEVER = Timestamp((1 << 63) - 1)
"""A timestamp later than any commit."""
