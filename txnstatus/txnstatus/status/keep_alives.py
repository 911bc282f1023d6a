"""KeepAlives: when each OPEN transaction was last heard of, and who has been silent for too long.

A million may be open, so it is dicts of numbers, which the garbage collector does not go through, and a beat is one
store. When somebody may expire at the earliest is kept in buckets of time; a beat does not move it: it is looked up
again when its bucket has come. Times are in the leader's healthy seconds.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby, islice

from txnstatus.status.records import TxnRecord
from txnstatus.types import TxnId, TxnState

Bucket = tuple[int, int]
"""A time, of which there are BUCKETS_PER_SECOND, and the keep-alive interval of all that are in it, in milliseconds."""
NO_BUCKET = (-1, 0)
BUCKETS_PER_SECOND = 4
MAX_LOOKS = 10_000
"""Transactions that one pass looks at: a few milliseconds' work."""


class KeepAlives:
    def __init__(self) -> None:
        self.max_lifetime = 0.0
        """Seconds; 0 = no limit."""
        self.behind = False
        """Whether the last pass left out some whose time has come."""
        self._heard: dict[TxnId, float] = {}
        self._born: dict[TxnId, float] = {}
        """When each began; for one that a former leader began, when this one began to lead."""
        self._expiring: set[TxnId] = set()
        self._buckets: dict[Bucket, dict[TxnId, None]] = {}
        """Bucket -> transactions that cannot expire before it; none is empty."""
        self._bucket_of: dict[TxnId, Bucket] = {}

    def __len__(self) -> int:
        return len(self._heard)

    def __contains__(self, txn_id: TxnId) -> bool:
        return txn_id in self._heard

    def heard(self, txn_id: TxnId) -> float:
        return self._heard[txn_id]

    def born(self, txn_id: TxnId) -> float:
        return self._born[txn_id]

    def is_looked_at(self, txn_id: TxnId) -> bool:
        """Whether a pass will come to it."""
        return txn_id in self._buckets.get(self._bucket_of.get(txn_id, NO_BUCKET), ())

    def add(self, record: TxnRecord, now: float) -> None:
        """It is heard of now."""
        txn_id = record.txn_id
        self._heard[txn_id] = now
        self._born[txn_id] = now
        self._put([txn_id], self._bucket(txn_id, record.keepalive_millis))

    def take_over(self, records: Iterable[TxnRecord], now: float, grace: float) -> None:
        """As `add` for each that is not watched, with an interval of `grace` seconds at least."""
        by_interval: defaultdict[int, list[TxnId]] = defaultdict(list)
        for record in records:
            if record.txn_id not in self._heard:
                by_interval[record.keepalive_millis].append(record.txn_id)
        for millis, txn_ids in by_interval.items():
            heard = now + max(0.0, grace - millis / 1000)
            self._heard.update(dict.fromkeys(txn_ids, heard))
            self._born.update(dict.fromkeys(txn_ids, now))
            self._put(txn_ids, self._bucket(txn_ids[0], millis))

    def remove(self, txn_id: TxnId) -> None:
        """It has ended, or it never was there."""
        if self._heard.pop(txn_id, None) is None:
            return
        del self._born[txn_id]
        self._expiring.discard(txn_id)
        number = self._bucket_of.pop(txn_id, None)
        if number is not None:
            bucket = self._buckets[number]
            del bucket[txn_id]
            if not bucket:
                del self._buckets[number]

    def clear(self) -> None:
        for kept in (self._heard, self._born, self._expiring, self._buckets, self._bucket_of):
            kept.clear()

    def beat(self, txn_ids: Iterable[int], owner: str, records: Mapping[TxnId, TxnRecord], now: float) -> list[TxnId]:
        """Stamps those that are OPEN, the owner's, and not about to expire. Returns the others.

        All in one pass without a call for each: of all that a leader does, this is done the most often by far.
        """
        heard, expiring, is_open = self._heard, self._expiring, TxnState.OPEN
        others = []
        txn_id: TxnId
        for txn_id in txn_ids:  # type: ignore[assignment]
            at, record = heard.get(txn_id), records.get(txn_id)
            if at is None or record is None or record.state is not is_open or record.owner != owner:
                others.append(txn_id)
            elif txn_id in expiring:
                # The expiry is on its way through the log: promising life now could not be kept.
                others.append(txn_id)
            elif at < now:  # a beat ends no grace
                heard[txn_id] = now
        return others

    def overdue(self, records: Mapping[TxnId, TxnRecord], now: float, at_most: int) -> list[TxnId]:
        """Transactions whose expiry is to be proposed: it is on its way from now on. Looks only at those whose time may
        have come, and at MAX_LOOKS of them: see `behind`.
        """
        looks, last = MAX_LOOKS, int(now * BUCKETS_PER_SECOND)
        overdue: list[TxnId] = []
        again: defaultdict[Bucket, list[TxnId]] = defaultdict(list)
        # In order once: there may be as many as transactions, where each has an interval of its own.
        due = deque(sorted(bucket for bucket in self._buckets if bucket[0] <= last))
        while due and looks and len(overdue) < at_most:
            bucket = due[0]
            taken = self._take(bucket, min(looks, at_most - len(overdue)))
            if bucket not in self._buckets:
                due.popleft()
            looks -= len(taken)
            millis = bucket[1]
            # Those that beat together were heard of at one time, and stay together: one look is for all of them.
            for _, group in groupby(taken, self._heard_and_born if self.max_lifetime else self._heard.__getitem__):
                txn_ids = list(group)
                deadline = self._deadline(txn_ids[0], millis)
                if deadline < now:
                    txn_ids = self._expire(txn_ids, records, overdue)
                # Until it has ended, one is looked at again: the Expire may be refused or lost.
                again[max(int(deadline * BUCKETS_PER_SECOND), last), millis] += txn_ids
        for bucket, txn_ids in again.items():
            if txn_ids:
                self._put(txn_ids, bucket)
        self.behind = not looks
        return overdue

    def _expire(
        self, txn_ids: Sequence[TxnId], records: Mapping[TxnId, TxnRecord], overdue: list[TxnId]
    ) -> list[TxnId]:
        """Adds to `overdue` those whose expiry is not on its way; returns all that have not ended."""
        left = []
        for txn_id in txn_ids:
            if txn_id not in records:
                del self._bucket_of[txn_id]
                continue
            if txn_id not in self._expiring:
                self._expiring.add(txn_id)
                overdue.append(txn_id)
            left.append(txn_id)
        return left

    def _heard_and_born(self, txn_id: TxnId) -> tuple[float, float]:
        return self._heard[txn_id], self._born[txn_id]

    def _take(self, bucket: Bucket, at_most: int) -> Collection[TxnId]:
        """Out of the bucket, which goes when it is empty; whoever takes them puts them back, or forgets them."""
        there = self._buckets[bucket]
        if len(there) <= at_most:
            return self._buckets.pop(bucket)
        taken = list(islice(there, at_most))
        for txn_id in taken:
            del there[txn_id]
        return taken

    def expiry_failed(self, txn_id: TxnId) -> None:
        self._expiring.discard(txn_id)

    def look_at_all(self) -> None:
        """In the next passes, since they may be due earlier than was known."""
        before, self._buckets = self._buckets, {}
        for (_, millis), txn_ids in before.items():
            self._put(list(txn_ids), (0, millis))

    def _put(self, txn_ids: Sequence[TxnId], bucket: Bucket) -> None:
        self._buckets.setdefault(bucket, {}).update(dict.fromkeys(txn_ids))
        self._bucket_of.update(dict.fromkeys(txn_ids, bucket))

    def _bucket(self, txn_id: TxnId, millis: int) -> Bucket:
        return int(self._deadline(txn_id, millis) * BUCKETS_PER_SECOND), millis

    def _deadline(self, txn_id: TxnId, millis: int) -> float:
        deadline = self._heard[txn_id] + millis / 1000
        return min(deadline, self._born[txn_id] + self.max_lifetime) if self.max_lifetime else deadline
