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

Call = tuple[str, tuple[TxnId, ...]]
"""An owner, and the transactions that beat."""
Unit = TxnId
"""A transaction, or a flock: that has a number below zero, by the first of its members."""
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
        self._heard: dict[Unit, float] = {}
        self._born: dict[TxnId, float] = {}
        """When each began; for one that a former leader began, when this one began to lead."""
        self._expiring: set[TxnId] = set()
        self._buckets: dict[Bucket, dict[Unit, None]] = {}
        """Bucket -> what cannot expire before it; none is empty."""
        self._bucket_of: dict[Unit, Bucket] = {}
        self._flock_of: dict[TxnId, Unit] = {}
        self._flocks: dict[Call, Unit] = {}
        self._calls: dict[Unit, Call] = {}
        """Flock -> the call in which it beats."""
        self._last_call: dict[TxnId, int] = {}
        """The first transaction of a call that made no flock -> the call's hash, when it came last."""

    def __len__(self) -> int:
        return len(self._born)

    def __contains__(self, txn_id: TxnId) -> bool:
        return txn_id in self._born

    def heard(self, txn_id: TxnId) -> float:
        return self._heard[self._flock_of.get(txn_id, txn_id)]

    def born(self, txn_id: TxnId) -> float:
        return self._born[txn_id]

    def is_looked_at(self, txn_id: TxnId) -> bool:
        """Whether a pass will come to it."""
        unit = self._flock_of.get(txn_id, txn_id)
        return unit in self._buckets.get(self._bucket_of.get(unit, NO_BUCKET), ())

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
            if record.txn_id not in self._born:
                by_interval[record.keepalive_millis].append(record.txn_id)
        for millis, txn_ids in by_interval.items():
            heard = now + max(0.0, grace - millis / 1000)
            self._heard.update(dict.fromkeys(txn_ids, heard))
            self._born.update(dict.fromkeys(txn_ids, now))
            self._put(txn_ids, self._bucket(txn_ids[0], millis))

    def remove(self, txn_id: TxnId) -> None:
        """It has ended, or it never was there."""
        if self._born.pop(txn_id, None) is None:
            return
        if (flock := self._flock_of.get(txn_id)) is not None:
            self._part(flock)
        del self._heard[txn_id]
        self._last_call.pop(txn_id, None)
        self._expiring.discard(txn_id)
        if txn_id in self._bucket_of:
            self._leave_bucket(txn_id)

    def clear(self) -> None:
        for kept in (self._heard, self._born, self._expiring, self._buckets, self._bucket_of):
            kept.clear()
        for of_flocks in (self._flock_of, self._flocks, self._calls, self._last_call):
            of_flocks.clear()

    def beat(self, txn_ids: Iterable[int], owner: str, records: Mapping[TxnId, TxnRecord], now: float) -> list[TxnId]:
        """Stamps those that are OPEN, the owner's, and not about to expire. Returns the others.

        A flock has none of these: whoever ends or expires is no part of one any more.
        """
        call: Call = owner, tuple(txn_ids)  # type: ignore[arg-type]
        flock = self._flocks.get(call)
        if flock is not None:
            self._heard[flock] = max(self._heard[flock], now)
            return []
        others = self._beat_each(call[1], owner, records, now)
        if flocks := {self._flock_of[txn_id] for txn_id in others if txn_id in self._flock_of}:
            for flock in flocks:
                self._part(flock)
            others = self._beat_each(others, owner, records, now)
        if not others:
            self._gather(call)
        return others

    def _beat_each(
        self, txn_ids: Iterable[TxnId], owner: str, records: Mapping[TxnId, TxnRecord], now: float
    ) -> list[TxnId]:
        """All in one pass without a call for each: a million may beat. Members of flocks are among the others."""
        heard, expiring, is_open = self._heard, self._expiring, TxnState.OPEN
        others = []
        for txn_id in txn_ids:
            at, record = heard.get(txn_id), records.get(txn_id)
            if at is None or record is None or record.state is not is_open or record.owner != owner:
                others.append(txn_id)
            elif txn_id in expiring:
                # The expiry is on its way through the log: promising life now could not be kept.
                others.append(txn_id)
            elif at < now:  # a beat ends no grace
                heard[txn_id] = now
        return others

    def _gather(self, call: Call) -> None:
        """Makes a flock of those in a call that has come twice, if all have one interval, and no grace of their own."""
        _, txn_ids = call
        if len(txn_ids) < 2 or self.max_lifetime:
            return
        if self._last_call.get(txn_ids[0]) != (seen := hash(call)):
            self._last_call[txn_ids[0]] = seen
            return
        heard = set(map(self._heard.__getitem__, txn_ids))
        intervals = {millis for _, millis in set(map(self._bucket_of.__getitem__, txn_ids))}
        if len(heard) > 1 or len(intervals) > 1 or len(set(txn_ids)) < len(txn_ids):
            return
        for txn_id in txn_ids:
            self._leave_bucket(txn_id)
            del self._heard[txn_id]
        flock = TxnId(-1 - txn_ids[0])
        self._flock_of.update(dict.fromkeys(txn_ids, flock))
        self._flocks[call], self._calls[flock] = flock, call
        self._heard[flock] = heard.pop()
        self._put([flock], self._bucket(flock, intervals.pop()))

    def _part(self, flock: Unit) -> None:
        """Each of it is by itself again."""
        bucket = self._leave_bucket(flock)
        self._put(self._dissolved(flock), bucket)

    def _dissolved(self, flock: Unit) -> Sequence[TxnId]:
        """What was a flock, and is in no bucket now."""
        call = self._calls.pop(flock)
        del self._flocks[call]
        _, txn_ids = call
        for txn_id in txn_ids:
            del self._flock_of[txn_id]
        self._heard.update(dict.fromkeys(txn_ids, self._heard.pop(flock)))
        return txn_ids

    def overdue(self, records: Mapping[TxnId, TxnRecord], now: float, at_most: int) -> list[TxnId]:
        """Transactions whose expiry is to be proposed: it is on its way from now on. Looks only at those whose time may
        have come, and at MAX_LOOKS of them: see `behind`.
        """
        looks, last = MAX_LOOKS, int(now * BUCKETS_PER_SECOND)
        overdue: list[TxnId] = []
        again: defaultdict[Bucket, list[Unit]] = defaultdict(list)
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
                units = list(group)
                deadline = self._deadline(units[0], millis)
                if deadline < now:
                    units = self._expire(units, records, overdue, at_most)
                # Until it has ended, one is looked at again: the Expire may be refused or lost.
                again[max(int(deadline * BUCKETS_PER_SECOND), last), millis] += units
        for bucket, units in again.items():
            if units:
                self._put(units, bucket)
        self.behind = not looks
        return overdue

    def _expire(
        self, units: Sequence[Unit], records: Mapping[TxnId, TxnRecord], overdue: list[TxnId], at_most: int
    ) -> list[Unit]:
        """Adds to `overdue` those whose expiry is not on its way; returns all that have not ended.

        Flocks part, unless so many are overdue already.
        """
        left: list[Unit] = []
        for unit in units:
            if unit in self._calls:
                if len(overdue) < at_most:
                    del self._bucket_of[unit]
                    left += self._expire(self._dissolved(unit), records, overdue, at_most)
                else:
                    left.append(unit)
            elif unit not in records:
                self._bucket_of.pop(unit, None)
            else:
                if unit not in self._expiring:
                    self._expiring.add(unit)
                    overdue.append(unit)
                left.append(unit)
        return left

    def _heard_and_born(self, unit: Unit) -> tuple[float, float]:
        """Where lifetimes are limited there are no flocks."""
        return self._heard[unit], self._born[unit]

    def _take(self, bucket: Bucket, at_most: int) -> Collection[Unit]:
        """Out of the bucket, which goes when it is empty; whoever takes them puts them back, or forgets them."""
        there = self._buckets[bucket]
        if len(there) <= at_most:
            return self._buckets.pop(bucket)
        taken = list(islice(there, at_most))
        for unit in taken:
            del there[unit]
        return taken

    def expiry_failed(self, txn_id: TxnId) -> None:
        self._expiring.discard(txn_id)

    def look_at_all(self) -> None:
        """In the next passes, since they may be due earlier than was known."""
        for flock in list(self._calls):
            self._part(flock)
        before, self._buckets = self._buckets, {}
        for (_, millis), txn_ids in before.items():
            self._put(list(txn_ids), (0, millis))

    def _put(self, units: Sequence[Unit], bucket: Bucket) -> None:
        self._buckets.setdefault(bucket, {}).update(dict.fromkeys(units))
        self._bucket_of.update(dict.fromkeys(units, bucket))

    def _leave_bucket(self, unit: Unit) -> Bucket:
        """Returns the one that it was in."""
        bucket = self._bucket_of.pop(unit)
        there = self._buckets[bucket]
        del there[unit]
        if not there:
            del self._buckets[bucket]
        return bucket

    def _bucket(self, unit: Unit, millis: int) -> Bucket:
        return int(self._deadline(unit, millis) * BUCKETS_PER_SECOND), millis

    def _deadline(self, unit: Unit, millis: int) -> float:
        deadline = self._heard[unit] + millis / 1000
        return min(deadline, self._born[unit] + self.max_lifetime) if self.max_lifetime else deadline
