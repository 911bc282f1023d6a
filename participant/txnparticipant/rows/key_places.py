"""Where changed keys and ranges of keys lie, so that nobody walks through all of them to see whether any meet.

They are kept in sorted runs, the older the larger: two of the same size become one, as in a log-structured merge tree.
To look for what meets a range costs so many steps for each run, however many keys there are. Keys of small commits wait
unsorted until there are as many as a run is made of, or somebody looks; those of a large one are a run of their own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, count, repeat
from operator import itemgetter
from typing import Any, NamedTuple

from txnstatus.key_ranges import FIRST, RANKED, KeyOrder, KeyRange, Place
from txnstatus.partitions import WHOLE_TABLE
from txnstatus.types import Timestamp, TxnId
from txnstatus.values import value

MAX_YOUNG = 256
"""Keys of small commits that wait to be sorted: more than these nobody finds unsorted who looks for a range."""
MAX_MERGED = 2_048
"""Entries of a run that is made of several: of one that a snapshot divides all are looked at."""

NEVER = Timestamp((1 << 63) - 1)
"""A timestamp later than any commit."""
NOBODY = TxnId(0)


@value
class Changed:
    """What one transaction changes in a table by key."""

    keys: tuple[bytes, ...] = ()
    """Keys, each once."""
    ranges: tuple[KeyRange, ...] = ()
    """Ranges in which there are more."""

    def __bool__(self) -> bool:
        return bool(self.keys or self.ranges)


class Entry(NamedTuple):
    """A key, or a range of keys, that somebody changed."""

    lowest: Place
    highest: Place
    commit_ts: Timestamp
    txn_id: TxnId
    number: int
    """A number that no other entry of the transaction has."""
    what: bytes | KeyRange


Pair = tuple[Entry, Entry]


class Run:
    """Entries in their order. Never changed."""

    def __init__(self, entries: Iterable[Entry], oldest: Timestamp, newest: Timestamp) -> None:
        """At least one entry. `oldest`, `newest`: between which timestamps all of them are."""
        self.entries = sorted(entries)
        self.oldest, self.newest = oldest, newest
        self._lowest = list(map(_lowest, self.entries))
        self._reach = list(accumulate(map(_highest, self.entries), max))
        """The highest place of all entries up to each one."""

    def __len__(self) -> int:
        return len(self.entries)

    @classmethod
    def of(cls, parts: Sequence[AnyRun]) -> Run:
        entries = chain.from_iterable(part.entries for part in reversed(parts))
        return cls(entries, min(part.oldest for part in parts), max(part.newest for part in parts))

    def above(self, snapshot: Timestamp) -> Run | None:
        """What was committed later."""
        if self.oldest > snapshot or self.newest <= snapshot:
            return self if self.oldest > snapshot else None
        return Run((entry for entry in self.entries if entry.commit_ts > snapshot), snapshot, self.newest)

    def meeting(self, other: Entry) -> Entry | None:
        """An entry that may have a key in common with the other one."""
        below = bisect_right(self._lowest, other.highest)
        if not below or self._reach[below - 1] < other.lowest:
            return None
        return self.entries[bisect_left(self._reach, self._reach[below - 1])]


class KeyRun:
    """Many keys of one transaction: as a `Run` in which each is an entry. They are sorted when that is first needed."""

    def __init__(self, keys: Sequence[bytes], commit_ts: Timestamp, txn_id: TxnId, order: KeyOrder) -> None:
        self._keys, self._order = keys, order
        self.oldest = self.newest = commit_ts
        self._txn_id = txn_id

    def __len__(self) -> int:
        return len(self._keys)

    @cached_property
    def ranks(self) -> list[Any]:
        """The ranks of the keys that have one, sorted."""
        ranks = list(self._order.ranks(self._keys))
        return sorted(rank for rank in ranks if rank is not None) if None in ranks else sorted(ranks)

    def above(self, snapshot: Timestamp) -> KeyRun | None:
        return self if self.newest > snapshot else None

    def meeting(self, other: Entry) -> Entry | None:
        ranks = self.ranks
        if len(ranks) < len(self._keys):
            return next(entry for entry in self.entries if entry.lowest == FIRST)
        # A place without a rank is before all others, or after them.
        at = bisect_left(ranks, other.lowest[1]) if len(other.lowest) > 1 else 0
        if at == len(ranks) or (RANKED, ranks[at]) > other.highest:
            return None
        return next(entry for entry in self.entries if entry.lowest == (RANKED, ranks[at]))

    @property
    def entries(self) -> Iterator[Entry]:
        places = self._order.places_of(self._keys)
        return (
            Entry(lowest, highest, self.newest, self._txn_id, number, key)
            for number, (key, (lowest, highest)) in enumerate(zip(self._keys, places, strict=True))
        )


AnyRun = Run | KeyRun


def _meeting_pair(run: AnyRun, others: AnyRun) -> Pair | None:
    """An entry of the run that may have a key in common with one of the others. Walks through the shorter of both."""
    if len(others) <= len(run):
        return next(((found, other) for other in others.entries if (found := run.meeting(other))), None)
    return next(((entry, found) for entry in run.entries if (found := others.meeting(entry))), None)


class Runs:
    """Entries that come in the order of their commits, more or less."""

    def __init__(self) -> None:
        self._runs: list[AnyRun] = []

    def add(self, run: AnyRun) -> None:
        parts, size = [run], len(run)
        while self._runs and len(self._runs[-1]) <= size <= MAX_MERGED - len(self._runs[-1]):
            parts.append(self._runs.pop())
            size += len(parts[-1])
        self._runs.append(Run.of(parts) if len(parts) > 1 else run)

    def drop(self, up_to: Timestamp) -> None:
        """What was committed until then may go; what lies beside something later stays."""
        self._runs = [run for run in self._runs if run.newest > up_to]

    def above(self, snapshot: Timestamp) -> Iterator[AnyRun]:
        """What was committed later."""
        return filter(None, (run.above(snapshot) for run in self._runs))

    def __bool__(self) -> bool:
        return bool(self._runs)


class Places:
    """Where the keys and ranges lie that some transactions change."""

    def __init__(self) -> None:
        self._keys = Runs()
        self._young: list[tuple[Sequence[bytes], Timestamp, TxnId, KeyOrder]] = []
        """Keys that are in no run yet, of one commit each."""
        self._young_size = 0
        self._ranges: defaultdict[str, Runs] = defaultdict(Runs)
        """Partition → ranges of keys in it, where keys tell their partition. Under WHOLE_TABLE all are."""

    @classmethod
    def of(cls, changed: Changed, order: KeyOrder, txn_id: TxnId = NOBODY) -> Places:
        """What a transaction changes that has not committed."""
        found = cls()
        found.add(changed, NEVER, txn_id, order)
        return found

    def add(self, changed: Changed, commit_ts: Timestamp, txn_id: TxnId, order: KeyOrder) -> None:
        if len(changed.keys) > MAX_MERGED:
            run = KeyRun(changed.keys, commit_ts, txn_id, order)
            self._keys.add(run)
            if commit_ts < NEVER:
                run.ranks  # noqa: B018 sorted now, commit by commit, and not all at once for the first range that comes
        elif changed.keys:
            self._young.append((changed.keys, commit_ts, txn_id, order))
            self._young_size += len(changed.keys)
            if self._young_size > MAX_YOUNG:
                self._settle()
        if not changed.ranges:
            return
        entries = list(_entries(map(order.ends, changed.ranges), changed.ranges, commit_ts, txn_id))
        self._ranges[WHOLE_TABLE].add(Run(entries, commit_ts, commit_ts))
        within: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in entries:
            for partition in changed.ranges[entry.number].partitions:
                within[partition].append(entry)
        for partition, some in within.items():
            self._ranges[partition].add(Run(some, commit_ts, commit_ts))

    def _settle(self) -> None:
        """Makes a run of what is young."""
        entries = [
            entry
            for keys, commit_ts, txn_id, order in self._young
            for entry in _entries(order.places_of(keys), keys, commit_ts, txn_id)
        ]
        if entries:
            stamps = [commit_ts for _, commit_ts, _, _ in self._young]
            self._keys.add(Run(entries, min(stamps), max(stamps)))
        self._young, self._young_size = [], 0

    def drop(self, ranges: Iterable[KeyRange], up_to: Timestamp) -> None:
        """All that was committed until then may go, which is these ranges, and keys."""
        self._keys.drop(up_to)
        self._young = [each for each in self._young if each[1] > up_to]
        self._young_size = sum(len(keys) for keys, _, _, _ in self._young)
        for name in {name for each in ranges for name in (WHOLE_TABLE, *each.partitions)}:
            if name in self._ranges:
                self._ranges[name].drop(up_to)
                if not self._ranges[name]:
                    del self._ranges[name]

    @property
    def ranges(self) -> bool:
        """Whether there are any."""
        return bool(self._ranges)

    def met_by(self, others: Places, snapshot: Timestamp) -> Pair | None:
        """An entry above the snapshot that may have a key in common with one of the others, if one of both is a range.

        Keys are compared as they are by whoever has them.
        """
        self._settle()
        others._settle()
        pairs = [(self._keys, others._ranges.get(WHOLE_TABLE)), (self._ranges.get(WHOLE_TABLE), others._keys)]
        for name in others._ranges.keys() - {WHOLE_TABLE} or others._ranges.keys():
            pairs.append((self._ranges.get(name), others._ranges[name]))
        for mine, theirs in pairs:
            if mine and theirs:
                for run in mine.above(snapshot):
                    for other in theirs.above(snapshot):
                        if found := _meeting_pair(run, other):
                            return found
        return None


def _entries(
    places: Iterable[tuple[Place, Place]], whats: Sequence[bytes | KeyRange], commit_ts: Timestamp, txn_id: TxnId
) -> Iterable[Entry]:
    lowest, highest = zip(*places, strict=True)
    return map(Entry, lowest, highest, repeat(commit_ts), repeat(txn_id), count(), whats)


_lowest, _highest = itemgetter(0), itemgetter(1)
